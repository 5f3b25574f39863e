package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Read returns the bytes of a regular file of at most max bytes. It never
// follows a symlink and never blocks on a FIFO.
func Read(path string, max int64) ([]byte, error) {
	fd, st, err := openRegular(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if st.Size > max {
		return nil, fmt.Errorf("%s: %d bytes, at most %d: %w", path, st.Size, max, ErrTooLarge)
	}
	data := make([]byte, 0, st.Size+1)
	for int64(len(data)) <= max {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n := 0
		err := again(func() (err error) { n, err = unix.Read(fd, data[len(data):cap(data)]); return err })
		if err != nil {
			return nil, pathError("read", path, err)
		}
		data = data[:len(data)+n]
		// A short read of a regular file is its end.
		if n == 0 || len(data) < cap(data) {
			return data, nil
		}
	}
	return nil, fmt.Errorf("%s: more than %d bytes: %w", path, max, ErrTooLarge)
}

// ReadOnce reads with one pread(2). Of a regular file it reads less than buf holds
// only at the end.
func ReadOnce(f *os.File, buf []byte, offset int64) (n int, err error) {
	err = again(func() (err error) { n, err = unix.Pread(int(f.Fd()), buf, offset); return err })
	return max(n, 0), pathError("read", f.Name(), err)
}

// ReadLinked is Read for a file that a person may have put elsewhere: where path
// is a symlink, it reads what that leads to.
func ReadLinked(path string, max int64) ([]byte, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	return Read(real, max)
}

// ReadPrivate is Read for a secret: the file belongs to the user, or to root, and
// nobody else may read or write it. What is told of it, it tells of the file that
// it has opened.
func ReadPrivate(path string, max int64) ([]byte, error) {
	f, _, err := OpenRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch st, err := Fstat(f); {
	case err != nil:
		return nil, err
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return nil, fmt.Errorf("%s: %w: it belongs to user %d, who can change it", path, ErrNotPrivate, st.Uid)
	case st.Mode&0o077 != 0:
		return nil, fmt.Errorf("%s: %w: others can read it (mode %04o): chmod 600", path, ErrNotPrivate, st.Mode&0o777)
	}
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max {
		err = fmt.Errorf("%s: more than %d bytes: %w", path, max, ErrTooLarge)
	}
	return data, err
}

// openRegular opens a file, and closes it again if it is not a regular one.
func openRegular(path string, flags int) (fd int, st unix.Stat_t, err error) {
	fd, err = open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.EOPNOTSUPP) {
		return -1, st, pathError("open", path, ErrNotRegular)
	}
	if err != nil {
		return -1, st, err
	}
	err = pathError("fstat", path, again(func() error { return unix.Fstat(fd, &st) }))
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = pathError("open", path, ErrNotRegular)
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// maxHoles is how many bytes of a file may have no place on the disk.
const maxHoles = 64 << 20

// dense refuses a file of which more is hole: reading a terabyte of
// nothing takes an hour. Fewer blocks than bytes alone do not tell, for the file
// system may compress.
func dense(fd int, path string, st *unix.Stat_t) error {
	if st.Size-st.Blocks*512 <= maxHoles {
		return nil
	}
	holes := int64(0)
	for at := int64(0); at < st.Size && holes <= maxHoles; {
		data, err := unix.Seek(fd, at, unix.SEEK_DATA)
		if err != nil {
			data = st.Size // nothing but hole up to there
		}
		holes += data - at
		if at, err = unix.Seek(fd, data, unix.SEEK_HOLE); err != nil {
			break
		}
	}
	_, err := unix.Seek(fd, 0, 0)
	if err == nil && holes > maxHoles {
		err = pathError("open", path, ErrSparse)
	}
	return err
}

// OpenRegular opens a regular file for reading, without following a symlink
// and without blocking. Any other kind of file is ErrNotRegular, and is not
// opened for longer than it takes to see that; one that is nearly all hole is
// ErrSparse.
func OpenRegular(path string) (*os.File, fs.FileInfo, error) {
	f, err := OpenFile(path, unix.O_RDONLY)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// OpenBelow opens the regular file or the folder at path below dir for reading.
// It follows no symlink at any place of the path, also where somebody else may
// rename what lies below dir meanwhile, and never blocks. What is neither of
// both is ErrNotRegular.
func OpenBelow(dir, path string) (*os.File, fs.FileInfo, error) {
	at, err := open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, nil, err
	}
	return openFrom(at, dir, path)
}

// OpenFrom is OpenBelow of a folder that is open.
func OpenFrom(dir *os.File, path string) (*os.File, fs.FileInfo, error) {
	at, err := unix.FcntlInt(dir.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, nil, pathError("open", dir.Name(), err)
	}
	return openFrom(at, dir.Name(), path)
}

// openFrom takes the folder at over.
func openFrom(at int, dir, path string) (*os.File, fs.FileInfo, error) {
	for name := range strings.SplitSeq(filepath.ToSlash(path), "/") {
		below := -1
		err := again(func() (err error) {
			below, err = unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			return err
		})
		unix.Close(at)
		switch {
		case name == "..", errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO), errors.Is(err, unix.EOPNOTSUPP):
			unix.Close(below)
			return nil, nil, pathError("open", filepath.Join(dir, path), ErrNotRegular)
		case err != nil:
			return nil, nil, pathError("open", filepath.Join(dir, path), err)
		}
		at = below
	}
	f := os.NewFile(uintptr(at), filepath.Join(dir, path))
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		err = pathError("open", f.Name(), ErrNotRegular)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// OpenRegularBelow is OpenRegular of the file at path below dir, which is found as
// OpenBelow finds it.
func OpenRegularBelow(dir, path string) (*os.File, fs.FileInfo, error) {
	f, info, err := OpenBelow(dir, path)
	if err != nil {
		return nil, nil, err
	}
	st, err := Fstat(f)
	if err == nil && info.IsDir() {
		err = pathError("open", f.Name(), ErrNotRegular)
	}
	if err == nil {
		err = dense(int(f.Fd()), f.Name(), &st)
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// Lstat is lstat(2), again when a signal interrupted it.
func Lstat(path string) (st unix.Stat_t, err error) {
	err = again(func() error { return unix.Lstat(path, &st) })
	return st, pathError("lstat", path, err)
}

// LstatIn is Lstat of a name in a folder that is open.
func LstatIn(dir *os.File, name string) (st unix.Stat_t, err error) {
	err = again(func() error { return unix.Fstatat(int(dir.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) })
	if err != nil {
		err = pathError("lstat", filepath.Join(dir.Name(), name), err)
	}
	return st, err
}

// Fstat is fstat(2), again when a signal interrupted it.
func Fstat(f *os.File) (st unix.Stat_t, err error) {
	err = again(func() error { return unix.Fstat(int(f.Fd()), &st) })
	return st, pathError("fstat", f.Name(), err)
}

// Idle tells whether nobody holds f open for writing. Where the system cannot
// say so, known is false and the caller has to judge by the file's age.
func Idle(f *os.File) (idle, known bool) {
	err := control(f, func(fd int) error { idle, known = unwritten(fd); return nil })
	return idle, known && err == nil
}
