package agents

import (
	"cmp"
	"context"
	"time"

	"mbox/agents/policy"
	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
)

// The hour of actions that a policy allows an agent, and each sender of its tasks.

// manySenders is how many times what one sender may have done in an hour an agent
// does for all: senders are who the tasks say, and each name would have an hour.
const manySenders = 10

// reserve counts an action of the hour twice: for the sender and the agent, and for
// the agent alone. For a child that is its parent's agent, since those two share one
// budget.
func (p *performance) reserve() (reserved reservations, err error) {
	agent, sender := payer(p.Agent, p.task)
	most := p.policy.Runtime.MaxActionsPerHour
	for _, account := range []struct {
		key  string
		most int
	}{{accountFor(agent, sender), most}, {agent, manySenders * most}} {
		r, err := p.Team.Actions.Narrow(account.most).Reserve(account.key)
		if err != nil {
			reserved.release()
			return nil, err
		}
		reserved = append(reserved, r)
	}
	return reserved, nil
}

// payer is whose hour an action for a task counts in, and the sender.
func payer(agent string, t *mailbox.Task) (account, sender string) {
	if t.Mbox.ParentID != "" {
		agent = t.Source.Agent
	}
	return agent, cmp.Or(t.Source.User, t.Source.Session, policy.NoSender)
}

func accountFor(agent, sender string) string { return agent + " for " + sender }

// setBack is how far the clock may have been set back, and forth again: behind a line of
// that time there may be actions of this hour.
const setBack = 24 * time.Hour

// recount counts the actions that an agent has done in the last hour, as the ledger tells
// of them, by whatever name it had, unless they are counted already: so a new process
// gives nobody a new hour.
func (s *shift) recount(ctx context.Context) error {
	if s.Team.Actions.Used(s.Agent) > 0 {
		return nil
	}
	since := s.Box.Options().Now().Add(-policy.Hour)
	for line, err := range s.Box.Ledger().Naming(string(audit.DelegationEvent)) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		e, err := line.Decode()
		if err != nil {
			continue // mbox verify tells of it
		}
		switch at := e.Time(); {
		case at.Before(since.Add(-setBack)):
			return nil
		case at.Before(since):
			continue
		}
		if err := s.recountLine(ctx, &e); err != nil {
			return err
		}
	}
	return nil
}

func (s *shift) recountLine(ctx context.Context, e *audit.Entry) error {
	var d delegation.Details
	if e.Event != audit.DelegationEvent || e.Detail(&d) != nil {
		return nil
	}
	n := int64(0)
	switch {
	case d.Spent != nil:
		n = d.Spent.Actions
	case d.Decision == delegation.Delivered && d.FromAgent == e.Agent && d.Root != "":
		n = 1 // it was handed on
	}
	if n == 0 {
		return nil
	}
	agent, sender := e.Agent, policy.NoSender
	t, _, err := s.Box.Task(ctx, mailbox.ID(e.Task()))
	switch {
	case err == nil:
		agent, sender = payer(e.Agent, t)
	case ctx.Err() != nil:
		return ctx.Err()
	}
	if agent, err = mailbox.AgentCalled(s.Box, agent); err != nil || agent != s.Agent {
		return err
	}
	for range n {
		s.Team.Actions.Record(accountFor(agent, sender), e.Time())
		s.Team.Actions.Record(agent, e.Time())
	}
	return nil
}
