package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func serveVerb() *verb {
	return &verb{
		name:  "serve",
		brief: "let programs and people in by HTTP",
		about: `Answers HTTP on 127.0.0.1:42617, or where [serve] in mbox.toml says, until SIGTERM
or Ctrl-C: POST /task leaves a task, GET /tasks and /tasks/ID tell what became of it,
/events follows the ledger, /health tells whether everything is well. GET /openapi.json
describes all of it, and mbox help doors shows how. For people there are pages at /, see
mbox help dashboard: in a terminal a link is printed that logs a browser in, once.

On loopback, whoever has no token may read, and leave tasks. To decide about tasks
takes an operator's token (mbox token create), as anything does on another address.

When it listens it says "mbox: serving URL, pid N, home DIR" on stderr. It only writes
and reads tasks: the work is done by mbox up, which opens the same door where mbox.toml
has [serve], or by any worker. mbox.toml is read again when it changes, and on SIGHUP.`,
		shows: []string{"mbox serve", "curl -s http://127.0.0.1:42617/health"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		run:   func(ctx context.Context, s *session, _ []string) error { return serve(ctx, s) },
	}
}

func serve(ctx context.Context, s *session) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := crew{prepare: prepareDoor, stop: stop, serves: true, hup: make(chan os.Signal, 1)}
	signal.Notify(c.hup, syscall.SIGHUP)
	defer signal.Stop(c.hup)
	v, err := prepareDoor(ctx, s)
	for v != nil && err == nil {
		if c.opened(ctx, v); c.gaveUp() {
			stop()
		}
		next := c.look(ctx, v)
		c.retire(v)
		v = next
	}
	if err = firstError(err, c.wait()); err == nil {
		s.infof("stopped")
	}
	return err
}
