package life

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"mbox/mailbox"
)

// Failing is the status of an agent whose last work on a task has failed.
const Failing = "error"

// StaleAfter is how many intervals a pulse may stay away.
const StaleAfter = 3

// Keeper keeps the home of an agent for its worker.
type Keeper struct {
	box     *mailbox.Box
	agent   string
	version string

	mu        sync.Mutex // guards what follows
	heartbeat heartbeat
	beat      time.Time // when this keeper sent one
}

// Keep is the keeper of an agent that was born; nil for one that was not.
func Keep(b *mailbox.Box, agent, version string) (*Keeper, error) {
	is, err := there(filepath.Join(b.AgentDir(agent), stateFile))
	if err != nil || !is {
		return nil, err
	}
	return &Keeper{box: b, agent: agent, version: version}, nil
}

// Enter is the package's Enter.
func (k *Keeper) Enter(ctx context.Context, wait time.Duration) (leave func() error, err error) {
	return Enter(ctx, k.box, k.agent, wait)
}

// Pulse is the package's Pulse.
func (k *Keeper) Pulse(ctx context.Context, begins bool) error {
	return Pulse(ctx, k.box, k.agent, k.version, begins)
}

// Ended keeps up to which line of the ledger the agent has done what it had to do, and, of
// a message, up to which one of its channel; and, in its memory, what that was.
func (k *Keeper) Ended(ctx context.Context, t *mailbox.Task, failed bool) error {
	a, err := mailbox.AgentOf(k.box, k.agent)
	if err != nil {
		return err
	}
	advance, err := past(k.box, t)
	if err != nil {
		return err
	}
	told := k.remember(t, failed)
	err = change(ctx, k.box, k.agent, func(s *State) {
		advance(s)
		s.LastPulseAt, s.Status, s.Version = now(k.box), string(a.State), k.version
		if failed {
			s.Status = Failing
		}
	})
	return errors.Join(err, told)
}

// past moves a state past what an agent has done: to the ledger's last line and, of a
// message, to where that stands in its channel.
func past(b *mailbox.Box, t *mailbox.Task) (advance func(*State), err error) {
	var said *mailbox.Posted
	if id := t.Message(); id != "" {
		if said, err = mailbox.MessageOf(b, id); err != nil {
			return nil, err
		}
	}
	return func(s *State) {
		s.InboxCursor = max(s.InboxCursor, b.Ledger().End().Seq)
		if said != nil {
			s.ChannelCursors[said.Channel] = max(s.ChannelCursors[said.Channel], said.Seq)
		}
	}, nil
}

// Acknowledge is mailbox.Acknowledge that also keeps, in the state of an agent that was
// born, how far it is. It is no pulse. After ErrCommitted the item is acknowledged.
func Acknowledge(ctx context.Context, b *mailbox.Box, id mailbox.ID, agent, token string) error {
	err := mailbox.Acknowledge(ctx, b, id, agent, token)
	if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
		return err
	}
	t, _, failed := b.Task(ctx, id)
	if failed == nil {
		var advance func(*State)
		if advance, failed = past(b, t); failed == nil {
			failed = change(ctx, b, agent, advance)
		}
	}
	if failed != nil {
		err = errors.Join(err, fmt.Errorf("how far %s is was not kept: %w: %w", agent, mailbox.ErrCommitted, failed))
	}
	return err
}

// Stale tells since when a pulse is missing that should have come each interval; false
// where there is no home, or it was heard of in time. Run tells whether a worker is to say
// it: nobody misses the pulse of another one that has never had any.
func (s *State) Stale(now time.Time, interval time.Duration, run bool) (since time.Time, stale bool) {
	switch {
	case s == nil:
		return since, false
	case s.LastPulseAt == nil:
		return since, run
	}
	return *s.LastPulseAt, now.Sub(*s.LastPulseAt) > StaleAfter*interval
}
