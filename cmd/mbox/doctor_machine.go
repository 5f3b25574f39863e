package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"mbox/mailbox/durable"
)

// Thresholds of free space: below the first mbox should not run, below the
// second it is time to act.
const (
	gigabyte   = 1 << 30
	leastDisk  = 3 * gigabyte
	enoughDisk = 5 * gigabyte
	enoughRAM  = 2 * gigabyte

	enoughInodes  = 10_000
	enoughFiles   = 1024
	enoughWatches = 8192
)

func (e *exam) fileSystem() {
	name, network, err := durable.FileSystem(e.home)
	if !e.check("filesystem", err) {
		return
	}
	switch {
	case network && !e.options.AllowNetworkFS:
		e.add("filesystem", wrong, "allow_network_fs = true in mbox.toml, at your own risk", "%s: locks and renames promise less there", name)
	case network:
		e.add("filesystem", doubt, "", "%s: locks and renames promise less there", name)
	default:
		e.add("filesystem", fine, "", "%s", name)
	}
}

// probe is how the folder's name begins in which renames are tried. It lies in
// the home itself: a file in .mbox/tmp would look like a transition to whoever
// verifies or recovers at this moment.
const probe = ".doctor-"

// renames tries the two flags that every transition needs, on files of its own.
func (e *exam) renames() {
	e.sweep()
	dir, err := os.MkdirTemp(e.home, probe)
	if !e.check("renames", err) {
		return
	}
	defer os.RemoveAll(dir)
	if err := tryRenames(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
		e.add("renames", wrong, "use a local file system such as ext4, xfs, btrfs or APFS", "%v", err)
		return
	}
	e.add("renames", fine, "", "exchange and no-replace work")
}

// sweep removes what a doctor that was killed has left.
func (e *exam) sweep() {
	left, _ := filepath.Glob(filepath.Join(e.home, probe+"*"))
	for _, dir := range left {
		if info, err := os.Lstat(dir); err == nil && time.Since(info.ModTime()) > time.Minute {
			e.check("renames", os.RemoveAll(dir))
		}
	}
}

func tryRenames(a, b string) error {
	for _, path := range []string{a, b} {
		if err := durable.Stage(path, []byte(filepath.Base(path)), durable.None); err != nil {
			return err
		}
	}
	if err := durable.Exchange(a, b); err != nil {
		return fmt.Errorf("exchanging two files: %w", err)
	}
	if err := durable.Move(a, b); !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("a rename that may not replace did not refuse a taken name: %v", err)
	}
	if data, err := os.ReadFile(a); err != nil || string(data) != "b" {
		return fmt.Errorf("the exchange did not exchange: %q %v", data, err)
	}
	return nil
}

func (e *exam) space() {
	var st syscall.Statfs_t
	if !e.check("disk", syscall.Statfs(e.home, &st)) {
		return
	}
	free := uint64(st.Bavail) * uint64(st.Bsize)
	switch {
	case free < leastDisk:
		e.add("disk", wrong, "make room: a full disk stops every transition", "%s free, at least %s are needed", size(free), size(leastDisk))
	case free < enoughDisk:
		e.add("disk", doubt, "", "%s free, less than %s", size(free), size(enoughDisk))
	default:
		e.add("disk", fine, "", "%s free", size(free))
	}
	if st.Files > 0 && uint64(st.Ffree) < enoughInodes {
		e.add("inodes", doubt, "mbox archive does not free any; old archives can be moved away", "%d left on this file system", st.Ffree)
	}
}

func (e *exam) memory() {
	free, err := availableMemory()
	switch {
	case err != nil:
		e.add("memory", doubt, "", "not known: %v", err)
	case free < enoughRAM:
		e.add("memory", doubt, "", "%s available, less than %s", size(free), size(enoughRAM))
	default:
		e.add("memory", fine, "", "%s available", size(free))
	}
}

func (e *exam) limits() {
	var files syscall.Rlimit
	if e.check("open files", syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files)) {
		if files.Cur < enoughFiles {
			e.add("open files", doubt, fmt.Sprintf("ulimit -n %d", enoughFiles), "at most %d, less than %d", files.Cur, enoughFiles)
		} else {
			e.add("open files", fine, "", "at most %d", files.Cur)
		}
	}
	e.watches()
}
