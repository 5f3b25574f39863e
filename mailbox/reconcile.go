package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// reconciler takes over what was done to task files by hand, or mends it.
type reconciler struct {
	*books
}

// lookInto reconciles one task that is not where and as the ledger says, if its shard
// is free (ifFree). errNowhere is for a survey, which knows how many tasks are gone
// (judgeMissing).
func (b *reconciler) lookInto(ctx context.Context, id ID) (again time.Duration, err error) {
	return b.ifFree(ctx, id, func(s *shard) error { return b.reconcile(ctx, s, id) })
}

// reconcile adopts what was done by hand to a live task, as far as that may be
// adopted: a move from pending to in-progress, and one from in-progress to
// completed, failed or pending (adoptMissing adopts a deletion). So a worker that
// only uses mv can take part. Every other change stays as it is, gets one alarm,
// and is named by verify until an operator adopts it.
//
// The caller holds the task's shard. The ledger is read to its end, and the name
// is opened in every folder.
func (b *reconciler) reconcile(ctx context.Context, s *shard, id ID) error {
	f, r, err := b.current(id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if !errors.Is(err, ErrByHand) {
		return err
	}
	if f != nil && f.Hash == "" && durable.Barred(f.Path) {
		return b.alarm(ctx, s, id, "unreadable", fmt.Sprintf("its file in %s cannot be read: permission denied", f.State))
	}
	if f != nil && (f.Task == nil || f.Task.Sound() != nil) {
		return b.alarm(ctx, s, id, "unreadable", fmt.Sprintf("edited by hand in %s, where it is no valid task; mended there, mbox recover --adopt %s takes it as it is", r.State, id))
	}
	if f != nil {
		return b.alarm(ctx, s, id, "edited", fmt.Sprintf("edited by hand in %s; mbox recover --adopt %s takes it as it is", r.State, id))
	}
	for _, to := range task.Folders {
		if to == r.State {
			continue
		}
		f, err := home.Read(b.home, to, b.path("tasks", string(to), id.File()))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if f == nil {
			return err
		}
		return b.adoptMove(ctx, s, r, f)
	}
	if err := b.places.Look(); err != nil {
		return err
	}
	return errNowhere
}

// adoptMove adopts a move by hand, if it is one that may be adopted and what
// was asked is unchanged.
func (b *reconciler) adoptMove(ctx context.Context, s *shard, r *queue.Entry, f *home.File) error {
	if f.Task == nil {
		return b.alarm(ctx, s, r.ID, "unreadable", fmt.Sprintf("moved by hand to %s, where it is no valid task", f.State))
	}
	if !f.Task.AsksFor(r.Asked) {
		return b.alarm(ctx, s, r.ID, "edited", fmt.Sprintf("moved by hand to %s with what was asked changed; mbox recover --adopt %s takes it as it is", f.State, r.ID))
	}
	if r.State != Pending || f.State == InProgress {
		return b.adopt(ctx, s, r, f)
	}
	// It was moved twice before anybody looked. It goes back one step, so that
	// each of the two moves has its line.
	last, between := f.State, b.path("tasks", string(InProgress), r.ID.File())
	err := durable.Move(f.Path, between)
	if err != nil {
		return err
	}
	if f, err = home.Read(b.home, InProgress, between); err != nil {
		return err
	}
	if err := b.adopt(ctx, s, r, f); err != nil {
		return err
	}
	if f, r, err = b.current(r.ID); err != nil {
		return err
	}
	f.State = last
	return b.adopt(ctx, s, r, f)
}

// adopt commits the adoption of a file as it lies. A result that does not fit
// into the task file becomes an artifact, as with Complete.
func (b *reconciler) adopt(ctx context.Context, s *shard, r *queue.Entry, f *home.File) error {
	c, err := b.adoption(r, f)
	if err != nil {
		return err
	}
	if f.Task.Result.Error != nil {
		f.Task.Result.Error.Bound()
	}
	if f.State != Pending { // else nothing of its result stays
		if c.left, err = b.takeOver(ctx, f.Task); err != nil {
			return err
		}
		if err := spill(f.Task, c.left, &f.Task.Result); err != nil {
			return err
		}
	}
	return b.commit(ctx, s, c)
}

// adoption makes the change for a task whose file was moved by hand to f.State. Of
// the edits it takes output, artifacts and error; the rest is put back.
func (b *reconciler) adoption(r *queue.Entry, f *home.File) (*change, error) {
	t := f.Task
	if err := b.mendFile(t, r); err != nil {
		return nil, err
	}
	token := t.Token()
	switch f.State {
	case InProgress:
		b.claimByHand(t)
		t.Mbox.Attempt++
		t.Mbox.Epoch++
		t.Mbox.NotBefore = nil
	case Pending:
		t.Mbox.Attempt = max(0, t.Mbox.Attempt-1)
	case Completed:
		t.Result.Error = nil
	}
	b.fillIn(t, f.State)
	return &change{
		id: r.ID, by: audit.MboxAgent, event: audit.Reconcile, from: r.State, to: f.State, task: t, before: r.After.String(),
		reason: "moved by hand", action: fmt.Sprintf("mbox saw that %s was moved by hand from %s to %s", r.ID, r.State, f.State),
		token: token, extra: func(m *task.Move) { m.Found = f.Hash },
	}, nil
}

// claimByHand gives a task that was taken by a mv its claimant, token and
// deadline.
func (b *reconciler) claimByHand(t *Task) {
	by, now := task.ByHand(t.Assignment.TargetAgent), task.At(b.now())
	t.Assignment.PickedUpBy, t.Assignment.PickedUpAt = &by, &now
	t.Mbox.Lease = &Lease{Token: home.RandomHex(16), Host: b.writer.Host, Deadline: task.At(now.Add(b.o.Lease))}
}

// mendFile puts back what mbox keeps in a task file that was edited by hand. If
// the file without its result is byte for byte what the ledger names, there is
// nothing to do; otherwise the fields come from the index and the history
// from the ledger.
func (b *reconciler) mendFile(t *Task, r *queue.Entry) error {
	result := t.Result
	t.Result = Result{Status: r.State, Artifacts: []Artifact{}}
	data, err := schemas.Encode(t)
	if err != nil {
		return err
	}
	t.Result.Output, t.Result.Error = result.Output, result.Error
	t.Result.Artifacts = append(t.Result.Artifacts, result.Artifacts...)
	if audit.Hash(data) == r.After.String() {
		return nil
	}
	old := t.Mbox
	t.Version = 1
	t.Mbox = Meta{
		Revision: r.Revision, Epoch: r.Epoch, Attempt: r.Attempt, MaxAttempts: r.Max,
		NotBefore: task.TimeOf(r.NotBefore), Deadline: task.TimeOf(r.Deadline), DependsOn: old.DependsOn,
		ParentID: old.ParentID, RootID: old.RootID, Depth: old.Depth, Join: old.Join, WaitsFor: old.WaitsFor, Budget: old.Budget,
		Trigger: old.Trigger, Action: old.Action, IdempotencyKey: old.IdempotencyKey, Labels: old.Labels,
		Accept: old.Accept, ExpectOutput: old.ExpectOutput, Paths: old.Paths, Attachments: old.Attachments,
	}
	t.Assignment.PickedUpBy, t.Assignment.PickedUpAt = nil, nil
	if r.State == InProgress {
		since, by := task.At(task.UnixMillis(r.Since)), r.Claimant
		t.Assignment.PickedUpBy, t.Assignment.PickedUpAt = &by, &since
		t.Mbox.NotBefore = nil
		t.Mbox.Lease = &Lease{Token: home.RandomHex(16), Host: b.writer.Host, Deadline: task.At(task.UnixMillis(r.Until))}
		if old.Lease != nil && task.DigestOf(b.saltedHash("token", old.Lease.Token)) == r.Claim {
			t.Mbox.Lease.Token = old.Lease.Token
		}
	}
	t.Audit.StateChanges, err = b.ledger.Trail(r.ID)
	t.Audit.Trim()
	return err
}

// yield gives a task up that was moved by hand before our claim moved it. The claim
// stands in the ledger, so a line says that it is over and who has the task now.
func (b *reconciler) yield(ctx context.Context, s *shard, c *Claim) error {
	f, _, err := b.current(c.ID())
	if err != nil {
		return err
	}
	b.claimByHand(f.Task)
	f.Task.Mbox.Epoch++
	return b.commit(ctx, s, &change{
		id: c.ID(), by: audit.MboxAgent, event: audit.Reconcile, from: InProgress, to: InProgress, task: f.Task, before: f.Hash,
		reason: "moved by hand first", action: fmt.Sprintf("mbox gave %s to whoever moved it by hand before %s", c.ID(), c.agent),
		token: c.token, extra: func(m *task.Move) { m.Adopted = true },
	})
}

// stray puts a file whose id has no line, and which lies where only mbox puts
// files, into quarantine.
func (b *reconciler) stray(ctx context.Context, state State, name string) (again time.Duration, err error) {
	id, path := ID(task.TrimJSON(name)), b.path("tasks", string(state), name)
	return b.ifFree(ctx, id, func(s *shard) error {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if task.CheckID(id) == nil && id.File() == name {
			r, err := b.lookup(id)
			if err == nil && r != nil && r.State != state {
				return b.reconcile(ctx, s, id)
			}
			if err != nil || r != nil {
				return err
			}
			if as, err := b.ledger.Spelling(id); err != nil || as != "" {
				return err // verify names it
			}
		}
		if pin, err := durable.Pinned(path); pin != "" || err != nil {
			return err // verify names it
		}
		return b.setAside(ctx, s, path, name, audit.TaskQuarantined, home.Reason{Reason: "a file without a ledger line in tasks/" + string(state), Code: "stray"})
	})
}
