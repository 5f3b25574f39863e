package gateway

import "syscall"

// mostConnections is how many clients are let in at once. Further ones wait at the
// door, in the system's queue.
const mostConnections = 512

// connections is as many as leave the mailbox descriptors enough: it may stand in the
// same process, and each request opens files, too.
func connections() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return mostConnections
	}
	return int(min(mostConnections, max(1, uint64(limit.Cur)/4)))
}
