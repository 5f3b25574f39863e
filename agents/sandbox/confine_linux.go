//go:build amd64 || arm64

package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	mountNamespace = "/proc/self/ns/mnt"

	// leastABI is the Landlock that scopes signals and abstract sockets.
	leastABI = 6
)

// plan is what the helper is told, as its first argument. Nothing in it is
// secret, and the arguments are gone when the helper becomes the command.
type plan struct {
	Grants  []grant
	Network bool
	Keep    int    // descriptors from 0 on that the command inherits
	Outside string // the caller's mount namespace, which is not to be touched
	Probe   bool
}

// Confine makes a command that has not been started start confined. All its
// other fields have to be set before, ExtraFiles above all: the command inherits
// those descriptors and no others. Its SysProcAttr is added to. TMPDIR becomes
// the workspace's .tmp, which is made; HOME becomes the workspace where the
// caller's is not open to the command.
//
// Errors: [ErrProtected] and [ErrOverlap] for rules that are refused,
// [ErrUnsupported] where Landlock is missing or older than ABI 6, [ErrNotReady].
// A kernel that refuses namespaces shows when the command is started: ask
// [Probe] before.
func Confine(cmd *exec.Cmd, r Rules) error {
	if !ready {
		return ErrNotReady
	}
	if cmd.Err != nil {
		return cmd.Err
	}
	grants, err := r.grants()
	if err != nil {
		return err
	}
	if err := enough(landlockABI()); err != nil {
		return err
	}
	if err := isolate(cmd, r.Network); err != nil {
		return err
	}
	if err := r.settle(cmd, grants[0].Path); err != nil {
		return err
	}
	if err := through(cmd, plan{Grants: grants, Network: r.Network, Keep: 3 + len(cmd.ExtraFiles)}); err != nil {
		return err
	}
	return underKeeper(cmd)
}

// through makes the command start by the helper.
func through(cmd *exec.Cmd, p plan) error {
	outside, err := os.Readlink(mountNamespace)
	if err != nil {
		return fmt.Errorf("sandbox: %w", err)
	}
	p.Outside = outside
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd.Args = slices.Concat([]string{helper, string(text), cmd.Path}, cmd.Args)
	cmd.Path = itself
	return nil
}

// isolate has the kernel put the command into namespaces of its own. The user
// namespace maps the caller to itself, so files have the right owner on both
// sides.
func isolate(cmd *exec.Cmd, network bool) error {
	a := cmd.SysProcAttr
	if a == nil {
		a = new(syscall.SysProcAttr)
		cmd.SysProcAttr = a
	}
	if a.Credential != nil || a.Chroot != "" || a.UidMappings != nil || a.GidMappings != nil {
		return errors.New("sandbox: a command with a user, a root or mappings of its own cannot be confined")
	}
	a.Cloneflags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID
	if !network {
		a.Cloneflags |= unix.CLONE_NEWNET
	}
	a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Geteuid(), HostID: os.Geteuid(), Size: 1}}
	a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getegid(), HostID: os.Getegid(), Size: 1}}
	// An ordinary user's program loses the namespace's capabilities when it starts,
	// unless they are ambient. The helper gives all of them up itself.
	a.AmbientCaps = append(a.AmbientCaps, unix.CAP_SYS_ADMIN)
	return nil
}

// settle makes the private TMPDIR, and sees that HOME is of use.
func (r Rules) settle(cmd *exec.Cmd, workspace string) error {
	dir := filepath.Join(workspace, scratch)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return fmt.Errorf("sandbox: %w", err)
	}
	cmd.Env = append(cmd.Environ(), "TMPDIR="+dir) // the last one counts
	if !r.reaches(variable(cmd.Env, "HOME")) {
		cmd.Env = append(cmd.Env, "HOME="+workspace)
	}
	return nil
}

// reaches tells whether a home folder is in the rules, or something in it that
// is no part of the mailbox.
func (r Rules) reaches(home string) bool {
	if !filepath.IsAbs(home) {
		return false
	}
	home, mailbox := resolved(home), resolved(r.Mailbox)
	for _, path := range slices.Concat([]string{r.Workspace}, r.ReadWrite, r.ReadOnly) {
		path = resolved(path)
		if within(home, path) || within(path, home) && !within(path, mailbox) {
			return true
		}
	}
	return false
}

func variable(env []string, name string) (value string) {
	for _, e := range env {
		if v, found := strings.CutPrefix(e, name+"="); found {
			value = v
		}
	}
	return value
}

// landlockABI is what the kernel has of Landlock; 0 where it has none.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

func enough(abi int) error {
	switch {
	case abi == 0:
		return &unsupported{"the kernel has no Landlock, or it is switched off (lsm= on its command line)"}
	case abi < leastABI:
		return &unsupported{fmt.Sprintf("the kernel's Landlock has ABI %d, and signals are confined from %d (Linux 6.12) on", abi, leastABI)}
	}
	return nil
}
