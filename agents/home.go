package agents

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Home is the home of an agent that was born, as far as its worker needs it.
type Home interface {
	// Enter waits, for up to wait, until nothing else works in it. mailbox.ErrBusy says
	// that the wait was over.
	Enter(ctx context.Context, wait time.Duration) (leave func() error, err error)
	// Pulse says that a worker is there; begins tells whether it has just begun.
	Pulse(ctx context.Context, begins bool) error
	// Beat sends the agent what it has to look after by itself, if that is due.
	Beat(ctx context.Context) error
	// Ended keeps that the agent has ended its work on a task; failed tells whether it
	// could not do it.
	Ended(ctx context.Context, t *mailbox.Task, failed bool) error
}

// DefaultIdle is how often a worker says that it is there.
const DefaultIdle = 30 * time.Second

// enterWait is how long a worker that is to end by itself waits for a home at a time.
const enterWait = 10 * time.Second

// live says that the worker has begun, and from then on again and again that it is there,
// also while it works.
func (s *shift) live(ctx context.Context) {
	if s.Home == nil {
		return
	}
	s.pulse(ctx, true)
	s.beat(ctx)
	s.watching.Go(func() {
		tick := time.NewTicker(s.Idle)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			select {
			case s.ticks <- struct{}{}:
			default:
			}
			if s.pulse(ctx, false); s.busy() == 0 {
				s.beat(ctx)
			}
		}
	})
}

// rounded tells whether the worker of a home has done what it may do in one cycle, after
// it has waited.
func (s *shift) rounded(ctx context.Context) bool {
	select {
	case <-s.ticks:
		s.cycle = 0
	default:
	}
	if s.Home == nil || s.Cycle == 0 || s.cycle < s.Cycle {
		return false
	}
	s.rest(ctx)
	return true
}

// pulse does not keep the worker from working where it fails: the home is the agent's,
// which may have spoilt it.
func (s *shift) pulse(ctx context.Context, begins bool) {
	if err := s.Home.Pulse(ctx, begins); err != nil && ctx.Err() == nil {
		s.Log.Warn().Err(err).Msg("cannot say that it is there")
	}
}

// beat has the agent look after what stands in its heartbeat.md.
func (s *shift) beat(ctx context.Context) {
	if err := s.Home.Beat(ctx); err != nil && ctx.Err() == nil {
		s.Log.Warn().Err(err).Msg("cannot look after its heartbeat.md")
	}
}

// mostBeside is how much an agent may say beside task.HeartbeatOK or task.NoReply, in
// runes.
const mostBeside = 300

// unsaid is the output of a task; of a heartbeat in which nothing is told only that.
func unsaid(t *mailbox.Task, output jsontext.Value) jsontext.Value {
	if t.Mbox.Trigger != task.Heartbeat {
		return output
	}
	var text string
	if json.Unmarshal(output, &text) != nil {
		var said map[string]any
		if json.Unmarshal(output, &said) != nil || len(said) != 1 {
			return output
		}
		text, _ = said["answer"].(string)
	}
	if !onlyWord(text, task.HeartbeatOK) {
		return output
	}
	return jsontext.Value(`"` + task.HeartbeatOK + `"`)
}

// enter is what a claim asks before it takes a task: while a dream or another worker is
// in the home, nothing is claimed; what else keeps it out stops the search. nil for an
// agent without a home.
func (s *shift) enter(ctx context.Context, stop context.CancelCauseFunc) func() (func(), bool) {
	if s.Home == nil {
		return nil
	}
	return func() (func(), bool) {
		leave, err := s.Home.Enter(ctx, 0)
		if err != nil {
			if !errors.Is(err, mailbox.ErrBusy) {
				stop(&shut{err})
			}
			return nil, false
		}
		s.leave = s.leaving(leave)
		return s.leave, true
	}
}

// shut is the error of a home that cannot be entered, but for one that somebody is in.
type shut struct{ error }

func (e *shut) Unwrap() error { return e.error }

func (s *shift) leaving(leave func() error) func() {
	return func() {
		if err := leave(); err != nil {
			s.Log.Warn().Err(err).Msg("the lock of its home is not given back")
		}
	}
}

// settled keeps how the work on a task has ended, and leaves the home.
func (s *shift) settled(ctx context.Context, a *attempt, leave func()) {
	if s.Home == nil {
		return
	}
	defer leave()
	t, state, err := s.Box.Task(ctx, a.claim.ID())
	if err == nil {
		failed := state == mailbox.Failed || state == mailbox.Pending && t.Mbox.Attempt >= a.number
		err = s.Home.Ended(ctx, t, failed)
	}
	if err != nil {
		s.Log.Warn().Err(err).Msg("how far it is was not kept")
	}
}

// survive makes a failure of a panic, so that the worker goes on.
func (a *attempt) survive(hard context.Context) {
	what := recover()
	if what == nil {
		return
	}
	a.log.Error().Bytes("stack", debug.Stack()).Msg("the attempt has panicked")
	a.end(hard, failed("panic", "mbox has a bug: "+schemas.Sentence(fmt.Sprint(what), 200)))
}
