package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// told is a text that knows whether it was given.
type told struct {
	given bool
	value string
}

func (t *told) String() string     { return t.value }
func (t *told) Set(v string) error { t.given, t.value = true, v; return nil }

// whenOrNone is a moment that can be taken away.
type whenOrNone struct {
	moment
	given bool
}

func (w *whenOrNone) Set(v string) error {
	w.given = true
	if v == "none" {
		return nil
	}
	return w.moment.Set(v)
}

type editOptions struct {
	operator
	selection
	title, description, file, to told
	priority                     choice
	notBefore, deadline          whenOrNone
	after, notAfter, noLabel     texts
	paths, noPath                texts
	labels                       labels
}

func editVerb() *verb {
	o := editOptions{priority: oneOf(task.Priorities...), selection: choosing(mailbox.Pending)}
	return &verb{
		name: "edit", args: "[ID…]", most: -1,
		brief: "change a task that waits",
		about: `Changes what a pending task asks for, for whom and when. Without a flag that
says what, $VISUAL or $EDITOR is opened with what can be changed, as JSON. All checks
of a new task are made again, and an approval that was given before counts no longer.
The ledger gets the names of the changed fields, never a title, a description, a label
or a parameter. What decides who takes a task and when stands in each of its lines into
pending, this one too: for whom it is, its type, priority, times and paths, the name of
its action, and the ids that it waits for. A task that is so already is left as it is.

--pending is all tasks that wait, or those that fit; how many that are is told, and
asked about, or --yes has to be there. The exit code is that of the worst.

A task that somebody has taken is not changed (exit code 5). --by AGENT changes what
that agent has sent, and nothing else; an agent's command changes only in its own name.`,
		shows: []string{
			`mbox edit task-2026-02-16-001 --priority urgent --deadline 2h`,
			`mbox edit task-2026-02-16-001 --not-before none --after task-2026-02-16-002`,
			`EDITOR=vi mbox edit task-2026-02-16-001`,
			`mbox edit --pending --for coder --priority low --yes`,
		},
		exits: []int{exitError, exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: slices.Concat([]cli.Flag{
			valueFlag("title", "its new title: `TEXT`", &o.title),
			valueFlag("description", "all that there is to say about it: `TEXT`", &o.description),
			valueFlag("description-file", "the same, from `FILE`, or - for standard input", &o.file),
			valueFlag("priority", "`P` is low, normal, high or urgent", &o.priority),
			valueFlag("to", "the `AGENT` that is to do it, or any", &o.to),
			valueFlag("not-before", "not before `WHEN`: a time, a duration from now, or none", &o.notBefore),
			valueFlag("deadline", "fails if nobody has taken it by `WHEN`, or none", &o.deadline),
			valueFlag("after", "not before task `ID` is completed, too; may be repeated", &o.after),
			valueFlag("not-after", "no longer wait for task `ID`; may be repeated", &o.notAfter),
			valueFlag("path", "it works on `PATH`, too; may be repeated", &o.paths),
			valueFlag("no-path", "it does not work on `PATH`; may be repeated", &o.noPath),
			valueFlag("label", "`KEY=VALUE`; may be repeated", &o.labels),
			valueFlag("no-label", "take the label `KEY` away; may be repeated", &o.noLabel),
		}, o.operator.flags("why: `TEXT`"), o.selection.flags("pending", "instead of ids: all that wait")),
		run:   func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args) },
		words: tasksThatAre(mailbox.Pending),
	}
}

func moveVerb() *verb {
	o := editOptions{selection: choosing(mailbox.Pending)}
	return &verb{
		name: "move", args: "[ID…] AGENT", least: 1, most: -1,
		brief: "give a task that waits to another agent",
		about: `Has another agent do pending tasks; any is whoever may. It is mbox edit --to, and
chooses tasks as that does.`,
		shows: []string{"mbox move task-2026-02-16-001 coder", "mbox move --pending --for coder tester"},
		exits: []int{exitError, exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: slices.Concat(o.operator.flags("why: `TEXT`"), o.selection.flags("pending", "instead of ids: all that wait"), []cli.Flag{o.selection.byLabel()}),
		run: func(ctx context.Context, s *session, args []string) error {
			last := len(args) - 1
			if last == 0 && !o.all {
				return usagef("mbox move ID AGENT, or mbox move --pending AGENT", "move needs the id of a task, or --pending, and the agent that is to do it")
			}
			o.to = told{true, args[last]}
			return o.run(ctx, s, args[:last])
		},
		words: moveWords,
	}
}

func (o *editOptions) run(ctx context.Context, s *session, args []string) error {
	by, err := o.editor()
	if err != nil {
		return err
	}
	if o.to.given && o.to.value == "" {
		return usagef("mbox move ID AGENT, or mbox move ID any", `the agent that is to do it is ""`)
	}
	if o.deadline.passed() {
		return o.deadline.refused()
	}
	if err := o.selection.check("edit", "pending", args); err != nil {
		return err
	}
	if o.file.given {
		if o.description.given {
			return usagef("mbox edit ID --description-file FILE", "--description and --description-file are two descriptions")
		}
		data, err := s.readInput(ctx, o.file.value, mailbox.MaxTask)
		if err != nil {
			return err
		}
		o.description = told{true, string(data)}
	}
	flagged := o.flagged()
	if !flagged && len(args) != 1 {
		return usagef("mbox edit --help", "an editor is opened for one task; flags change many")
	}
	return s.tidied(ctx, func(box *mailbox.Box) error {
		if err := doubtCalled(s, box, o.to.value); err != nil {
			return err
		}
		if os.Getenv("MBOX_AGENT") == "" {
			if err := editing.byNoWorker(ctx, box); err != nil {
				return err
			}
		}
		ids, err := o.selection.ids(ctx, s, box, "edit", args)
		if err != nil {
			return err
		}
		if !flagged {
			change, draft, err := inEditor(ctx, s, box, ids[0])
			if err != nil {
				return err
			}
			if err := o.edit(ctx, s, box, ids[0], by, change); err != nil {
				return withDraft(s, draft, err)
			}
			return os.Remove(draft)
		}
		return each(ctx, s, ids, o.json, func(id mailbox.ID) error { return o.edit(ctx, s, box, id, by, o.change) })
	})
}

// editor is who edits. An agent's command does so in the agent's name alone.
func (o *editOptions) editor() (string, error) {
	agent := os.Getenv("MBOX_AGENT")
	by, err := actor("by", cmp.Or(o.by, agent))
	if err != nil {
		return "", err
	}
	if by != agent && ofAgent(os.LookupEnv) != "" {
		if by == "human" {
			return "", editing.byPerson()
		}
		return "", hint(&agents.RefusedError{Step: "edit", Reason: "this is a command of another agent than " + by}, "leave --by out")
	}
	return by, nil
}

func (o *editOptions) edit(ctx context.Context, s *session, box *mailbox.Box, id mailbox.ID, by string, change func(*mailbox.Task) error) error {
	var awaited []mailbox.ID
	fields, err := mailbox.Edit(ctx, box, id, by, cmp.Or(o.reason, "Edited"), func(t *mailbox.Task) error {
		had := slices.Clone(t.Mbox.DependsOn)
		err := change(t)
		awaited = slices.DeleteFunc(slices.Clone(t.Mbox.DependsOn), func(id mailbox.ID) bool { return slices.Contains(had, id) })
		return err
	})
	if err == nil {
		doubtAwaited(s, box, awaited)
	}
	switch {
	case errors.Is(err, mailbox.ErrConflict):
		return hint(err, "mbox show %s tells how it is now; mbox cancel ends it, and a task that was given back can be changed", schemas.ShellWord(string(id)))
	case err != nil:
		return hintData(err, "mbox edit --help tells what can be changed")
	case o.json:
		return s.printLine(map[string]any{"id": id, "fields": append([]string{}, fields...)})
	case len(fields) == 0:
		s.done("%s is so already", id)
	default:
		s.done("edited %s: %s", id, strings.Join(fields, ", "))
	}
	return nil
}

// flagged tells whether a flag says what is to be changed.
func (o *editOptions) flagged() bool {
	return o.title.given || o.description.given || o.to.given || o.priority.value != "" || o.notBefore.given || o.deadline.given ||
		len(o.after)+len(o.notAfter)+len(o.paths)+len(o.noPath)+len(o.noLabel)+len(o.labels) > 0
}

// change does to a task what the flags say.
func (o *editOptions) change(t *mailbox.Task) error {
	for _, f := range []struct {
		told *told
		to   *string
	}{{&o.title, &t.Task.Title}, {&o.description, &t.Task.Description}, {&o.to, &t.Assignment.TargetAgent}} {
		if f.told.given {
			*f.to = f.told.value
		}
	}
	t.Task.Priority = cmp.Or(o.priority.value, t.Task.Priority)
	if o.notBefore.given {
		t.Mbox.NotBefore = optional(o.notBefore.at)
	}
	if o.deadline.given {
		t.Mbox.Deadline = optional(o.deadline.at)
	}
	named := func(ids texts, id mailbox.ID) bool {
		return slices.ContainsFunc(ids, func(one string) bool { return mailbox.ID(one).Fold() == id.Fold() })
	}
	t.Mbox.DependsOn = slices.DeleteFunc(t.Mbox.DependsOn, func(id mailbox.ID) bool { return named(o.notAfter, id) })
	for _, id := range o.after {
		if !slices.ContainsFunc(t.Mbox.DependsOn, func(one mailbox.ID) bool { return named(texts{id}, one) }) {
			t.Mbox.DependsOn = append(t.Mbox.DependsOn, mailbox.ID(id))
		}
	}
	t.Mbox.Paths = slices.DeleteFunc(t.Mbox.Paths, func(p string) bool { return slices.Contains(o.noPath, p) })
	for _, p := range o.paths {
		if !slices.Contains(t.Mbox.Paths, p) {
			t.Mbox.Paths = append(t.Mbox.Paths, p)
		}
	}
	return o.relabel(t)
}

func (o *editOptions) relabel(t *mailbox.Task) error {
	if len(o.labels)+len(o.noLabel) == 0 {
		return nil
	}
	all := map[string]jsontext.Value{}
	if task.Given(t.Mbox.Labels) {
		if err := schemas.Decode(t.Mbox.Labels, &all); err != nil {
			return err
		}
	}
	for _, key := range o.noLabel {
		delete(all, key)
	}
	for key, value := range maps.All(o.labels) {
		data, err := schemas.Encode(value)
		if err != nil {
			return err
		}
		all[key] = bytes.TrimSpace(data)
	}
	if t.Mbox.Labels = nil; len(all) == 0 {
		return nil
	}
	data, err := schemas.Encode(all)
	t.Mbox.Labels = bytes.TrimSpace(data)
	return err
}

// sheet is what an editor shows of a task.
type sheet struct {
	Title       string         `json:"title"`
	Description string         `json:"description"`
	Priority    string         `json:"priority"`
	To          string         `json:"to"`
	NotBefore   *mailbox.Time  `json:"not_before"`
	Deadline    *mailbox.Time  `json:"deadline"`
	DependsOn   []mailbox.ID   `json:"depends_on"`
	Paths       []string       `json:"paths"`
	Labels      jsontext.Value `json:"labels"`
}

// sheetOf is what an editor shows of a task.
func sheetOf(t *mailbox.Task) sheet {
	labels := t.Mbox.Labels
	if !task.Given(labels) {
		labels = jsontext.Value("{}")
	}
	return sheet{
		t.Task.Title, t.Task.Description, t.Task.Priority, t.Assignment.TargetAgent,
		t.Mbox.NotBefore, t.Mbox.Deadline, append([]mailbox.ID{}, t.Mbox.DependsOn...),
		append([]string{}, t.Mbox.Paths...), labels,
	}
}

// put makes the task what the sheet says.
func (now sheet) put(t *mailbox.Task) {
	t.Task.Title, t.Task.Description, t.Task.Priority, t.Assignment.TargetAgent = now.Title, now.Description, now.Priority, now.To
	t.Mbox.NotBefore, t.Mbox.Deadline, t.Mbox.DependsOn = now.NotBefore, now.Deadline, now.DependsOn
	t.Mbox.Paths, t.Mbox.Labels = now.Paths, now.Labels
	if string(bytes.TrimSpace(now.Labels)) == "{}" {
		t.Mbox.Labels = nil
	}
}

// inEditor has a person change a task in an editor, and returns the file in which what
// was written stays. A task that has changed meanwhile is left alone.
func inEditor(ctx context.Context, s *session, box *mailbox.Box, id mailbox.ID) (change func(*mailbox.Task) error, draft string, err error) {
	was, _, err := box.Task(ctx, id)
	if err != nil {
		return nil, "", err
	}
	now, draft, err := fillIn(ctx, s, sheetOf(was), "mbox edit "+schemas.ShellWord(string(id))+" --priority high, or set EDITOR")
	if err != nil {
		return nil, draft, err
	}
	return func(t *mailbox.Task) error {
		if t.Mbox.TX != was.Mbox.TX {
			return fmt.Errorf("%w: it was changed meanwhile", mailbox.ErrConflict)
		}
		now.put(t)
		return nil
	}, draft, nil
}

// withDraft is an error whose hint tells where what was written in an editor stays and,
// where it was wrong, the line that takes it from there.
func withDraft(s *session, draft string, err error) error {
	_, way := s.judged(err)
	if bad := new(schemas.Error); way == "" || errors.As(err, &bad) {
		again := schemas.ShellWord("cp " + schemas.ShellWord(draft))
		way = "mend it there, then VISUAL=" + again + " " + s.line.said()
	}
	return hint(err, "what was written stays in %s; %s", draft, way)
}

// fillIn opens an editor with a sheet, and returns what was made of it and the file in
// which that stays. without is the line that needs no editor.
func fillIn(ctx context.Context, s *session, was sheet, without string) (now sheet, path string, err error) {
	editor := cmp.Or(os.Getenv("VISUAL"), os.Getenv("EDITOR"))
	if editor == "" {
		return now, "", usagef(without, "there is no editor: neither VISUAL nor EDITOR is set")
	}
	data, err := schemas.Encode(was)
	if err != nil {
		return now, "", err
	}
	f, err := os.CreateTemp("", "mbox-edit-*.json") // of mode 0600
	if err != nil {
		return now, "", err
	}
	path = f.Name()
	if _, err := f.Write(data); err != nil {
		return now, path, errors.Join(err, f.Close())
	}
	if err := f.Close(); err != nil {
		return now, path, err
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", editor+` "$1"`, "sh", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.in, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return now, path, withDraft(s, path, fmt.Errorf("%s: %w", clean(editor, 80), err))
	}
	text, err := s.readInput(ctx, path, mailbox.MaxTask)
	if err == nil {
		err = schemas.Decode(text, &now)
	}
	if err != nil {
		return now, path, withDraft(s, path, inFile(err, path))
	}
	return now, path, nil
}
