package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// KindOf names what is no regular file.
func KindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "folder"
	case m&fs.ModeSymlink != 0:
		return "symlink"
	case m&fs.ModeNamedPipe != 0:
		return "FIFO"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "device"
}

// Barred tells whether the owner of the file, or its mode, keeps this process from
// reading it. Where nothing does, an EACCES is an error like any other, and says
// nothing of the file.
func Barred(path string) bool {
	st, err := Lstat(path)
	return err == nil && (int(st.Uid) != os.Geteuid() || st.Mode&0o400 == 0)
}

// Pin is what keeps a file where it lies, though its folder may be written.
type Pin string

const (
	NotOurs   Pin = "it is a folder of another user, and only he can move it"
	Mounted   Pin = "something is mounted there"
	Immutable Pin = "it is immutable or append-only"
)

// Pinned tells what keeps this process from moving what lies at path; "" for nothing.
func Pinned(path string) (Pin, error) {
	st, err := Lstat(path)
	if err != nil {
		return "", err
	}
	in, err := Lstat(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	mounted, sealed := attributes(path, &st, st.Dev != in.Dev)
	switch {
	case mounted:
		return Mounted, nil
	case sealed:
		return Immutable, nil
	case st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) != os.Geteuid() && errors.Is(unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS), unix.EACCES):
		return NotOurs, nil // to move a folder is to write its ".."
	}
	return "", nil
}

// StatOf is what the system has told of a file.
func StatOf(info fs.FileInfo) *syscall.Stat_t { return info.Sys().(*syscall.Stat_t) }

// Touch gives a file this time of change, as a sign of life. It follows no link.
func Touch(path string, at time.Time) error {
	spec := unix.NsecToTimespec(at.UnixNano())
	return pathError("utimes", path, again(func() error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{spec, spec}, unix.AT_SYMLINK_NOFOLLOW)
	}))
}

// Share takes a shared flock of an open file. Whoever inherits the file has it too.
func Share(f *os.File) error {
	return pathError("flock", f.Name(), again(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) }))
}

// Names lists what lies in a folder, in no order.
func Names(dir string) ([]string, error) {
	d, err := OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// RemoveIfThere is Remove, to which a file that is not there is no error.
func RemoveIfThere(path string) error {
	err := Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// SyncDirs is SyncDir for a folder and all folders in it.
func SyncDirs(dir string, m Mode) error {
	if m == None {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return SyncDir(path, m)
	})
}
