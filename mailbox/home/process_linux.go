package home

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// StartTime names the start of a running process, so that a pid that was used
// again is not taken for the old one; "" if there is none. A zombie has ended.
func StartTime(pid int) string {
	if pid <= 0 {
		return ""
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The name in parentheses may hold anything; behind it the fields are plain.
	_, rest, ok := CutLast(string(stat), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// Awake is for how long the machine has been awake in this boot.
func Awake() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // there is this clock
	return time.Duration(t.Nano())
}

// PIDNamespace names what the numbers of processes that this one sees belong to;
// "" where that cannot be told.
func PIDNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid") //nolint:errcheck // without /proc no number is looked up either
	return name
}
