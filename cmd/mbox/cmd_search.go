package main

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type searchOptions struct {
	most number
	json bool
}

// found is one place where the text stands.
type found struct {
	ID      string `json:"id"` // of a task, a record or a message
	State   string `json:"state,omitzero"`
	Channel string `json:"channel,omitzero"` // of a message
	Field   string `json:"field"`
	Text    string `json:"text"` // the line
	called  string // what people call the state
}

func searchVerb() *verb {
	o := searchOptions{most: number{max: math.MaxInt32}}
	return &verb{
		name: "search", args: "TEXT", least: 1, most: 1,
		brief: "find a text in tasks, records and messages",
		about: `Finds a text, in whatever case, in the tasks (id, title, description, output, error,
labels; the archive, too), in the records of decisions and changes, and in what was
said in channels. It prints the first line of each field in which it stands.
mbox show takes the ids of tasks, decisions and messages.`,
		shows: []string{`mbox search "rate limit"`, "mbox search postgres --json | jq -r .id"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{limitFlag("at most `N` places; 0: all", &o.most), jsonFlag(&o.json)},
		run:   func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args[0]) },
	}
}

// where is the state of a task, or the channel of a message.
func (f *found) where() string {
	if f.Channel != "" {
		return "#" + f.Channel
	}
	return f.called
}

// errEnough ends a search that has found as much as was asked for.
var errEnough = errors.New("enough")

func (o *searchOptions) run(ctx context.Context, s *session, what string) error {
	if strings.TrimSpace(what) == "" {
		return usagef(`mbox search "rate limit"`, "the text is empty")
	}
	return s.looking(ctx, func(box *mailbox.Box) error {
		rows, n := &table{head: []string{"ID", "WHERE", "FIELD", "TEXT"}}, 0
		visit := func(f found) error {
			n++
			if o.json {
				if err := s.printLine(f); err != nil {
					return err
				}
			} else {
				rows.add(text(f.ID), text(f.where()), text(f.Field), text(f.Text))
			}
			if o.most.value != nil && n == *o.most.value {
				return errEnough
			}
			return nil
		}
		err := search(ctx, box.Home(), what, visit)
		if err == nil {
			err = searchMessages(ctx, box, strings.ToLower(what), visit)
		}
		if errors.Is(err, errEnough) {
			err = nil
		}
		rows.printIfAny(s, "nothing has that text")
		return err
	})
}

// search visits the places of a home where a text stands.
func search(ctx context.Context, dir, text string, visit func(found) error) error {
	needle := strings.ToLower(text)
	wanted, err := inFiles(needle)
	if err != nil {
		return err
	}
	err = scanTasks(ctx, dir, append(slices.Clone(task.Folders), mailbox.Archived), wanted, func(t scanned) error {
		for _, f := range fieldsOf(t.task) {
			if line := lineWith(f.text, needle); line != "" {
				if err := visit(found{ID: string(t.task.ID), State: string(t.state), called: t.task.Called(t.state), Field: f.name, Text: line}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, folder := range []string{"decisions", "changes"} {
		if err := searchRecords(ctx, filepath.Join(dir, folder), strings.TrimSuffix(folder, "s"), needle, visit); err != nil {
			return err
		}
	}
	return nil
}

// inFiles tells of the bytes of a task's file whether a text may stand there: as one, or
// as KEY=VALUE of a label.
func inFiles(needle string) (func([]byte) bool, error) {
	var parts [][]byte
	key, value, _ := strings.Cut(needle, "=")
	for _, text := range []string{needle, key, value} {
		written, err := schemas.Encode(text) // as a string in a task file is
		if err != nil {
			return nil, err
		}
		parts = append(parts, bytes.ToLower(bytes.Trim(bytes.TrimSpace(written), `"`)))
	}
	return func(data []byte) bool {
		data = bytes.ToLower(data)
		return bytes.Contains(data, parts[0]) || strings.Contains(needle, "=") && bytes.Contains(data, parts[1]) && bytes.Contains(data, parts[2])
	}, nil
}

// field is a text of a task.
type field struct{ name, text string }

func fieldsOf(t *mailbox.Task) []field {
	fields := []field{
		{"id", string(t.ID)},
		{"title", t.Task.Title},
		{"description", t.Task.Description},
		{"output", task.Text(t.Result.Output)},
		{"labels", strings.Join(labelsOf(&t.Mbox), "\n")},
	}
	if e := t.Result.Error; e != nil {
		fields = append(fields, field{"error", e.Code + ": " + e.Message})
	}
	return fields
}

// lineWith is the first line of a text in which something stands; "" if it does in none.
func lineWith(text, needle string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(strings.ToLower(line), needle) {
			return strings.TrimSpace(line)
		}
	}
	if strings.Contains(strings.ToLower(text), needle) { // it has several lines itself
		return strings.TrimSpace(text)
	}
	return ""
}

func searchRecords(ctx context.Context, folder, kind, needle string, visit func(found) error) error {
	names, err := durable.Names(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		id, is := strings.CutSuffix(name, ".md")
		data, err := durable.Read(filepath.Join(folder, name), mailbox.MaxTask)
		if !is || err != nil {
			continue // verify and doctor tell of it
		}
		if line := lineWith(string(data), needle); line != "" {
			if err := visit(found{ID: id, Field: kind, Text: line}); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}
