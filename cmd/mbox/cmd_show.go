package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/urfave/cli/v2"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func showVerb() *verb {
	var inJSON bool
	return &verb{
		name: "show", args: "ID", least: 1, most: 1,
		brief: "show a task",
		about: "Shows what is asked, an action with all its parameters, who has it, what came of\nit, and the states that it went through. With --json it prints the task file.",
		shows: []string{"mbox show task-2026-02-16-001", "mbox show task-2026-02-16-001 --json | jq .result.output"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error {
				t, state, err := box.Task(ctx, mailbox.ID(args[0]))
				if err != nil {
					return err
				}
				if inJSON {
					return s.printJSON(t)
				}
				var why *mailbox.Why
				if state == mailbox.Pending && t.Mbox.Action != nil || t.Result.Status == mailbox.Completed {
					if why, err = box.Why(ctx, t.ID); err != nil {
						s.warnf("%v", err)
					}
				}
				s.showTask(t, state, why)
				return nil
			})
		},
		words: taskWords,
	}
}

// showTask prints a task for people, with what an approval would bind if it waits
// for one, and what its result has passed.
func (s *printer) showTask(t *mailbox.Task, state mailbox.State, w *mailbox.Why) {
	unverified := ""
	if w != nil && t.Result.Status == mailbox.Completed && len(w.Checks) == 0 {
		unverified = ", unverified"
	}
	s.printf("%s  %s%s\n%s\n\n", s.paint.bold(clean(string(t.ID), 128)), s.stateColour(state)(string(state)), unverified, clean(t.Task.Title, maxLine))
	s.field("for", t.Assignment.TargetAgent)
	if by := t.Assignment.PickedUpBy; by != nil {
		s.field("by", *by+at(t.Assignment.PickedUpAt))
	}
	if w != nil && len(w.Checks) > 0 {
		s.field("has passed", strings.Join(w.Checks, ", "))
	}
	s.field("from", strings.TrimSpace(t.Source.Agent+" "+t.Source.User))
	s.field("type", t.Task.Type+", "+t.Task.Priority)
	s.field("created", local(t.Created.Time))
	s.showMeta(&t.Mbox)
	if w != nil && w.Approve != "" {
		s.showBound(w)
	}
	s.showText("description", t.Task.Description)
	s.showParams(t.Mbox.Action)
	s.showResult(&t.Result)
	s.showTrail(t.Audit.StateChanges)
}

func (s *printer) showMeta(m *mailbox.Meta) {
	if m.Attempt > 0 {
		s.field("attempt", fmt.Sprintf("%d of %d", m.Attempt, m.MaxAttempts))
	}
	if m.NotBefore != nil {
		s.field("not before", local(m.NotBefore.Time))
	}
	if m.Deadline != nil {
		s.field("deadline", local(m.Deadline.Time))
	}
	if m.Lease != nil {
		s.field("lease", "until "+local(m.Lease.Deadline.Time))
	}
	for _, id := range m.DependsOn {
		s.field("depends on", string(id))
	}
	if p := m.Progress; p != nil {
		s.field("progress", progressText(p)+at(&p.At))
	}
	if m.Action != nil {
		s.field("action", m.Action.Name)
	}
}

// showParams prints the parameters of an action, each whole and set apart by its
// indentation: who approves it has to see all of it.
func (s *printer) showParams(a *mailbox.Action) {
	if a == nil {
		return
	}
	var params map[string]jsontext.Value
	if len(a.Params) > 0 && json.Unmarshal(a.Params, &params) != nil {
		params = map[string]jsontext.Value{"params": a.Params}
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		s.printf("\n%s\n%s\n", s.paint.dim(a.Name+" "+clean(name, math.MaxInt)), indented(wholeLines(task.Text(params[name]))))
	}
}

func (s *printer) showResult(r *mailbox.Result) {
	if r.Error != nil {
		s.fieldIn(s.paint.red, "error", r.Error.Code+": "+r.Error.Message)
	}
	for _, a := range r.Artifacts {
		s.field("artifact", fmt.Sprintf("%s (%s, %s)", a.Path, schemas.Size(uint64(max(a.Size, 0))), a.SHA256))
	}
	s.showText("output", task.Text(r.Output))
}

func (s *printer) showTrail(changes []mailbox.StateChange) {
	if len(changes) == 0 {
		return
	}
	s.printf("\n%s\n", s.paint.dim("history"))
	for _, c := range changes {
		s.printf("   %s  %s → %s by %s: %s\n", local(c.At.Time), clean(string(c.From), 20), clean(string(c.To), 20), clean(c.By, 80), clean(c.Reason, maxLine))
	}
}

func (s *printer) field(name, value string) { s.fieldIn(plain, name, value) }

func (s *printer) fieldIn(colour paint, name, value string) {
	s.printf("%s %s\n", s.paint.dim(fmt.Sprintf("%-12s", name)), colour(clean(value, maxLine)))
}

func (s *printer) showText(name, text string) {
	if strings.TrimSpace(text) != "" {
		s.printf("\n%s\n%s\n", s.paint.dim(name), indented(cleanLines(text)))
	}
}

// local is a time as a person on this machine reads it.
func local(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func at(t *mailbox.Time) string {
	if t == nil {
		return ""
	}
	return ", " + local(t.Time)
}
