package durable

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// waiter is a thread that waits in flock(2) for a lock that is busy. Nothing but
// the lock ends that, so who gives up leaves the thread behind: the next to ask
// takes it over, and a process has at most one a lock file. A grant that nobody
// wants any more is given back by the thread that got it.
type waiter struct {
	file     *os.File // its own while it waits: one that is shared frees the lock of who shares it
	dev, ino uint64
	state    atomic.Int32
	done     chan error
}

const (
	wanted int32 = iota
	abandoned
	granted
)

func (w *waiter) run() {
	err := again(func() error { return unix.Flock(int(w.file.Fd()), unix.LOCK_EX) })
	if w.state.Swap(granted) == abandoned {
		w.file.Close()
		return
	}
	w.done <- err
}

// await waits for the lock that flock has found busy, by the open file. An error
// that matches ErrReplaced says that the file lost its name meanwhile.
func (l *LockFile) await(ctx context.Context, deadline time.Time) error {
	w := l.waits
	if w != nil && w.dev == l.dev && w.ino == l.ino && w.state.CompareAndSwap(abandoned, wanted) {
		l.file.Close()
	} else {
		w = &waiter{file: l.file, dev: l.dev, ino: l.ino, done: make(chan error, 1)}
		go w.run()
	}
	l.file, l.waits = nil, nil
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	var over error
	select {
	case err := <-w.done:
		return l.grant(w, err)
	case <-timer.C:
		over = heldTooLong(l.path)
	case <-ctx.Done():
		over = fmt.Errorf("%s: %w: %w", l.path, ErrBusy, ctx.Err())
	}
	if w.state.CompareAndSwap(wanted, abandoned) {
		l.waits = w
	} else {
		<-w.done
		w.file.Close()
	}
	return over
}

// grant makes the file of a waiter that has the lock the open one.
func (l *LockFile) grant(w *waiter, err error) error {
	l.file = w.file
	if err = pathError("flock", l.path, err); err == nil {
		err = l.named()
	}
	if err != nil {
		l.drop()
	}
	return err
}
