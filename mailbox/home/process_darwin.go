package home

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// StartTime names the start of a running process, so that a pid that was used
// again is not taken for the old one; "" if there is none. A zombie has ended.
func StartTime(pid int) string {
	if pid <= 0 {
		return ""
	}
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	const zombie = 5
	if err != nil || int(p.Proc.P_pid) != pid || p.Proc.P_stat == zombie {
		return ""
	}
	return strconv.FormatInt(p.Proc.P_starttime.Sec, 10) + "." + strconv.FormatInt(int64(p.Proc.P_starttime.Usec), 10)
}

// Awake is for how long the machine has been awake in this boot.
func Awake() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_UPTIME_RAW, &t) // there is this clock
	return time.Duration(t.Nano())
}

// PIDNamespace is "": there is one namespace of processes.
func PIDNamespace() string { return "" }
