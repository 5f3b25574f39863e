package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/tree"
)

// Edit changes what a pending task asks for and when: its title, description,
// priority, target, times, dependencies, paths and labels, as change does to the copy that
// it is given; what else it does to that counts for nothing. It may be called more
// than once. What a new task has to be the task has to be again: a field that is
// wrong is a *schemas.Error, a circle of tasks or agents that would wait for one
// another a *Refusal, and Options.Review is asked. An approval that was given before
// counts no longer.
//
// It returns the JSON paths of the fields that are another now; none, and nothing is
// written, where the task is so already. A task that is not pending and not so is
// ErrConflict. by is human, or an agent: one may edit only what it has sent, else the
// error is a *Refusal.
func Edit(ctx context.Context, b *Box, id ID, by, why string, change func(*Task) error) (fields []string, err error) {
	if err := cmp.Or(task.CheckID(id), task.CheckActor(by)); err != nil {
		return nil, err
	}
	e := &editing{b: b, id: id, by: by, why: why, change: change}
	for {
		p, err := e.look(ctx)
		if err != nil || len(p.fields) == 0 {
			return nil, task.About(id, err)
		}
		if p.changes("assignment.target_agent") {
			if err := mayGet(b.books, p.task.Assignment.TargetAgent); err != nil {
				return nil, task.About(id, err)
			}
		}
		notes, err := b.approvals.review(ctx, nil, p.task)
		if err != nil {
			return nil, task.About(id, err)
		}
		done, err := e.commit(ctx, p)
		if err != nil && !errors.Is(err, ErrCommitted) {
			return nil, task.About(id, err)
		}
		if !done && err == nil {
			continue // somebody was faster: what was judged is not what lies there
		}
		if p.changes("assignment.target_agent") { // else nobody new is asked
			err = errors.Join(err, b.approvals.noteAll(ctx, nil, id, notes))
		}
		return p.fields, task.About(id, err)
	}
}

// editing is a wish to change a task.
type editing struct {
	b       *Box
	id      ID
	by, why string
	change  func(*Task) error
	follows bool // the agent that it is for has another name: nothing is to be judged anew
}

// plan is what an edit makes of a task's file.
type plan struct {
	hash   string // of the file
	task   *Task
	fields []string
}

func (p *plan) changes(field string) bool { return slices.Contains(p.fields, field) }

// waits tells whether somebody else could come to wait for somebody by it.
func (p *plan) waits() bool {
	return p.changes("mbox.depends_on") || p.changes("assignment.target_agent")
}

// look decides what becomes of the task as it lies now.
func (e *editing) look(ctx context.Context) (*plan, error) {
	s, err := e.b.lockShard(ctx, string(e.id))
	if err != nil {
		return nil, err
	}
	defer s.unlock()
	f, _, err := e.b.current(e.id)
	if errors.Is(err, ErrNotFound) {
		ended, gone := e.b.seek(e.id)
		if gone == nil && !ended.State.Terminal() {
			return nil, err // a drop that no line has made a task yet
		}
		f, err = ended, gone
	}
	if err != nil {
		return nil, err
	}
	return e.decide(f)
}

func (e *editing) decide(f *home.File) (*plan, error) {
	if e.by != "human" && e.b.queue.Called(f.Task.Source.Agent) != e.by && !e.follows {
		return nil, tree.Refuse("edit", "%s did not send it, so it may not change it", e.by)
	}
	now, fields, err := f.Task.Edited(func(t *Task) error {
		err := e.change(t)
		t.Assignment.TargetAgent = e.b.queue.Called(t.Assignment.TargetAgent)
		return err
	})
	if len(fields) > 0 && f.State != Pending {
		return nil, fmt.Errorf("%w: it is %s, only a pending task can be changed", ErrConflict, whereItIs(f))
	}
	return &plan{hash: f.Hash, task: now, fields: fields}, err
}

// commit carries the plan out, if the task still is what it was made for. Who may
// come to wait for whom is looked at under the lock of delegations: two edits that
// were checked side by side would each find the circle still open.
func (e *editing) commit(ctx context.Context, p *plan) (done bool, err error) {
	under, err := e.b.lockShardNumber(ctx, home.Delegations)
	if err != nil {
		return false, err
	}
	defer under.unlock()
	s, err := e.b.lockShard(ctx, string(e.id))
	if err != nil {
		return false, err
	}
	defer s.unlock()
	s.locks = append(s.locks, under.locks...)
	f, _, err := e.b.current(e.id)
	if errors.Is(err, ErrNotFound) || err == nil && f.Hash != p.hash {
		return false, nil
	}
	if err == nil && p.waits() && !e.follows {
		err = e.circles(ctx, p)
	}
	if err != nil {
		return false, err
	}
	err = e.b.commit(ctx, s, &change{
		id: e.id, by: e.by, event: audit.TaskEdited, from: Pending, to: Pending, task: p.task, before: p.hash,
		reason: e.why, action: fmt.Sprintf("%s edited %s: %s", e.by, e.id, strings.Join(p.fields, ", ")),
		extra: func(m *task.Move) { m.Fields = p.fields },
	})
	return err == nil, err
}

// circles refuses what would make tasks, or the agents of a tree, wait for one
// another. Who waits for a child are all those above it, also one that is just
// handing work on and does not stand among the waiters yet.
func (e *editing) circles(ctx context.Context, p *plan) error {
	t := p.task
	if p.changes("mbox.depends_on") {
		if err := circle(e.b.books, e.id, t.Mbox.ParentID, t.Mbox.DependsOn); err != nil {
			return err
		}
	}
	if _, child := t.Born(); child && p.changes("assignment.target_agent") {
		return e.b.forest.In(ctx, t.Root(), func(grown *Tree) error {
			return grown.MayAsk(t.Source.Agent, t.Assignment.TargetAgent)
		})
	}
	return nil
}

// circle refuses dependencies of a task on one that waits for it, or for one of those
// above it.
func circle(b *books, id, parent ID, on []ID) error {
	way := waitingFor(b, id, on)
	for at := b.queue.Find(parent); way == nil && at != nil; at = b.queue.Find(at.Parent) {
		way = waitingFor(b, at.ID, on)
	}
	if way == nil {
		return nil
	}
	return tree.Refuse("cycle", "the tasks would wait for one another: %s → %s", id, tree.Join(way))
}
