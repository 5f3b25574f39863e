package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/mailbox"
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

When it serves it says "mbox: ready, pid N, home DIR" on stderr. On a signal
workers take no more tasks and finish what they have; after --grace they give it
back. A second signal kills. A second mbox up for the same mailbox is refused
with exit code 75.`,
		shows: []string{"mbox up", "mbox up --log-level debug"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{valueFlag("grace", "how long workers may finish after a signal: `DURATION` (10s)", &o.grace)},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.with(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box) })
		},
	}
}

// softLimit is from where on the garbage collector works harder. What mbox up
// needs is far below it; a file of 1 MiB that is nothing but keys leaves much
// garbage, and a router is to stay under 64 MiB whatever is dropped.
const softLimit = 40 << 20

func (o *upOptions) run(ctx context.Context, s *session, box *mailbox.Box) error {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
	s.warnUnsynced(box.Options().Sync)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c := crew{stop: stop}
	if err := s.config.checkSandbox(s.config.agentNames()...); err != nil {
		return err
	}
	if err := s.recordLifted(ctx, box, s.config.agentNames()...); err != nil {
		return err
	}
	err := box.Route(ctx, mailbox.RouterOptions{
		Ready: func() {
			for _, w := range o.workers(s, box) {
				c.start(ctx, w)
			}
			s.ready(box)
			c.running.Go(func() { s.prepull(ctx) })
		},
		Scanned: s.scanned,
	})
	stop()
	err = firstError(err, c.wait())
	if errors.Is(err, mailbox.ErrRouted) {
		return hint(err, "one is enough; mbox tail shows what it does")
	}
	if err == nil {
		s.infof("stopped")
	}
	return err
}

// prepull fetches the models of [ollama] pull that are missing.
func (s *session) prepull(ctx context.Context) {
	if len(s.config.Ollama.Pull) == 0 {
		return
	}
	if err := s.pull(ctx, false); err != nil && ctx.Err() == nil {
		s.warnf("models: %v", err)
	}
}

// workers are those of the enabled agents that have a command or a role.
func (o *upOptions) workers(s *session, box *mailbox.Box) []*agents.Worker {
	var out []*agents.Worker
	for _, name := range slices.Sorted(maps.Keys(s.config.Agents)) {
		a := s.config.Agents[name]
		if !a.Enabled || a.Exec == "" && a.Role == "" {
			continue
		}
		w := s.worker(box, name, a)
		w.Grace = time.Duration(o.grace.Duration)
		out = append(out, w)
	}
	return out
}

// crew are the workers that run. One that cannot go on ends all: whoever
// supervises mbox up shall see it.
type crew struct {
	stop    func()
	running sync.WaitGroup
	mu      sync.Mutex
	failed  error
}

func (c *crew) start(ctx context.Context, w *agents.Worker) {
	c.running.Go(func() {
		err := w.Run(ctx)
		if err == nil {
			return
		}
		c.mu.Lock()
		c.failed = firstError(c.failed, err)
		c.mu.Unlock()
		c.stop()
	})
}

func (c *crew) wait() error {
	c.running.Wait()
	return c.failed
}

// ready is the line that scripts and supervisors wait for.
func (s *session) ready(box *mailbox.Box) {
	s.endProgress()
	fmt.Fprintf(s.err, "mbox: ready, pid %d, home %s\n", os.Getpid(), clean(box.Home(), maxLine))
}

// scanned tells what a scan of the router did.
func (s *session) scanned(r mailbox.ScanReport, err error) {
	switch {
	case err != nil:
		s.warnf("scan: %v", err)
	case r.Alarms > 0:
		s.warnf("%d tasks were not started in time; mbox doctor names them", r.Alarms)
	}
	if r.Reclaimed > 0 {
		s.infof("took %d tasks back from dead or hung workers", r.Reclaimed)
	}
	s.debugf("scanned: looked at %d files, took %d tasks back", r.Looked, r.Reclaimed)
}
