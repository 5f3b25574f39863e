package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/mailbox"
	"mbox/schemas"
)

type upOptions struct{ grace length }

func upVerb() *verb {
	var o upOptions
	return &verb{
		name:  "up",
		brief: "run the router and the agents of mbox.toml",
		about: `Serves the mailbox until SIGTERM or Ctrl-C: admits drops as they come, takes
tasks of dead workers back at once, raises alarms, and runs a worker for every
enabled agent that has a role or a command in mbox.toml; without any entry there
these are the coordinator, the coder and the tester. Nothing depends on it: without it
every command does the same when it is called.

When it serves it says "mbox: ready, pid N, home DIR" on stderr, and a line for each
enabled agent: by what it works, or why it cannot. From then on it tells there what
mbox tail tells; with --log-level warn only what is wrong. On a signal
workers take no more tasks and finish what they have; after --grace they give it
back. A second signal kills. mbox.toml is read again when it changes, and on
SIGHUP (with keys that it names): what it says holds from then on, a task that is
being worked at ends as it began, and a file with a mistake changes nothing. A second mbox up for the same mailbox is refused
with exit code 75.`,
		shows: []string{"mbox up", "mbox up --log-level debug"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{valueFlag("grace", "how long workers may finish after a signal: `DURATION` (10s)", &o.grace)},
		run:   func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

// softLimit is from where on the garbage collector works harder. What mbox up
// needs is far below it; a file of 1 MiB that is nothing but keys leaves much
// garbage, and a router is to stay under 64 MiB whatever is dropped, of which the
// program's own pages are up to 34 (RssFile in /proc/PID/status).
const softLimit = 24 << 20

func (o *upOptions) run(ctx context.Context, s *session) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := crew{manager: startedBy(s), prepare: prepare, stop: stop, grace: time.Duration(o.grace.Duration), ended: map[string]chan struct{}{}, hup: make(chan os.Signal, 1)}
	signal.Notify(c.hup, syscall.SIGHUP)
	defer signal.Stop(c.hup)
	now, err := prepare(ctx, s)
	toldAll := func() {}
	if err == nil {
		s.warnUnsynced(now.box.Options().Sync)
		toldAll = tellLedger(ctx, s)
	}
	first := now
	for ready := func() { first.ready(); c.manager.ready() }; now != nil && err == nil; ready = func() {} {
		now, err = c.serve(ctx, now, ready)
	}
	stop()
	c.manager.stopping()
	err = firstError(err, c.wait())
	toldAll()
	if errors.Is(err, mailbox.ErrRouted) {
		return hint(err, "one is enough; mbox tail shows what it does")
	}
	if err == nil {
		s.infof("stopped")
	}
	return err
}

// tellLedger begins to tell on stderr what happens in the mailbox, as mbox tail does;
// the function that it answers waits until all is told.
func tellLedger(ctx context.Context, s *session) func() {
	if !s.logs("info") {
		return func() {}
	}
	own := *s
	own.printer = printer{out: bufio.NewWriter(aroundMeter{s}), paint: s.tells}
	box, err := own.open(ctx)
	if err != nil {
		s.warnf("what happens is not told here: %v; mbox tail tells it", err)
		return func() {}
	}
	o := tailOptions{last: number{value: new(int)}}
	from, err := o.start(box.Ledger())
	if err != nil {
		s.warnf("what happens is not told here: %v; mbox tail tells it", errors.Join(err, box.Close()))
		return func() {}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	var telling sync.WaitGroup
	telling.Go(func() {
		if err := errors.Join(o.follow(ctx, &own, box, from), box.Close()); err != nil {
			s.warnf("what happens is no longer told here: %v", err)
		}
	})
	return func() { stop(); telling.Wait() }
}

// aroundMeter is standard error for one who does not know of the bar that may stand there.
type aroundMeter struct{ *session }

func (m aroundMeter) Write(p []byte) (int, error) {
	m.endProgress()
	return m.err.Write(p)
}

// prepull fetches the models of [ollama] pull that are missing. A server that does
// not answer yet is tried again until it does.
func (s *session) prepull(ctx context.Context) {
	if len(s.config.Ollama.Pull) == 0 {
		return
	}
	for pause := time.Second; ; pause = min(2*pause, time.Minute) {
		err := s.pull(ctx, false)
		if err == nil || ctx.Err() != nil {
			return
		}
		var fault *agents.BrainError
		if !errors.As(err, &fault) || fault.Fault != agents.BrainDown && fault.Fault != agents.BrainBusy {
			s.warnf("models: %v", err)
			return
		}
		if pause == time.Second {
			s.warnf("models: %v; will try again until it answers", err)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// ready is the line that scripts and supervisors wait for.
func (v *service) ready() {
	v.endProgress()
	fmt.Fprintf(v.err, "mbox: ready, pid %d, home %s\n", os.Getpid(), clean(v.box.Home(), maxLine))
}

// scanned tells what a scan of the router did.
func (v *service) scanned(r mailbox.ScanReport, err error) {
	fault := ""
	if err != nil {
		fault = err.Error()
	}
	switch {
	case fault != "" && fault != v.fault: // there may be many scans before somebody mends it
		v.warnf("scan: %s", fault)
	case r.Alarms > 0:
		v.warnf("%s not started in time; mbox doctor names them", schemas.Count(r.Alarms, "task was", "tasks were"))
	}
	v.fault = fault
	for _, err := range r.Unsettled {
		v.warnf("%v", err)
	}
	if r.Reclaimed > 0 {
		v.infof("took %s back from dead or hung workers", tasksOf(r.Reclaimed))
	}
	v.debugf("scanned: looked at %s, took %s back", schemas.Count(r.Looked, "file", "files"), tasksOf(r.Reclaimed))
}
