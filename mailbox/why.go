package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/lease"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// explainer says why a task is where it is, and raises the alarm about one that
// will not come further by itself.
type explainer struct {
	*books
	dependencies *dependencies
	approvals    *approvals
}

// Why says why a task is where it is, who could take it, what it waits for,
// what happened to it, and which ledger lines prove that.
type Why struct {
	ID      ID       `json:"id"`
	State   State    `json:"state"`
	Path    string   `json:"path"` // from the home
	Task    *Task    `json:"task,omitzero"`
	Tree    *Tree    `json:"tree,omitzero"` // that it belongs to; nil if it belongs to none
	Summary string   `json:"summary"`       // one sentence
	Back    string   `json:"back,omitzero"` // what ended the last attempt, of one that is pending again
	Waits   []string `json:"waits,omitempty"`
	Able    []string `json:"able,omitempty"`    // registered agents that could take it
	Asks    []string `json:"asks,omitempty"`    // anybody else who could
	Approve string   `json:"approve,omitzero"`  // [Approval.Sum] of what waits for an approval
	Folders []Folder `json:"folders,omitempty"` // that it uses
	Lease   string   `json:"lease,omitzero"`    // how the claim stands
	Over    bool     `json:"over,omitzero"`     // it is over: the next scan takes the task back
	Checks  []string `json:"checks,omitempty"`  // that the result has passed
	Alarms  []string `json:"alarms,omitempty"`
	Lines   []Proof  `json:"lines"`
	Faults  []string `json:"faults,omitempty"` // where the file and the ledger differ

	InTheWay ID `json:"-"` // the task whose paths it waits for

	given  *Approval // the last one
	byHand []string  // of Alarms, those of a change by hand: they are over when it is undone
}

// Conceal has w not tell which task is in the way of this one.
func (w *Why) Conceal() {
	other := string(w.InTheWay) + ", which "
	for i, text := range w.Waits {
		if strings.HasPrefix(text, other) {
			w.Waits[i] = "another task, which works on the same paths"
		}
	}
	if summary, is := strings.CutPrefix(w.Summary, waitsFor); is && strings.HasPrefix(summary, other) {
		w.Summary = waitsFor + w.Waits[0]
	}
}

// waitsFor begins what is said of a task that waits.
const waitsFor = "pending: it waits for "

// Proof is a ledger line about a task.
type Proof struct {
	Seq      int64       `json:"seq"`
	File     string      `json:"file"` // from the home
	TS       string      `json:"ts"`
	Agent    string      `json:"agent"`
	Event    audit.Event `json:"event"`
	Action   string      `json:"action"`
	Reason   string      `json:"reason,omitzero"`
	Checksum string      `json:"checksum"`
}

// Why explains a task. It changes nothing.
func (b *Box) Why(ctx context.Context, id ID) (*Why, error) {
	if err := task.CheckID(id); err != nil {
		return nil, err
	}
	w := &Why{ID: id, Lines: []Proof{}}
	last, err := b.explainer.proofs(ctx, w)
	if err != nil {
		return nil, err
	}
	f, err := b.seek(id)
	if errors.Is(err, ErrNotFound) && len(w.Lines) > 0 {
		w.Summary = "its file is gone; the ledger's last word is: " + w.Lines[len(w.Lines)-1].Action
		if last == nil {
			w.Summary = "it never became a task; the ledger's last word is: " + w.Lines[len(w.Lines)-1].Action
		}
		return w, nil
	}
	if f == nil {
		return nil, err
	}
	if err != nil {
		w.Faults = append(w.Faults, err.Error())
	}
	w.State, w.Task, w.Path = f.State, f.Task, f.Path[len(b.home)+1:]
	if w.compare(f, last); len(w.Faults) == 0 {
		w.Alarms = slices.DeleteFunc(w.Alarms, func(why string) bool { return slices.Contains(w.byHand, why) })
	}
	if f.Task == nil {
		w.Summary = "its file cannot be read as a task"
		switch {
		case last == nil && f.State == Pending:
			w.Summary = cmp.Or(patient(b, id.File()), w.Summary)
		case last != nil && f.Hash == task.HashOf(last.After):
			w.Summary = "a newer mbox wrote it, and only such a one can do it"
		case errors.Is(err, durable.ErrNotRegular):
			w.Waits = append(w.Waits, fmt.Sprintf("a person, to move what lies in its place out of the home, and to put its file there from a backup; then mbox recover --adopt %s takes it, and without the file gives it up", id))
		case errors.Is(err, fs.ErrPermission):
			w.Waits = append(w.Waits, "a person, to let mbox read its file: it is another user's, or chmod 0600 helps")
		default:
			w.Waits = append(w.Waits, fmt.Sprintf("a person, to mend its file where it lies; then mbox recover --adopt %s takes it, and before that mbox recover puts it into tasks/quarantine", id))
		}
		return w, nil
	}
	if f.Task.Mbox.RootID != "" {
		if w.Tree, err = b.Tree(ctx, f.Task.Mbox.RootID); err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
	}
	return w, b.explainer.explain(ctx, w, f)
}

// Stands is Why without the ledger's lines, for a task that the index knows to be pending
// or in progress: it takes as long however old the task and the ledger are. The last
// move is what the index tells. Lines, Tree and Checks are not filled, and of Alarms there
// is at most the one that would be raised now.
func Stands(ctx context.Context, b *Box, id ID) (*Why, error) {
	r, err := b.lookup(id)
	if err != nil {
		return nil, err
	}
	if r == nil {
		return nil, task.About(id, ErrNotFound)
	}
	f, err := b.seek(id)
	if f == nil {
		return nil, err
	}
	w := &Why{ID: id, State: f.State, Task: f.Task, Path: f.Path[len(b.home)+1:], Lines: []Proof{}}
	if err != nil {
		w.Faults = append(w.Faults, err.Error())
	}
	w.differs(f, r.State, r.After.String())
	if f.Task == nil {
		w.Summary = "its file cannot be read as a task"
		return w, nil
	}
	return w, b.explainer.explain(ctx, w, f)
}

// proofs collects the ledger's lines about the task and returns its last move.
func (b *explainer) proofs(ctx context.Context, w *Why) (last *task.Move, err error) {
	for line, err := range b.ledger.LinesOf(string(w.ID)) {
		if err != nil {
			return nil, err
		}
		e, err := line.Decode()
		if err != nil {
			return nil, err
		}
		m, moved := task.MoveOf(&e)
		if moved && last == nil {
			last = m
		}
		if moved && m.Enters() == Completed {
			w.Checks = m.Checks
		}
		var d struct {
			Reason   string    `json:"reason"`
			Alarm    string    `json:"alarm"`
			Approves *Approval `json:"approves"`
		}
		_ = e.Detail(&d) // a line without them has neither
		w.given = cmp.Or(w.given, d.Approves)
		if d.Alarm != "" {
			w.Alarms = append([]string{d.Reason}, w.Alarms...)
		}
		if d.Alarm == "edited" || d.Alarm == "unreadable" {
			w.byHand = append(w.byHand, d.Reason)
		}
		w.Lines = append(w.Lines, Proof{e.Seq, "audit/shared/" + line.At.File, e.TS, e.Agent, e.Event, e.Action, d.Reason, e.Checksum})
		if moved && m.Leaves() == None {
			break
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	slices.Reverse(w.Lines)
	return last, nil
}

// passed tells which checks a result has passed; "" where there were none.
func (w *Why) passed() string {
	if len(w.Checks) == 0 {
		return ""
	}
	return "and has passed " + strings.Join(w.Checks, ", ")
}

// compare says where the file is not what the ledger's last move says.
func (w *Why) compare(f *home.File, last *task.Move) {
	switch {
	case last == nil && f.State == Pending:
		w.Waits = append(w.Waits, "admission: mbox has not taken the dropped file in yet")
	case last == nil:
		w.Faults = append(w.Faults, "the ledger has no line about it")
	default:
		w.differs(f, last.Enters(), task.HashOf(last.After))
	}
}

// differs says where the file is not what it was when a line was written about it last.
func (w *Why) differs(f *home.File, state State, hash string) {
	switch {
	case state != f.State:
		w.Faults = append(w.Faults, fmt.Sprintf("the ledger has it in %q, the file lies in %s: moved by hand", state, f.State))
	case f.Hash == "": // it cannot be read, and that is told
	case hash != f.Hash:
		w.Faults = append(w.Faults, "its bytes are not those that the ledger names: edited by hand")
	}
}

func (b *explainer) explain(ctx context.Context, w *Why, f *home.File) error {
	t := f.Task
	switch f.State {
	case Pending:
		return b.explainPending(ctx, w, t)
	case InProgress:
		return b.explainClaim(w, t)
	case Completed:
		w.Summary = "completed by " + pickedBy(t) + " " + when(t.Updated) + ", " + cmp.Or(w.passed(), "unverified")
	case Failed:
		w.Summary = "failed " + when(t.Updated)
		if e := t.Result.Error; e != nil {
			w.Summary += ": " + e.Text()
		}
	case Archived:
		w.Summary = fmt.Sprintf("archived; it was %s", t.Result.Status)
	}
	return nil
}

func pickedBy(t *Task) string { return cmp.Or(t.Claimant(), "nobody") }

func when(t Time) string { return "at " + t.String() }

func (b *explainer) explainPending(ctx context.Context, w *Why, t *Task) error {
	r, err := b.lookup(w.ID)
	if err != nil {
		return err
	}
	if r == nil {
		w.Summary = "dropped, and not yet admitted"
		return nil
	}
	w.Back = cameBack(t)
	now := b.now()
	if len(w.Faults) > 0 && b.byHand(ctx, w.ID) != nil {
		way := "mbox recover --adopt %s takes it as it lies"
		if t.Sound() != nil {
			way = "mended where it lies, mbox recover --adopt %s takes it"
		}
		w.Waits = append(w.Waits, "a person, for its file was changed by hand: "+fmt.Sprintf(way, w.ID))
	}
	if at := t.Mbox.NotBefore; at != nil && at.After(now) {
		w.Waits = append(w.Waits, "its time: not before "+at.String())
	}
	for _, d := range t.Mbox.DependsOn {
		if text, err := b.explainDependency(d); err != nil {
			return err
		} else if text != "" {
			w.Waits = append(w.Waits, text)
		}
	}
	if err := b.explainChildren(w, t); err != nil {
		return err
	}
	if other, way := inTheWay(b.books, w.ID); other != "" {
		w.InTheWay, w.Waits = other, append(w.Waits, way)
	}
	if err := b.explainApproval(ctx, w, t, r); err != nil {
		return err
	}
	able, kept := b.whoCan(r.Class)
	w.Able = able
	w.Waits = append(w.Waits, b.explainBrains(r, able)...)
	for _, k := range kept {
		if k.paused && len(able) == 0 {
			w.Waits = append(w.Waits, k.name+", which "+k.why)
		} else {
			w.Asks = append(w.Asks, k.name+", which "+k.why)
		}
	}
	switch {
	case !b.queue.Agent(r.Class.Target).Claims():
	case r.Class.Target != "any":
		w.Asks = append(w.Asks, "whoever claims as "+r.Class.Target)
	case r.Class.Action == "":
		w.Asks = append(w.Asks, "any agent that is not registered")
	}
	if err := b.explainNobody(ctx, w, r); err != nil {
		return err
	}
	if len(w.Waits) > 0 {
		w.Summary = waitsFor + w.Waits[0]
		return nil
	}
	w.Summary = fmt.Sprintf("pending and ready since %s", task.UnixMillis(max(r.Since, r.NotBefore)).Format(time.RFC3339))
	if waited := now.Sub(task.UnixMillis(max(r.Since, r.NotBefore))); waited > b.o.StartWithin {
		why, err := b.whyNotStarted(ctx, r)
		if err != nil || why == "" {
			return err
		}
		w.Alarms = append(w.Alarms, fmt.Sprintf("nobody has taken it for %s: %s", waited.Round(time.Second), why))
	}
	return nil
}

// cameBack tells why a task is no longer in progress; "" if it was not.
func cameBack(t *Task) string {
	changes := t.Audit.StateChanges
	if len(changes) == 0 || changes[len(changes)-1].From != InProgress {
		return ""
	}
	return changes[len(changes)-1].Reason
}

// inTheWay says which task in progress works on one of a task's paths; "" if none does.
func inTheWay(b *books, id ID) (way ID, text string) {
	e, other := b.queue.Find(id), b.queue.InTheWay(id)
	if e == nil || other == nil {
		return "", ""
	}
	return other.ID, fmt.Sprintf("%s, which %s has had since %s: both work on %s",
		other.ID, other.Claimant, task.At(task.UnixMillis(other.Since)), task.Overlap(e.Paths, other.Paths))
}

// explainChildren says which of its children a task still waits for.
func (b *explainer) explainChildren(w *Why, t *Task) error {
	joined, left, _, err := b.dependencies.join(t.Mbox.Join, t.Mbox.WaitsFor)
	if err != nil || joined {
		return err
	}
	var names []string
	for _, child := range left {
		names = append(names, b.explainChild(child))
	}
	w.Waits = append(w.Waits, fmt.Sprintf("%s of its children: %s", t.Mbox.Join, strings.Join(names, ", ")))
	return nil
}

// explainChild names a child that is waited for, and who it waits for in vain.
func (b *explainer) explainChild(id ID) string {
	e := b.queue.Find(id)
	if e == nil || e.State != Pending {
		return string(id)
	}
	able, kept := b.whoCan(e.Class)
	if len(able) > 0 || len(kept) == 0 {
		return string(id)
	}
	return fmt.Sprintf("%s, which is for %s, which %s", id, kept[0].name, kept[0].why)
}

// explainApproval says that a task waits for an operator, and for what.
func (b *explainer) explainApproval(ctx context.Context, w *Why, t *Task, r *queue.Entry) error {
	if b.o.Approval == nil {
		return nil
	}
	why := b.o.Approval(t)
	if why == "" {
		return nil
	}
	hash := r.After.String()
	if a, err := b.approvals.approved(t.ID, hash); a != nil || err != nil {
		return err
	}
	w.Waits = append(w.Waits, fmt.Sprintf("an approval (mbox approve %s): %s%s", t.ID, why, w.givenBefore(hash)))
	folders, err := b.approvals.folders(ctx, t)
	if err != nil {
		w.Waits = append(w.Waits, "what it uses: it cannot be approved as that is: "+err.Error())
		return ctx.Err()
	}
	w.Approve, w.Folders = (&Approval{SHA256: hash, Folders: bound(folders)}).Sum(), folders
	return nil
}

// givenBefore tells of an approval that does not count for the task as it is; "" if there
// was none.
func (w *Why) givenBefore(hash string) string {
	switch {
	case w.given == nil:
		return ""
	case w.given.SHA256 != hash:
		return "; the last one was for what it was before it changed"
	}
	return "; the last one has ended " + when(w.given.Until)
}

// explainBrains says why the agent that the task is for cannot think about it now;
// what is for any somebody else may take.
func (b *explainer) explainBrains(r *queue.Entry, able []string) (waits []string) {
	if r.Class.Action != "" || r.Class.Target == "any" || b.o.Unable == nil {
		return nil
	}
	for _, agent := range able {
		why := b.o.Unable(agent)
		if why == "" {
			return nil
		}
		waits = append(waits, fmt.Sprintf("%s, which cannot work now: %s", agent, why))
	}
	return waits
}

// explainNobody says why nobody can take a task that waits for nothing else.
func (b *explainer) explainNobody(ctx context.Context, w *Why, r *queue.Entry) error {
	if len(w.Waits)+len(w.Able)+len(w.Asks) > 0 {
		return nil
	}
	why, err := b.whyNotStarted(ctx, r)
	if why != "" {
		w.Waits = append(w.Waits, "an agent: "+why)
	}
	return err
}

// explainDependency says what a dependency is waited for; "" if it is completed.
func (b *explainer) explainDependency(id ID) (string, error) {
	f, err := b.seek(id)
	if errors.Is(err, ErrNotFound) {
		known, err := b.known(id)
		if known || err != nil {
			return fmt.Sprintf("%s, whose file is gone", id), err
		}
		return fmt.Sprintf("%s, which nobody has heard of", id), nil
	}
	if f == nil || f.Task == nil {
		return "", err
	}
	if f.Task.Result.Status == Completed {
		return "", nil
	}
	return fmt.Sprintf("%s, which is %s", id, f.State), nil
}

func (b *explainer) explainClaim(w *Why, t *Task) error {
	v, note, err := b.leases.Judge(t)
	if err != nil {
		return err
	}
	l := t.Mbox.Lease
	w.Over = v == lease.Lost || v == lease.Hung
	w.Summary = fmt.Sprintf("in progress: %s works on it, attempt %d of %d", pickedBy(t), t.Mbox.Attempt, t.Mbox.MaxAttempts)
	switch {
	case l == nil:
		w.Lease = "it has no lease"
	case v == lease.Lost:
		w.Lease = "its worker is gone; the next scan takes it back"
	case v == lease.Hung:
		w.Lease = "its lease ended at " + l.Deadline.String() + "; the next scan takes it back"
	case note == nil:
		w.Lease = "its lease ends at " + l.Deadline.String() + " unless progress renews it"
	default:
		w.Lease = fmt.Sprintf("held by process %d on %s", note.PID, note.Host)
		if seen, ok := b.leases.LastSeen(t, note); ok {
			w.Lease += ", last sign of life " + task.At(seen).String()
		}
	}
	if p := t.Mbox.Progress; p != nil {
		w.Summary += ": " + p.Message
		if p.Percent != nil {
			w.Summary += fmt.Sprintf(" (%d%%)", *p.Percent)
		}
	}
	return nil
}
