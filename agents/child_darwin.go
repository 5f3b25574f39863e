package agents

import "syscall"

// processAttr puts a command into a process group of its own. The kernel kills
// nothing when the worker dies: whoever takes the task back does.
func processAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// groupLives tells whether a process group has members that can be killed. One
// that holds only dead ones answers EPERM.
func groupLives(group int) bool {
	return syscall.Kill(-group, 0) == nil
}
