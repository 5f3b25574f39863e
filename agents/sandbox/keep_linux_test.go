//go:build amd64 || arm64

package sandbox

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// soon is how long a test waits for what has to come.
const soon = 20 * time.Second

// Ways out of a command: each leaves a process behind that says so on descriptor
// 3, which it holds as long as it lives, and that no SIGTERM ends.
var ways = map[string]string{
	"the group":          `STAY & exit 0`,
	"another session":    `setsid sh -c 'STAY' & exit 0`,
	"a double fork":      `( (setsid sh -c 'STAY' &) & ) & exit 0`,
	"closed streams":     `setsid sh -c 'exec <&- >&- 2>&-; STAY' & exit 0`,
	"a leader that ends": `setsid sh -c 'STAY' & kill -KILL $$`,
	"a leader that does": `setsid sh -c 'STAY' & STAY`,
	"it stands still":    `setsid sh -c 'STAY' & read -r _ <&4; kill -STOP $$`,
}

const stay = `trap "" TERM; echo ready >&3; while :; do sleep 1; done`

// kept starts a line under a keeper. held ends when nobody holds descriptor 3.
func kept(t *testing.T, line string, confine func(*exec.Cmd)) (p *Process, held *os.File) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(line, "STAY", stay))
	return start(t, cmd, confine)
}

func start(t *testing.T, cmd *exec.Cmd, confine func(*exec.Cmd)) (p *Process, held *os.File) {
	t.Helper()
	held, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { held.Close() })
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	cmd.ExtraFiles = []*os.File{w, null}
	confine(cmd)
	p, err = Start(cmd)
	w.Close()
	null.Close()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Kill(soon) })
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	if got := waitFor(t, held); got != "ready" {
		t.Fatalf("it says %q", got)
	}
	return p, held
}

// nobodyHolds checks that the pipe ends.
func nobodyHolds(t *testing.T, held *os.File) {
	t.Helper()
	if err := held.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, held); err != nil {
		t.Errorf("something lives: %v", err)
	}
}

// Nothing that comes from a command outlives it, whichever way it goes and
// whichever way it is ended, in a sandbox or not.
func TestNothingGetsAway(t *testing.T) {
	needSandbox(t)
	for name, line := range ways {
		for _, confined := range []bool{false, true} {
			for how, end := range map[string]func(p *Process) error{
				"kill":    func(p *Process) error { p.Kill(soon); return nil },
				"SIGTERM": func(p *Process) error { return unix.Kill(p.Pid, unix.SIGTERM) },
			} {
				sandboxed := map[bool]string{true: " in a sandbox", false: ""}[confined]
				t.Run(name+sandboxed+" by "+how, func(t *testing.T) {
					t.Parallel()
					s := newScene(t)
					p, held := kept(t, line, func(cmd *exec.Cmd) {
						cmd.Dir = s.Workspace
						if confined {
							s.mustConfine(t, cmd, false)
						}
					})
					if err := end(p); err != nil {
						t.Fatal(err)
					}
					nobodyHolds(t, held)
					<-p.Gone()
				})
			}
		}
	}
}

// Whoever waits for another knows of SIGTERM before the other ends of it.
func TestTerminateParentsFirst(t *testing.T) {
	const levels = 50
	chain := filepath.Join(t.TempDir(), "chain")
	if err := os.WriteFile(chain, []byte(`trap 'echo bye >&3; exit' TERM
		if [ $1 -eq 0 ]; then trap - TERM; echo ready >&3; exec sleep 600; fi
		sh "$0" $(($1-1)) & wait; echo lost >&3`), 0o600); err != nil {
		t.Fatal(err)
	}
	p, held := start(t, exec.Command("/bin/sh", chain, strconv.Itoa(levels)), func(*exec.Cmd) {})
	p.End(t.Context(), soon)
	if got, err := io.ReadAll(held); err != nil || string(got) != strings.Repeat("bye\n", levels) {
		t.Errorf("%q (%v)", got, err)
	}
}

// CLONE_PARENT makes a child of the keeper's, and of nobody above.
func TestBrother(t *testing.T) {
	p, held := start(t, actor(t, "leave a brother", scene{Workspace: t.TempDir()}), func(*exec.Cmd) {})
	p.Kill(soon)
	nobodyHolds(t, held)
}

func leaveBrother() error {
	cmd := exec.Command("/bin/sh", "-c", stay)
	cmd.ExtraFiles = []*os.File{os.NewFile(3, "held")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_PARENT, Setsid: true}
	return cmd.Start()
}

// All ends with its caller, in a sandbox or not, and one that dies before the
// command has begun lets it not begin.
func TestKeeperSurvivesNobody(t *testing.T) {
	worker := actor(t, "be a worker without a sandbox", scene{Workspace: t.TempDir()})
	held, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	worker.ExtraFiles = []*os.File{w}
	err = worker.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, held)
	_ = worker.Process.Kill()
	_ = worker.Wait()
	nobodyHolds(t, held)
}

// beFreeWorker starts a command that leaves its session, and never ends; and
// another one that it does not let begin.
func beFreeWorker() error {
	for _, begins := range []bool{false, true} {
		cmd := exec.Command("/bin/sh", "-c", strings.ReplaceAll(`setsid sh -c 'STAY' & STAY`, "STAY", stay))
		cmd.ExtraFiles = []*os.File{os.NewFile(3, "held")}
		p, err := Start(cmd)
		if err == nil && begins {
			err = p.Begin()
		}
		if err != nil {
			return err
		}
	}
	select {}
}

// How a command ends is told as it was, though its keeper tells it.
func TestStatus(t *testing.T) {
	for line, want := range map[string]syscall.WaitStatus{
		"exit 0": 0, "exit 75": 75 << 8, "kill -TERM $$": 15, "kill -KILL $$": 9,
		"(trap '' TERM; sleep 600) & exit 3": 3 << 8,
	} {
		p, err := Start(exec.Command("/bin/sh", "-c", line))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Begin(); err != nil {
			t.Fatal(err)
		}
		<-p.Ended()
		if got, err := p.Status(); got != want || err != nil {
			t.Errorf("%s: %x (%v), want %x", line, got, err, want)
		}
		p.Kill(soon)
	}
	p, err := Start(exec.Command("/not/there"))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Begin(); err != nil {
		t.Fatal(err)
	}
	<-p.Gone()
	if _, err := p.Status(); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("a command that is not there: %v", err)
	}
}

// A keeper that was killed leaves nothing of the command's group.
func TestKilledKeeper(t *testing.T) {
	p, held := kept(t, `STAY & STAY`, func(*exec.Cmd) {})
	if err := unix.Kill(p.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Gone()
	nobodyHolds(t, held)
	if status, err := p.Status(); err != nil || status.Signal() != syscall.SIGKILL {
		t.Errorf("%v %v", status, err)
	}
}
