//go:build linux && (amd64 || arm64)

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The test binary is also the helper, and the one who tries forbidden acts.
func TestMain(m *testing.M) {
	Main()
	if name := os.Getenv("SANDBOX_TEST_ACT"); name != "" {
		fmt.Println(outcome(perform(name)))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// perform does one act by its name, on the scene that the environment tells.
func perform(name string) error {
	var s scene
	if err := json.Unmarshal([]byte(os.Getenv("SANDBOX_TEST_SCENE")), &s); err != nil {
		return err
	}
	switch name {
	case "be a worker":
		return beWorker(s)
	case "be a worker without a sandbox":
		return beFreeWorker()
	case "leave a brother":
		return leaveBrother()
	case "grant by another name":
		return grantByAnotherName(s)
	}
	for _, a := range allActs() {
		if a.name == name {
			return a.try(s)
		}
	}
	return fmt.Errorf("there is no act %q", name)
}

// outcome is the name of an error's number, or "ok".
func outcome(err error) string {
	var number syscall.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &number):
		return unix.ErrnoName(number)
	}
	return err.Error()
}

// actor is a process that tries one act.
func actor(t *testing.T, name string, s scene) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(itself)
	cmd.Args = []string{"actor"}
	cmd.Dir = s.Workspace
	cmd.Env = append(os.Environ(), "SANDBOX_TEST_ACT="+name, "SANDBOX_TEST_SCENE="+string(text))
	cmd.Stderr = os.Stderr
	return cmd
}

func said(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v: %v", cmd.Args, err)
	}
	return strings.TrimSpace(string(out))
}

// mustConfine confines the command to the scene's rules. The actor itself, which
// is this binary, has to be let in.
func (s scene) mustConfine(t *testing.T, cmd *exec.Cmd, network bool) {
	t.Helper()
	r := s.rules()
	r.Network = network
	if err := Confine(cmd, r); err != nil {
		t.Fatal(err)
	}
}

func needSandbox(t *testing.T) {
	t.Helper()
	if err := Probe().Err(); err != nil {
		t.Skipf("Landlock with user namespaces is missing: %v", err)
	}
}

// waitFor reads a line that a process says when it is ready.
func waitFor(t *testing.T, from io.Reader) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := from.Read(b); err != nil {
			t.Fatalf("no line, but %q and %v", line, err)
		}
		if b[0] == '\n' {
			return string(line)
		}
		line = append(line, b[0])
	}
}
