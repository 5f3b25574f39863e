package ollamatest

import "syscall"

// processAttr makes a process group, and has the kernel kill the server when the
// thread that started it ends: with the test's process.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
