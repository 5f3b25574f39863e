package task

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// editable are the fields of a pending task that may be changed, by their JSON
// paths, in the order in which a ledger line names them.
var editable = []struct {
	path string
	same func(a, b *Task) bool
	take func(to, from *Task)
}{
	{"task.title", func(a, b *Task) bool { return a.Task.Title == b.Task.Title }, func(to, from *Task) { to.Task.Title = from.Task.Title }},
	{"task.description", func(a, b *Task) bool { return a.Task.Description == b.Task.Description }, func(to, from *Task) { to.Task.Description = from.Task.Description }},
	{"task.priority", func(a, b *Task) bool { return a.Task.Priority == b.Task.Priority }, func(to, from *Task) { to.Task.Priority = from.Task.Priority }},
	{
		"assignment.target_agent",
		func(a, b *Task) bool { return a.Assignment.TargetAgent == b.Assignment.TargetAgent },
		func(to, from *Task) { to.Assignment.TargetAgent = from.Assignment.TargetAgent },
	},
	{"mbox.not_before", func(a, b *Task) bool { return sameTime(a.Mbox.NotBefore, b.Mbox.NotBefore) }, func(to, from *Task) { to.Mbox.NotBefore = from.Mbox.NotBefore }},
	{"mbox.deadline", func(a, b *Task) bool { return sameTime(a.Mbox.Deadline, b.Mbox.Deadline) }, func(to, from *Task) { to.Mbox.Deadline = from.Mbox.Deadline }},
	{"mbox.depends_on", func(a, b *Task) bool { return slices.Equal(a.Mbox.DependsOn, b.Mbox.DependsOn) }, func(to, from *Task) { to.Mbox.DependsOn = from.Mbox.DependsOn }},
	{"mbox.paths", func(a, b *Task) bool { return slices.Equal(a.Mbox.Paths, b.Mbox.Paths) }, func(to, from *Task) { to.Mbox.Paths = from.Mbox.Paths }},
	{"mbox.labels", func(a, b *Task) bool { return sameJSON(a.Mbox.Labels, b.Mbox.Labels) }, func(to, from *Task) { to.Mbox.Labels = from.Mbox.Labels }},
}

func sameTime(a, b *Time) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(b.Time)
}

func sameJSON(a, b jsontext.Value) bool {
	if !Given(a) || !Given(b) {
		return Given(a) == Given(b)
	}
	a, b = a.Clone(), b.Clone()
	if a.Canonicalize() != nil || b.Canonicalize() != nil {
		return false // what is no JSON is refused later
	}
	return bytes.Equal(a, b)
}

// Edited is the task as change leaves it, which is given a copy, and the JSON paths
// of the fields that are another then; no paths where none is. What change does to
// the title, the description, the priority, the target, the times, the dependencies,
// the paths and the labels counts, and nothing else. The error is that of change, or a
// *schemas.Error where no such task could be made.
func (t *Task) Edited(change func(*Task) error) (edited *Task, fields []string, err error) {
	wish := *t
	m := &wish.Mbox
	m.DependsOn, m.Paths, m.Labels = slices.Clone(m.DependsOn), slices.Clone(m.Paths), m.Labels.Clone()
	for _, at := range []**Time{&m.NotBefore, &m.Deadline} {
		if *at != nil {
			own := **at
			*at = &own
		}
	}
	if err := change(&wish); err != nil {
		return nil, nil, err
	}
	wish.Task.Priority = cmp.Or(wish.Task.Priority, "normal")
	wish.Assignment.TargetAgent = cmp.Or(wish.Assignment.TargetAgent, "any")
	now := *t
	for _, f := range editable {
		if !f.same(t, &wish) {
			f.take(&now, &wish)
			fields = append(fields, f.path)
		}
	}
	return &now, fields, cmp.Or(now.asNew().Validate(), now.checkTimes(fields))
}

// asNew is the task without what came to it since it was sent, for which a new task
// leaves room.
func (t *Task) asNew() *Task {
	n := *t
	n.Audit.StateChanges, n.Result = nil, Result{Status: Pending, Artifacts: []Artifact{}}
	n.Mbox.TX, n.Mbox.Revision, n.Mbox.Attempt, n.Mbox.Epoch, n.Mbox.Lease, n.Mbox.Progress = "", 0, 0, 0, nil, nil
	return &n
}

// checkTimes refuses changed times that would do nothing, or let nobody take the task.
func (t *Task) checkTimes(changed []string) error {
	start, end := t.Mbox.NotBefore, t.Mbox.Deadline
	deadline := slices.Contains(changed, "mbox.deadline")
	switch {
	case end == nil || !deadline && !slices.Contains(changed, "mbox.not_before"):
		return nil
	case deadline && t.Mbox.Epoch > 0:
		return Fault("mbox.deadline", "it was taken once, so no deadline counts for it any more", "none")
	case t.Mbox.Epoch == 0 && start != nil && end.Before(start.Time):
		return Fault("mbox.deadline", fmt.Sprintf("%s lies before mbox.not_before, %s", end, start), "a later deadline, or an earlier mbox.not_before")
	}
	return nil
}
