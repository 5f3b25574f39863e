package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type exportOptions struct {
	since  moment
	format choice
	states choices
}

func exportVerb() *verb {
	o := exportOptions{since: moment{past: true}, format: oneOf("jsonl", "csv", "md"), states: choices{among: folderNames()}}
	return &verb{
		name:  "export",
		brief: "print tasks for another program, or a report",
		about: `Prints the tasks, those in the archive among them, by state and id: as JSON, one task
a line (jsonl), as a table for a spreadsheet (csv), or as a table in Markdown (md). In
tables each text is one line; what a spreadsheet would take for a formula has ' in front.`,
		shows: []string{"mbox export --since 7d --format csv >week.csv", "mbox export --state failed --format md"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			valueFlag("since", "only those that changed since `WHEN`: a time, or a duration ago", &o.since),
			valueFlag("format", "`F` is jsonl, csv or md (jsonl)", &o.format),
			valueFlag("state", "only those `STATE`: pending, in-progress, completed, failed or archive; may be repeated", &o.states),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *exportOptions) run(ctx context.Context, s *session) error {
	return s.looking(ctx, func(box *mailbox.Box) error {
		states := append(slices.Clone(task.Folders), mailbox.Archived)
		if len(o.states.values) > 0 {
			states = nil
			for _, name := range o.states.values {
				states = append(states, mailbox.State(name))
			}
		}
		write, end := o.writer(s)
		err := scanTasks(ctx, box.Home(), states, everything, func(t scanned) error {
			if t.task.Updated.Before(o.since.at) {
				return nil
			}
			return write(t)
		})
		return firstError(err, end())
	})
}

// exported are the columns of a table, and what stands in them.
var exported = []struct {
	name string
	of   func(t scanned) string
}{
	{"id", func(t scanned) string { return string(t.task.ID) }},
	{"state", func(t scanned) string { return strings.TrimSuffix(t.task.Called(t.state), ", unverified") }},
	{"created", func(t scanned) string { return t.task.Created.String() }},
	{"updated", func(t scanned) string { return t.task.Updated.String() }},
	{"from", func(t scanned) string { return t.task.Source.Agent }},
	{"for", func(t scanned) string { return t.task.Assignment.TargetAgent }},
	{"by", func(t scanned) string { return t.task.Claimant() }},
	{"type", func(t scanned) string { return t.task.Task.Type }},
	{"priority", func(t scanned) string { return t.task.Task.Priority }},
	{"attempts", func(t scanned) string { return strconv.FormatInt(t.task.Mbox.Attempt, 10) }},
	{"title", func(t scanned) string { return t.task.Task.Title }},
	{"came out", func(t scanned) string {
		if e := t.task.Result.Error; e != nil {
			return e.Code + ": " + e.Message
		}
		return task.Text(t.task.Result.Output)
	}},
	{"verified", func(t scanned) string { return strconv.FormatBool(t.task.Verified()) }},
}

// writer prints tasks in the format; end finishes it.
func (o *exportOptions) writer(s *session) (write func(scanned) error, end func() error) {
	row := func(cell func(string) string, t scanned) (cells []string) {
		for _, c := range exported {
			cells = append(cells, cell(c.of(t)))
		}
		return cells
	}
	var head []string
	for _, c := range exported {
		head = append(head, c.name)
	}
	nothing := func() error { return nil }
	switch cmp.Or(o.format.value, "jsonl") {
	case "csv":
		w := csv.NewWriter(s.out)
		_ = w.Write(head) // Flush tells
		return func(t scanned) error { return w.Write(row(spreadsheetCell, t)) }, func() error { w.Flush(); return w.Error() }
	case "md":
		s.printf("Tasks, %s\n\n| %s |\n|%s\n", schemas.LocalTime(time.Now()), strings.Join(head, " | "), strings.Repeat("---|", len(head)))
		return func(t scanned) error {
			s.printf("| %s |\n", strings.Join(row(markdownCell, t), " | "))
			return nil
		}, nothing
	}
	return func(t scanned) error { return s.printLine(t.task) }, nothing
}

// spreadsheetCell is text on one line, which a spreadsheet does not take for a formula.
func spreadsheetCell(text string) string {
	const most = 32_000 // of what a spreadsheet has room for
	if text = clean(text, most); text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// markdownCell is text on one line that is neither markup nor a link.
func markdownCell(text string) string {
	const most = 200
	var b strings.Builder
	for _, r := range clean(schemas.LocalTimes(text), most) {
		if strings.ContainsRune("\\`*_[]<>|#&~!", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
