package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"mbox/audit"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
)

// RenameAgent gives an agent another name, from now on and in all processes: its state is
// that of the new name. The old one stays taken. What names it in a new task, or in an
// edit, means the agent. Tasks that name it already are for [Readdress]. Claims as the old
// name are refused; one that is just being made may still come.
//
// Said again it changes nothing. ErrConflict: the agent can have no other name now.
// Whether the new name is free is for the caller to know.
func RenameAgent(ctx context.Context, b *Box, by, agent, name, reason string) error {
	if err := task.CheckAgent(name); err != nil {
		return err
	}
	m := lifecycle.Move{Agent: agent, After: lifecycle.Renamed, Name: name, Reason: task.OneLine(reason)}
	_, err := moveAgent(ctx, b, by, "renamed "+agent+" to "+name, m, func(now Agent) (bool, error) {
		return now.State == lifecycle.Renamed && now.Name == name, nil
	})
	return err
}

// AgentCalled is what the agent is called now that has this name, or had it.
func AgentCalled(b *Box, name string) (string, error) {
	err := b.queue.Hear()
	return b.queue.Called(name), err
}

// Names tells what each agent is called now that has a name, or had it, as of this moment.
func Names(b *Box) (called func(name string) string, err error) {
	err = b.queue.Hear()
	all := b.queue.Agents()
	return func(name string) string { return lifecycle.Called(all, name) }, err
}

// Readdress gives the pending tasks that name an agent by a name that it had to the name
// that it has now, each by a line of its own (task_edited). It returns how many it has
// changed.
func Readdress(ctx context.Context, b *Box) (n int, err error) {
	x, err := b.Index()
	if err != nil {
		return 0, err
	}
	slices.SortFunc(x.Live, func(a, b Live) int { return cmp.Compare(a.ID, b.ID) })
	for i := range x.Live {
		l := &x.Live[i]
		now := b.queue.Called(l.Target)
		if l.State != Pending || now == l.Target {
			continue
		}
		e := &editing{b: b, id: l.ID, by: audit.MboxAgent, why: l.Target + " is called " + now + " now", follows: true, change: func(*Task) error { return nil }}
		switch done, err := e.follow(ctx); {
		case errors.Is(err, ErrConflict), errors.Is(err, ErrNotFound): // it is pending no more
		case err != nil:
			return n, fmt.Errorf("the tasks of %s: %w", now, task.About(l.ID, err))
		case done:
			n++
		}
	}
	return n, nil
}

// follow makes an edit that nobody judges.
func (e *editing) follow(ctx context.Context) (done bool, err error) {
	for !done {
		p, err := e.look(ctx)
		if err != nil || len(p.fields) == 0 {
			return false, err
		}
		if done, err = e.commit(ctx, p); err != nil {
			return false, err
		}
	}
	return true, nil
}
