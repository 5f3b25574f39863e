package durable

import (
	"os"

	"golang.org/x/sys/unix"
)

// On macOS fsync leaves the data in the drive's cache; F_FULLFSYNC does not.
func fdatasync(fd int) error { return fsync(fd) }

func fsync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

// CanSyncFS says that SyncFS exists: macOS has no call that waits until a file
// system is on the disk.
const CanSyncFS = false

func syncFS(int) error { return unix.ENOTSUP }

func renameNoReplace(old, new string) error {
	return unix.RenamexNp(old, new, unix.RENAME_EXCL)
}

func renameExchange(a, b string) error {
	return unix.RenamexNp(a, b, unix.RENAME_SWAP)
}

func seal(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	return unix.Fchflags(fd, int(st.Flags)|unix.UF_APPEND)
}

func sealed(path string) (bool, error) {
	var st unix.Stat_t
	err := unix.Lstat(path, &st)
	return st.Flags&(unix.UF_APPEND|unix.SF_APPEND) != 0, err
}

// attributes tells whether a file may not be moved for what is mounted on it, which is on
// another device, or for its flags.
func attributes(_ string, st *unix.Stat_t, other bool) (mounted, sealed bool) {
	return other, st.Flags&(unix.UF_IMMUTABLE|unix.UF_APPEND|unix.SF_IMMUTABLE|unix.SF_APPEND) != 0
}

// macOS has no read leases.
func unwritten(int) (idle, known bool) { return false, false }

// BootID names this start of the machine.
func BootID() (string, error) {
	return unix.Sysctl("kern.bootsessionuuid")
}

// FileSystem names the file system under path and tells whether it is one of
// those (network or FUSE) where flock and rename promise less.
func FileSystem(path string) (name string, network bool, err error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return "", false, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	name = unix.ByteSliceToString(st.Fstypename[:])
	switch name {
	case "nfs", "smbfs", "afpfs", "webdav", "macfuse", "osxfuse", "9p":
		return name, true, nil
	}
	return name, false, nil
}

// Holder is the process that has a file locked: the system does not tell.
func Holder(string) (pid int, stopped bool) { return 0, false }
