// Package sandbox starts commands of which nothing is left when they are over,
// and confines them to what a policy names. What it does not name, the kernel
// refuses: to the command, to its children, and for good.
//
// [Start] has a command started by a keeper, which is this same binary once more,
// recognised by its name in [Main]. [Process] tells what it keeps.
//
// [Confine] makes a command start through two of them: the keeper, and the
// helper, which takes everything away from itself and becomes the command:
//
//	worker ── Confine, Start ──> keeper ── fork ──> helper ── execve ──> command
//	           new user, pid,     waits for         no_new_privs, mounts,
//	           mount, ipc and     all below it      no capabilities, Landlock,
//	           (without Network)                    seccomp, descriptors
//	           net namespaces
//
// Each layer stands for what the others cannot do:
//
//   - Landlock (ABI 6 at least): which files may be opened, made, removed and
//     run; no signal to, no trace of and no abstract socket of a process outside.
//   - The mount namespace makes every other file system read-only, because
//     Landlock does not know chmod, chown, utime and extended attributes.
//   - The PID namespace ends with the keeper, its first process: nothing that a
//     command leaves behind can outlive it.
//   - The network namespace has no way out: Landlock's rules for TCP bind
//     neither Multipath TCP nor UDP.
//   - seccomp refuses sockets with a path (Docker, D-Bus, ssh-agent), which no
//     namespace separates, and the calls that an agent has no use for and
//     attackers have: io_uring, bpf, mount, ptrace, keyctl, …; and to make a file
//     setuid or setgid, by which others would run it as the user of mbox.
//
// All of it holds or the command does not start: a kernel that lacks a part is
// [ErrUnsupported], there is no best effort. A helper that fails writes one line
// "sandbox: …" to stderr and exits with [ExitRefused], or [ExitNotFound] where
// the command is not there.
//
// What stays possible: to stat, chdir to and watch (inotify) what the file
// system's modes let the user see, with its extended attributes and where symlinks
// lead, though never to list or open it; to read the time, the load and the
// machine's name; to use up CPU, memory, processes and the disk of the workspace.
// To write in the workspace what others trust, as hooks or scripts, is to be
// prevented by those who run them.
package sandbox

import "errors"

var (
	// ErrUnsupported: this system, or this kernel, cannot confine as is asked.
	ErrUnsupported = errors.New("sandbox is not supported here")

	// ErrProtected: the rules would open what belongs to mbox alone.
	ErrProtected = errors.New("is never open to a sandbox")

	// ErrOverlap: one list would quietly widen what another one narrows.
	ErrOverlap = errors.New("cannot be kept apart")

	// ErrNotReady: [Main] was not called at the start of this program, so that
	// keeper and helper would be the whole program once more.
	ErrNotReady = errors.New("sandbox.Main has not been called")
)

// Exit codes of a helper that did not become the command.
const (
	ExitRefused  = 126
	ExitNotFound = 127
)

// Rules is what a confined command may touch. All paths are absolute and name
// folders, with all that is in them, or files. Symlinks in them are followed
// once, when the rules are checked. A path of a list that is not there is left
// out: it cannot be granted before it exists.
type Rules struct {
	Mailbox   string   // the mailbox's folder: its .mbox, audit, tasks/artifacts and tasks/archive are never open
	Workspace string   // read, write, run; TMPDIR is made in it, as .tmp
	ReadWrite []string // read, write, run
	ReadOnly  []string // read, run
	WriteOnly []string // make and overwrite files; no reading, listing, removing
	Protected []string // never written, whatever a list says
	Self      []string // read, run; in the mailbox, and left out where a symlink leads
	Memory    string   // a file that is read and overwritten in its place, though it is protected; "" or in the mailbox, as Self
	Network   bool     // IP as outside; else none at all
}

// Support is what this machine offers.
type Support struct {
	ABI        int    // of Landlock; 0 where there is none
	Namespaces bool   // user, mount and network namespaces can be made
	Seccomp    bool   // filters can be set
	Why        string // the first thing that is missing; "" where nothing is
}

// Err is nil where commands can be confined, else an [ErrUnsupported] that says
// why not.
func (s Support) Err() error {
	if s.Why == "" {
		return nil
	}
	return &unsupported{s.Why}
}

// unsupported says what this system lacks.
type unsupported struct{ why string }

func (e *unsupported) Error() string { return ErrUnsupported.Error() + ": " + e.why }
func (e *unsupported) Unwrap() error { return ErrUnsupported }
