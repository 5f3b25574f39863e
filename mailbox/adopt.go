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

// adopted takes over what a stranger did to a task, because an operator named
// the task: the file as it lies now becomes the task, whatever was edited, or
// the task is given up where there is no file. The line says so.
func (r *recovery) adopted(s *shard, id ID, f *fate, place string) (bool, error) {
	if !slices.Contains(r.adopt, id) {
		return false, nil
	}
	if left, err := home.Look(home.StagedPath(r.b.home, string(id), f.m.TX)); err != nil || left.There {
		return false, err // a committed move is finished first: perhaps it was this adoption
	}
	for _, p := range r.files[id] {
		state := State(filepath.Base(filepath.Dir(p)))
		if task.FolderIndex(state) < 0 && filepath.Base(filepath.Dir(filepath.Dir(p))) == string(Archived) {
			state = Archived
		}
		if task.FolderIndex(state) < 0 && state != Archived {
			continue
		}
		found, err := home.Read(r.b.home, state, r.b.path(p))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var c *change
		same := false
		if err == nil && state == Archived {
			err = r.b.archiveArtifacts(id, f.m.Epoch, found.Path)
		}
		if err == nil {
			was := found.Task.Result.Artifacts
			err = artifact.Review(r.ctx, r.b.home, found.Task, func(_ string, _, now Artifact) bool { return now.SHA256 != "" })
			same = slices.Equal(was, found.Task.Result.Artifacts)
		}
		if err == nil && same && found.Hash == task.HashOf(f.m.After) && state == f.m.Enters() {
			return len(r.files[id]) == 1, nil // nobody did anything to it
		}
		if err == nil {
			c, err = r.b.adoptAsIs(id, f, found)
		}
		if err != nil {
			return true, fmt.Errorf("%s cannot be adopted: %w", p, err)
		}
		r.out.Adopted++
		return true, r.b.commit(r.ctx, s, c)
	}
	r.out.Adopted++
	return true, r.b.commit(r.ctx, s, &change{
		id: id, by: audit.MboxAgent, event: audit.Reconcile, from: f.m.Enters(), to: None, before: task.HashOf(f.m.After),
		reason: "given up by the operator: its file is gone", said: fmt.Sprintf("mbox gave up %s, as the operator said", id),
		extra: func(m *task.Move) {
			m.Adopted, m.Revision, m.Epoch, m.Attempt = true, f.m.Revision, f.m.Epoch, f.m.Attempt
		},
	})
}

// adoptAsIs makes the change for a file that is taken over as it lies. What an
// operator may say is what counts, not what a task is: a file that is none is
// refused, and what its state must have or must not have is put right.
func (b *Box) adoptAsIs(id ID, f *fate, found *home.File) (*change, error) {
	t := found.Task
	if t.ID != id {
		return nil, task.Fault("id", fmt.Sprintf("%s is not the file's name", schemas.Quote(string(t.ID))), string(id))
	}
	if err := t.Sound(); err != nil {
		return nil, task.InFile(err, strings.TrimPrefix(found.Path, b.home+"/"))
	}
	t.Version = 1
	t.Mbox.Revision, t.Mbox.Epoch, t.Mbox.Attempt = f.m.Revision, f.m.Epoch, f.m.Attempt
	status := found.State
	if status == Archived {
		status = t.Result.Status
		if status != Completed {
			status = Failed
		}
		t.Result.Status = status
	}
	from := f.m.Enters()
	plain := from != status && t.Audit.Strays(from) == "" && task.StepInFile(from, status)
	if !plain && t.Audit.Strays(status) != "" {
		t.Audit.StateChanges = shortestTrail(status, task.At(b.now()))
	}
	b.fillIn(t, status)
	return &change{
		id: t.ID, by: audit.MboxAgent, event: audit.Reconcile, from: from, to: found.State, task: t, before: task.HashOf(f.m.After),
		reason: "adopted by the operator", settled: !plain, said: fmt.Sprintf("mbox adopted %s as it lies in %s, as the operator said", t.ID, found.State),
		extra: func(m *task.Move) { m.Adopted, m.Found = true, found.Hash },
	}, nil
}

// fillIn gives a task that is taken over what its state must have, and takes
// away what it must not have.
func (b *Box) fillIn(t *Task, s State) {
	r, l := &t.Result, t.Mbox.Lease
	if r.Artifacts == nil || s == Pending {
		r.Artifacts = []Artifact{}
	}
	by := t.Assignment.PickedUpBy
	unclaimed := l == nil || l.Token == "" || by == nil || *by == ""
	switch s {
	case Pending:
		t.Assignment.PickedUpBy, t.Assignment.PickedUpAt, t.Mbox.Lease = nil, nil, nil
		r.Output, r.Error = nil, nil
	case InProgress, Completed:
		if unclaimed {
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
func (b *Box) cameFrom(p *placement) string {
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
	step := func(from, to State) StateChange {
		return StateChange{From: from, To: to, By: audit.MboxAgent, At: at, Reason: "adopted by the operator"}
	}
	switch s {
	case InProgress:
		return []StateChange{step(Pending, InProgress)}
	case Completed:
		return []StateChange{step(Pending, InProgress), step(InProgress, Completed)}
	case Failed:
		return []StateChange{step(Pending, Failed)}
	}
	return []StateChange{}
}
