package telemetry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"mbox/agents"
	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// open is what has to be known of a task until its next span ends.
type open struct {
	Agent   string    `json:"agent,omitzero"` // who works at it
	Begun   task.Time `json:"begun,omitzero"` // since when; zero where nobody does
	Epoch   int64     `json:"epoch,omitzero"` // of the claim
	Attempt int64     `json:"attempt,omitzero"`
	Run     int64     `json:"run,omitzero"`   // the epoch after which it was put back, plus 1; 0 where it never had ended
	Again   task.Time `json:"again,omitzero"` // when that was
}

// maxOpen bounds how many tasks are remembered. The claims begun first are forgotten
// first: their attempts are counted as dropped.
const maxOpen = 2048

// names of spans
const (
	taskSpan     = "task"
	attemptSpan  = "attempt"
	approvalSpan = "approval"
)

// fold takes a line of the ledger into account, and adds the spans that it ends.
func (e *Exporter) fold(ctx context.Context, line audit.Line) error {
	approved := line.Event() == audit.DecisionEvent && line.Detail("approves") != nil
	if line.Detail("to") == nil && !approved {
		return nil
	}
	entry, err := line.Decode()
	if err != nil {
		return err
	}
	if approved {
		e.approval(&entry)
		return nil
	}
	m, moved := task.MoveOf(&entry)
	if !moved || m.Leaves() == m.Enters() {
		return nil
	}
	id := entry.Task()
	o := e.place.Open[id]
	if m.Leaves() == mailbox.InProgress {
		e.attempt(&entry, m, o)
		o = open{Run: o.Run, Again: o.Again}
	}
	switch m.Enters() {
	case mailbox.InProgress:
		o.Agent, o.Begun, o.Epoch, o.Attempt = entry.Agent, task.At(entry.Time()), m.Epoch, m.Attempt
	case mailbox.Completed, mailbox.Failed:
		e.task(ctx, &entry, m, o)
		o = open{}
	case mailbox.Pending:
		if m.Leaves() == mailbox.Completed || m.Leaves() == mailbox.Failed {
			o = open{Run: m.Epoch + 1, Again: task.At(entry.Time())}
		}
	}
	e.remember(id, o)
	return ctx.Err()
}

func (e *Exporter) remember(id string, o open) {
	if o == (open{}) {
		delete(e.place.Open, id)
		return
	}
	if e.place.Open[id] = o; len(e.place.Open) <= maxOpen {
		return
	}
	oldest := slices.MinFunc(slices.Collect(maps.Keys(e.place.Open)), func(a, b string) int {
		x, y := e.place.Open[a], e.place.Open[b]
		return cmp.Or(x.since().Compare(y.since()), cmp.Compare(a, b))
	})
	delete(e.place.Open, oldest)
	e.place.Dropped++
}

func (o open) since() time.Time {
	if o.Begun.IsZero() {
		return o.Again.Time
	}
	return o.Begun.Time
}

// task adds the span of a task that has ended: the root of its trace, with a link to
// the attempt that made it, if it is a child.
func (e *Exporter) task(ctx context.Context, entry *audit.Entry, m *task.Move, o open) {
	id := entry.Task()
	s := e.begin(taskSpan, id, e.ids.span(id, taskSpan, o.Run))
	s.Attributes.text(taskState, ending(entry.Event, m))
	s.Attributes.number(taskAttempts, m.Attempt)
	start := entry.Time()
	if t, _, err := e.o.Box.Task(ctx, mailbox.ID(id)); err == nil { // else it is archived or gone
		start = t.Created.Time
		e.about(&s, t)
	}
	if o.Run > 0 {
		start = o.Again.Time
	}
	s.between(start, entry.Time())
	if m.Enters() == mailbox.Failed && entry.Event != audit.TaskCancelled {
		s.failed(named(m.Reason))
	}
	e.spans = append(e.spans, s)
}

// ending is how a task ended: failed, rejected and cancelled lie in one folder.
func ending(event audit.Event, m *task.Move) string {
	switch event {
	case audit.TaskCancelled:
		return "cancelled"
	case audit.TaskRejected:
		return "rejected"
	}
	return string(m.Enters())
}

// about adds what the task's file tells: nothing that its sender wrote freely.
func (e *Exporter) about(s *span, t *mailbox.Task) {
	s.Attributes.text(taskRoot, string(t.Root()))
	s.Attributes.text(taskTarget, t.Assignment.TargetAgent)
	s.Attributes.text(taskType, t.Task.Type)
	s.Attributes.text(taskPriority, t.Task.Priority)
	s.Attributes.number(taskDepth, t.Mbox.Depth)
	if parent := string(t.Mbox.ParentID); parent != "" {
		s.Attributes.text(taskParent, parent)
		if epoch, ok := t.Born(); ok {
			s.Links = append(s.Links, link{e.ids.trace(parent), e.ids.span(parent, attemptSpan, epoch)})
		}
	}
}

// attempt adds the span of a claim that is over. One that began before the ledger was
// followed has none.
func (e *Exporter) attempt(entry *audit.Entry, m *task.Move, o open) {
	if o.Begun.IsZero() {
		return
	}
	id := entry.Task()
	s := e.begin(invokeAgent+" "+o.Agent, id, e.ids.span(id, attemptSpan, o.Epoch))
	s.ParentID = e.ids.span(id, taskSpan, o.Run)
	s.Attributes.text(genOperation, invokeAgent)
	s.Attributes.text(genAgent, o.Agent)
	s.Attributes.number(attemptNo, o.Attempt)
	s.Attributes.number(attemptEpoch, o.Epoch)
	s.Attributes.text(attemptEnd, string(entry.Event))
	for _, what := range slices.Sorted(maps.Keys(m.Spent)) {
		s.Attributes.number(spentPrefix+what, m.Spent[what])
	}
	s.between(o.Begun.Time, entry.Time())
	lost := entry.Event == audit.TaskRetried || m.Enters() == mailbox.Failed && entry.Event != audit.TaskCancelled
	if lost {
		s.failed(named(m.Reason))
	}
	e.measures(id, &s, o)
	e.spans = append(e.spans, s)
}

// measures adds the spans of what was done in an attempt, as far as its log has them.
func (e *Exporter) measures(id string, attempt *span, o open) {
	all, err := agents.Measures(e.o.Box, o.Agent, mailbox.ID(id), o.Epoch)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.o.Log("telemetry: the log of %s cannot be read: %v", id, err)
	}
	for i, m := range all {
		s := e.begin("", id, e.ids.span(id, fmt.Sprint(m.Kind, i), o.Epoch))
		s.ParentID = attempt.SpanID
		operation := executeTool
		if m.Kind == agents.SaidModel {
			operation, s.Kind = chatModel, kindClient
			s.Attributes.text(genProvider, m.Provider)
			s.Attributes.text(genRequestModel, m.Name)
			s.Attributes.positive(genInput, m.Input)
			s.Attributes.positive(genOutput, m.Output)
		} else {
			s.Attributes.text(genTool, m.Name)
			s.Attributes.text(actionStatus, m.Status)
		}
		s.Name = strings.TrimSpace(operation + " " + m.Name)
		s.Attributes.text(genOperation, operation)
		s.between(m.Ended.Add(-time.Duration(m.Took)*time.Millisecond), m.Ended)
		if m.Error != "" {
			s.failed(named(m.Error))
		}
		e.spans = append(e.spans, s)
	}
}

// approval adds a span without length: somebody approved the task.
func (e *Exporter) approval(entry *audit.Entry) {
	id := entry.Task()
	if id == "" {
		return
	}
	s := e.begin(approvalSpan, id, e.ids.span(id, approvalSpan, entry.Seq))
	s.ParentID = e.ids.span(id, taskSpan, e.place.Open[id].Run)
	s.Attributes.text(approver, entry.Agent)
	s.between(entry.Time(), entry.Time())
	e.spans = append(e.spans, s)
}

func (e *Exporter) begin(name, id, spanID string) (s span) {
	s.Name, s.Kind, s.TraceID, s.SpanID = name, kindInternal, e.ids.trace(id), spanID
	s.Attributes.text(taskID, id)
	return s
}

// errorName is the form of the name of an error. A reason that a person wrote has
// another, and stays at home.
var errorName = schemas.Pattern(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

func named(reason string) string {
	name, _, _ := strings.Cut(reason, ":")
	name, _, _ = strings.Cut(name, ", attempt ")
	if name, _, _ = strings.Cut(name, " at "); len(name) <= 64 && errorName().MatchString(name) {
		return name
	}
	return otherError
}
