package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
)

// parentOf gives a process's parent, and the process's own name; zeros where nobody
// tells.
func parentOf(pid int) (parent int, name string) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, ""
	}
	// pid (name) state ppid …; the name may hold anything.
	begin, end := strings.IndexByte(string(stat), '('), strings.LastIndex(string(stat), ") ")
	if begin < 0 || end < begin {
		return 0, ""
	}
	if fields := strings.Fields(string(stat[end+2:])); len(fields) > 1 {
		parent, _ = strconv.Atoi(fields[1])
	}
	return parent, string(stat[begin+1 : end])
}

// environment looks names up in the environment with which a process was begun;
// that of another user's is not told.
func environment(pid int) func(name string) (string, bool) {
	var data []byte
	if f, err := os.Open(fmt.Sprintf("/proc/%d/environ", pid)); err == nil {
		defer f.Close()
		data, _ = io.ReadAll(io.LimitReader(f, 8<<20)) // what was read counts
	}
	return func(name string) (string, bool) {
		for line := range bytes.SplitSeq(data, []byte{0}) {
			if value, ok := strings.CutPrefix(string(line), name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}
