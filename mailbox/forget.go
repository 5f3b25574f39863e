package mailbox

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/audit"
	records "mbox/audit/record"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Forgotten is what the first line of a ledger says that took the place of one
// that was lost, in its details.
type Forgotten struct {
	Seq      int64  `json:"seq"` // the last that anything remembered
	Checksum string `json:"checksum"`
}

type forgottenDetails struct {
	Forgotten Forgotten `json:"forgotten"`
	Reason    string    `json:"reason"`
	TX        string    `json:"tx"`
	audit.Writer
}

// forget begins another ledger with what the tree holds. No file is changed: each
// task gets a line from nowhere to its folder with its own tx, epoch and hash,
// each record and each quarantine entry its line again. All shards are held
// meanwhile, unsettled: what they had begun, only the old ledger could tell.
func (r *recovery) forget() error {
	b := r.b
	known, why, err := b.evidence.LostLines(r.ctx, b.ledger.Ledger, r.restarted, r.out.Moved)
	if err != nil {
		return err
	}
	if why == "" && !errors.Is(audit.CheckWritable(b.home), audit.ErrDamaged) {
		return fmt.Errorf("%w: the ledger holds all that is known of it, up to seq %d", ErrConflict, known.Seq)
	}
	if why != "" {
		if err := b.ledger.Stop(fmt.Errorf("%w: %s", audit.ErrDamaged, why)); !errors.Is(err, audit.ErrDamaged) {
			return err
		}
	}
	for n := range home.Shards {
		s, err := b.holdShard(r.ctx, n)
		if err != nil {
			return err
		}
		defer s.unlock()
	}
	if err := durable.RemoveIfThere(queue.File(b.home)); err != nil {
		return err
	}
	r.forgot = true
	return b.ledger.Forget(r.ctx, r.lines(known))
}

// lines are those of the new ledger.
func (r *recovery) lines(known audit.Position) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		first := audit.Entry{
			Agent: audit.MboxAgent, Event: audit.Reconcile,
			Action: fmt.Sprintf("mbox began the ledger anew: the one before ended with seq %d, as far as is known", known.Seq),
			Details: audit.Details(forgottenDetails{
				Forgotten: Forgotten{known.Seq, known.Checksum}, Reason: "the operator gave the lost ledger up", TX: home.RandomHex(16), Writer: r.b.writer,
			}),
		}
		if !yield(first, nil) {
			return
		}
		tasks, err := r.tasksThere()
		for _, f := range tasks {
			if !yield(r.taskLine(f), nil) {
				return
			}
		}
		if err != nil {
			yield(audit.Entry{}, err)
			return
		}
		for path, err := range home.Paths(r.b.path("decisions"), r.b.path("changes"), r.b.path("tasks", "quarantine")) {
			if err != nil {
				yield(audit.Entry{}, err)
				return
			}
			if e, ok := r.fileLine(path); ok && !yield(e, nil) {
				return
			}
		}
		said, err := r.messagesThere()
		for _, m := range said {
			if e, err := r.messageLine(m); !yield(e, err) || err != nil {
				return
			}
		}
		if err != nil {
			yield(audit.Entry{}, err)
		}
	}
}

// tasksThere are the tasks that had a line, in the order of their ids. Of several
// files with one id the one of the highest revision counts; the others go to
// quarantine afterwards.
func (r *recovery) tasksThere() ([]*home.File, error) {
	best := map[string]*home.File{}
	for t, err := range r.b.evidence.Stamped() {
		if err != nil {
			return nil, err
		}
		f, err := home.Read(r.b.home, home.StateAt(r.b.home, t.Path), t.Path)
		if err != nil {
			continue // verify names it
		}
		key := f.Task.ID.Fold()
		if have := best[key]; have == nil || f.Task.Mbox.Revision > have.Task.Mbox.Revision {
			best[key] = &home.File{Task: f.Task, Hash: f.Hash, State: f.State}
		}
	}
	return slices.SortedFunc(maps.Values(best), func(a, b *home.File) int { return strings.Compare(string(a.Task.ID), string(b.Task.ID)) }), nil
}

// taskLine tells of a task as it lies. One that is not what its folder says is
// adopted afterwards, which puts that right.
func (r *recovery) taskLine(f *home.File) audit.Entry {
	t := f.Task
	if unsound(f) {
		r.o.Adopt = append(r.o.Adopt, t.ID)
	}
	if f.State == InProgress && t.Mbox.Lease == nil {
		t.Mbox.Lease = &Lease{}
	}
	c := &change{
		id: t.ID, by: audit.MboxAgent, event: audit.Reconcile, from: None, to: f.State, task: t,
		reason: "it lay here when the ledger was forgotten", action: fmt.Sprintf("mbox found %s in %s when the ledger was forgotten", t.ID, f.State),
		extra: func(m *task.Move) {
			if m.Adopted = true; !f.State.Terminal() {
				m.Queue = task.EnvelopeOf(t)
			}
			if m.Attachments = t.Mbox.Attachments; t.Mbox.IdempotencyKey != "" {
				m.Key = r.b.sender.keyHash(t)
			}
		},
	}
	e, _ := c.line(r.b.books, t.Mbox.TX, f.Hash)
	return e
}

// unsound tells whether the file is not what its folder says.
func unsound(f *home.File) bool {
	t, state := f.Task, f.State
	if state == Archived {
		state = t.Result.Status
	}
	return t.Result.Status != state || !state.Terminal() && f.State == Archived || t.Sound() != nil || t.Lacks(state) != "" || t.Audit.Strays(state) != ""
}

// fileLine tells of a file beside the tasks as it lies: a decision, a change, or an
// entry of the quarantine by its reason. false if it is none, which verify names.
func (r *recovery) fileLine(path string) (audit.Entry, bool) {
	name, folder := filepath.Base(path), filepath.Base(filepath.Dir(path))
	data, err := durable.Read(path, MaxTask)
	switch {
	case err != nil:
	case folder != "quarantine":
		return r.recordLine(folder, name, data), !task.Ignored(name) && strings.HasSuffix(name, ".md")
	default:
		entry, isReason := strings.CutSuffix(path, home.ReasonSuffix)
		_, gone := os.Lstat(entry)
		var why home.Reason
		if isReason && gone == nil && schemas.Decode(data, &why) == nil && why.Entry == filepath.Base(entry) {
			k := &keeping{path: entry, why: why, noted: audit.Hash(data)}
			return r.b.asideEntry(k, home.RandomHex(16), audit.Reconcile), true
		}
	}
	return audit.Entry{}, false
}

// recordLine is the line of a record as it lies.
func (r *recovery) recordLine(folder, name string, data []byte) audit.Entry {
	f := &filing{
		event: audit.DecisionEvent, by: audit.MboxAgent, data: data, action: "mbox found " + name + " when the ledger was forgotten",
		recordDetails: recordDetails{File: folder + "/" + name},
	}
	if folder == "changes" {
		f.event = audit.ChangeEvent
		if c, err := records.ParseChange(data); err == nil {
			f.Kind = c.Type
		}
	} else if decided, err := records.ParseDecision(data); err == nil {
		f.task = decided.Task
	}
	return f.line(r.b.books, home.RandomHex(16))
}
