//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Probe tells what this machine offers. It tries it out in a child: nothing
// changes for this process.
func Probe() (s Support) {
	if withCgo {
		s.Why = "this mbox is built with cgo: build it with CGO_ENABLED=0, as make does"
		return s
	}
	s.ABI = landlockABI()
	s.Seccomp = seccomp()
	err := tryHelper()
	s.Namespaces = err == nil
	switch {
	case enough(s.ABI) != nil:
		s.Why = enough(s.ABI).(*unsupported).why
	case !s.Seccomp:
		s.Why = "the kernel has no seccomp filters"
	case err != nil:
		s.Why = err.Error()
	}
	return s
}

// seccomp tells whether the kernel knows filters that answer with an error.
func seccomp() bool {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	return errno == 0
}

// tryHelper starts a helper that confines itself and ends.
func tryHelper() error {
	if !ready {
		return ErrNotReady
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, itself)
	cmd.Stderr = &said
	if err := isolate(cmd, false); err != nil {
		return err
	}
	if err := through(cmd, plan{Grants: needs(), Keep: 3, Probe: true}); err != nil {
		return err
	}
	err := cmd.Start()
	if err != nil {
		return fmt.Errorf("user namespaces cannot be made here: %w", err)
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("a confined process does not start: %s (%w)", strings.TrimPrefix(strings.TrimSpace(said.String()), "sandbox: "), err)
	}
	return nil
}
