// Package durable is the only place where mbox creates, renames, appends,
// removes and flushes files.
//
// Guarantees, each of them a promise about one call that returned nil:
//
//   - Stage: the file holds exactly the given bytes and they are on disk
//     (unless the mode is None). The name itself may still be lost by a power
//     cut; whoever relies on the name flushes the folder with SyncDir.
//   - Move and Exchange are one rename(2) each. Move never replaces a file,
//     Exchange never loses one.
//   - Flush: what was written to the file before the call is on disk. A Flush
//     that failed is never asked again on the same descriptor, because kernels
//     report a write-back error once and then call the pages clean. One that a
//     signal interrupted (EINTR) has failed too: Linux notes the error as
//     reported before it answers, so an answer of EINTR may stand for one of EIO
//     that a second flush would not see. The local file systems that mbox is
//     for do not interrupt a flush.
//
// Every function that changes something passes through a fault hook, so that a
// test can make any write fail twice over: not applied, and applied but
// reported as failed.
//
// What differs between systems (renameat2 or renamex_np, fdatasync or
// F_FULLFSYNC, read leases, the boot id, file system names) stands in _linux
// and _darwin files behind one function each.
package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Mode says what is flushed before an operation is acknowledged.
type Mode int

const (
	// Standard flushes file contents, and folders only where they are new.
	// A rename that a power cut takes back is redone by recovery.
	Standard Mode = iota
	// Strict also flushes the folders of every rename.
	Strict
	// None flushes nothing: for tmpfs and for tests.
	None
)

// FileMode and DirMode are the permissions of everything that mbox makes.
const (
	FileMode fs.FileMode = 0o600
	DirMode  fs.FileMode = 0o700
)

// ErrNotRegular is returned by Read for anything that is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// ErrSparse says that a file is nearly all hole. No file of mbox is, so it counts
// as no regular one.
var ErrSparse = fmt.Errorf("%w: nearly all of it is a hole", ErrNotRegular)

// ErrTooLarge is returned by Read for a file beyond the caller's limit.
var ErrTooLarge = errors.New("file too large")

// ErrNotPrivate is returned by ReadPrivate for a file that others can read or change.
var ErrNotPrivate = errors.New("not private")

// Op names a step that changes the disk, for the fault hook.
type Op string

// The steps that a fault hook sees.
const (
	OpCreate   Op = "create"
	OpSync     Op = "sync"
	OpMove     Op = "move"
	OpExchange Op = "exchange"
	OpReplace  Op = "replace"
	OpRemove   Op = "remove"
	OpAppend   Op = "append"
	OpWriteAt  Op = "writeat"
	OpMkdir    Op = "mkdir"
	OpSyncDir  Op = "syncdir"
	OpSyncFS   Op = "syncfs"
	OpSeal     Op = "seal"
)

// A Fault decides about one step: it may let it pass (apply true, err nil),
// refuse it (false, err), or apply it and report an error all the same
// (true, err).
type Fault func(op Op, path string) (apply bool, err error)

var hook atomic.Pointer[Fault]

// SetFault installs the fault hook of a test and returns a function that
// removes it. There is one hook for the process.
func SetFault(f Fault) (remove func()) {
	hook.Store(&f)
	return func() { hook.Store(nil) }
}

func step(op Op, path string, do func() error) error {
	h := hook.Load()
	if h == nil {
		return do()
	}
	apply, err := (*h)(op, path)
	if !apply {
		return err
	}
	if failed := do(); failed != nil {
		return failed
	}
	return err
}

// again repeats a system call that a signal interrupted. It is for every call
// but flushes.
func again(call func() error) error {
	for {
		err := call()
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Stage makes the file at path with exactly these bytes and flushes it. The
// name must be free: an existing file, or a symlink, is an error that matches
// fs.ErrExist. On an error nothing is promised about the file but that it is
// staged, so the caller removes it.
func Stage(path string, data []byte, m Mode) error {
	fd := -1
	err := step(OpCreate, path, func() (err error) {
		fd, err = open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, FileMode)
		return err
	})
	if fd < 0 {
		return err
	}
	if err == nil {
		err = step(OpAppend, path, func() error { return writeOnce(fd, path, data) })
	}
	if err == nil && m != None {
		err = step(OpSync, path, func() error {
			return pathError("fsync", path, fsync(fd))
		})
	}
	if closed := unix.Close(fd); err == nil {
		err = pathError("close", path, closed)
	}
	return err
}

// StageFrom is Stage for what another file holds from its position on, however
// much that is.
func StageFrom(path string, from io.Reader, m Mode) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	for buf := make([]byte, 1<<20); err == nil; {
		n := 0
		if n, err = io.ReadFull(from, buf); n > 0 {
			if failed := Append(f, buf[:n]); failed != nil {
				err = failed
			}
		}
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if err == nil && m != None {
		err = SyncFile(f)
	}
	return errors.Join(err, f.Close())
}

// open is open(2) on a bare descriptor. An os.File for a file that is read or
// written once costs five system calls more: the runtime tries to poll it.
func open(path string, flags int, mode fs.FileMode) (fd int, err error) {
	err = again(func() (err error) {
		fd, err = unix.Open(path, flags|unix.O_CLOEXEC, uint32(mode))
		return err
	})
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

func pathError(op, path string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: path, Err: err}
}

// OpenFile is os.OpenFile for a regular file that belongs to mbox: it never
// follows a symlink and never blocks on a FIFO, and the file is not polled. One
// that is nearly all hole is ErrSparse.
func OpenFile(path string, flags int) (*os.File, error) {
	fd, st, err := openRegular(path, flags)
	if err != nil {
		return nil, err
	}
	// Only the opening must not block, and what is marked so would be polled.
	err = dense(fd, path, &st)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags&unix.O_APPEND)
		err = pathError("fcntl", path, err)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Create makes an empty file for appending. The name must be free.
func Create(path string) (*os.File, error) {
	fd := -1
	err := step(OpCreate, path, func() (err error) {
		fd, err = open(path, unix.O_RDWR|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, FileMode)
		return err
	})
	if fd < 0 {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Append writes data with one write(2) at the file's position (for a file
// opened with O_APPEND: its end). A short write is an error, and what was
// written stays.
func Append(f *os.File, data []byte) error {
	return step(OpAppend, f.Name(), func() error {
		return control(f, func(fd int) error { return writeOnce(fd, f.Name(), data) })
	})
}

func writeOnce(fd int, path string, data []byte) error {
	n := 0
	err := again(func() (err error) { n, err = unix.Write(fd, data); return err })
	if err == nil && n < len(data) {
		err = fmt.Errorf("%s: only %d of %d bytes were written, as on a full disk: %w", path, n, len(data), io.ErrShortWrite)
	} else {
		err = pathError("write", path, err)
	}
	return err
}

// WriteAt writes data with one pwrite(2), at a place that one lock's holder has
// for himself.
func WriteAt(f *os.File, data []byte, offset int64) error {
	return step(OpWriteAt, f.Name(), func() error {
		_, err := f.WriteAt(data, offset)
		return err
	})
}

// Flush brings what was appended to f to the disk, with the file's length but
// not its times (fdatasync; F_FULLFSYNC on macOS). After an error the
// descriptor's contents are unknown: close it, never flush it again.
func Flush(f *os.File) error {
	return step(OpSync, f.Name(), func() error { return flushFile(f, "fdatasync", fdatasync) })
}

// SyncFile brings f to the disk whole (fsync; F_FULLFSYNC on macOS). The same
// rule about errors holds as for Flush.
func SyncFile(f *os.File) error {
	return step(OpSync, f.Name(), func() error { return flushFile(f, "fsync", fsync) })
}

func flushFile(f *os.File, op string, call func(fd int) error) error {
	return control(f, func(fd int) error {
		return pathError(op, f.Name(), call(fd))
	})
}

// control calls do with f's descriptor, which stays open as long.
func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil {
		return err
	}
	return failed
}

// SyncDir flushes a folder: names that were made, moved or removed in it are
// on disk afterwards. In mode None it does nothing.
func SyncDir(path string, m Mode) error {
	return syncFolder(path, m, func() (*os.File, error) { return OpenDir(path) })
}

func syncFolder(path string, m Mode, open func() (*os.File, error)) error {
	if m == None {
		return nil
	}
	return step(OpSyncDir, path, func() error {
		d, err := open()
		if err != nil {
			return err
		}
		defer d.Close()
		return flushFile(d, "fsync", fsync)
	})
}

// OpenDir opens a folder; anything else is refused, a FIFO too, at once.
func OpenDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// SyncFS brings the whole file system that holds the open file to the disk:
// everything that was written or renamed there before the call, by whichever
// process (syncfs(2); Linux reports write errors by it since 5.8). Only where
// CanSyncFS.
func SyncFS(f *os.File) error {
	return step(OpSyncFS, f.Name(), func() error { return flushFile(f, "syncfs", syncFS) })
}

// Seal makes a regular file append-only: until that is taken back nobody writes
// over what it holds, renames it or removes it. On Linux only root may (or who has
// CAP_LINUX_IMMUTABLE), on macOS the file's owner, and not every file system can.
func Seal(path string) error {
	return step(OpSeal, path, func() error {
		f, _, err := OpenRegular(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return pathError("make append-only", path, control(f, seal))
	})
}

// Sealed tells whether a file is append-only. Where the file system knows no such
// thing the error matches errors.ErrUnsupported.
func Sealed(path string) (is bool, err error) {
	err = again(func() error { is, err = sealed(path); return err })
	return is, pathError("stat", path, err)
}

// Move renames old to new and never replaces a file: a taken name is an error
// that matches fs.ErrExist, a missing source one that matches fs.ErrNotExist.
func Move(old, new string) error {
	return step(OpMove, new, func() error {
		return linkError("rename", old, new, again(func() error { return renameNoReplace(old, new) }))
	})
}

// Exchange swaps two existing files atomically. If either is missing the error
// matches fs.ErrNotExist and nothing has changed.
func Exchange(a, b string) error {
	return step(OpExchange, b, func() error {
		return linkError("exchange", a, b, again(func() error { return renameExchange(a, b) }))
	})
}

func linkError(op, old, new string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: old, New: new, Err: err}
}

// Replace gives path the given contents: a temporary file beside it is written,
// flushed and renamed over it. It is only for files that belong to mbox alone
// (the boot record, views, snapshots); a task never goes this way.
func Replace(path string, data []byte, m Mode) error {
	temp := path + ".new"
	if err := RemoveIfThere(temp); err != nil {
		return err
	}
	if err := Stage(temp, data, m); err != nil {
		return err
	}
	if err := Rename(temp, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path), m)
}

// Rename puts the file old in the place of new, whatever stood there. Like
// Replace it is only for what belongs to mbox alone.
func Rename(old, new string) error {
	return step(OpReplace, new, func() error { return os.Rename(old, new) })
}

// Remove unlinks one file.
func Remove(path string) error {
	return step(OpRemove, path, func() error {
		return pathError("remove", path, again(func() error { return unix.Unlink(path) }))
	})
}

// RemoveAll removes a folder with all that is in it, and follows no symlink. What
// is not there is no error.
func RemoveAll(path string) error {
	return step(OpRemove, path, func() error { return os.RemoveAll(path) })
}

// MkdirAll makes the folders of path that are missing, 0700, and flushes the
// parent of each new one, so that what is put there later cannot be lost with
// its folder.
func MkdirAll(path string, m Mode) error {
	info, err := os.Lstat(path)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		return &fs.PathError{Op: "mkdir", Path: path, Err: unix.ENOTDIR}
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := MkdirAll(parent, m); err != nil {
			return err
		}
	}
	err = step(OpMkdir, path, func() error { return os.Mkdir(path, DirMode) })
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return SyncDir(parent, m)
}
