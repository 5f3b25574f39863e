package brain

import "syscall"

// ownGroup puts a command into a process group of its own.
func ownGroup(a *syscall.SysProcAttr) { a.Setpgid, a.Pgid = true, 0 }
