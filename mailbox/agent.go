package mailbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mbox/audit"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Agent is what the ledger tells of an agent: its state, since when, by whom, and why.
// Package lifecycle has the states and their moves.
type Agent = lifecycle.Agent

// ErrPaused: the agent may not claim, as the ledger says. The error is a [PausedError].
var ErrPaused = errors.New("not healthy")

// PausedError is why an agent gets no task. It matches ErrPaused, and ErrEmpty: there is
// nothing for it to claim.
type PausedError struct {
	Name string
	Agent
}

func (e *PausedError) Error() string { return e.Name + " is " + e.Agent.String() }

// Is tells which errors this one is.
func (e *PausedError) Is(target error) bool { return target == ErrPaused || target == ErrEmpty }

// EndedError refuses a task for an agent that claims nothing any more: it is dead, or on
// its way there. It matches ErrConflict.
type EndedError struct {
	Name string
	Agent
}

func (e *EndedError) Error() string { return e.Name + " is " + e.Agent.String() + ": conflict" }

// Is tells which errors this one is.
func (e *EndedError) Is(target error) bool { return target == ErrConflict }

// mayGet refuses tasks for an agent that claims nothing any more, as far as the ledger
// has been read.
func mayGet(b *books, agent string) error {
	if a := b.queue.Agent(agent); a.State == lifecycle.Draining || a.State == lifecycle.Dead {
		return &EndedError{agent, a}
	}
	return nil
}

// Pause says how an agent is to be kept from claiming.
type Pause struct {
	Agent  string
	By     string    // who wants it: human, or an agent
	Until  time.Time // when it ends by itself; zero: it does not
	Reason string    // in one line of at most MaxReason runes; what is longer is cut
	// Longer lets a pause stand that lasts as long. Without it this one counts, though
	// it may end sooner.
	Longer bool
}

// PauseAgent keeps an agent from claiming, in all processes, and returns what it is then.
// Work in progress goes on. A claim that begins when this has returned gets ErrPaused;
// one that is just being made may still come. Of several pauses the last one counts; saying
// one without an end again changes nothing. ErrConflict if the agent can be paused no
// more.
func PauseAgent(ctx context.Context, b *Box, p Pause) (Agent, error) {
	m := lifecycle.Move{Agent: p.Agent, After: lifecycle.Paused, Reason: task.OneLine(p.Reason)}
	words := "paused " + p.Agent
	if !p.Until.IsZero() {
		if !p.Until.After(b.now()) || p.Until.UTC().Year() > 9999 {
			return Agent{}, &schemas.Error{Path: "until", Code: schemas.CodeBadValue, Problem: "is no time in which a pause can end", Want: "one that is to come, of the years up to 9999"}
		}
		m.Until = new(task.At(p.Until))
		words += " until " + m.Until.String()
	}
	return moveAgent(ctx, b, p.By, words, m, func(now Agent) (enough bool, err error) {
		said := p.Until.IsZero() && (m.Reason == "" || m.Reason == now.Reason)
		return now.Outlasts(p.Until) && (p.Longer || said), nil
	})
}

// ResumeAgent lets a paused agent claim again. One that is healthy stays so, without a
// line. ErrConflict if the agent is in another state.
func ResumeAgent(ctx context.Context, b *Box, agent, by, reason string) (Agent, error) {
	m := lifecycle.Move{Agent: agent, After: lifecycle.Healthy, Reason: task.OneLine(reason)}
	return moveAgent(ctx, b, by, "resumed "+agent, m, func(now Agent) (bool, error) {
		if now.State == lifecycle.Provisioning {
			return false, fmt.Errorf("agent %s is %s: %w: its first pulse makes it healthy", agent, now, ErrConflict)
		}
		return now.Claims(), nil
	})
}

// MoveAgent brings an agent into the state that the move names, and returns what it is
// then; what the move says it was is filled in. words tell what was done, for the ledger.
// One that is in that state already stays as it is, without a line. ErrConflict if that
// state cannot follow. Pauses are PauseAgent's.
func MoveAgent(ctx context.Context, b *Box, by, words string, m lifecycle.Move) (Agent, error) {
	m.Reason = task.OneLine(m.Reason)
	return moveAgent(ctx, b, by, words, m, func(now Agent) (bool, error) { return now.State == m.After && !now.Since.IsZero(), nil })
}

// moveAgent writes a move, under the lock of the agent's name, unless what there is is
// enough.
func moveAgent(ctx context.Context, b *Box, by, words string, m lifecycle.Move, enough func(Agent) (bool, error)) (a Agent, err error) {
	if err := task.CheckAgent(m.Agent); err != nil {
		return a, err
	}
	s, err := b.lockShard(ctx, m.Agent)
	if err != nil {
		return a, err
	}
	defer s.unlock()
	if a, err = AgentOf(b, m.Agent); err != nil {
		return a, err
	}
	if is, err := enough(a); is || err != nil {
		return a, err
	}
	m.Before = a.State
	if _, told := b.queue.Agents()[m.Agent]; !told && m.After == lifecycle.Provisioning {
		m.Before = lifecycle.Unborn
	}
	if !lifecycle.Legal(m.Before, m.After) {
		return a, fmt.Errorf("agent %s is %s and cannot become %s: %w", m.Agent, a, m.After, ErrConflict)
	}
	e := audit.Entry{Agent: by, Event: audit.AgentState, Action: by + " " + words, Details: audit.Details(m)}
	if err = b.note(ctx, s, e); err != nil {
		return a, err
	}
	return AgentOf(b, m.Agent)
}

// AgentsOf are the agents of which the ledger tells, as they are now, by name.
func AgentsOf(b *Box) (map[string]Agent, error) {
	err := b.queue.Update()
	return b.queue.Agents(), err
}

// AgentOf is what an agent is now.
func AgentOf(b *Box, name string) (Agent, error) {
	err := b.queue.Update()
	return b.queue.Agent(name), err
}

// MayClaim returns a PausedError where the ledger says that the agent may not claim now.
func MayClaim(b *Box, agent string) error {
	if err := b.queue.Update(); err != nil {
		return err
	}
	return mayClaim(b.books, agent)
}

// mayClaim is MayClaim as far as the ledger has been read.
func mayClaim(b *books, agent string) error {
	if a := b.queue.Agent(agent); !a.Claims() {
		return &PausedError{agent, a}
	}
	return nil
}
