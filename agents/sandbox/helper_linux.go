//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// help is the helper's main function. It never returns.
func help(args []string) {
	err := enter(args)
	code := ExitRefused
	if errors.Is(err, fs.ErrNotExist) && errors.As(err, new(*notStarted)) {
		code = ExitNotFound
	}
	fmt.Fprintf(os.Stderr, "sandbox: %v\n", err)
	os.Exit(code)
}

// notStarted is the failure of the last step.
type notStarted struct {
	path string
	err  error
}

func (e *notStarted) Error() string { return e.path + ": " + e.err.Error() }
func (e *notStarted) Unwrap() error { return e.err }

// enter confines this process and becomes the command: arguments are the plan,
// the command's path and its arguments. It returns only an error.
func enter(args []string) error {
	if len(args) < 2 {
		return errors.New("this is the helper of mbox, not a command")
	}
	var p plan
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if err := confine(p); err != nil {
		return err
	}
	if p.Probe {
		os.Exit(0)
	}
	return &notStarted{args[1], syscall.Exec(args[1], args[2:], os.Environ())}
}

// confine takes everything away that the plan does not grant. Its steps work on
// this thread, which is the one that becomes the command; the others end then.
//
// The order: mounts need the capabilities of the user namespace, Landlock and
// seccomp need no_new_privs instead, and Landlock forbids mounts.
func confine(p plan) error {
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if err := p.alone(); err != nil {
		return err
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: noDump, Max: noDump}); err != nil {
		return fmt.Errorf("core dumps: %w", err)
	}
	open, err := mounts(p.Grants)
	if err != nil {
		return err
	}
	if err := dropCapabilities(); err != nil {
		return fmt.Errorf("capabilities: %w", err)
	}
	if !p.Probe || enough(landlockABI()) == nil { // the probe tells that apart
		if err := landlocked(open, p.Network); err != nil {
			return err
		}
	}
	// What the worker itself inherited without close-on-exec goes no further.
	if err := unix.CloseRange(uint(p.Keep), ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("descriptors: %w", err)
	}
	if err := filter(p.Network); err != nil {
		return fmt.Errorf("seccomp: %w", err)
	}
	return nil
}

// noDump keeps a crash from running the program of the system that takes dumps: 0
// would only keep files from being written (core(5)).
const noDump = 1

// alone makes sure that this process has left the caller's namespaces. Root that
// calls the helper by hand would else make the machine's file systems read-only.
func (p plan) alone() error {
	here, err := os.Readlink(mountNamespace)
	if err != nil {
		return err
	}
	users, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return err
	}
	own := fmt.Sprint([]int{os.Getuid(), os.Getuid(), 1})
	if p.Outside == "" || here == p.Outside || fmt.Sprint(strings.Fields(string(users))) != own {
		return errors.New("the helper has no namespaces of its own")
	}
	return nil
}

// dropCapabilities gives up what the user namespace gave: with no_new_privs no
// program gets any of it back, root's neither.
func dropCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	return unix.Capset(&header, &none[0])
}
