package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// fitToAdopt ends a recovery with nothing changed where a file that is to be adopted cannot
// be: once recovery is at work, it ends up in quarantine as what is left of a task that is
// lost.
func fitToAdopt(r *recovery) error {
	for _, id := range r.o.Adopt {
		if path, err := unfit(r.b.ledger.Ledger, r.b.home, id); err != nil {
			return refused(r.b, path, err)
		}
	}
	return nil
}

// Unfit tells which file of a task of the home cannot be adopted as it lies, and why. There
// is none where the ledger does not know the task, or names these very bytes: those are a
// newer mbox's.
func Unfit(dir string, id ID) (path string, err error) {
	mailbox, err := home.Identity(dir)
	if err != nil {
		return "", nil
	}
	l, err := audit.Open(dir, mailbox, audit.Options{Looks: true})
	if err != nil {
		return "", nil
	}
	defer l.Close()
	return unfit(l, dir, id)
}

func unfit(l *audit.Ledger, dir string, id ID) (path string, err error) {
	after := ""
	for line, err := range l.LinesOf(string(id)) {
		if err != nil {
			return "", nil // there is no saying what the ledger names
		}
		if after = line.Text("after"); after != "" {
			break
		}
	}
	if after == "" {
		return "", nil
	}
	for _, state := range task.Folders {
		path := filepath.Join(dir, "tasks", string(state), id.File())
		f, err := home.Read(dir, state, path)
		if f == nil {
			continue
		}
		if f.Hash == after { // not "", which is what is no file
			return "", nil
		}
		if err == nil {
			err = checkAdoption(f.Task, id)
		}
		if err != nil {
			return path, err
		}
		return "", nil // what lies in a later folder is not what is adopted
	}
	return "", nil
}

// refused says of a file that it cannot be adopted.
func refused(b *Box, path string, err error) error {
	path = strings.TrimPrefix(path, b.home+"/")
	return fmt.Errorf("%s cannot be adopted: %w", path, task.InFile(err, path))
}

// checkAdoption is an error for what cannot be adopted as the task: it has another id than its
// file's name, or is not sound.
func checkAdoption(t *Task, id ID) error {
	if t.ID != id {
		return task.Fault("id", fmt.Sprintf("%s is not the file's name", schemas.Quote(string(t.ID))), string(id))
	}
	return t.Sound()
}

// adopted takes over what was done by hand to a task that the operator named: the
// file as it lies becomes the task, whatever was edited, or the task is given up
// where there is no file. The line says so.
func (r *recovery) adopted(s *shard, p *spot) (bool, error) {
	if !slices.Contains(r.o.Adopt, p.id) {
		return false, nil
	}
	if left, err := home.Look(p.staged); err != nil || left.There {
		return false, err // a committed move is finished first: perhaps it was this adoption
	}
	for _, path := range r.files[p.id] {
		state := home.StateAt(r.b.home, path)
		if state == None {
			continue
		}
		found, err := home.Read(r.b.home, state, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var c *change
		if err == nil {
			c, err = r.adoption(p, found)
		}
		if err != nil {
			return true, refused(r.b, path, err)
		}
		if c == nil {
			return len(r.files[p.id]) == 1, nil
		}
		r.out.adopted(p.id)
		return true, r.b.commit(r.ctx, s, c)
	}
	r.out.adopted(p.id)
	return true, r.b.commit(r.ctx, s, &change{
		id: p.id, by: audit.MboxAgent, event: audit.Reconcile, from: p.m.Enters(), to: None, before: task.HashOf(p.m.After),
		reason: "given up by the operator: its file is gone", action: fmt.Sprintf("mbox gave up %s, as the operator said", p.id),
		extra: func(m *task.Move) {
			m.Adopted, m.Revision, m.Epoch, m.Attempt = true, p.m.Revision, p.m.Epoch, p.m.Attempt
		},
	})
}

// adoption makes the change for a file that is taken over as it lies; nil if it and
// its artifacts are what the ledger says. A file that is no task is refused, and
// what its state must have or must not have is put right.
func (r *recovery) adoption(p *spot, found *home.File) (*change, error) {
	b, t, status := r.b, found.Task, found.State
	if status == Archived {
		if err := b.archiveArtifacts(p.id, p.m.Epoch, found.Path); err != nil {
			return nil, err
		}
	}
	was := t.Result.Artifacts
	err := artifact.Review(r.ctx, b.home, t, func(_ string, _, now Artifact) bool { return now.SHA256 != "" })
	same := slices.Equal(was, t.Result.Artifacts)
	if err != nil || same && found.Hash == task.HashOf(p.m.After) && status == p.m.Enters() {
		return nil, err
	}
	if err := checkAdoption(t, p.id); err != nil {
		return nil, err
	}
	t.Version = 1
	t.Mbox.Revision, t.Mbox.Epoch, t.Mbox.Attempt = p.m.Revision, p.m.Epoch, p.m.Attempt
	if status == Archived {
		status = t.Result.Status
		if status != Completed {
			status = Failed
		}
		t.Result.Status = status
	}
	from := p.m.Enters()
	plain := from != status && t.Audit.Strays(from) == "" && task.StepInFile(from, status)
	if !plain && t.Audit.Strays(status) != "" {
		t.Audit.StateChanges = shortestTrail(status, task.At(b.now()))
	}
	b.reconciler.fillIn(t, status)
	return &change{
		id: t.ID, by: audit.MboxAgent, event: audit.Reconcile, from: from, to: found.State, task: t, before: task.HashOf(p.m.After),
		reason: "adopted by the operator", settled: !plain, action: fmt.Sprintf("mbox adopted %s as it lies in %s, as the operator said", t.ID, found.State),
		extra: func(m *task.Move) { m.Adopted, m.Found = true, found.Hash },
	}, nil
}

// fillIn gives a task that is taken over what its state must have, and takes
// away what it must not have.
func (b *reconciler) fillIn(t *Task, s State) {
	r := &t.Result
	if r.Artifacts == nil || s == Pending {
		r.Artifacts = []Artifact{}
	}
	switch s {
	case Pending:
		t.Assignment.PickedUpBy, t.Assignment.PickedUpAt, t.Mbox.Lease = nil, nil, nil
		r.Output, r.Error = nil, nil
	case InProgress, Completed:
		if t.Token() == "" || t.Claimant() == "" {
			b.claimByHand(t)
		}
	}
	if s == Completed && !task.Given(r.Output) {
		r.Output = jsontext.Value(`""`)
	}
	if s == Failed && (r.Error == nil || r.Error.Code == "") {
		r.Error = &TaskError{Code: "unspecified"}
	}
}

// cameFrom is where the file lies that a committed move brings to p.to. A task
// that was adopted from the archive, or in it, lies in the month in which it was
// found, which the line's time does not tell.
func (b *books) cameFrom(p *placement) string {
	if p.m.Found == "" || p.m.Leaves() != Archived && p.m.Enters() != Archived {
		return p.from
	}
	months, err := home.Months(b.home)
	if err != nil {
		return p.from
	}
	for _, month := range months {
		path := b.path("tasks", "archive", month, p.id.File())
		s, err := home.Look(path)
		if err == nil && s.There && path != p.to && (s.Hash == p.m.Found || s.Hash == task.HashOf(p.m.After)) {
			return path
		}
	}
	return p.from
}

// shortestTrail is the trail of a task whose history cannot be told any more.
func shortestTrail(s State, at Time) []StateChange {
	ways := map[State][]State{InProgress: {Pending, InProgress}, Completed: {Pending, InProgress, Completed}, Failed: {Pending, Failed}}
	trail := []StateChange{}
	for i, to := range ways[s] {
		if i > 0 {
			trail = append(trail, StateChange{From: ways[s][i-1], To: to, By: audit.MboxAgent, At: at, Reason: "adopted by the operator"})
		}
	}
	return trail
}
