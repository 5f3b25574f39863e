package sandbox

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const itself = "/proc/self/exe"

func ownBinary() (string, error) { return itself, nil }

// adoptOrphans has the kernel give this process the orphans below it.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// childAttr puts the command into a group of its own. It dies with its keeper,
// whose main thread starts it and lives to the end.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// untilEmpty: without children there is nothing below either.
func (k *keeping) untilEmpty() {}

// signal sends s to everything that has come from the command.
func (k *keeping) signal(s syscall.Signal) {
	if os.Getpid() == 1 {
		_ = unix.Kill(-1, s) // all but this process
		return
	}
	below, err := descendants(os.Getpid())
	if err != nil { // no /proc: the group is all that can be named
		_ = unix.Kill(-k.pid, s)
	}
	for _, pid := range below {
		_ = unix.Kill(pid, s) // it may just have ended
	}
}

// descendants are the living processes that come from one, parents before their
// children: a shell must not see the one that it waits for end by a signal that is
// still to come to itself.
func descendants(of int) (below []int, err error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	parents := map[int]int{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if parent, ok := parentOf(name); ok {
				parents[pid] = parent
			}
		}
	}
	depth := map[int]int{}
	for pid := range parents {
		for up, steps := parents[pid], 0; up > 1 && steps < len(parents); up, steps = parents[up], steps+1 {
			if up == of {
				below, depth[pid] = append(below, pid), steps
				break
			}
		}
	}
	slices.SortFunc(below, func(a, b int) int { return depth[a] - depth[b] })
	return below, nil
}

// parentOf is the parent of a process: pid (name) state ppid …; the name may hold
// anything.
func parentOf(pid string) (int, bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0, false
	}
	i := strings.LastIndex(string(stat), ") ")
	fields := strings.Fields(string(stat[max(0, i+1):]))
	if i < 0 || len(fields) < 2 {
		return 0, false
	}
	parent, err := strconv.Atoi(fields[1])
	return parent, err == nil
}

func dropStreams() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 3 {
		if err == nil {
			err = unix.Dup3(null, fd, 0)
		}
	}
	return err
}
