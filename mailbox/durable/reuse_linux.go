package durable

import "golang.org/x/sys/unix"

// alone tells whether the descriptor is the only way to the file: one name, and
// nobody else has it open, for which the kernel would refuse a write lease.
func alone(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode != unix.S_IFREG|uint32(FileMode) || st.Nlink != 1 || int(st.Uid) != unix.Geteuid() {
		return false
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		return false
	}
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
	return err == nil
}
