package sandbox

import (
	"os"
	"syscall"
	"time"
)

func ownBinary() (string, error) { return os.Executable() }

// adoptOrphans does nothing: macOS gives orphans to nobody but launchd.
func adoptOrphans() error { return nil }

func (p *Process) launch() error { return p.cmd.Start() }

// buried is told that the keeper has ended. If it was killed, and its command with
// it, its group can still be named.
func (p *Process) buried(bool) {
	if !p.told && p.group > 1 {
		_ = syscall.Kill(-p.group, syscall.SIGKILL)
	}
}

func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// untilEmpty waits for the group to be empty: its orphans are nobody's children.
func (k *keeping) untilEmpty() {
	for syscall.Kill(-k.pid, 0) == nil {
		time.Sleep(5 * time.Millisecond)
	}
}

func (k *keeping) signal(s syscall.Signal) { _ = syscall.Kill(-k.pid, s) }

func dropStreams() error {
	null, err := syscall.Open("/dev/null", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	for fd := range 3 {
		if err == nil {
			err = syscall.Dup2(null, fd)
		}
	}
	return err
}
