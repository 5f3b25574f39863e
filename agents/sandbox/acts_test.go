//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// act is something that a confined command may not do.
type act struct {
	name   string
	try    func(scene) error
	denied []string // what it may say when confined
	free   []string // what it says when not; "ok" where nil
	root   bool     // only root can do it when not confined
	traces bool     // only root can where Yama restricts tracing
}

var (
	noEntry = []string{"EACCES"}
	noWrite = []string{"EACCES", "EROFS"}
	noMove  = []string{"EACCES", "EROFS", "EXDEV"}
	noCall  = []string{"EPERM"}
)

func allActs() []act {
	return slices.Concat(fileActs(), changeActs(), processActs(), networkActs(), kernelActs())
}

func opens(flags int, path func(scene) string) func(scene) error {
	return func(s scene) error {
		fd, err := unix.Open(path(s), flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func reads(path func(scene) string) func(scene) error { return opens(unix.O_RDONLY, path) }

func at(names ...string) string { return filepath.Join(names...) }

func key(s scene) string    { return at(s.Outside, ".ssh/id_rsa") }
func ledger(s scene) string { return at(s.Home, "audit/shared/day.jsonl") }

func proc(name string) func(scene) string {
	return func(s scene) string { return fmt.Sprintf("/proc/%d/%s", s.Victim, name) }
}

func fixed(path string) func(scene) string { return func(scene) string { return path } }

// lists reads a folder.
func lists(path func(scene) string) func(scene) error {
	return func(s scene) error {
		_, err := os.ReadDir(path(s))
		return err
	}
}

func fileActs() []act {
	return []act{
		{name: "read an ssh key", try: reads(key), denied: noEntry},
		{name: "read mbox's keys", try: reads(func(s scene) string { return at(s.Home, ".mbox/keys/signing") }), denied: noEntry},
		{name: "read the ledger", try: reads(ledger), denied: noEntry},
		{name: "read a task", try: reads(func(s scene) string { return at(s.Home, "tasks/pending/a.json") }), denied: noEntry},
		{name: "read a sibling's file", try: reads(func(s scene) string { return at(s.Peer, "diary") }), denied: noEntry},
		{name: "read what may only be written", try: reads(func(s scene) string { return at(s.Drop, "letter") }), denied: noEntry},
		{name: "list a sibling's folder", try: lists(func(s scene) string { return s.Peer }), denied: noEntry},
		{name: "list what may only be written", try: lists(func(s scene) string { return s.Drop }), denied: noEntry},
		{name: "list the mailbox", try: lists(func(s scene) string { return s.Home }), denied: noEntry},
		{name: "list /", try: lists(fixed("/")), denied: noEntry},
		{name: "list processes", try: lists(fixed("/proc")), denied: noEntry},
		{name: "go out by dots", try: reads(func(s scene) string { return s.Workspace + "/../peer/diary" }), denied: noEntry},
		{name: "go out by a symlink", try: func(s scene) error {
			if err := unix.Symlink(key(s), "link"); err != nil {
				return fmt.Errorf("symlink: %v", err)
			}
			return reads(fixed("link"))(s)
		}, denied: noEntry},
		{name: "go out by a path descriptor", try: func(s scene) error {
			dir, err := unix.Open(at(s.Outside, ".ssh"), unix.O_PATH, 0)
			if err != nil {
				return fmt.Errorf("open: %v", err)
			}
			_, err = unix.Openat(dir, "id_rsa", unix.O_RDONLY, 0)
			return err
		}, denied: noEntry},
		{name: "reopen a path descriptor", try: func(s scene) error {
			fd, err := unix.Open(key(s), unix.O_PATH, 0)
			if err != nil {
				return fmt.Errorf("open: %v", err)
			}
			return reads(fixed(fmt.Sprintf("/proc/self/fd/%d", fd)))(s)
		}, denied: noEntry},
		{name: "use an inherited descriptor", try: func(s scene) error {
			_, err := unix.Pread(s.Inherited, make([]byte, 1), 0)
			return err
		}, denied: []string{"EBADF"}},
		{name: "run a program outside", try: func(s scene) error {
			return unix.Exec(at(s.Outside, "tool"), []string{"tool"}, nil)
		}, denied: noEntry},
		{name: "open a terminal", try: opens(unix.O_RDWR|unix.O_NOCTTY, fixed("/dev/ptmx")), denied: noEntry},
		{name: "read the kernel's log", try: opens(unix.O_RDONLY|unix.O_NONBLOCK, fixed("/dev/kmsg")), denied: noEntry, root: true},
		{name: "read a process's memory", try: reads(proc("mem")), denied: noEntry, traces: true},
		{name: "read a process's environment", try: reads(proc("environ")), denied: noEntry, traces: true},
		{name: "read a process's arguments", try: reads(proc("cmdline")), denied: noEntry},
		{name: "go through a process's root", try: reads(func(s scene) string { return proc("root")(s) + at(s.Friend, "note") }), denied: noEntry, traces: true},
		{name: "go through a process's folder", try: lists(proc("cwd")), denied: noEntry, traces: true},
		{name: "list a process's descriptors", try: lists(proc("fd")), denied: noEntry, traces: true},
	}
}

func changeActs() []act {
	rename := func(from, to func(scene) string) func(scene) error {
		return func(s scene) error { return unix.Rename(from(s), to(s)) }
	}
	own := func(s scene) string { return at(s.Workspace, "own") }
	taken := func(s scene) string { return at(s.Workspace, "taken") }
	file := func(s scene) string { return at(s.Outside, "file") }
	created := func(dir func(scene) string) func(scene) error {
		return opens(unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, func(s scene) string { return at(dir(s), "new") })
	}
	return []act{
		{name: "append to the ledger", try: opens(unix.O_WRONLY|unix.O_APPEND, ledger), denied: noWrite},
		{name: "truncate the ledger", try: func(s scene) error { return unix.Truncate(ledger(s), 0) }, denied: noWrite},
		{name: "rename the ledger", try: rename(ledger, func(s scene) string { return ledger(s) + ".old" }), denied: noWrite},
		{name: "unlink the ledger", try: func(s scene) error { return unix.Unlink(ledger(s)) }, denied: noWrite},
		{name: "create in audit", try: created(func(s scene) string { return at(s.Home, "audit") }), denied: noWrite},
		{name: "create in .mbox", try: created(func(s scene) string { return at(s.Home, ".mbox") }), denied: noWrite},
		{name: "unlink in .mbox", try: func(s scene) error { return unix.Unlink(at(s.Home, ".mbox/keys/signing")) }, denied: noWrite},
		{name: "rename .mbox", try: func(s scene) error { return unix.Rename(at(s.Home, ".mbox"), at(s.Home, "gone")) }, denied: noWrite},
		{name: "create in tasks", try: created(func(s scene) string { return at(s.Home, "tasks/pending") }), denied: noWrite},
		{name: "replace a task", try: rename(own, func(s scene) string { return at(s.Home, "tasks/pending/a.json") }), denied: noMove},
		{name: "write what may only be read", try: opens(unix.O_WRONLY, func(s scene) string { return at(s.Friend, "note") }), denied: noWrite},
		{name: "create where may only be read", try: created(func(s scene) string { return s.Friend }), denied: noWrite},
		{name: "unlink what may only be read", try: func(s scene) error { return unix.Unlink(at(s.Friend, "note")) }, denied: noWrite},
		{name: "unlink what may only be written", try: func(s scene) error { return unix.Unlink(at(s.Drop, "letter")) }, denied: noWrite},
		{name: "fetch what may only be written", try: rename(func(s scene) string { return at(s.Drop, "letter") }, taken), denied: noMove},
		{name: "plant a symlink at a sibling's", try: func(s scene) error { return unix.Symlink(s.Peer, at(s.Drop, "link")) }, denied: noWrite},
		{name: "link a file in", try: func(s scene) error { return unix.Link(key(s), taken(s)) }, denied: noMove},
		{name: "rename a file in", try: rename(key, taken), denied: noMove},
		{name: "rename a file out", try: rename(own, func(s scene) string { return at(s.Outside, "own") }), denied: noMove},
		{name: "make a folder outside", try: func(s scene) error { return unix.Mkdir(at(s.Outside, "new"), 0o700) }, denied: noWrite},
		{name: "make a symlink outside", try: func(s scene) error { return unix.Symlink("x", at(s.Outside, "new")) }, denied: noWrite},
		{name: "make a pipe outside", try: func(s scene) error { return unix.Mkfifo(at(s.Outside, "new"), 0o600) }, denied: noWrite},
		{name: "make shared memory", try: func(scene) error {
			path := fmt.Sprintf("/dev/shm/mbox-sandbox-%d", os.Getpid())
			defer os.Remove(path)
			return opens(unix.O_RDWR|unix.O_CREAT, fixed(path))(scene{})
		}, denied: noWrite},
		{name: "make a device", try: func(s scene) error {
			return unix.Mknod(taken(s), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3)))
		}, denied: []string{"EACCES", "EPERM"}, root: true},
		{name: "truncate outside", try: func(s scene) error { return unix.Truncate(file(s), 0) }, denied: noWrite},
		{name: "chmod outside", try: func(s scene) error { return unix.Chmod(file(s), 0o777) }, denied: noWrite},
		{name: "open the mailbox to others", try: func(s scene) error { return unix.Chmod(at(s.Home, ".mbox"), 0o711) }, denied: noWrite},
		{name: "chown outside", try: func(s scene) error { return unix.Chown(file(s), os.Getuid(), os.Getgid()) }, denied: noWrite},
		{name: "set an attribute outside", try: func(s scene) error { return unix.Setxattr(file(s), "user.x", []byte("y"), 0) }, denied: noWrite, free: []string{"ok", "EOPNOTSUPP"}},
		{name: "set times outside", try: func(s scene) error { return unix.Utimes(file(s), make([]unix.Timeval, 2)) }, denied: noWrite},
		{name: "set the core pattern", try: opens(unix.O_WRONLY, fixed("/proc/sys/kernel/core_pattern")), denied: noWrite, root: true},
		{name: "become another user", try: func(scene) error {
			runtime.LockOSThread()
			_, _, e := unix.RawSyscall(unix.SYS_SETRESUID, 1, 1, 1)
			return number(e)
		}, denied: []string{"EPERM", "EINVAL"}, root: true},
	}
}
