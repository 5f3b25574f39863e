package ollamatest

import "syscall"

// processAttr makes a process group.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
