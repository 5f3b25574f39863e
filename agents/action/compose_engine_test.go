package action

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// webProgram serves what it finds around it; with an argument it is the health
// check.
const webProgram = `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "check" {
		if r, err := http.Get("http://127.0.0.1:8080/"); err != nil || r.StatusCode != 200 {
			os.Exit(1)
		}
		return
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		page, err := os.ReadFile("/html/page.txt")
		host, _ := os.Hostname()
		fmt.Fprintf(w, "%s%v %q %s %s", page, err, os.Args[1:], os.Getenv("DOLLAR"), host)
	})
	panic(http.ListenAndServe(":8080", nil))
}
`

// webService uses much of what a file may have; it is published at %s.
const webService = `
x-common: &common {restart: unless-stopped}
services:
  web:
    <<: *common
    build: {context: ./web, dockerfile: Dockerfile.txt}
    ports: ["%s:8080"]
    volumes: ["data:/data", "./html:/html:ro", {type: tmpfs, target: /tmp}]
    environment: {DOLLAR: "$$HOME", PASSWORD: hunter2hunter2}
    hostname: served
    networks: {front: {aliases: [www]}}
    read_only: true
    cap_drop: [ALL]
    security_opt: ["no-new-privileges:true"]
    user: "1000:1000"
    logging: {driver: local, options: {max-size: 1m}}
    deploy: {resources: {limits: {cpus: "0.5", memory: 64M}}}
    ulimits: {nofile: 1024}
    healthcheck: {test: ["CMD", "/web", "check"], interval: 1s, retries: 30}
    stop_grace_period: 1s
    depends_on: [alone]
    command: ["a", "$$b"]
  alone:
    build: {context: ./web, dockerfile: Dockerfile.txt}
    network_mode: none
networks: {front: {driver: bridge}}
volumes: {data: {driver: local}}
`

// engine is a workspace with an image to build, for a real engine, which .ci/engine
// has: DOCKER_HOST has to name it, so that nobody's own one is used by chance.
func engine(t *testing.T) (env *Env, dir string) {
	t.Helper()
	if os.Getenv("DOCKER_HOST") == "" {
		t.Skip("a Docker engine is missing: .ci/engine runs a command with one")
	}
	for _, args := range [][]string{{"info"}, {"compose", "version"}} {
		if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil {
			t.Skipf("a Docker engine with docker compose is missing: %v: %.200s", err, out)
		}
	}
	env, dir = workspace(t)
	env.Agent, env.Sync = "engine-test", durable.None
	env.Limits.Registries = []string{"docker.io", "registry.invalid"}
	must(t, os.Mkdir(filepath.Join(dir, "html"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "html", "page.txt"), []byte("page "), 0o644))
	buildWeb(t, filepath.Join(dir, "web"))
	t.Setenv("HOME", t.TempDir()) // docker leaves a folder there
	t.Setenv("SECRET", "hunter3hunter3")
	t.Cleanup(func() {
		docker(t, "compose", "-p", "mbox-engine-test", "down", "-v", "--rmi", "local", "-t", "1")
		if left := docker(t, "ps", "-aq", "--filter", "label=com.docker.compose.project=mbox-engine-test"); left != "" {
			t.Errorf("left: %s", left)
		}
	})
	return env, dir
}

func docker(t *testing.T, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("docker", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("docker %q: %v: %s", args, err, &stderr)
	}
	return strings.TrimSpace(string(out))
}

// state is the container of a service of the test, and how it is.
func state(t *testing.T, service string) (id, how string) {
	t.Helper()
	id = docker(t, "ps", "-aq", "--no-trunc", "--filter", "label=com.docker.compose.project=mbox-engine-test", "--filter", "label=com.docker.compose.service="+service)
	return id, docker(t, "inspect", "-f", "{{.State.Status}}{{with .State.Health}} {{.Status}}{{end}}", id)
}

// TestComposeEngine has a real engine build images from a folder of the workspace
// and start them, asks them by http_check, and has deployments go wrong.
func TestComposeEngine(t *testing.T) {
	if os.Getenv("MBOX_TORTURE") == "" {
		return // the long suite's; the stand-in is asked in every run
	}
	env, _ := engine(t)
	at := freeAddress(t)
	text := fmt.Sprintf(webService, at)
	approve(t, env, text)
	result, d, err := deployed(t, env, text)
	if err != nil || result.Status != "deployed" || result.Error != "" || result.Path != composeFile {
		t.Fatalf("%+v, %v\n%s", result, err, d.Log)
	}
	want := []service{
		{Name: "alone", Build: "./web"},
		{Name: "web", Build: "./web", Ports: []string{at + "->8080"}, Mounts: []string{"./html"}},
	}
	if !slices.EqualFunc(d.Services, want, same) || d.Project != "mbox-engine-test" || !strings.Contains(d.Log, "Healthy") {
		t.Errorf("%+v", d)
	}
	id, how := state(t, "web")
	if how != "running healthy" {
		t.Errorf("web is %s", how)
	}
	if _, how := state(t, "alone"); how != "running" {
		t.Errorf("alone is %s", how)
	}
	got, page, err := check(t, HTTPOptions{Loopback: []string{at}}, "http://"+at+"/")
	if err != nil || got.Status != "ok" || page.Body != `page <nil> ["a" "$b"] $HOME served` {
		t.Errorf("%+v, %q, %v", got, page.Body, err)
	}
	confined(t, id)

	if result, d, err := deployed(t, env, text); err != nil || result.Status != "deployed" || strings.Contains(d.Log, "Creat") {
		t.Errorf("once more: %+v, %v\n%s", result, err, d.Log)
	}
	if again, how := state(t, "web"); again != id || how != "running healthy" {
		t.Errorf("once more: %s is %s, was %s", again, how, id)
	}
	for _, c := range []struct{ from, to, words string }{
		{"build: {context: ./web, dockerfile: Dockerfile.txt}", "image: registry.invalid/none:1", "registry.invalid"},
		{`["CMD", "/web", "check"], interval: 1s, retries: 30`, `["CMD", "/none"], interval: 1s, retries: 1`, "is unhealthy"},
		{`command: ["a", "$$b"]`, `entrypoint: ["/none"]`, "no such file"},
	} {
		broke := strings.Replace(text, c.from, c.to, 1)
		approve(t, env, broke)
		result, d, err := deployed(t, env, broke)
		broken(t, c.words, result, d, err)
	}
}

// broken checks what is told of a deployment that failed: docker's last words, no
// more of them than is good, and no secret of the file or of who runs it.
func broken(t *testing.T, words string, result Result, d deployment, err error) {
	t.Helper()
	if err != nil || result.Status != "failed" || !strings.Contains(result.Error, words) || !strings.Contains(d.Log, words) {
		t.Errorf("%s: %+v, %v", words, result, err)
	}
	if n := len(result.Error); n > 1000 || len(d.Log) > composeLog {
		t.Errorf("%s: %d bytes of error, %d of log", words, n, len(d.Log))
	}
	if told := string(result.Output) + result.Error; strings.Contains(told, "hunter") {
		t.Errorf("%s: a secret is told: %s", words, told)
	}
}

// confined checks that the engine was told of the limits in the file.
func confined(t *testing.T, id string) {
	t.Helper()
	got := docker(t, "inspect", "-f", "{{.HostConfig.ReadonlyRootfs}} {{.HostConfig.CapDrop}} {{.HostConfig.SecurityOpt}} "+
		"{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.Privileged}} {{.HostConfig.RestartPolicy.Name}} {{.Config.User}}", id)
	if want := "true [ALL] [no-new-privileges:true] 67108864 500000000 false unless-stopped 1000:1000"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whoever gives up stops docker and the plug-in, and what runs goes on.
func TestComposeEngineGivesUp(t *testing.T) {
	if os.Getenv("MBOX_TORTURE") == "" {
		return
	}
	env, dir := engine(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	events := exec.CommandContext(ctx, "docker", "events", "--since", time.Now().Format(time.RFC3339Nano),
		"--filter", "event=start", "--filter", "container=mbox-engine-test-slow-1")
	started, err := events.StdoutPipe()
	must(t, err)
	must(t, events.Start())
	go func() {
		_, _ = started.Read(make([]byte, 1)) // the first event, or the end
		cancel()
		_ = events.Wait()
	}()
	text := "services: {slow: {build: {context: ./web, dockerfile: Dockerfile.txt}, healthcheck: {test: [CMD, /none], interval: 1h}}}"
	result, err := parsed(t, "deploy_compose", composeParams(t, text)).Do(ctx, env)
	if err != nil || result.Status != "failed" || !strings.Contains(result.Error, "canceled") {
		t.Errorf("%+v, %v", result, err)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		left := runs(t, filepath.Join(dir, composeFile))
		if len(left) == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("docker still runs: %q", left)
		}
	}
	if _, how := state(t, "slow"); how != "running starting" {
		t.Errorf("slow is %s", how)
	}
}

// runs are the command lines of processes with an argument.
func runs(t *testing.T, arg string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, f := range files {
		line, _ := os.ReadFile(f) // it may have ended
		if slices.Contains(strings.Split(string(line), "\x00"), arg) {
			lines = append(lines, string(line))
		}
	}
	return lines
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
