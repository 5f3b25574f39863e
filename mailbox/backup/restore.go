package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// Check reads a backup to its end and holds every file against the manifest. It
// writes nothing. An error says what is wrong with it. It judges by the code that
// Restore unpacks with, so the two agree.
func Check(ctx context.Context, r io.Reader) (Report, error) {
	u := &unpacking{have: map[string]*unpacked{}}
	err := u.read(ctx, r)
	return u.report, err
}

// Restore unpacks a backup into dir, which is made, with its parents, if it is
// not there, and must be empty otherwise; a symlink to a folder is that folder.
// The boot record is left out, so the first Open recovers the home in full.
//
// Everything is unpacked and checked in a folder of its own within dir, so that
// dir may be a mount point; then it is moved up, .mbox last. A backup that is
// damaged, cut short, or names a path outside leaves nothing behind.
func Restore(ctx context.Context, r io.Reader, dir string, m durable.Mode) (report Report, err error) {
	made, err := emptyDir(dir, m)
	defer func() {
		for _, d := range slices.Backward(made) {
			if err != nil {
				_ = os.Remove(d)
			}
		}
	}()
	if err != nil {
		return report, err
	}
	temp, err := os.MkdirTemp(dir, tempName)
	if err != nil {
		return report, err
	}
	defer os.RemoveAll(temp)
	mark, err := markTemp(temp)
	if err != nil {
		return report, err
	}
	defer mark.Unlock()
	tree := filepath.Join(temp, "tree")
	u := &unpacking{have: map[string]*unpacked{}, temp: temp, sync: m}
	if err := u.read(ctx, r); err != nil {
		return u.report, fmt.Errorf("the backup: %w", err)
	}
	err = u.place(tree)
	if err == nil {
		_, err = home.MakeLocks(tree, home.BlankSlot, m)
	}
	if err == nil {
		err = home.WriteVersion(tree, u.id, m) // an older mbox may have made the backup
	}
	if err == nil {
		err = durable.SyncDirs(tree, m)
	}
	if err == nil {
		err = moveUp(tree, dir, m)
	}
	return u.report, err
}

// tempName begins the name of the folder in which a restore unpacks, and markName is
// the file in it that is locked as long as the restore lives.
const tempName, markName = ".mbox-restore-", "restoring"

func markTemp(temp string) (*durable.Lock, error) {
	f, err := durable.Create(filepath.Join(temp, markName))
	if err != nil {
		return nil, err
	}
	f.Close()
	return durable.TryLock(f.Name())
}

// isKilled tells whether a name in dir is the folder of a restore that was killed: it has
// the mark of one, which nobody locks, and nothing that a restore does not make; or it is
// empty.
func isKilled(dir, name string) bool {
	path := filepath.Join(dir, name)
	info, err := os.Lstat(path)
	number, is := strings.CutPrefix(name, tempName)
	if err != nil || !is || !info.IsDir() || !isNumber(number) {
		return false
	}
	names, err := durable.Names(path)
	if err != nil || len(names) == 0 {
		return err == nil
	}
	if slices.ContainsFunc(names, func(n string) bool { return n != markName && n != "tree" && !isNumber(n) }) {
		return false
	}
	lock, err := durable.TryLock(filepath.Join(path, markName))
	if err != nil {
		return false
	}
	lock.Unlock()
	return true
}

func isNumber(name string) bool {
	_, err := strconv.ParseUint(name, 10, 64)
	return err == nil
}

// emptyDir makes what is missing of dir, which it returns, parents first, and refuses
// dir if there is anything in it but what a new file system holds, and what a restore
// that was killed has left there, which it removes.
func emptyDir(dir string, m durable.Mode) (made []string, err error) {
	if made, err = makeDirs(dir, m); err != nil || len(made) > 0 {
		return made, err
	}
	names, err := durable.Names(dir)
	if err != nil {
		return nil, err
	}
	var killed []string
	names = slices.DeleteFunc(names, func(n string) bool {
		is := isKilled(dir, n)
		if is {
			killed = append(killed, n)
		}
		return is || n == "lost+found"
	})
	if len(names) > 0 {
		return nil, fmt.Errorf("%s: %w: it is not empty, %s is in it", dir, home.ErrExists, slices.Min(names))
	}
	for _, n := range killed {
		if err := durable.RemoveAll(filepath.Join(dir, n)); err != nil {
			return nil, err
		}
	}
	return nil, os.Chmod(dir, durable.DirMode)
}

func makeDirs(dir string, m durable.Mode) (made []string, err error) {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if made, err = makeDirs(filepath.Dir(dir), m); err != nil {
		return made, err
	}
	if err = os.Mkdir(dir, durable.DirMode); errors.Is(err, fs.ErrExist) {
		return made, fmt.Errorf("%s: a symlink that leads nowhere: %w", dir, err)
	} else if err != nil {
		return made, err
	}
	return append(made, dir), durable.SyncDir(filepath.Dir(dir), m)
}

// moveUp brings what was unpacked into its place. What a crash leaves of that is
// no mailbox, because .mbox comes last.
func moveUp(tree, dir string, m durable.Mode) error {
	names, err := durable.Names(tree)
	if err != nil {
		return err
	}
	names = append(slices.DeleteFunc(names, func(n string) bool { return n == ".mbox" }), ".mbox")
	for i, name := range names {
		if err := durable.Move(filepath.Join(tree, name), filepath.Join(dir, name)); err != nil {
			for _, done := range names[:i] {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, done)))
			}
			return err
		}
	}
	return durable.SyncDir(dir, m)
}
