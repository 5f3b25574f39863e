package durable

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func fdatasync(fd int) error { return unix.Fdatasync(fd) }

func fsync(fd int) error { return unix.Fsync(fd) }

// CanSyncFS says that SyncFS exists.
const CanSyncFS = true

func syncFS(fd int) error { return unix.Syncfs(fd) }

func renameNoReplace(old, new string) error {
	return unix.Renameat2(unix.AT_FDCWD, old, unix.AT_FDCWD, new, unix.RENAME_NOREPLACE)
}

func renameExchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

const appendOnly = 0x20 // FS_APPEND_FL of linux/fs.h

func seal(fd int) error {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags|appendOnly))
}

func sealed(path string) (bool, error) {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, 0, &st)
	if err == nil && st.Attributes_mask&unix.STATX_ATTR_APPEND == 0 {
		err = unix.EOPNOTSUPP
	}
	return st.Attributes&unix.STATX_ATTR_APPEND != 0, err
}

// attributes tells whether a file may not be moved for what is mounted on it, or for its
// flags. What the system does not tell, the move does. A file of an overlay may say that
// it is on another device than its folder, and be mounted nowhere: that counts only for
// a system that knows nothing of mounts.
func attributes(path string, _ *unix.Stat_t, other bool) (mounted, sealed bool) {
	var st unix.Statx_t
	_ = again(func() error {
		return unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	})
	mounted = other
	if st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT != 0 {
		mounted = st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
	}
	return mounted, st.Attributes&(unix.STATX_ATTR_IMMUTABLE|unix.STATX_ATTR_APPEND) != 0
}

// unwritten asks for a read lease, which the kernel grants only while nobody
// holds the file open for writing, and gives it back at once.
func unwritten(fd int) (idle, known bool) {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	if errors.Is(err, unix.EAGAIN) {
		return false, true
	}
	if err != nil {
		return false, false
	}
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return true, err == nil
}

// BootID names this start of the machine.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id)), err
}

var fileSystems = map[int64]struct {
	name    string
	network bool
}{
	unix.EXT4_SUPER_MAGIC:      {"ext4", false},
	unix.XFS_SUPER_MAGIC:       {"xfs", false},
	unix.BTRFS_SUPER_MAGIC:     {"btrfs", false},
	unix.TMPFS_MAGIC:           {"tmpfs", false},
	unix.F2FS_SUPER_MAGIC:      {"f2fs", false},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlay", false},
	0x2fc12fc1:                 {"zfs", false},
	unix.NFS_SUPER_MAGIC:       {"nfs", true},
	unix.SMB_SUPER_MAGIC:       {"smb", true},
	unix.SMB2_SUPER_MAGIC:      {"smb", true},
	unix.CIFS_SUPER_MAGIC:      {"smb", true},
	unix.V9FS_MAGIC:            {"9p", true},
	unix.FUSE_SUPER_MAGIC:      {"fuse", true},
	unix.AFS_SUPER_MAGIC:       {"afs", true},
	unix.CEPH_SUPER_MAGIC:      {"ceph", true},
}

// FileSystem names the file system under path and tells whether it is one of
// those (network or FUSE) where flock and rename promise less.
func FileSystem(path string) (name string, network bool, err error) {
	var st unix.Statfs_t
	if err := again(func() error { return unix.Statfs(path, &st) }); err != nil {
		return "", false, &os.PathError{Op: "statfs", Path: path, Err: err}
	}
	known, ok := fileSystems[int64(uint32(st.Type))]
	if !ok {
		return "unknown", false, nil
	}
	return known.name, known.network, nil
}

// Holder is the process that has a file locked, for people; 0 where there is none, or the
// system does not tell. Stopped tells whether that process is.
func Holder(path string) (pid int, stopped bool) {
	st, err := Lstat(path)
	locks, failed := os.ReadFile("/proc/locks")
	if err != nil || failed != nil {
		return 0, false
	}
	for line := range strings.Lines(string(locks)) { // 1: FLOCK ADVISORY WRITE 42 fd:01:1234 0 EOF
		f := strings.Fields(line)
		if len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], fmt.Sprintf(":%d", st.Ino)) {
			pid, _ := strconv.Atoi(f[4])
			return max(pid, 0), halted(pid)
		}
	}
	return 0, false
}

// halted tells whether a process is stopped.
func halted(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	state := stat[bytes.LastIndexByte(stat, ')')+1:] // the name before may hold anything
	return bytes.HasPrefix(state, []byte(" T")) || bytes.HasPrefix(state, []byte(" t"))
}
