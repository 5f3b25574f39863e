//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Ways of a command to be rid of its keeper, K. Each leaves a process that says
// its number in the file pid. WAIT waits for it.
var ridOfKeeper = map[string]string{
	"a child kills it":          `setsid sh stay & WAIT; kill -KILL $K; sleep 600`,
	"a grandchild does":         `(setsid sh -c 'sh stay & WAIT; kill -KILL $K; sleep 600' &) & exec sleep 600`,
	"one that it leaves does":   `C=$$ setsid sh -c 'sh stay & WAIT; while kill -0 $C; do sleep 0.01; done; kill -KILL $K; sleep 600' 2>&- & exit 0`,
	"it lets nothing be known":  `env -i setsid sh stay <&- >&- 2>&- & WAIT; kill -KILL $K; sleep 600`,
	"it holds the reports":      `setsid sh stay 7>/proc/$K/fd/6 & WAIT; kill -KILL $K; sleep 600`,
	"there are many":            `for i in 1 2 3 4 5 6 7 8 9; do setsid sh -c 'setsid sh stay & exec sh stay' & done; WAIT; kill -KILL $K; sleep 600`,
	"it brings the keeper down": `setsid sh stay & WAIT; kill -SEGV $K; kill -ABRT $K; kill -QUIT $K; kill -KILL $K`,
}

// below starts a line whose processes may become sh stay.
func below(t *testing.T, line string) (p *Process, held *os.File, dir string) {
	t.Helper()
	dir = t.TempDir()
	text := `trap "" TERM; echo $$ >>pid; echo ready >&3; : >begun; for i in 1 2 3 4 5 6 7 8 9; do sleep 5; done`
	if err := os.WriteFile(filepath.Join(dir, "stay"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", "-c", "export K=$PPID; "+strings.ReplaceAll(line, "WAIT", "until [ -e begun ]; do sleep 0.01; done"))
	p, held = start(t, cmd, func(cmd *exec.Cmd) { cmd.Dir = dir })
	return p, held, dir
}

// buried checks that of all processes that said their number none is left, not
// even dead.
func buried(t *testing.T, dir string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil || len(text) == 0 {
		t.Fatalf("nobody was there: %v", err)
	}
	for _, number := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(number)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("process %d is still there: %v", pid, err)
		}
	}
}

// What a killed keeper leaves has ended before the command is said to be over,
// whatever it did, and is not left behind dead either.
func TestKeeperKilledFromBelow(t *testing.T) {
	for name, line := range ridOfKeeper {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, held, dir := below(t, line)
			select {
			case <-p.Gone():
			case <-time.After(soon):
				t.Fatal("it is not over")
			}
			nobodyHolds(t, held)
			buried(t, dir)
		})
	}
}

// A keeper that its command stops, and stops again, holds up the end of nobody.
func TestKeeperStoppedFromBelow(t *testing.T) {
	p, held, dir := below(t, `(setsid sh -c 'sh stay & while kill -STOP $K; do :; done; exec sh stay' &) & sleep 600`)
	begun := time.Now()
	p.Terminate()
	p.Kill(300 * time.Millisecond)
	if took := time.Since(begun); took > soon/2 {
		t.Errorf("that took %v", took)
	}
	nobodyHolds(t, held)
	buried(t, dir)
}

// Who holds the end of the reports of a keeper that was killed, and cannot be
// ended, holds up nobody.
func TestReportsHeld(t *testing.T) {
	p, _, _ := below(t, `exec sh stay`)
	reports, err := os.OpenFile(fmt.Sprintf("/proc/%d/fd/6", p.Pid), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reports.Close()
	if err := unix.Kill(p.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.Gone():
	case <-time.After(soon):
		t.Error("it is not over")
	}
}

// With the orphans of a killed keeper nothing else ends: neither what this process
// has started by other ways, nor who was there before, in a session of his own.
func TestOnlyOrphansEnd(t *testing.T) {
	var cats [2]*exec.Cmd
	var ins [2]io.Closer
	for i := range cats {
		cats[i] = exec.Command("/bin/cat")
		in, err := cats[i].StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		ins[i] = in
	}
	cats[0].SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cats[0].Start(); err != nil {
		t.Fatal(err)
	}
	before, _ := kinOf(strconv.Itoa(cats[0].Process.Pid))
	p := new(Process)
	for p.born <= before.born {
		p, _, _ = below(t, `sh stay`)
	}
	if err := cats[1].Start(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(p.Pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.Gone()
	for i, cat := range cats {
		ins[i].Close()
		if err := cat.Wait(); err != nil {
			t.Errorf("number %d: %v", i, err)
		}
	}
}

// Nor does what is being started and kept meanwhile.
func TestOrphansEndAmongOthers(t *testing.T) {
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { leaveOrphan(t) })
		all.Go(func() {
			for range 4 {
				finish(t)
			}
		})
	}
	all.Wait()
}

// leaveOrphan has a keeper killed from below, by a command that leaves something.
func leaveOrphan(t *testing.T) {
	p, err := Start(exec.Command("/bin/sh", "-c", `setsid sleep 60 & kill -KILL $PPID; sleep 60`))
	if err == nil {
		err = p.Begin()
	}
	if err != nil {
		t.Error(err)
		return
	}
	<-p.Gone()
}

// finish has a command come to its own end.
func finish(t *testing.T) {
	p, err := Start(exec.Command("/bin/sh", "-c", "exit 3"))
	if err == nil {
		err = p.Begin()
	}
	if err != nil {
		t.Error(err)
		return
	}
	<-p.Gone()
	if status, err := p.Status(); status.ExitStatus() != 3 || err != nil {
		t.Errorf("%v %v", status, err)
	}
}
