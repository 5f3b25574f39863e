package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// dependencies moves tasks that wait for others: for what they depend on, for their
// children, or in vain for a deadline.
type dependencies struct {
	*books
}

// resolve brings readiness up to date: waiting tasks whose time has come become
// ready, blocked ones whose dependencies are completed too, and those whose
// dependency has failed or whose deadline has passed fail.
func (b *dependencies) resolve(ctx context.Context) error {
	if err := b.queue.Update(); err != nil {
		return err
	}
	late, checks := b.queue.Due()
	if err := b.tend(ctx); err != nil && !errors.Is(err, ErrBusy) {
		return err
	}
	for _, id := range late {
		err := b.failPending(ctx, id, "deadline_passed", "its deadline passed before anybody took it")
		if errors.Is(err, ErrBusy) {
			b.queue.Again(id, b.now().Add(busyPauseMax))
		} else if err != nil {
			return err
		}
	}
	for _, r := range checks {
		if err := b.checkDependencies(ctx, r); err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
	}
	return nil
}

// checkDependencies looks at what a blocked task waits for. Readiness follows
// folders, never lines that may not be flushed yet: where the ledger says that a
// dependency has ended and its file is not there yet, the question stays open.
func (b *dependencies) checkDependencies(ctx context.Context, r *queue.Entry) error {
	for _, d := range r.DependsOn {
		state, settled, err := b.dependencyState(d)
		switch {
		case err != nil:
			return err
		case state == Failed:
			return b.failPending(ctx, r.ID, "dependency_failed", fmt.Sprintf("%s, which it depends on, failed", d))
		case state != Completed:
			if settled {
				b.queue.Settle(r, false)
			}
			return nil
		}
	}
	joined, _, settled, err := b.join(r.Join, r.WaitsFor)
	if err == nil && (joined || settled) {
		b.queue.Settle(r, joined)
	}
	return err
}

// join tells whether the children that a task waits for have ended, as far as its
// join rule asks, and which of them have not. settled means that nothing changes until
// the next ledger line of one of them.
func (b *dependencies) join(rule string, children []ID) (joined bool, left []ID, settled bool, err error) {
	completed, failed, settled := 0, 0, true
	for _, child := range children {
		switch state, sure, err := b.dependencyState(child); {
		case err != nil:
			return false, nil, false, err
		case state == Completed:
			completed++
		case state == Failed:
			failed++
		default:
			left, settled = append(left, child), settled && sure
		}
	}
	return task.Joined(rule, completed, failed, len(children)), left, settled, nil
}

// FailedBefore are the failed tasks that a task waits for, directly or not, each behind
// those that it waits for itself.
func FailedBefore(b *Box, t *Task) (failed []ID, err error) {
	seen := map[ID]bool{}
	var follow func(*Task) error
	follow = func(t *Task) error {
		for _, d := range t.Mbox.DependsOn {
			state, _, err := b.dependencies.dependencyState(d)
			if err != nil {
				return err
			}
			if seen[d] || state != Failed {
				continue
			}
			seen[d] = true
			if f, err := b.seek(d); err == nil && f.Task != nil {
				if err := follow(f.Task); err != nil {
					return err
				}
			}
			failed = append(failed, d)
		}
		return nil
	}
	return failed, follow(t)
}

// dependencyState tells whether a dependency has completed or failed. settled
// means that nothing changes until its next ledger line.
func (b *dependencies) dependencyState(id ID) (s State, settled bool, err error) {
	if id, err = b.asWritten(id); err != nil {
		return None, false, err
	}
	r, err := b.lookup(id)
	if err != nil || r != nil {
		return None, true, err
	}
	f, err := b.seek(id)
	if errors.Is(err, ErrNotFound) {
		if !b.queue.Knows(id.Fold()) {
			return None, true, nil // nobody has heard of it
		}
		return b.endOf(id)
	}
	if f == nil {
		return None, false, err
	}
	if f.Task == nil {
		return None, false, nil // damaged by hand: an alarm says so, others go on
	}
	switch f.Task.Result.Status {
	case Completed, Failed:
		if f.State == Pending || f.State == InProgress {
			return None, false, nil
		}
		return f.Task.Result.Status, true, nil
	}
	return None, false, nil
}

// endOf tells from the ledger alone how a task ended whose file is gone: it was
// completed and pruned, or it can never be any more, because it was deleted by
// hand or given up. Where its last line says that it lies in a folder, the
// question stays open: recovery or an operator has to look at it.
func (b *dependencies) endOf(id ID) (s State, settled bool, err error) {
	last := true
	for line, err := range b.ledger.LinesOf(string(id)) {
		if err != nil {
			return None, false, err
		}
		_, m := task.MoveIn(line)
		switch {
		case m == nil:
			continue
		case last && m.Enters() != None && m.Enters() != task.Pruned:
			return None, false, nil
		case m.Enters() == Completed:
			return Completed, true, nil
		case m.Leaves() == None:
			return Failed, true, nil
		}
		last = false
	}
	return None, false, nil
}

// asWritten is the id in the case in which its task was created: whoever depends
// on it may have written it otherwise.
func (b *dependencies) asWritten(id ID) (ID, error) {
	if r, err := b.lookup(id); err != nil || r != nil || !b.queue.Knows(id.Fold()) {
		return id, err
	}
	if there, err := b.anywhere(id); err != nil || there {
		return id, err
	}
	as, err := b.ledger.Spelling(id)
	return cmp.Or(as, id), err
}

// failPending fails a task that waits.
func (b *dependencies) failPending(ctx context.Context, id ID, code, why string) error {
	s, err := b.lockShard(ctx, string(id))
	if err != nil {
		return task.About(id, err)
	}
	defer s.unlock()
	err = b.transition(ctx, s, id, func(f *home.File, r *queue.Entry) (*change, error) {
		if r.State != Pending || code == "deadline_passed" && r.Expires() == 0 {
			return nil, nil
		}
		return failing(f, code, why), nil
	})
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrByHand) || ofNewer(err) {
		return nil // who knows its fields fails it
	}
	return err
}

// failing is the change of a task that fails in pending.
func failing(f *home.File, code, why string) *change {
	f.Task.Result.Error = &TaskError{Code: code, Message: why}
	return &change{
		id: f.Task.ID, by: audit.MboxAgent, event: audit.TaskFailed, from: Pending, to: Failed, task: f.Task, before: f.Hash,
		reason: code + ": " + why, action: fmt.Sprintf("mbox failed %s: %s", f.Task.ID, code),
	}
}
