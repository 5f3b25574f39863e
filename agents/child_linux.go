package agents

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// processAttr puts a command into a process group of its own, and has the
// kernel kill its leader if the worker dies.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// groupLives tells whether a process group has members that can be killed.
// Members that are dead and that nobody has waited for do not count: in a
// container there may be no init that ever does.
func groupLives(group int) bool {
	if err := syscall.Kill(-group, 0); err != nil {
		return false
	}
	names, err := listProc()
	if err != nil {
		return true
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && inGroup(pid, group) {
			return true
		}
	}
	return false
}

func listProc() ([]string, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// inGroup tells whether the process lives and belongs to the group.
func inGroup(pid, group int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	// pid (name) state ppid pgrp …; the name may hold anything.
	_, rest, _ := cutLast(string(stat), ") ")
	fields := strings.Fields(rest)
	return len(fields) > 2 && fields[0] != "Z" && fields[0] != "X" && fields[2] == strconv.Itoa(group)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
