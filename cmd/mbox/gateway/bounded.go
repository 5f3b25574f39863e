package gateway

import (
	"net/http"
	"syscall"
)

// mostConnections is how many clients are let in at once. Further ones wait at the
// door, in the system's queue.
const mostConnections = 512

// stay gives a place to a caller who waits for what comes, which may be for ever: all of
// those leave places to who is answered at once, and those without a token to the others.
func (c *call) stay() (leave func(), err error) {
	all := []turns{c.door.staying}
	if c.name == "" && c.seat == nil {
		all = append(all, c.door.unnamed)
	}
	leave = func() {}
	for _, t := range all {
		select {
		case t <- struct{}{}:
			before := leave
			leave = func() { t.leave(); before() }
		default:
			leave()
			return nil, errCrowded
		}
	}
	return leave, nil
}

// errCrowded is told to who would wait where too many do.
var errCrowded = &refusal{http.StatusServiceUnavailable, "too many wait here for what comes", "ask without waiting, or try again in a moment"}

// connections is as many as leave the mailbox descriptors enough: it may stand in the
// same process, and each request opens files, too.
func connections() int {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return mostConnections
	}
	return int(min(mostConnections, max(1, uint64(limit.Cur)/4)))
}
