package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mbox/audit"
	records "mbox/audit/record"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
	"mbox/mailbox/tree"
	"mbox/schemas"
)

// approvals judges whether a task may be sent, taken and carried out.
type approvals struct {
	*books
}

// review asks Options.Review about a new task. What it refuses is noted before
// the error is returned. s is a shard that the caller holds, or nil. A drop is
// asked about by [drop.reviewed].
func (b *approvals) review(ctx context.Context, s *shard, t *Task) ([]audit.Entry, error) {
	if b.o.Review == nil {
		return nil, nil
	}
	notes, refused := b.o.Review(t)
	return b.verdict(ctx, s, t, notes, refused)
}

// verdict notes what Options.Review refused.
func (b *approvals) verdict(ctx context.Context, s *shard, t *Task, notes []audit.Entry, refused error) ([]audit.Entry, error) {
	if refused == nil {
		return notes, nil
	}
	return nil, errors.Join(refused, b.noteAll(ctx, s, t.ID, notes))
}

// noteAll writes the lines about a task, under the shard that the caller holds,
// if it holds one: taking another would be against the order of locks.
func (b *approvals) noteAll(ctx context.Context, s *shard, id ID, notes []audit.Entry) error {
	for _, e := range notes {
		if id != "" {
			e.TaskID = new(string(id))
		}
		if err := b.note(ctx, s, e); err != nil {
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
func (b *approvals) mayRun(ctx context.Context, s *shard, f *home.File, agent string) error {
	t := f.Task
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
	b.queue.Hold(t.ID, true) // first: an approval that comes behind the look lets it go
	a, err := b.approved(t.ID, f.Hash)
	if err == nil && a == nil {
		return errHeld
	}
	b.queue.Hold(t.ID, false)
	return err
}

// needsApproval tells why an agent may take the task only once it is approved; ""
// if it may take it as it is. A task for anybody is asked for as who takes it.
func (b *approvals) needsApproval(t *Task, agent string) string {
	if b.o.Approval == nil {
		return ""
	}
	taken := *t
	taken.Assignment.TargetAgent = agent
	return b.o.Approval(&taken)
}

// overspent tells what the task's tree has used up; "" if nothing.
func (b *approvals) overspent(ctx context.Context, t *Task) (string, error) {
	if len(t.Mbox.Budget) == 0 || t.Mbox.RootID == "" {
		return "", nil
	}
	over := ""
	err := b.forest.In(ctx, t.Mbox.RootID, func(tree *Tree) error {
		if kind := tree.Spent.Over(t.Mbox.Budget); kind != "" {
			over = fmt.Sprintf("the tree of %s has spent %d of %d %s", t.Mbox.RootID, tree.Spent[kind], t.Mbox.Budget[kind], kind)
		}
		return nil
	})
	return over, err
}

// refuseClaim fails a task that may not be worked at, and returns errNotReady.
func (b *approvals) refuseClaim(ctx context.Context, s *shard, f *home.File, code, why string) error {
	return cmp.Or(b.commit(ctx, s, failing(f, code, why)), errNotReady)
}

// Approval is what a decision line says that approves a task: exactly these
// bytes, with what lies in the folders that its action binds, until then.
type Approval struct {
	SHA256 string `json:"sha256"` // of the task file in pending
	// Folders are the SHA-256s of the folders that the action binds, in the order
	// of their names, which stand in the task.
	Folders []string `json:"folders,omitempty"`
	Until   Time     `json:"until"`
	From    string   `json:"from,omitzero"` // the terminal or door that it came by

	Decision string `json:"-"` // the id of the record
}

// Folder is a folder besides the task that its action uses. Its SHA-256 is over
// all that lies in it; "" where an approval does not bind that, because what is
// approved may itself write there.
type Folder struct {
	Path   string `json:"path"` // as the task's action names it
	SHA256 string `json:"sha256,omitzero"`
}

// bound are the SHA-256s of the folders that an approval binds.
func bound(folders []Folder) (sums []string) {
	for _, f := range folders {
		if f.SHA256 != "" {
			sums = append(sums, f.SHA256)
		}
	}
	return sums
}

// Sum is one SHA-256 over all that is approved: that of the task's file, or where
// folders are bound that of the lines which name it and them. [Box.Why] tells it, and
// [Consent] takes it.
func (a *Approval) Sum() string {
	if len(a.Folders) == 0 {
		return a.SHA256
	}
	return audit.Hash([]byte(a.SHA256 + "\n" + strings.Join(a.Folders, "\n") + "\n"))
}

// folders asks what else than the task an approval of it binds.
func (b *approvals) folders(ctx context.Context, t *Task) ([]Folder, error) {
	if b.o.Folders == nil {
		return nil, nil
	}
	return b.o.Folders(ctx, t)
}

// Consent is a person's word for a task.
type Consent struct {
	By   string        // who gives it
	From string        // the terminal or door by which it came
	Why  string        // in the person's words
	For  time.Duration // how long it counts
	// SHA256 is what the person has seen, as [Box.Why] tells it; "" for the task as
	// it is found.
	SHA256 string
}

// Approve writes a decision record that approves the action of the task as it lies
// in pending. Any later change of the task's bytes voids it, a claim's too: a task
// that comes back to pending has to be approved again. A task that is not in pending,
// or is not what was seen, is ErrConflict; one that carries no action is a *Refusal:
// nobody knows yet what it will do. So is one whose folders cannot be bound.
func (b *Box) Approve(ctx context.Context, id ID, c Consent) (*Approval, error) {
	if err := task.CheckID(id); err != nil {
		return nil, err
	}
	f, r, err := b.current(id)
	if errors.Is(err, ErrNotFound) {
		if f, err := b.seek(id); err == nil {
			return nil, task.About(id, fmt.Errorf("%w: it is %s, only a pending task can be approved", ErrConflict, whereItIs(f)))
		}
	}
	if err != nil {
		return nil, err
	}
	if r.State != Pending {
		return nil, task.About(id, fmt.Errorf("%w: it is %s, only a pending task can be approved", ErrConflict, whereItIs(f)))
	}
	if f.Task.Mbox.Action == nil {
		return nil, task.About(id, tree.Refuse("approval", "it carries no action, so nobody knows what it will do; what of that has to be approved becomes a task of its own"))
	}
	folders, err := b.approvals.folders(ctx, f.Task)
	if err != nil {
		return nil, task.About(id, tree.Refuse("approval", "what it uses cannot be bound: %v", err))
	}
	a := &Approval{SHA256: f.Hash, Folders: bound(folders), Until: task.At(b.now().Add(c.For)), From: schemas.Sentence(c.From, 200)}
	if c.SHA256 != "" && c.SHA256 != a.Sum() {
		return nil, task.About(id, fmt.Errorf("%w: it is not what was seen: its SHA-256 is %s now", ErrConflict, a.Sum()))
	}
	a.Decision, err = b.recorder.decide(ctx, b.approvals.approval(f, folders, a, c), a)
	return a, err
}

// approval is the record of an approval.
func (b *approvals) approval(f *home.File, folders []Folder, a *Approval, c Consent) records.Decision {
	id, needs := f.Task.ID, ""
	if b.o.Approval != nil {
		needs = b.o.Approval(f.Task)
	}
	for _, folder := range folders {
		needs += fmt.Sprintf(" It uses the folder %s: %s.", schemas.Quote(folder.Path), cmp.Or(folder.SHA256, "not bound"))
	}
	return records.Decision{
		Agent: c.By, Task: string(id),
		Context:  fmt.Sprintf("Task %s, %s, asks for the action %s. %s", id, f.Hash, f.Task.Mbox.Action.Name, needs),
		Options:  []string{"Approve: it runs once, exactly as it is now", "Cancel: it does not run"},
		Decision: fmt.Sprintf("Approved by %s (%s) until %s. %s", c.By, a.From, a.Until, c.Why),
	}
}

// Approved is the approval of exactly the bytes that this claim took; nil if there
// is none. Whether the folders are still what it names, who does the action tells.
func (c *Claim) Approved() (*Approval, error) { return c.box.approvals.approved(c.ID(), c.from) }

// approved looks for the last approval of these bytes that counts still, back to
// the line that created the task; where the index has none, no line is read: of
// tasks that wait for one there may be many.
func (b *approvals) approved(id ID, hash string) (*Approval, error) {
	if err := b.queue.Update(); err != nil || !b.queue.Knows(queue.Approves+hash) {
		return nil, err
	}
	for line, err := range b.ledger.LinesOf(string(id)) {
		if err != nil {
			return nil, err
		}
		if task.Creates(line) {
			break
		}
		if line.Event() != audit.DecisionEvent || line.Detail("approves") == nil {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return nil, err
		}
		var d recordDetails
		if e.Detail(&d) != nil || d.Approves == nil {
			continue
		}
		if d.Approves.SHA256 == hash && b.now().Before(d.Approves.Until.Time) {
			return d.Approves, nil
		}
	}
	return nil, nil
}
