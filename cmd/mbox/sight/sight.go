// Package sight tells what an agent may see of a mailbox, by whatever door it looks:
// the tasks that it has sent, that are for it or for any, and that it has taken, all
// of the trees which these belong to, its own lines and records, and those about
// these tasks. Nobody's agent, "", sees everything.
package sight

import (
	"context"
	"errors"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

// Sight is what is seen by one request: it remembers what it has judged.
type Sight struct {
	box   *mailbox.Box
	agent string
	trees map[mailbox.ID]bool
	tasks map[mailbox.ID]bool
}

// Of is what the agent sees.
func Of(box *mailbox.Box, agent string) *Sight {
	return &Sight{box, agent, map[mailbox.ID]bool{}, map[mailbox.ID]bool{}}
}

// Sees tells whether the agent may see a task.
func (v *Sight) Sees(ctx context.Context, t *mailbox.Task) (bool, error) {
	if v.concerns(t) {
		return true, nil
	}
	if t.Mbox.RootID == "" {
		return false, nil
	}
	root := t.Root()
	if known, ok := v.trees[root]; ok {
		return known, nil
	}
	yes, err := v.tree(ctx, root)
	if err == nil {
		v.trees[root] = yes
	}
	return yes, err
}

// concerns tells whether a task is the agent's business by itself.
func (v *Sight) concerns(t *mailbox.Task) bool {
	a, target := v.agent, t.Assignment.TargetAgent
	return a == "" || t.Source.Agent == a || target == a || target == "any" || t.Claimant() == a
}

func (v *Sight) tree(ctx context.Context, root mailbox.ID) (bool, error) {
	family, err := mailbox.Family(ctx, v.box, root)
	if err != nil {
		return false, err
	}
	for _, id := range family {
		t, _, err := v.box.Task(ctx, id)
		if ignoreMissing(err) != nil {
			return false, err
		}
		if t != nil && v.concerns(t) {
			return true, nil
		}
	}
	return false, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, mailbox.ErrNotFound) {
		return nil
	}
	return err
}

// Task reads a task. One that the agent may not see is as one that is not there.
func (v *Sight) Task(ctx context.Context, id mailbox.ID) (*mailbox.Task, mailbox.State, error) {
	t, state, err := v.box.Task(ctx, id)
	if err != nil {
		return nil, "", err
	}
	yes, err := v.Sees(ctx, t)
	if err != nil {
		return nil, "", err
	}
	if !yes {
		return nil, "", task.About(id, mailbox.ErrNotFound)
	}
	return t, state, nil
}

// Why explains a task that the agent may see. The one whose paths it waits for may be
// none of those.
func (v *Sight) Why(ctx context.Context, id mailbox.ID) (*mailbox.Why, error) {
	w, err := v.box.Why(ctx, id)
	if err != nil || w.InTheWay == "" {
		return w, err
	}
	seen, err := v.about(ctx, "", string(w.InTheWay))
	if !seen {
		w.Conceal()
	}
	return w, err
}

// Shown is a copy of a task as it may leave by a door: without the token of its claim,
// with which anybody could end it. nil stays nil.
func Shown(t *mailbox.Task) *mailbox.Task {
	if t == nil {
		return nil
	}
	out := *t
	if out.Mbox.Lease != nil {
		lease := *out.Mbox.Lease
		lease.Token = ""
		out.Mbox.Lease = &lease
	}
	return &out
}

// Line tells whether the agent may see a line of the ledger.
func (v *Sight) Line(ctx context.Context, l audit.Line) (bool, error) {
	return v.about(ctx, l.Agent(), l.Task())
}

// Record tells the same of a record by an agent about a task; "": about none.
func (v *Sight) Record(ctx context.Context, agent, id string) (bool, error) {
	return v.about(ctx, agent, id)
}

func (v *Sight) about(ctx context.Context, agent, id string) (bool, error) {
	switch {
	case v.agent == "" || agent == v.agent:
		return true, nil
	case id == "":
		return false, nil
	}
	key := mailbox.ID(id)
	if known, ok := v.tasks[key]; ok {
		return known, nil
	}
	_, _, err := v.Task(ctx, key)
	if err != nil && !errors.Is(err, mailbox.ErrNotFound) {
		return false, err
	}
	v.tasks[key] = err == nil
	return err == nil, nil
}
