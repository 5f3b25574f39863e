package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"slices"
	"strings"

	"mbox/audit"
	records "mbox/audit/record"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
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
	known, why, err := b.lostLines(r.ctx, r.restarted, r.out.Moved)
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
	var held []*shard
	defer func() {
		for _, s := range slices.Backward(held) {
			s.unlock()
		}
	}()
	for n := range home.Shards {
		s, err := b.holdShard(r.ctx, n)
		if err != nil {
			return err
		}
		held = append(held, s)
	}
	if err := durable.RemoveIfThere(b.snapshotPath()); err != nil {
		return err
	}
	r.forgot = true
	return b.ledger.Forget(r.ctx, r.lines(known))
}

// lines are those of the new ledger.
func (r *recovery) lines(known audit.Position) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		b := r.b
		first := audit.Entry{
			Agent: audit.MboxAgent, Event: audit.Reconcile,
			Action: fmt.Sprintf("mbox began the ledger anew: the one before ended with seq %d, as far as is known", known.Seq),
			Details: audit.Details(forgottenDetails{
				Forgotten: Forgotten{known.Seq, known.Checksum}, Reason: "the operator gave the lost ledger up", TX: home.RandomHex(16), Writer: b.writer,
			}),
		}
		if !yield(first, nil) {
			return
		}
		for _, part := range []func(func(audit.Entry) bool) error{r.taskLines, r.recordLines, r.entryLines} {
			more := true
			err := part(func(e audit.Entry) bool { more = yield(e, nil); return more })
			if err != nil {
				yield(audit.Entry{}, err)
			}
			if err != nil || !more {
				return
			}
		}
	}
}

// taskLines tells of each task that had a line. Of several files with one id the
// one of the highest revision counts; the others go to quarantine afterwards.
func (r *recovery) taskLines(yield func(audit.Entry) bool) error {
	b, best := r.b, map[string]*home.File{}
	err := b.stamped(func(path, _ string) bool {
		f, err := home.Read(b.home, stateAt(path), b.path(path))
		if err != nil || f.State == None {
			return true
		}
		key := f.Task.ID.Fold()
		if have := best[key]; have == nil || f.Task.Mbox.Revision > have.Task.Mbox.Revision {
			best[key] = &home.File{Task: f.Task, Hash: f.Hash, State: f.State}
		}
		return true
	})
	if err != nil {
		return err
	}
	ordered := make([]*home.File, 0, len(best))
	for _, f := range best {
		ordered = append(ordered, f)
	}
	slices.SortFunc(ordered, func(a, b *home.File) int { return strings.Compare(string(a.Task.ID), string(b.Task.ID)) })
	for _, f := range ordered {
		t := f.Task
		c := &change{
			id: t.ID, by: audit.MboxAgent, event: audit.Reconcile, from: None, to: f.State, task: t,
			reason: "it lay here when the ledger was forgotten", said: fmt.Sprintf("mbox found %s in %s when the ledger was forgotten", t.ID, f.State),
			extra: func(m *task.Move) {
				if m.Adopted = true; !f.State.Terminal() {
					m.Queue = task.EnvelopeOf(t)
				}
			},
		}
		if b.unsound(f) {
			r.adopt = append(r.adopt, t.ID)
		}
		if f.State == InProgress && t.Mbox.Lease == nil {
			t.Mbox.Lease = &Lease{}
		}
		e, _ := c.line(b, t.Mbox.TX, f.Hash)
		if !yield(e) {
			return nil
		}
	}
	return nil
}

// unsound tells whether the file is not what its folder says: an adoption puts
// that right.
func (b *Box) unsound(f *home.File) bool {
	t, state := f.Task, f.State
	if state == Archived {
		state = t.Result.Status
	}
	return t.Result.Status != state || !state.Terminal() && f.State == Archived || t.Sound() != nil || t.Lacks(state) != "" || t.Audit.Strays(state) != ""
}

// stateAt is the state of a task that lies at the path; None for what is no
// folder of tasks.
func stateAt(path string) State {
	dir := strings.Split(filepath.ToSlash(path), "/")
	switch {
	case len(dir) == 3 && task.FolderIndex(State(dir[1])) >= 0:
		return State(dir[1])
	case len(dir) == 4 && dir[1] == string(Archived):
		return Archived
	}
	return None
}

// recordLines tells of each decision and change.
func (r *recovery) recordLines(yield func(audit.Entry) bool) error {
	b := r.b
	for _, folder := range []string{"decisions", "changes"} {
		names, err := durable.Names(b.path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if task.Ignored(name) || !strings.HasSuffix(name, ".md") {
				continue
			}
			data, err := durable.Read(b.path(folder, name), MaxTask)
			if err != nil {
				continue // verify names it
			}
			if !yield(b.recordLine(folder, name, data)) {
				return nil
			}
		}
	}
	return nil
}

// recordLine is the line of a record as it lies.
func (b *Box) recordLine(folder, name string, data []byte) audit.Entry {
	e := audit.Entry{Agent: audit.MboxAgent, Event: audit.DecisionEvent, Action: "mbox found " + name + " when the ledger was forgotten"}
	d := recordDetails{File: folder + "/" + name, SHA256: audit.Hash(data), TX: home.RandomHex(16), Writer: b.writer}
	if folder == "changes" {
		e.Event = audit.ChangeEvent
		if c, err := records.ParseChange(data); err == nil {
			d.Kind = c.Type
		}
	} else if decided, err := records.ParseDecision(data); err == nil && decided.Task != "" {
		e.TaskID = &decided.Task
	}
	e.Details = audit.Details(d)
	return e
}

// entryLines tells of each entry of the quarantine that has its reason.
func (r *recovery) entryLines(yield func(audit.Entry) bool) error {
	b := r.b
	names, err := durable.Names(b.path("tasks", "quarantine"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		data, err := durable.Read(b.path("tasks", "quarantine", name), MaxTask)
		entry, ok := strings.CutSuffix(name, home.ReasonSuffix)
		var why home.Reason
		if err != nil || !ok || schemas.Decode(data, &why) != nil || why.Entry != entry || !slices.Contains(names, entry) {
			continue
		}
		k := &keeping{path: b.path("tasks", "quarantine", entry), entry: entry, sha: why.SHA256, why: why, noted: audit.Hash(data)}
		if !yield(b.asideEntry(k, home.RandomHex(16), audit.Reconcile)) {
			return nil
		}
	}
	return nil
}
