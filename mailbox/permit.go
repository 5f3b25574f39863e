package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mbox/audit"
	"mbox/schemas"
)

// review asks Options.Review about a new task. What it refuses is noted before
// the error is returned. s is a shard that the caller holds, or nil. A drop is
// asked about by [drop.reviewed].
func (b *Box) review(ctx context.Context, s *shard, t *Task) ([]audit.Entry, error) {
	if b.o.Review == nil {
		return nil, nil
	}
	notes, refused := b.o.Review(t)
	return b.verdict(ctx, s, t, notes, refused)
}

// verdict notes what Options.Review refused.
func (b *Box) verdict(ctx context.Context, s *shard, t *Task, notes []audit.Entry, refused error) ([]audit.Entry, error) {
	if refused == nil {
		return notes, nil
	}
	return nil, errors.Join(refused, b.noteAll(ctx, s, t.ID, notes))
}

// noteAll writes the lines about a task, under the shard that the caller holds,
// if it holds one: taking another would be against the order of locks.
func (b *Box) noteAll(ctx context.Context, s *shard, id ID, notes []audit.Entry) error {
	for _, e := range notes {
		if id != "" {
			text := string(id)
			e.TaskID = &text
		}
		if err := b.noteUnder(ctx, s, e); err != nil {
			return err
		}
	}
	return nil
}

// errHeld says that a task waits for an approval.
var errHeld = errors.New("it waits for an approval")

// mayRun tells whether a task that is ready may be worked at. One that is too
// deep, or whose tree has spent its budget, fails; one that needs an approval is
// held. The caller holds the task's shard.
func (b *Box) mayRun(ctx context.Context, s *shard, f *found, agent string) error {
	t := f.task
	switch over, err := b.overspent(ctx, t); {
	case err != nil:
		return err
	case t.Mbox.Depth >= int64(b.o.MaxDepth):
		return b.refuseClaim(ctx, s, f, "depth", fmt.Sprintf("delegation depth limit reached (%d/%d)", t.Mbox.Depth, b.o.MaxDepth))
	case over != "":
		return b.refuseClaim(ctx, s, f, "budget_spent", over)
	}
	if b.needsApproval(t, agent) == "" {
		return nil
	}
	b.hold(t.ID, true) // first: an approval that comes behind the look lets it go
	ok, err := b.approved(t.ID, f.hash)
	if err == nil && !ok {
		return errHeld
	}
	b.hold(t.ID, false)
	return err
}

// needsApproval tells why an agent may take the task only once it is approved; ""
// if it may take it as it is. A task for anybody is asked for as who takes it.
func (b *Box) needsApproval(t *Task, agent string) string {
	if b.o.Approval == nil {
		return ""
	}
	taken := *t
	taken.Assignment.TargetAgent = agent
	return b.o.Approval(&taken)
}

// overspent tells what the task's tree has used up; "" if nothing.
func (b *Box) overspent(ctx context.Context, t *Task) (string, error) {
	if len(t.Mbox.Budget) == 0 || t.Mbox.RootID == "" {
		return "", nil
	}
	spent, err := b.spentIn(ctx, t.Mbox.RootID)
	if err != nil {
		return "", err
	}
	kind := spent.over(t.Mbox.Budget)
	if kind == "" {
		return "", nil
	}
	return fmt.Sprintf("the tree of %s has spent %d of %d %s", t.Mbox.RootID, spent[kind], t.Mbox.Budget[kind], kind), nil
}

// refuseClaim fails a task that may not be worked at, and returns errNotReady.
func (b *Box) refuseClaim(ctx context.Context, s *shard, f *found, code, why string) error {
	id := f.task.ID
	f.task.Result.Error = &TaskError{Code: code, Message: why}
	err := b.commit(ctx, s, &change{
		id: id, by: audit.MboxAgent, event: audit.TaskFailed, from: Pending, to: Failed, task: f.task, before: f.hash,
		reason: code + ": " + why, said: fmt.Sprintf("mbox failed %s: %s", id, code),
	})
	return cmp.Or(err, errNotReady)
}

// hold keeps a task out of the queues until a line about it comes, or lets it go.
func (b *Box) hold(id ID, held bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.index.own(id)
	if r == nil {
		return
	}
	r.held = held
	if !held && !r.taken {
		b.index.putBack(r, b.now())
	}
}

// Approval is what a decision line says that approves a task: exactly these
// bytes, until then.
type Approval struct {
	SHA256 string `json:"sha256"` // of the task file in pending
	Until  Time   `json:"until"`
	From   string `json:"from,omitzero"` // the terminal or door that it came by
}

// Approve writes a decision record that approves the action of the task as it lies
// in pending, for the time; from is the terminal or door by which the approval
// came. Any later change of the task's bytes voids it, a claim's too: a task that
// comes back to pending has to be approved again. A task that is not in pending is
// ErrConflict, one that carries no action a *Refusal: nobody knows yet what it will
// do. It returns the decision's id.
func (b *Box) Approve(ctx context.Context, id ID, by, from, why string, valid time.Duration) (string, error) {
	if err := CheckID(id); err != nil {
		return "", err
	}
	f, r, err := b.current(id)
	if errors.Is(err, ErrNotFound) {
		if f, err := b.seek(id); err == nil {
			return "", taskError(id, fmt.Errorf("%w: it is %s, only a pending task can be approved", ErrConflict, f.state))
		}
	}
	if err != nil {
		return "", err
	}
	if r.state != Pending {
		return "", taskError(id, fmt.Errorf("%w: it is %s, only a pending task can be approved", ErrConflict, r.state))
	}
	if f.task.Mbox.Action == nil {
		return "", taskError(id, refusal("approval", "it carries no action, so nobody knows what it will do; what of that has to be approved becomes a task of its own"))
	}
	a := &Approval{SHA256: f.hash, Until: At(b.now().Add(valid)), From: schemas.Sentence(from, 200)}
	needs := ""
	if b.o.Approval != nil {
		needs = b.o.Approval(f.task)
	}
	d := audit.Decision{
		Agent: by, Task: string(id),
		Context:  fmt.Sprintf("Task %s, %s, asks for the action %s. %s", id, f.hash, f.task.Mbox.Action.Name, needs),
		Options:  []string{"Approve: it runs once, exactly as it is now", "Cancel: it does not run"},
		Decision: fmt.Sprintf("Approved by %s (%s) until %s. %s", by, a.From, a.Until, why),
	}
	return b.decide(ctx, d, a)
}

// Approved tells whether the task was approved with exactly the bytes that this
// claim took.
func (c *Claim) Approved() (bool, error) { return c.box.approved(c.ID(), c.from) }

// approved looks for an approval of these bytes, back to the line that created
// the task.
func (b *Box) approved(id ID, hash string) (bool, error) {
	want := `"task_id":` + quoted(string(id))
	for line, err := range b.ledger.Backward() {
		if err != nil {
			return false, err
		}
		text := string(line.Raw)
		if !strings.Contains(text, want) {
			continue
		}
		if strings.Contains(text, `"from":null`) {
			break
		}
		if !strings.Contains(text, `"approves":`) {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return false, err
		}
		var d recordDetails
		if ID(e.Task()) != id || e.Event != audit.DecisionEvent || e.Detail(&d) != nil || d.Approves == nil {
			continue
		}
		if d.Approves.SHA256 == hash && b.now().Before(d.Approves.Until.Time) {
			return true, nil
		}
	}
	return false, nil
}
