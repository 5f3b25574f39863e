//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// number is what a system call said.
func number(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

// calls makes a system call with fixed arguments.
func calls(trap uintptr, a ...uintptr) func(scene) error {
	return func(scene) error {
		runtime.LockOSThread()
		var all [6]uintptr
		copy(all[:], a)
		_, _, e := unix.Syscall6(trap, all[0], all[1], all[2], all[3], all[4], all[5])
		return number(e)
	}
}

// noProcess: nothing outside of the PID namespace has a number in it.
var noProcess = []string{"ESRCH"}

func processActs() []act {
	onVictim := func(trap uintptr, rest ...uintptr) func(scene) error {
		return func(s scene) error { return calls(trap, append([]uintptr{uintptr(s.Victim)}, rest...)...)(s) }
	}
	var limit unix.Rlimit
	return []act{
		{name: "look for the worker by signal 0", try: func(scene) error { return unix.Kill(os.Getppid(), 0) }, denied: noCall},
		{name: "SIGTERM a process", try: func(s scene) error { return unix.Kill(s.Victim, unix.SIGTERM) }, denied: noProcess},
		{name: "SIGKILL a process", try: func(s scene) error { return unix.Kill(s.Victim, unix.SIGKILL) }, denied: noProcess},
		{name: "SIGSTOP a group", try: func(s scene) error { return unix.Kill(-s.Victim, unix.SIGSTOP) }, denied: noProcess},
		{name: "signal a thread", try: func(s scene) error { return unix.Tgkill(s.Victim, s.Victim, unix.SIGTERM) }, denied: noProcess},
		{name: "signal by a descriptor", try: func(s scene) error {
			fd, err := unix.PidfdOpen(s.Victim, 0)
			if err != nil {
				return err
			}
			return unix.PidfdSendSignal(fd, unix.SIGTERM, nil, 0)
		}, denied: noProcess},
		{name: "attach to a process", try: func(s scene) error {
			runtime.LockOSThread()
			return unix.PtraceAttach(s.Victim)
		}, denied: noCall, traces: true},
		{name: "read from a process", try: onVictim(unix.SYS_PROCESS_VM_READV, 0, 0, 0, 0, 0), denied: noCall, traces: true},
		{name: "write to a process", try: onVictim(unix.SYS_PROCESS_VM_WRITEV, 0, 0, 0, 0, 0), denied: noCall, traces: true},
		{name: "take a process's descriptor", try: func(s scene) error {
			fd, err := unix.PidfdOpen(s.Victim, 0)
			if err != nil {
				return err
			}
			_, err = unix.PidfdGetfd(fd, 0, 0)
			return err
		}, denied: noProcess, traces: true},
		{name: "compare processes", try: func(s scene) error {
			return calls(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(s.Victim), 0, 0, 0)(s)
		}, denied: noCall, free: []string{"ok", "ENOSYS"}, traces: true},
		{name: "limit a process", try: func(s scene) error {
			return calls(unix.SYS_PRLIMIT64, uintptr(s.Victim), unix.RLIMIT_NOFILE, uintptr(unsafe.Pointer(&limit)), 0)(s)
		}, denied: noCall},
		{name: "leave a core dump", try: func(scene) error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		}, denied: noCall, root: true},
		{name: "slow a process down", try: func(s scene) error { return unix.Setpriority(unix.PRIO_PROCESS, s.Victim, 19) }, denied: noCall},
		{name: "slow the user down", try: func(s scene) error { return unix.Setpriority(unix.PRIO_PGRP, s.Victim, 19) }, denied: noCall},
		{name: "starve a process of disk", try: func(s scene) error {
			return calls(unix.SYS_IOPRIO_SET, ioprioProcess, uintptr(s.Victim), 3<<13)(s)
		}, denied: noCall},
		{name: "pin a process", try: func(s scene) error {
			var set unix.CPUSet
			if err := unix.SchedGetaffinity(0, &set); err != nil {
				return fmt.Errorf("affinity: %v", err)
			}
			return unix.SchedSetaffinity(s.Victim, &set)
		}, denied: noCall},
		{name: "make a process idle", try: func(s scene) error {
			var idle [8]byte
			return calls(unix.SYS_SCHED_SETSCHEDULER, uintptr(s.Victim), unix.SCHED_IDLE, uintptr(unsafe.Pointer(&idle)))(s)
		}, denied: noCall},
		{name: "attach shared memory", try: func(s scene) error {
			_, err := unix.SysvShmGet(s.SharedMemory, s.MemSize, 0)
			return err
		}, denied: []string{"ENOENT"}},
		{name: "take capabilities", try: func(scene) error {
			runtime.LockOSThread()
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var all [2]unix.CapUserData
			all[0].Effective, all[0].Permitted = 1<<unix.CAP_SYS_ADMIN, 1<<unix.CAP_SYS_ADMIN
			return unix.Capset(&header, &all[0])
		}, denied: noCall, root: true},
		{name: "clone into a user namespace", try: func(scene) error {
			cmd := exec.Command("/bin/true")
			cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER}
			return cmd.Run()
		}, denied: noCall},
	}
}

func kernelActs() []act {
	none := ^uintptr(0)
	var buffer [512]byte
	memory := uintptr(unsafe.Pointer(&buffer[0]))
	acts := []act{
		{name: "io_uring", try: calls(unix.SYS_IO_URING_SETUP, 1, memory), denied: noCall},
		{name: "mount", try: calls(unix.SYS_MOUNT), denied: noCall, free: []string{"EFAULT"}},
		{name: "umount", try: calls(unix.SYS_UMOUNT2, memory, 0), denied: noCall, free: []string{"ENOENT"}, root: true},
		{name: "mount by descriptor", try: calls(unix.SYS_MOVE_MOUNT, none, 0, none, 0, 0), denied: noCall, free: []string{"EFAULT"}, root: true},
		{name: "open a tree of mounts", try: calls(unix.SYS_OPEN_TREE, none, 0, 0), denied: noCall, free: []string{"EFAULT"}},
		{name: "change a mount", try: calls(unix.SYS_MOUNT_SETATTR, none, 0, 0, 0, 0), denied: noCall, free: []string{"EINVAL"}},
		{name: "open a file system", try: calls(unix.SYS_FSOPEN, 0, 0), denied: noCall, free: []string{"EFAULT"}, root: true},
		{name: "unshare", try: calls(unix.SYS_UNSHARE, unix.CLONE_NEWUTS), denied: noCall, root: true},
		{name: "setns", try: calls(unix.SYS_SETNS, none, 0), denied: noCall, free: []string{"EBADF"}},
		{name: "make a setuid file", try: func(scene) error {
			fd, err := unix.Open("own-program", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o700)
			if err != nil {
				return fmt.Errorf("open: %v", err)
			}
			defer unix.Close(fd)
			return unix.Fchmod(fd, 0o4700)
		}, denied: noCall},
		{name: "clone3", try: calls(unix.SYS_CLONE3), denied: []string{"ENOSYS"}, free: []string{"EINVAL"}},
		{name: "chroot", try: func(scene) error { return unix.Chroot(".") }, denied: noCall, root: true},
		{name: "pivot_root", try: calls(unix.SYS_PIVOT_ROOT, memory, memory), denied: noCall, free: []string{"ENOENT"}, root: true},
		{name: "bpf", try: calls(unix.SYS_BPF, 1<<20, 0, 0), denied: noCall, free: []string{"EINVAL"}, root: true},
		{name: "keyctl", try: calls(unix.SYS_KEYCTL, unix.KEYCTL_GET_KEYRING_ID, uintptr(^uint32(2))), denied: noCall, free: []string{"ok", "ENOKEY", "EINVAL"}},
		{name: "add_key", try: calls(unix.SYS_ADD_KEY), denied: noCall, free: []string{"EFAULT"}},
		{name: "perf_event_open", try: calls(unix.SYS_PERF_EVENT_OPEN), denied: noCall, free: []string{"EFAULT"}, root: true},
		{name: "userfaultfd", try: calls(unix.SYS_USERFAULTFD), denied: noCall, root: true},
		{name: "open_by_handle_at", try: calls(unix.SYS_OPEN_BY_HANDLE_AT, none, 0, 0), denied: noCall, free: []string{"EFAULT", "EBADF"}, root: true},
		{name: "fanotify", try: calls(unix.SYS_FANOTIFY_INIT), denied: noCall, root: true},
		{name: "load a module", try: calls(unix.SYS_FINIT_MODULE, none, memory, 0), denied: noCall, free: []string{"EBADF", "ENOSYS"}, root: true},
		{name: "reboot", try: calls(unix.SYS_REBOOT), denied: noCall, free: []string{"EINVAL"}, root: true},
		{name: "swap", try: calls(unix.SYS_SWAPON, memory, 0), denied: noCall, free: []string{"ENOENT", "ENOSYS"}, root: true},
		{name: "syslog", try: calls(unix.SYS_SYSLOG, 10), denied: noCall, root: true},
		{name: "set the clock", try: calls(unix.SYS_SETTIMEOFDAY), denied: noCall, root: true},
		{name: "set the host's name", try: calls(unix.SYS_SETHOSTNAME, 0, none), denied: noCall, free: []string{"EINVAL"}, root: true},
		{name: "type into the terminal", try: calls(unix.SYS_IOCTL, 0, unix.TIOCSTI, 0), denied: noCall, free: []string{"ENOTTY"}},
		{name: "type with a long number", try: calls(unix.SYS_IOCTL, 0, 1<<32|unix.TIOCSTI, 0), denied: noCall, free: []string{"ENOTTY"}},
		{name: "paste into the console", try: calls(unix.SYS_IOCTL, 0, unix.TIOCLINUX, 0), denied: noCall, free: []string{"ENOTTY"}},
	}
	if runtime.GOARCH == "amd64" {
		acts = append(acts, act{name: "call by x32 numbers", try: calls(0x40000000 + unix.SYS_GETPID), denied: noCall, free: []string{"ENOSYS", "ok"}})
	}
	return acts
}
