package main

import (
	"context"
	"errors"
)

// A peer is a queue that takes the same work as mbox.
type peer struct {
	name string
	what string // how it is set up, in one line
	// base names the mbox that it is compared with: goroutines with goroutines,
	// processes with processes.
	base string
	// missing says why the peer cannot be had here; nil where nothing is needed.
	missing func() error
	// create makes an empty queue in dir; open opens it, in as many processes as
	// processes says.
	create func(dir string) error
	open   func(ctx context.Context, dir string, workers int) (queue, error)
	// lazy opens it without flushes, to fill it; nil where it cannot be filled.
	lazy func(ctx context.Context, dir string) (queue, error)
	// drop names the file in which anybody may leave task n, and where a rename
	// then delivers it; nil where there is no such way.
	drop func(dir string, n int) (part, to string)
	// processes: so many processes send and as many work, and each opens the
	// queue for itself.
	processes bool
	// serve starts the server that those processes share; nil where there is none.
	serve func(ctx context.Context, dir string, workers int) (stop func() error, err error)
}

// A queue is an open peer. What it acknowledges is on the disk.
type queue interface {
	// worker number n of this process, for one goroutine.
	worker(ctx context.Context, n int) (worker, error)
	// drain returns when everything that workers handed over has come to rest.
	drain(ctx context.Context) error
	// tally is what the queue itself says in the end.
	tally(ctx context.Context) (tally, error)
	close() error
}

// A worker submits, claims and completes. Each call returns when the peer has
// acknowledged it.
type worker interface {
	submit(ctx context.Context, body []byte) error
	claim(ctx context.Context) (job, error) // errEmpty where there is nothing now; it may wait for up to a second
	complete(ctx context.Context, j job) error
	close() error
}

// A job is a claimed task.
type job struct {
	body   []byte
	handle any // the peer's own
}

// A tally is the end state. A queue that keeps no finished tasks has done -1.
type tally struct{ left, done int64 }

var errEmpty = errors.New("nothing to claim")

// peers are all there are, mbox first.
func peers() []*peer {
	return []*peer{
		mboxPeer("mbox", false),
		maildirPeer("maildir", "mbox", false),
		goqitePeer("goqite", "mbox", false),
		jetstreamPeer("jetstream", "mbox", false),
		asynqPeer("asynq", "mbox", false),
		redisPeer(),
		mboxPeer("mbox/processes", true),
		maildirPeer("maildir/processes", "mbox/processes", true),
		goqitePeer("goqite/processes", "mbox/processes", true),
		jetstreamPeer("jetstream/processes", "mbox/processes", true),
		asynqPeer("asynq/processes", "mbox/processes", true),
	}
}
