//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// run executes a filter on a call, as the kernel does.
func (p assembly) run(arch, call uint32, arguments ...uint64) (answer uint32, err error) {
	data := make([]uint32, 16)
	data[0], data[1] = call, arch
	for i, a := range arguments {
		data[4+2*i], data[5+2*i] = uint32(a), uint32(a>>32)
	}
	var a uint32
	for at := 0; at < len(p); at++ {
		i := p[at]
		jump := i.Jf
		switch i.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = data[i.K/4]
			continue
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= i.K
			continue
		case unix.BPF_RET | unix.BPF_K:
			return i.K, nil
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if a == i.K {
				jump = i.Jt
			}
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			if a >= i.K {
				jump = i.Jt
			}
		default:
			return 0, fmt.Errorf("instruction %d: code %#x", at, i.Code)
		}
		at += int(jump)
	}
	return 0, errors.New("it runs off its end")
}

// What the filter answers, on kernels too that cannot take it.
func TestFilter(t *testing.T) {
	const high = 1 << 32 // in the half that the kernel does not look at
	for _, c := range []struct {
		name    string
		call    uint32
		a       []uint64
		off, on uint32 // without and with the network
	}{
		{"read", unix.SYS_READ, nil, allow, allow},
		{"execve", unix.SYS_EXECVE, nil, allow, allow},
		{"a call that is not there yet", 999, nil, allow, allow},
		{"ptrace", unix.SYS_PTRACE, nil, deny, deny},
		{"io_uring_enter", unix.SYS_IO_URING_ENTER, nil, deny, deny},
		{"a mode", unix.SYS_FCHMODAT, []uint64{0, 0, 0o1777}, allow, allow},
		{"setuid", unix.SYS_FCHMODAT, []uint64{0, 0, 0o4755}, deny, deny},
		{"setuid by descriptor", unix.SYS_FCHMOD, []uint64{3, 0o4755}, deny, deny},
		{"setgid", unix.SYS_FCHMODAT2, []uint64{0, 0, 0o2755, 0}, deny, deny},
		{"setuid from the beginning", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o4755}, deny, deny},
		{"setuid without a name", unix.SYS_OPENAT, []uint64{0, 0, unix.O_TMPFILE | unix.O_WRONLY, 0o4755}, deny, deny},
		{"a new file", unix.SYS_OPENAT, []uint64{0, 0, unix.O_CREAT | unix.O_WRONLY, 0o755}, allow, allow},
		{"a folder", unix.SYS_OPENAT, []uint64{0, 0, unix.O_DIRECTORY, 0o7777}, allow, allow},
		{"a setuid node", unix.SYS_MKNODAT, []uint64{0, 0, unix.S_IFREG | 0o4755}, deny, deny},
		{"openat2", unix.SYS_OPENAT2, nil, unknown, unknown},
		{"TCP", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM}, allow, allow},
		{"TCP over IPv6", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_STREAM}, allow, allow},
		{"unix", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM}, deny, deny},
		{"unix with high bits", unix.SYS_SOCKET, []uint64{high | unix.AF_UNIX, unix.SOCK_STREAM}, deny, deny},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, deny, deny},
		{"routes", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, deny, allow},
		{"audit", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, deny, deny},
		{"a pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK}, allow, allow},
		{"a pair of packets", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, allow, allow},
		{"a pair of datagrams", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_DGRAM | unix.SOCK_CLOEXEC}, deny, deny},
		{"a raw pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_RAW}, deny, deny},
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, allow, allow},
		{"a thread", unix.SYS_CLONE, []uint64{unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_FILES}, allow, allow},
		{"a namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)}, deny, deny},
		{"a mount namespace", unix.SYS_CLONE, []uint64{unix.CLONE_NEWNS}, deny, deny},
		{"a brother", unix.SYS_CLONE, []uint64{unix.CLONE_PARENT | uint64(unix.SIGCHLD)}, deny, deny},
		{"clone3", unix.SYS_CLONE3, nil, unknown, unknown},
		{"ioctl", unix.SYS_IOCTL, []uint64{0, unix.TCGETS}, allow, allow},
		{"TIOCSTI", unix.SYS_IOCTL, []uint64{0, unix.TIOCSTI}, deny, deny},
		{"TIOCSTI with high bits", unix.SYS_IOCTL, []uint64{0, high | unix.TIOCSTI}, deny, deny},
		{"own limit", unix.SYS_PRLIMIT64, []uint64{0, 7}, allow, allow},
		{"another's limit", unix.SYS_PRLIMIT64, []uint64{4711, 7}, deny, deny},
		{"own priority", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 0}, allow, allow},
		{"another's priority", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_PROCESS, 4711}, deny, deny},
		{"the user's priority", unix.SYS_SETPRIORITY, []uint64{unix.PRIO_USER, 0}, deny, deny},
		{"own disk priority", unix.SYS_IOPRIO_SET, []uint64{ioprioProcess, 0}, allow, allow},
		{"the user's disk priority", unix.SYS_IOPRIO_SET, []uint64{3, 0}, deny, deny},
	} {
		for network, want := range map[bool]uint32{false: c.off, true: c.on} {
			if got, err := program(network).run(nativeArch, c.call, c.a...); err != nil || got != want {
				t.Errorf("%s, network %v: %#x, %v, want %#x", c.name, network, got, err, want)
			}
		}
	}
	if got, err := program(true).run(unix.AUDIT_ARCH_I386, unix.SYS_READ); err != nil || got != kill {
		t.Errorf("another processor's call: %#x, %v", got, err)
	}
}

// Every refused call is refused: no jump is too long, no part hides another.
func TestFilterIsWhole(t *testing.T) {
	p := program(false)
	if len(p) > 4096 {
		t.Errorf("%d instructions, and the kernel takes 4096", len(p))
	}
	seen := map[uint32]bool{}
	for _, number := range append(append([]uint32{}, refused...), refusedHere...) {
		if got, err := p.run(nativeArch, number); err != nil || got != deny || seen[number] {
			t.Errorf("call %d: %#x, %v, twice: %v", number, got, err, seen[number])
		}
		seen[number] = true
	}
	for _, c := range careful(true) {
		if seen[c.number] {
			t.Errorf("call %d is refused before its arguments are looked at", c.number)
		}
	}
}

func TestEnough(t *testing.T) {
	for abi, want := range map[int]string{0: "no Landlock", 1: "ABI 1", 5: "ABI 5", 6: "", 7: "", 11: ""} {
		err := enough(abi)
		if want == "" && err != nil || want != "" && (!errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want)) {
			t.Errorf("ABI %d: %v", abi, err)
		}
	}
}

// A command with a user or a root of its own would get out of step with the map.
func TestIsolateMerges(t *testing.T) {
	for _, a := range []syscall.SysProcAttr{
		{Credential: &syscall.Credential{Uid: 1}},
		{Chroot: "/"},
		{UidMappings: []syscall.SysProcIDMap{{}}},
		{GidMappings: []syscall.SysProcIDMap{{}}},
	} {
		if err := isolate(&exec.Cmd{SysProcAttr: &a}, false); err == nil {
			t.Errorf("%+v is taken", a)
		}
	}
	cmd := &exec.Cmd{SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: unix.CLONE_NEWUTS}}
	err := isolate(cmd, true)
	const want = unix.CLONE_NEWUTS | unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWPID
	if a := cmd.SysProcAttr; err != nil || !a.Setpgid || a.Pdeathsig != syscall.SIGKILL || a.Cloneflags != want {
		t.Errorf("%+v, %v", a, err)
	}
	if err := isolate(cmd, false); err == nil {
		t.Error("a command is confined twice")
	}
}

// A helper that somebody starts by hand leaves the mounts alone. It is not
// started here: if this fails, it would not.
func TestHelperStaysOutOfOtherNamespaces(t *testing.T) {
	here, err := os.Readlink(mountNamespace)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []plan{{}, {Outside: here}, {Outside: "mnt:[0]"}} {
		if err := p.alone(); err == nil && p.Outside != "mnt:[0]" {
			t.Errorf("%+v is alone", p)
		} else if err == nil {
			t.Log("SKIPPED: the first user namespace is missing: the tests run in one that maps one user")
		}
	}
}

// A HOME that cannot be touched is of no use.
func TestHome(t *testing.T) {
	dir := grounds(t, folders...)
	r := Rules{Mailbox: dir + "/home", Workspace: dir + "/home/agents/me"}
	for _, c := range []struct {
		home string
		rw   string
		want bool
	}{
		{home: dir},
		{home: dir, rw: dir + "/home/agents/peer"},
		{home: dir, rw: dir + "/outside/data", want: true},
		{home: dir + "/outside/data", rw: dir + "/outside", want: true},
		{home: dir + "/home/agents/me", want: true},
		{home: "relative"},
		{home: ""},
	} {
		r.ReadWrite = []string{c.rw}
		if c.rw == "" {
			r.ReadWrite = nil
		}
		if got := r.reaches(c.home); got != c.want {
			t.Errorf("HOME %s with %q: %v", c.home, c.rw, got)
		}
	}
}

// Without the hook in main the helper would be the whole program once more, and
// it would start the helper again.
func TestConfineOnlyWhenReady(t *testing.T) {
	defer func() { ready = true }()
	ready = false
	dir := grounds(t, folders...)
	err := Confine(exec.Command("/bin/true"), Rules{Mailbox: dir + "/home", Workspace: dir + "/home/agents/me"})
	if !errors.Is(err, ErrNotReady) || Probe().Err() == nil {
		t.Errorf("Confine: %v; Probe: %+v", err, Probe())
	}
}
