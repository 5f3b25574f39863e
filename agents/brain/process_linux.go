package brain

import "syscall"

// ownGroup puts a command into a process group of its own, and has the kernel
// kill its leader if mbox dies.
func ownGroup(a *syscall.SysProcAttr) { a.Setpgid, a.Pgid, a.Pdeathsig = true, 0, syscall.SIGKILL }
