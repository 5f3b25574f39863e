package durable

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// ReplaceIn is Replace for a file that somebody else may see and touch, named
// in a folder that is open as a root: the temporary file beside it has a name
// that nobody can foresee, and no step leaves the root. On an error the
// temporary file is removed, and name is what it was, unless the error comes
// from flushing the folder: then it may be either.
func ReplaceIn(root *os.Root, name string, data []byte, m Mode) error {
	temp := before + rand.Text() + behind
	path := filepath.Join(root.Name(), name)
	err := stageIn(root, temp, path, data, m)
	if err == nil {
		err = step(OpReplace, path, func() error { return root.Rename(temp, name) })
	}
	if err != nil {
		_ = root.Remove(temp)
		return err
	}
	return syncIn(root, ".", m)
}

// What the name of a temporary file of ReplaceIn begins and ends with.
const before, behind = ".mbox-", ".new"

// Temporary tells whether ReplaceIn may have left a file of this name when it was killed.
func Temporary(name string) bool {
	return strings.HasPrefix(name, before) && strings.HasSuffix(name, behind)
}

// RenameIn gives a file another name, which may be in another folder of the root, in the
// place of what bears that. Both folders are flushed. On an error name is what it was,
// unless the error comes from flushing.
func RenameIn(root *os.Root, from, to string, m Mode) error {
	err := step(OpReplace, filepath.Join(root.Name(), to), func() error { return root.Rename(from, to) })
	for _, folder := range slices.Compact([]string{filepath.Dir(to), filepath.Dir(from)}) {
		if err == nil {
			err = syncIn(root, folder, m)
		}
	}
	return err
}

func stageIn(root *os.Root, temp, path string, data []byte, m Mode) error {
	var f *os.File
	err := step(OpCreate, path, func() (err error) {
		f, err = root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, FileMode)
		return err
	})
	if f == nil {
		return err
	}
	if err == nil {
		err = step(OpAppend, path, func() error { _, err := f.Write(data); return err }) // os.File goes on after a short write
	}
	if err == nil && m != None {
		err = SyncFile(f)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// MkdirIn makes a folder, 0700, in a folder that is open as a root, and flushes
// the latter. One that is there already is no error; anything else of that name
// matches fs.ErrExist.
func MkdirIn(root *os.Root, name string, m Mode) error {
	path := filepath.Join(root.Name(), name)
	info, err := root.Lstat(name)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.EEXIST}
	}
	err = step(OpMkdir, path, func() error { return root.Mkdir(name, DirMode) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncIn(root, ".", m)
}

// OpenIn opens a regular file below a folder that is open as a root, in which somebody
// else may put what he likes. It waits for nobody, and what the name stands for is no
// symlink, of which os.Root itself follows one that leads to another file below it.
// Anything else is ErrNotRegular, and info tells what was seen.
func OpenIn(root *os.Root, name string, flags int) (f *os.File, info fs.FileInfo, err error) {
	info, err = root.Lstat(name)
	if err != nil {
		return nil, nil, err
	}
	path := filepath.Join(root.Name(), name)
	if !info.Mode().IsRegular() {
		return nil, info, pathError("open", path, ErrNotRegular)
	}
	if f, err = root.OpenFile(name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(info, opened) { // a link has taken its place since
		err = pathError("open", path, ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, info, err
	}
	return f, opened, nil
}

// RemoveIn removes what bears the name in a folder that is open as a root, with
// all that is in it, and follows no symlink. What is not there is no error. Unlike
// os.RemoveAll it needs few descriptors and little stack, however deep a folder
// is: what lies in those in it is brought up into it first.
func RemoveIn(root *os.Root, name string) error {
	return step(OpRemove, filepath.Join(root.Name(), name), func() error {
		for {
			failed := root.Remove(name)
			if failed == nil || errors.Is(failed, fs.ErrNotExist) {
				return nil
			}
			if !flatten(root, name) {
				return failed
			}
		}
	})
}

// flatten removes from a folder what can be removed, and brings up what lies in
// the folders in it, closed or not. It tells whether it did anything.
func flatten(root *os.Root, folder string) (any bool) {
	_ = root.Chmod(folder, DirMode)
	for _, name := range someNames(root, folder) {
		name = filepath.Join(folder, name)
		if root.Remove(name) == nil {
			any = true
			continue
		}
		_ = root.Chmod(name, DirMode)
		for _, below := range someNames(root, name) {
			if root.Rename(filepath.Join(name, below), filepath.Join(folder, rand.Text())) == nil {
				any = true
			}
		}
	}
	return any
}

// someNames are up to 1000 of the names in a folder; none where it is no folder.
func someNames(root *os.Root, folder string) []string {
	d, err := root.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(1000)
	return names
}

func syncIn(root *os.Root, folder string, m Mode) error {
	return syncFolder(filepath.Join(root.Name(), folder), m, func() (*os.File, error) { return root.Open(folder) })
}
