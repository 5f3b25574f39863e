//go:build amd64 || arm64

package sandbox

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the calls that answer EPERM, whatever their arguments.
var refused = []uint32{
	// Other processes' memory, descriptors and system calls.
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE,
	unix.SYS_PROCESS_MRELEASE, unix.SYS_PIDFD_GETFD, unix.SYS_KCMP, unix.SYS_MOVE_PAGES, unix.SYS_MIGRATE_PAGES,
	// Calls that no filter sees.
	unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	// Mounts, roots and namespaces.
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
	unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_QUOTACTL, unix.SYS_QUOTACTL_FD,
	// Files without their path, and what watches whole file systems.
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_FANOTIFY_MARK, unix.SYS_LOOKUP_DCOOKIE,
	// Ways into the kernel.
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD,
	// Keys, which belong to the user and not to the process.
	unix.SYS_KEYCTL, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY,
	// The machine.
	unix.SYS_REBOOT, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME, unix.SYS_VHANGUP,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_NFSSERVCTL,
}

// namespaces are the flags of clone that make any.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// ioprioProcess is IOPRIO_WHO_PROCESS.
const ioprioProcess = 1

const (
	allow   = unix.SECCOMP_RET_ALLOW
	deny    = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	unknown = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)
	kill    = unix.SECCOMP_RET_KILL_PROCESS
)

// filter binds this thread, and what it becomes, to the program.
func filter(network bool) error {
	p := program(network)
	f := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&f)))
	if errno != 0 {
		return errno
	}
	return nil
}

// program is the filter: a list of what is refused, by number and arguments;
// anything else is allowed.
func program(network bool) assembly {
	p := sequence(
		load(offsetArch), unless(nativeArch, answer(kill)), // elsewhere the numbers mean something else
		load(offsetNumber), foreign(),
	)
	for _, number := range slices.Concat(refused, refusedHere) {
		p = append(p, equal(number, answer(deny))...)
	}
	for _, c := range careful(network) {
		p = append(p, equal(c.number, c.code...)...)
	}
	return append(p, answer(allow)...)
}

// call is a system call of which the arguments decide. Its code ends with an
// answer on every way.
type call struct {
	number uint32
	code   []assembly
}

func careful(network bool) []call {
	var netlink assembly
	if network {
		// The C library asks the kernel for the machine's addresses that way.
		netlink = equal(unix.AF_NETLINK, load(argument(2)), equal(unix.NETLINK_ROUTE, answer(allow)))
	}
	itself := []assembly{load(argument(0)), equal(0, answer(allow)), answer(deny)} // 0 is the caller
	second := sequence(load(argument(1)), equal(0, answer(allow)))
	return append([]call{
		// AF_UNIX among others: no namespace keeps sockets with a path apart.
		{unix.SYS_SOCKET, []assembly{
			load(argument(0)), equal(unix.AF_INET, answer(allow)), equal(unix.AF_INET6, answer(allow)), netlink, answer(deny),
		}},
		// Either one of a pair of datagram sockets can send to any path.
		{unix.SYS_SOCKETPAIR, []assembly{
			load(argument(1)), mask(0xf), equal(unix.SOCK_STREAM, answer(allow)), equal(unix.SOCK_SEQPACKET, answer(allow)), answer(deny),
		}},
		{unix.SYS_CLONE, []assembly{load(argument(0)), mask(namespaces | unix.CLONE_PARENT), equal(0, answer(allow)), answer(deny)}},
		// Its flags lie in memory, where no filter looks. Without it clone is used.
		{unix.SYS_CLONE3, []assembly{answer(unknown)}},
		// Typing into the terminal that the worker was started from.
		{unix.SYS_IOCTL, []assembly{
			load(argument(1)), equal(unix.TIOCSTI, answer(deny)), equal(unix.TIOCLINUX, answer(deny)), answer(allow),
		}},
		// Limits and priorities of other processes of this user.
		{unix.SYS_PRLIMIT64, itself},
		{unix.SYS_SCHED_SETSCHEDULER, itself},
		{unix.SYS_SCHED_SETPARAM, itself},
		{unix.SYS_SCHED_SETATTR, itself},
		{unix.SYS_SCHED_SETAFFINITY, itself},
		{unix.SYS_SETPRIORITY, []assembly{
			load(argument(0)), equal(unix.PRIO_PROCESS, second), answer(deny),
		}},
		{unix.SYS_IOPRIO_SET, []assembly{
			load(argument(0)), equal(ioprioProcess, second), answer(deny),
		}},
		{unix.SYS_FCHMOD, modeIn(1)},
		{unix.SYS_FCHMODAT, modeIn(2)},
		{unix.SYS_FCHMODAT2, modeIn(2)},
		{unix.SYS_MKNODAT, modeIn(2)},
		{unix.SYS_OPENAT, madeWith(2, 3)},
		// Its mode lies in memory too. Without it openat is used.
		{unix.SYS_OPENAT2, []assembly{answer(unknown)}},
	}, carefulHere()...)
}

// modeIn refuses to make a file run as its owner or its group, who is the user of
// mbox whoever runs it.
func modeIn(number uint32) []assembly {
	return []assembly{load(argument(number)), mask(unix.S_ISUID | unix.S_ISGID), equal(0, answer(allow)), answer(deny)}
}

// madeWith is modeIn for calls that look at a mode only when they make a file.
func madeWith(flags, mode uint32) []assembly {
	makes := []assembly{load(argument(flags)), mask(unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY), equal(0, answer(allow))}
	return append(makes, modeIn(mode)...)
}
