package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"mbox/agents/life"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
)

// byName does a person's deed to an agent, which may be given by a name that it had.
func (d deed) byName(ctx context.Context, s *session, name string, do func(box *mailbox.Box, name string) error) error {
	return d.with(ctx, s, func(box *mailbox.Box) error {
		now, err := mailbox.AgentCalled(box, name)
		if err != nil {
			return err
		}
		return do(box, now)
	})
}

// halfwayError is an error in the middle of a birth or an end. One of its lines may count,
// and no other command brings the rest about: so it does not match ErrCommitted.
type halfwayError struct{ err error }

func halfway(err error) error {
	if errors.Is(err, mailbox.ErrCommitted) {
		return hint(&halfwayError{err}, "say it again: it goes on where it was cut off; so does mbox up")
	}
	return err
}

func (e *halfwayError) Error() string { return e.err.Error() }
func (e *halfwayError) Is(target error) bool {
	return target != mailbox.ErrCommitted && errors.Is(e.err, target)
}
func (e *halfwayError) As(target any) bool { return errors.As(e.err, target) }

// arrived waits until an agent that is provisioning is healthy, where mbox up runs its
// worker, which says so. One that nobody here runs is healthy at once; any other goes on
// provisioning until somebody runs it.
func arrived(ctx context.Context, s *session, box *mailbox.Box, name string, inJSON bool, what, command string) error {
	next, err := config.Load(box.Home())
	if err != nil {
		return err
	}
	id, err := recordSettings(ctx, box, next, "agent "+name+" "+what, "Somebody has said "+command+", from "+door()+".")
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return fmt.Errorf("agent %s %s, and no record tells of it: %w", name, what, err)
	}
	switch a := next.Agents[name]; {
	case a == nil || !a.Enabled || !a.HasWorker():
		err = life.Admit(ctx, box, name, "human")
	case box.Routed():
		err = waitForPulse(ctx, box, name)
	}
	if err != nil {
		return err
	}
	return toldAgent(s, next, box, name, inJSON, what, id)
}

// pulseWait is how long the first pulse of an agent is waited for.
const pulseWait = 30 * time.Second

func waitForPulse(ctx context.Context, box *mailbox.Box, name string) error {
	ctx, stop := context.WithTimeout(ctx, pulseWait)
	defer stop()
	err := watchUntil(ctx, box, func() (bool, error) {
		a, err := mailbox.AgentOf(box, name)
		return a.State != lifecycle.Provisioning, err
	})
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return hint(fmt.Errorf("agent %s is provisioning, and its worker has not begun: %w", name, mailbox.ErrBusy), "mbox status tells what mbox up does; the birth goes on by itself")
	}
	return err
}

// watchUntil asks whether it is done, at once and whenever the ledger has grown, until it is
// or the context ends, whose error it returns then.
func watchUntil(ctx context.Context, box *mailbox.Box, done func() (bool, error)) error {
	for from := box.Ledger().End(); ; {
		if is, err := done(); is || err != nil {
			return err
		}
		for _, err := range box.Follow(ctx, from) { // what it yields only says that there is something
			if err != nil && ctx.Err() == nil {
				return err
			}
			from = box.Ledger().End()
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// toldAgent tells what an agent is now.
func toldAgent(s *session, c *config.File, box *mailbox.Box, name string, inJSON bool, what, record string) error {
	a, err := agentStatusOf(c, box, name)
	if err != nil {
		return err
	}
	if inJSON {
		return s.printLine(a)
	}
	s.printf("%s\n", clean(box.AgentDir(name), maxLine))
	s.done("%s %s, and %s; %s", name, what, a.Lifecycle.State, cmp.Or(record, "no record was needed"))
	if a.Lifecycle.State == lifecycle.Provisioning {
		s.infof("%s is provisioning: mbox up, or mbox worker --agent %[1]s, has it begin", name)
	}
	return nil
}

// livesPause is how often mbox up looks for births and ends that were cut off, for agents
// that have finished, and for those that were just born.
const livesPause = 2 * time.Second

// keepLives does the rest of births and ends until ctx ends.
func (c *crew) keepLives(ctx context.Context, v *service) {
	tick := time.NewTicker(livesPause)
	defer tick.Stop()
	asked := map[string]bool{} // agents for which the registry was read again
	for {
		buried, err := life.Finish(ctx, v.box, following(v.session, v.box))
		if err == nil {
			err = c.welcome(ctx, v, asked)
		}
		err = errors.Join(err, life.Sweep(ctx, v.box))
		if err != nil && ctx.Err() == nil {
			v.warnf("agents: %v", err)
		}
		for _, name := range buried {
			v.infof("%s has finished, and is put away", name)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// welcome says the first pulse of agents that were just born, or brought back, and whose
// worker is here, and lets those in that nobody runs. For one that this service does not
// know, or whose worker has ended meanwhile, the registry is read again.
func (c *crew) welcome(ctx context.Context, v *service, asked map[string]bool) error {
	all, err := mailbox.AgentsOf(v.box)
	for name, a := range all {
		if a.State != lifecycle.Provisioning {
			continue
		}
		_, gone := os.Lstat(filepath.Join(v.box.Home(), life.EntryName(name)))
		entry := v.config.Agents[name]
		switch {
		case entry != nil && !(entry.Enabled && entry.HasWorker()):
			err = errors.Join(err, life.Admit(ctx, v.box, name, "mbox"))
		case c.runs(name):
			err = errors.Join(err, life.Pulse(ctx, v.box, name, thisVersion().Version, false))
		case gone == nil && !asked[name]:
			asked[name] = true
			select {
			case c.hup <- syscall.SIGHUP:
			default: // it is read again anyway
			}
		}
	}
	return err
}
