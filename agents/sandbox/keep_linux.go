package sandbox

import (
	"errors"
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
	all, err := processes()
	if err != nil {
		return nil, err
	}
	depth := map[int]int{}
	for pid := range all {
		for up, steps := all[pid].parent, 0; up > 1 && steps < len(all); up, steps = all[up].parent, steps+1 {
			if up == of {
				below, depth[pid] = append(below, pid), steps
				break
			}
		}
	}
	slices.SortFunc(below, func(a, b int) int { return depth[a] - depth[b] })
	return below, nil
}

// kin is what the kernel tells of a process.
type kin struct {
	parent, session int
	born            uint64 // in ticks
}

// processes are all that this one sees.
func processes() (map[int]kin, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	all := map[int]kin{}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if k, ok := kinOf(name); ok {
				all[pid] = k
			}
		}
	}
	return all, nil
}

// kinOf reads of a process: pid (name) state parent group session … birth …; the
// name may hold anything.
func kinOf(pid string) (k kin, ok bool) {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return kin{}, false
	}
	i := strings.LastIndex(string(stat), ") ")
	fields := strings.Fields(string(stat[max(0, i+1):]))
	if i < 0 || len(fields) < 20 {
		return kin{}, false
	}
	var errs [3]error
	k.parent, errs[0] = strconv.Atoi(fields[1])
	k.session, errs[1] = strconv.Atoi(fields[3])
	k.born, errs[2] = strconv.ParseUint(fields[19], 10, 64)
	return k, errors.Join(errs[:]...) == nil
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
