package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestEngine runs the scripts of testdata/engine, which deploy on a real Docker
// engine. .ci/engine has one: DOCKER_HOST has to name it, so that nobody's own
// one is used by chance.
func TestEngine(t *testing.T) {
	if os.Getenv("MBOX_TORTURE") == "" {
		return // the long suite's; in testdata/script there is a stand-in
	}
	if os.Getenv("DOCKER_HOST") == "" {
		t.Skip("a Docker engine is missing: .ci/engine runs a command with one")
	}
	if out, err := exec.Command("docker", "compose", "version").CombinedOutput(); err != nil {
		t.Skipf("docker compose is missing: %v: %.200s", err, out)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/engine",
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("MBOX_HOME", filepath.Join(e.WorkDir, "agents"))
			e.Setenv("DOCKER_HOST", os.Getenv("DOCKER_HOST"))
			e.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
			e.Setenv("CGO_ENABLED", "0")
			e.Defer(func() { takenDown(t, "mbox-deployer") })
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"lint": lint},
	})
}

func takenDown(t *testing.T, project string) {
	down := exec.Command("docker", "compose", "-p", project, "down", "-v", "--rmi", "local", "-t", "1")
	down.Env = append(os.Environ(), "HOME="+t.TempDir())
	if out, err := down.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
