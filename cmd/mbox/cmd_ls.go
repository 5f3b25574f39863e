package main

import (
	"context"
	"math"
	"path"
	"slices"
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
	most           number
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
	o := lsOptions{states: choices{among: stateNames()}, kind: oneOf(task.Types...), priority: oneOf(task.Priorities...), most: number{max: math.MaxInt32}}
	return &verb{
		name:  "ls",
		brief: "list tasks",
		about: `Lists tasks, those in the archive only when asked for by --state archive. Each
state is in the order of the ids, where numbers count by their value: so what mbox
has named comes oldest first. A terminal is shown the first 100. With --json each
line is a task file's content.`,
		shows: []string{
			"mbox ls --state pending --to coder",
			"mbox ls --state failed --json | jq -r .id",
			"mbox ls --limit 10",
		},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			valueFlag("state", "only those `STATE`: pending, in-progress, completed, failed or archive; may be repeated", &o.states),
			textFlag("to", "only those meant for `AGENT`", &o.to),
			textFlag("by", "only those that `AGENT` has taken", &o.by),
			textFlag("from", "only those that `AGENT` has sent", &o.from),
			valueFlag("type", "only those of `TYPE`", &o.kind),
			valueFlag("priority", "only those of priority `P`", &o.priority),
			&cli.GenericFlag{Name: "limit", Aliases: []string{"n"}, Usage: "at most `N`; 0: all", Value: &o.most},
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *lsOptions) filter() mailbox.Filter {
	f := mailbox.Filter{Agent: o.by, Target: o.to, Source: o.from, Type: o.kind.value, Priority: o.priority.value}
	for _, state := range o.states.values {
		f.States = append(f.States, mailbox.State(state))
	}
	return f
}

// mostForPeople is how many tasks a terminal is shown where nothing was said.
const mostForPeople = 100

// limit is how many are listed; 0: all.
func (o *lsOptions) limit(s *session) int {
	switch {
	case o.most.value != nil:
		return *o.most.value
	case s.terminal && !o.json:
		return mostForPeople
	}
	return 0
}

func (o *lsOptions) run(ctx context.Context, s *session) error {
	return s.looking(ctx, func(box *mailbox.Box) error {
		rows, f, shown := taskTable(), o.filter(), 0
		if limit := o.limit(s); limit > 0 {
			f.Limit = limit + 1 // by which one sees whether there are more
		}
		for item, err := range box.List(ctx, f) {
			if err != nil {
				return err
			}
			if shown++; shown == f.Limit {
				break
			}
			if err := o.show(s, rows, item); err != nil {
				return err
			}
		}
		rows.printIfAny(s)
		if f.Limit > 0 && shown == f.Limit {
			return o.more(s, box, f)
		}
		return nil
	})
}

// more says that there are more than were listed, and how many where the ledger knows.
func (o *lsOptions) more(s *session, box *mailbox.Box, f mailbox.Filter) error {
	count, err := mailbox.Counts(box)
	if err != nil {
		return err
	}
	states, listed, all := f.States, f.Limit-1, 0
	if len(states) == 0 {
		states = task.Folders
	}
	for _, state := range states {
		all += count[state]
	}
	filtered := o.to+o.by+o.from+o.kind.value+o.priority.value != "" || slices.Contains(states, mailbox.Archived)
	if more := all - listed; more > 0 && !filtered {
		s.infof("%d more; mbox ls --limit 0 lists all", more)
		return nil
	}
	s.infof("there are more; mbox ls --limit 0 lists all")
	return nil
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
