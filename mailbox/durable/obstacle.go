package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Obstacle names what stands in the place of a file or folder, where an error of
// this package comes of that: a FIFO, a socket, a symlink, a file for a folder, a
// folder for a file. It looks at the disk, so an error of the disk is none; then
// path is how far the error's path can be followed.
func Obstacle(err error) (path string, ok bool) {
	of := PathOf(err)
	if of == "" {
		return "", false
	}
	path = of
	info, failed := os.Lstat(path)
	for failed != nil && path != filepath.Dir(path) {
		path = filepath.Dir(path)
		info, failed = os.Lstat(path)
	}
	switch {
	case failed != nil:
		return "", false
	case info.Mode().IsRegular():
		return path, path != of || errors.Is(err, unix.ENOTDIR) || errors.Is(err, ErrSparse)
	case info.IsDir():
		return path, path == of && (errors.Is(err, ErrNotRegular) || errors.Is(err, unix.EISDIR) || errors.Is(err, fs.ErrExist))
	}
	return path, true
}

// PathOf is the path that an error is about; "" if it names none.
func PathOf(err error) string {
	if at, is := errors.AsType[*fs.PathError](err); is {
		return at.Path
	}
	if link, is := errors.AsType[*os.LinkError](err); is {
		return link.New
	}
	return ""
}

// Lacking tells that this process lacks something: that is no fault of the file
// that it was to open.
func Lacking(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
