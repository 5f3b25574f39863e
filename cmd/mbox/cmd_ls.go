package main

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type lsOptions struct {
	states         choices
	kind, priority choice
	to, by, from   string
	most           int
	json           bool
}

func stateNames() []string {
	var names []string
	for _, state := range task.Folders {
		names = append(names, string(state))
	}
	return append(names, string(mailbox.Archived))
}

func lsVerb() *verb {
	o := lsOptions{states: choices{among: stateNames()}, kind: oneOf(task.Types...), priority: oneOf(task.Priorities...)}
	return &verb{
		name:  "ls",
		brief: "list tasks",
		about: `Lists tasks, those in the archive only when asked for by --state archive. With
--json each line is a task file's content.`,
		shows: []string{
			"mbox ls --state pending --to coder",
			"mbox ls --state failed --json | jq -r .id",
		},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			valueFlag("state", "only those `STATE`: pending, in-progress, completed, failed or archive; may be repeated", &o.states),
			textFlag("to", "only those meant for `AGENT`", &o.to),
			textFlag("by", "only those that `AGENT` has taken", &o.by),
			textFlag("from", "only those that `AGENT` has sent", &o.from),
			valueFlag("type", "only those of `TYPE`", &o.kind),
			valueFlag("priority", "only those of priority `P`", &o.priority),
			intFlag("n", "at most `N`; 0: all", &o.most, 0),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *lsOptions) filter() mailbox.Filter {
	f := mailbox.Filter{Agent: o.by, Target: o.to, Source: o.from, Type: o.kind.value, Priority: o.priority.value, Limit: o.most}
	for _, state := range o.states.values {
		f.States = append(f.States, mailbox.State(state))
	}
	return f
}

func (o *lsOptions) run(ctx context.Context, s *session) error {
	if o.most < 0 {
		return usagef("mbox ls -n 20", "-n %d: want 0 or more", o.most)
	}
	return s.looking(ctx, func(box *mailbox.Box) error {
		rows := taskTable()
		for item, err := range box.List(ctx, o.filter()) {
			if err != nil {
				return err
			}
			if err := o.show(s, rows, item); err != nil {
				return err
			}
		}
		rows.printIfAny(s)
		return nil
	})
}

func (o *lsOptions) show(s *session, rows *table, item mailbox.Item) error {
	switch {
	case item.Err != nil && o.json:
		return s.printLine(map[string]string{"path": item.Path, "error": item.Err.Error()})
	case item.Err != nil:
		id := strings.TrimSuffix(path.Base(item.Path), ".json")
		rows.add(text(id), coloured(string(item.State), s.stateColour(item.State)), text("-"), text("-"), text("-"), text("-"), text("-"), coloured(item.Err.Error(), s.paint.red))
		return nil
	case o.json:
		return s.printLine(item.Task)
	}
	rows.add(s.taskRow(item)...)
	return nil
}

func taskTable() *table {
	return &table{head: []string{"ID", "STATE", "PRIORITY", "TYPE", "FOR", "BY", "AGE", "TITLE"}}
}

func (s *printer) taskRow(item mailbox.Item) []cell {
	t, by := item.Task, "-"
	if t.Assignment.PickedUpBy != nil {
		by = *t.Assignment.PickedUpBy
	}
	return []cell{
		text(string(t.ID)),
		coloured(string(item.State), s.stateColour(item.State)),
		coloured(t.Task.Priority, s.priorityColour(t.Task.Priority)),
		text(t.Task.Type), text(t.Assignment.TargetAgent), text(by),
		text(schemas.Ago(t.Created.Time, time.Now())),
		text(t.Task.Title),
	}
}

func (s *printer) stateColour(state mailbox.State) paint {
	switch state {
	case mailbox.Pending:
		return s.paint.yellow
	case mailbox.InProgress:
		return s.paint.cyan
	case mailbox.Completed:
		return s.paint.green
	case mailbox.Failed:
		return s.paint.red
	}
	return s.paint.dim
}

func (s *printer) priorityColour(priority string) paint {
	switch priority {
	case "urgent":
		return s.paint.red
	case "high":
		return s.paint.yellow
	case "low":
		return s.paint.dim
	}
	return plain
}
