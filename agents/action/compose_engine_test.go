package action

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

const webProgram = `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) > 1 { // the health check
		if r, err := http.Get("http://127.0.0.1:8080/"); err != nil || r.StatusCode != 200 {
			os.Exit(1)
		}
		return
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })
	panic(http.ListenAndServe(":8080", nil))
}
`

// TestComposeEngine builds an image from a folder of the workspace, starts it on
// a real engine, asks it by http_check, and takes it down.
func TestComposeEngine(t *testing.T) {
	if os.Getenv("MBOX_TORTURE") == "" {
		return // the long suite's; the stand-in is asked in every run
	}
	for _, args := range [][]string{{"info"}, {"compose", "version"}} {
		if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil {
			t.Skipf("a docker engine with docker compose is missing: %v: %.200s", err, out)
		}
	}
	env, dir := workspace(t)
	env.Agent, env.Sync = "engine-test", durable.None
	env.Compose.Run, env.Approved = true, true
	at := freeAddress(t)
	buildWeb(t, filepath.Join(dir, "web"))
	t.Cleanup(func() {
		down := exec.Command("docker", "compose", "-f", filepath.Join(dir, composeFile), "-p", "mbox-engine-test", "down", "-v", "--rmi", "local", "-t", "1")
		if out, err := down.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	result, d, err := deployed(t, env, fmt.Sprintf(`
services:
  web:
    build: {context: ./web, dockerfile: Dockerfile.txt}
    ports: ["%s:8080"]
    volumes: ["data:/data"]
    read_only: true
    cap_drop: [ALL]
    security_opt: [no-new-privileges]
    mem_limit: 64m
    healthcheck: {test: ["CMD", "/web", "check"], interval: 1s, retries: 30}
volumes: {data: {}}
`, at))
	if err != nil || result.Status != "deployed" {
		t.Fatalf("%+v, %v\n%s", result, err, d.Log)
	}
	got, page, err := check(t, HTTPOptions{Loopback: []string{at}}, "http://"+at+"/")
	if err != nil || got.Status != "ok" || page.Body != "served" {
		t.Errorf("%+v, %v", got, err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// buildWeb puts a static web server and its Dockerfile into a folder.
func buildWeb(t *testing.T, dir string) {
	t.Helper()
	must(t, os.Mkdir(dir, 0o700))
	source := filepath.Join(t.TempDir(), "main.go")
	must(t, os.WriteFile(source, []byte(webProgram), 0o600))
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, "web"), source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	build.WaitDelay = time.Minute
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	must(t, os.WriteFile(filepath.Join(dir, "Dockerfile.txt"), []byte("FROM scratch\nCOPY web /web\nENTRYPOINT [\"/web\"]\n"), 0o600))
}
