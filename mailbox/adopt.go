package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
)

// adopted takes over what a stranger did to a task, because an operator named
// the task: the file as it lies now becomes the task, whatever was edited, or
// the task is given up where there is no file. The line says so.
func (r *recovery) adopted(s *shard, id ID, f *fate, place string) (bool, error) {
	if !slices.Contains(r.adopt, id) {
		return false, nil
	}
	for _, p := range r.files[id] {
		state := State(filepath.Base(filepath.Dir(p)))
		if folderIndex(state) < 0 && filepath.Base(filepath.Dir(filepath.Dir(p))) == string(Archived) {
			state = Archived
		}
		if folderIndex(state) < 0 && state != Archived {
			continue
		}
		found, err := r.b.read(id, state, r.b.path(p))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return true, fmt.Errorf("%s cannot be adopted: %w", p, err)
		}
		r.out.Adopted++
		return true, r.b.commit(r.ctx, s, r.b.adoptAsIs(f, found))
	}
	r.out.Adopted++
	return true, r.b.commit(r.ctx, s, &change{
		id: id, by: audit.MboxAgent, event: audit.Reconcile, from: f.m.to(), to: None, before: hashOf(f.m.After),
		reason: "given up by the operator: its file is gone", said: fmt.Sprintf("mbox gave up %s, as the operator said", id),
		extra: func(m *move) {
			m.Adopted, m.Revision, m.Epoch, m.Attempt = true, f.m.Revision, f.m.Epoch, f.m.Attempt
		},
	})
}

// adoptAsIs makes the change for a file that is taken over as it lies.
func (b *Box) adoptAsIs(f *fate, found *found) *change {
	t := found.task
	t.Version = 1
	t.Mbox.Revision, t.Mbox.Epoch, t.Mbox.Attempt = f.m.Revision, f.m.Epoch, f.m.Attempt
	if t.Result.Artifacts == nil {
		t.Result.Artifacts = []Artifact{}
	}
	status := found.state
	if status == Archived {
		status = t.Result.Status
		if status != Completed {
			status = Failed
		}
		t.Result.Status = status
	}
	plain := f.m.to() != status && t.Audit.leadsTo(f.m.to()) && stepInFile(f.m.to(), status)
	if !plain && !t.Audit.leadsTo(status) {
		t.Audit.StateChanges = shortestTrail(status, At(b.now()))
	}
	if (status == InProgress || status == Completed) && (t.Mbox.Lease == nil || t.Assignment.PickedUpBy == nil) {
		b.claimByHand(t)
	}
	if status == Completed && !given(t.Result.Output) {
		t.Result.Output = jsontext.Value(`""`)
	}
	if status == Failed && t.Result.Error == nil {
		t.Result.Error = &TaskError{Code: "unspecified"}
	}
	return &change{
		id: t.ID, by: audit.MboxAgent, event: audit.Reconcile, from: f.m.to(), to: found.state, task: t, before: hashOf(f.m.After),
		reason: "adopted by the operator", settled: !plain, said: fmt.Sprintf("mbox adopted %s as it lies in %s, as the operator said", t.ID, found.state),
		extra: func(m *move) { m.Adopted, m.Found = true, found.hash },
	}
}

// shortestTrail is the trail of a task whose history cannot be told any more.
func shortestTrail(s State, at Time) []StateChange {
	step := func(from, to State) StateChange {
		return StateChange{from, to, audit.MboxAgent, at, "adopted by the operator"}
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
