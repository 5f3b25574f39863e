package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type sendOptions struct {
	to, id, description, from, session, user, key string
	descriptionFile                               string
	kind, priority                                choice
	dependsOn, accept, attach, paths              texts
	expectOutput, edit                            bool
	notBefore, deadline                           moment
	attempts                                      number
	labels                                        labels
	limit                                         length
	wait, json                                    bool
}

func sendVerb() *verb {
	o := sendOptions{kind: oneOf(task.Types...), priority: oneOf(task.Priorities...), attempts: number{min: 1, max: 100}}
	return &verb{
		name: "send", args: "[TITLE|FILE|-]", most: 1,
		brief: "leave a task in the mailbox",
		about: `Leaves a task and prints its id. When the id is out, the task is on disk.

The argument is a title, or the name of a file that ends in .json,
or - for standard input; a file or input holds the whole task, and flags that
describe a task are refused beside it. It may hold many, each on a line (.jsonl):
all are looked at before the first is sent. One word that looks like a file, and is
none, is refused, and so is JSON that was meant for standard input; behind -- it is a
title, whatever it is. The smallest task is {"task":{"title":"…"}}.
A file may also hold a queue, as memory/task_queue.json does, with priorities as
numbers (0 is urgent, 3 low): then all tasks that wait in it are sent.

With --wait it prints what came of the task when that has ended, and its id on
stderr. The exit code is 1 if it failed, 75 when the time is over, and
130 after Ctrl-C, or 143 after SIGTERM, which end the waiting alone.

The same --key a second time, with the same title and description, is the first
task: its id is printed, and nothing is added. So is the same --id with the same
content. Other content is refused (exit code 5): nothing of it would be kept.

With --attach files come along, at most 20 and 1 GiB: mbox keeps copies of them, and
who does the task reads them as what other tasks left for it (mbox help agents).`,
		shows: []string{
			`mbox send "Summarise README" --to coder`,
			`mbox send --edit --to coder`,
			`mbox send "What is in README?" --to coder --wait --timeout 5m`,
			`mbox send "What does it cost?" --to coder --attach offer.pdf`,
			`mbox send "Nightly report" --not-before 8h --priority low --label team=ops`,
			`jq -n '{task:{title:"Ping",type:"action"}}' | mbox send -`,
		},
		exits: []int{exitError, exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: o.flags(),
		run:   func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args) },
	}
}

func (o *sendOptions) flags() []cli.Flag {
	return []cli.Flag{
		filledFlag("to", "the `AGENT` that is to do it, or any (any)", &o.to),
		valueFlag("type", "`TYPE` is research, action, analysis or other (other)", &o.kind),
		valueFlag("priority", "`P` is low, normal, high or urgent (normal)", &o.priority),
		filledFlag("id", "name the task `ID` instead of task-DATE-NNN", &o.id),
		textFlag("description", "all that there is to say about it: `TEXT`", &o.description),
		filledFlag("description-file", "the same, from `FILE`, or - for standard input", &o.descriptionFile),
		boolFlag("edit", "write it in $VISUAL or $EDITOR first", &o.edit),
		filledFlag("from", "who asks: an `AGENT`, or human (human)", &o.from),
		textFlag("session", "where the answer goes: `S`, kept as it is", &o.session),
		textFlag("user", "who stands behind the asking agent: `U`", &o.user),
		valueFlag("after", "not before task `ID` is completed; may be repeated", &o.dependsOn),
		valueFlag("depends-on", "the same as --after: `ID`", &o.dependsOn),
		valueFlag("not-before", "not before `WHEN`: a time, or a duration from now", &o.notBefore),
		valueFlag("deadline", "fails if nobody has taken it by `WHEN`", &o.deadline),
		valueFlag("max-attempts", "claims before it has failed for good: `N`", &o.attempts),
		valueFlag("accept", "the result has to pass check `NAME` of [accept.NAME]; may be repeated", &o.accept),
		valueFlag("path", "it works on `PATH`: never beside another task that does; may be repeated", &o.paths),
		boolFlag("expect-output", "an empty result is a failure", &o.expectOutput),
		filledFlag("key", "idempotency `KEY`: the same again is the same task", &o.key),
		valueFlag("label", "`KEY=VALUE`; may be repeated", &o.labels),
		valueFlag("attach", "bring a copy of `PATH` along, a file or the files of a folder; may be repeated", &o.attach),
		boolFlag("wait", "wait until it has ended, and print its output", &o.wait),
		valueFlag("timeout", "with --wait: no longer than `DURATION`", &o.limit),
		jsonFlag(&o.json),
	}
}

func (o *sendOptions) run(ctx context.Context, s *session, args []string) error {
	if len(args) == 0 && !o.edit {
		return usagef("mbox send TITLE|FILE|-, or mbox send --edit", "mbox send needs TITLE|FILE|-")
	}
	if o.limit.given && !o.wait {
		return usagef("mbox send TITLE --wait --timeout 5m", "--timeout without --wait")
	}
	var tasks []*mailbox.Task
	var err error
	draft := ""
	if o.edit {
		tasks, draft, err = o.written(ctx, s, args)
	} else {
		tasks, err = o.tasks(ctx, s, args[0])
	}
	if err != nil {
		return err
	}
	if len(o.attach) > 0 && len(tasks) != 1 {
		return usagef("one task at a time", "--attach beside a queue of %d tasks", len(tasks))
	}
	return s.tidied(ctx, func(box *mailbox.Box) error {
		var sent []mailbox.ID
		for _, task := range tasks {
			id, err := o.submit(ctx, s, box, task)
			if err != nil && draft != "" {
				return withDraft(s, draft, err)
			}
			if err != nil {
				return err
			}
			sent = append(sent, id)
		}
		if draft != "" {
			if err := os.Remove(draft); err != nil {
				return err
			}
		}
		for _, t := range tasks {
			doubtAwaited(s, box, t.Mbox.DependsOn)
		}
		if !o.wait {
			return nil
		}
		var why string // the last one that failed did so
		w := waiting{box: box, limit: o.limit, print: func(t *mailbox.Task) error {
			if t.Result.Status != mailbox.Failed {
				return errors.Join(printOutput(s, box.Home(), t), s.out.Flush())
			}
			if why = fmt.Sprintf("%s has failed%s", t.ID, clean(because(t), maxLine)); len(sent) > 1 {
				s.warnf("%s", why)
			}
			return nil
		}}
		if o.json {
			w.print = func(t *mailbox.Task) error { return s.printLine(t) }
		}
		err := w.wait(ctx, sent)
		if failed := new(unwell); errors.As(err, &failed) && len(sent) == 1 && why != "" {
			return &unwell{why}
		}
		return err
	})
}

func (o *sendOptions) submit(ctx context.Context, s *session, box *mailbox.Box, task *mailbox.Task) (mailbox.ID, error) {
	if err := doubtCalled(s, box, task.Assignment.TargetAgent); err != nil {
		return "", err
	}
	if err := asBridge(ctx, box, task); err != nil {
		return "", err
	}
	files := make([]mailbox.File, len(o.attach))
	for i, path := range o.attach {
		files[i].Path = path
	}
	id, err := mailbox.SubmitWith(ctx, box, task, files)
	var wrong *schemas.Error
	switch {
	case errors.As(err, &wrong) && wrong.Path == "mbox.deadline" && o.deadline.passed():
		return "", o.deadline.refused()
	case errors.Is(err, fs.ErrNotExist) && !errors.Is(err, mailbox.ErrCommitted), ofFiles(err):
		return "", uncopied(err, o.attach...)
	case err != nil:
		return id, hintData(err, "mbox send --help, or mbox schema print task")
	}
	if err := repeated(ctx, box, id, task); err != nil {
		return "", err
	}
	switch {
	case o.wait:
		s.infof("sent %s", id)
	case o.json:
		return id, s.printLine(map[string]any{"id": id})
	default:
		s.printf("%s\n", id)
	}
	return id, nil
}

// repeated refuses a key that another task has, somebody else's or one with other
// content: nothing was sent. One that was edited since may have been the same.
func repeated(ctx context.Context, box *mailbox.Box, id mailbox.ID, t *mailbox.Task) error {
	if t.Mbox.IdempotencyKey == "" {
		return nil
	}
	made, _, err := box.Task(ctx, id)
	if err != nil {
		return nil //nolint:nilerr // it is sent all the same
	}
	what := fmt.Sprintf("%s has it, with other content", id)
	switch {
	case made.Source.Agent != cmp.Or(t.Source.Agent, "human"):
		what = fmt.Sprintf("%s has sent %s with it", made.Source.Agent, id)
	case made.Task.Title == t.Task.Title && made.Task.Description == t.Task.Description:
		return nil
	default:
		if edited, err := mayBeEdited(box, id); edited || err != nil {
			return err
		}
	}
	err = fmt.Errorf("key %s: %w: %s", schemas.Quote(t.Mbox.IdempotencyKey), mailbox.ErrConflict, what)
	return hint(err, "mbox show %s is what has it; send this with a key that was not used before", schemas.ShellWord(string(id)))
}

// mayBeEdited tells whether a task was changed by mbox edit, or may have been before the
// ledger was begun anew.
func mayBeEdited(box *mailbox.Box, id mailbox.ID) (bool, error) {
	first := audit.Event("")
	for line, err := range box.Ledger().LinesOf(string(id)) {
		if err != nil || line.Event() == audit.TaskEdited {
			return err == nil, err
		}
		first = line.Event()
	}
	return first != audit.TaskCreated, nil
}

// asBridge refuses an agent's command that sends as a bridge: that would tell the
// task's result to whomever its session names.
func asBridge(ctx context.Context, box *mailbox.Box, t *mailbox.Task) error {
	if !strings.HasPrefix(t.Source.Agent, task.Bridge) {
		return nil
	}
	if err := speaking.byPerson(); err != nil {
		return err
	}
	return speaking.byNoWorker(ctx, box)
}

// written makes the task of the flags and of what a person writes in an editor.
func (o *sendOptions) written(ctx context.Context, s *session, args []string) (tasks []*mailbox.Task, draft string, err error) {
	title := ""
	if len(args) == 1 {
		if title = args[0]; !s.literal && (title == "-" || isTaskFile(title) || isJSON(title)) {
			return nil, "", usagef("mbox send --edit", "--edit writes a task, and %s is one", schemas.Quote(title))
		}
	}
	if err := o.describe(ctx, s); err != nil {
		return nil, "", err
	}
	t, err := o.compose(title)
	if err != nil {
		return nil, "", err
	}
	was := sheetOf(t)
	was.Priority, was.To = cmp.Or(was.Priority, "normal"), cmp.Or(was.To, "any")
	now, draft, err := fillIn(ctx, s, was, "mbox send TITLE --description TEXT, or set EDITOR")
	if err != nil {
		return nil, draft, err
	}
	if strings.TrimSpace(now.Title) == "" {
		return nil, draft, withDraft(s, draft, errors.New("it has no title, and nothing was sent"))
	}
	now.put(t)
	return []*mailbox.Task{t}, draft, nil
}

// describe reads the description, where a file has it.
func (o *sendOptions) describe(ctx context.Context, s *session) error {
	if o.descriptionFile == "" {
		return nil
	}
	if o.description != "" {
		return usagef("mbox send TITLE --description-file FILE", "two descriptions")
	}
	text, err := s.readInput(ctx, o.descriptionFile, mailbox.MaxDescription)
	o.description = string(text)
	return err
}

// tasks makes the task of the flags, or reads it whole, or reads a queue.
func (o *sendOptions) tasks(ctx context.Context, s *session, what string) ([]*mailbox.Task, error) {
	switch {
	case s.literal:
	case isMissingFile(what):
		return nil, hint(fmt.Errorf("%s: there is no such file: %w", schemas.Quote(what), mailbox.ErrNotFound), "mbox send -- %s takes it for a title", schemas.ShellWord(clean(what, maxLine)))
	case what == "-" || isTaskFile(what):
		if name := o.described(); name != "" {
			return nil, usagef("mbox send TITLE --"+name+" …, or put it into the JSON", "--%s beside %s: the file holds the whole task", name, what)
		}
		return s.readTasks(ctx, what)
	case isJSON(what):
		return nil, usagef("… | mbox send - sends it; mbox send -- … takes it for a title", "%s is JSON, and not a title", clean(what, 80))
	}
	if strings.TrimSpace(what) == "" {
		return nil, usagef(`mbox send "Summarise README"`, "the title is empty")
	}
	if err := o.describe(ctx, s); err != nil {
		return nil, err
	}
	task, err := o.compose(what)
	if err != nil {
		return nil, err
	}
	return []*mailbox.Task{task}, nil
}

func (o *sendOptions) compose(title string) (*mailbox.Task, error) {
	if !o.deadline.at.IsZero() && o.deadline.at.Before(o.notBefore.at) {
		return nil, usagef("a later --deadline, or an earlier --not-before", "--deadline %s lies before --not-before %s", &o.deadline, &o.notBefore)
	}
	t := &mailbox.Task{ID: mailbox.ID(o.id)}
	t.Source = mailbox.Source{Agent: cmp.Or(o.from, "human"), Session: o.session, User: o.user}
	t.Task = mailbox.Request{Type: o.kind.value, Priority: o.priority.value, Title: title, Description: o.description}
	t.Assignment.TargetAgent = o.to
	t.Mbox.IdempotencyKey, t.Mbox.Accept, t.Mbox.ExpectOutput = o.key, o.accept, o.expectOutput
	for _, id := range o.dependsOn {
		t.Mbox.DependsOn = append(t.Mbox.DependsOn, mailbox.ID(id))
	}
	t.Mbox.Paths = o.paths
	t.Mbox.NotBefore, t.Mbox.Deadline = optional(o.notBefore.at), optional(o.deadline.at)
	if o.attempts.value != nil {
		t.Mbox.MaxAttempts = int64(*o.attempts.value)
	}
	if len(o.labels) > 0 {
		data, err := schemas.Encode(map[string]string(o.labels))
		if err != nil {
			return nil, err
		}
		t.Mbox.Labels = bytes.TrimSpace(data)
	}
	return t, nil
}

func optional(t time.Time) *mailbox.Time {
	if t.IsZero() {
		return nil
	}
	at := task.At(t)
	return &at
}

// described names a given flag that says something about the task.
func (o *sendOptions) described() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"to", o.to != ""},
		{"type", o.kind.value != ""},
		{"priority", o.priority.value != ""},
		{"id", o.id != ""},
		{"description", o.description != ""},
		{"description-file", o.descriptionFile != ""},
		{"from", o.from != ""},
		{"session", o.session != ""},
		{"user", o.user != ""},
		{"after", len(o.dependsOn) > 0},
		{"not-before", !o.notBefore.at.IsZero()},
		{"deadline", !o.deadline.at.IsZero()},
		{"max-attempts", o.attempts.value != nil},
		{"accept", len(o.accept) > 0},
		{"path", len(o.paths) > 0},
		{"expect-output", o.expectOutput},
		{"key", o.key != ""},
		{"label", len(o.labels) > 0},
	} {
		if f.given {
			return f.name
		}
	}
	return ""
}

// pathLike is one word with a slash in it, or with an ending that files often have.
var pathLike = schemas.Pattern(`(?i)^[^\s]*(/[^\s]*|[^\s]\.(md|txt|ya?ml|toml|csv|tsv|pdf|jsonl?|xml|html?|log|docx?|xlsx?|odt|png|jpe?g|zip|tar|gz|sh|py|go|js|ts))$`)

// doubtCalled is doubtTarget where a name may be one that an agent had: that means it.
func doubtCalled(s *session, box *mailbox.Box, target string) error {
	now, err := mailbox.AgentCalled(box, target)
	if err == nil && now != target {
		s.done("%s is called %s now", target, now)
	}
	s.doubtTarget(now)
	return err
}

// doubtTarget warns of a target that looks like a misspelt agent. It may still
// be right: an agent need not be registered to claim what names it.
func (s *session) doubtTarget(target string) {
	if target == "" || target == "any" || s.config.Agents[target] != nil {
		return
	}
	if near := schemas.Suggest(target, agentWords(s)); near != "" {
		s.warnf("%s is not in mbox.toml; did you mean %s?", target, near)
	}
}

// doubtAwaited warns of ids that are waited for and of which nobody has heard. They may
// still be right: a task may be sent before those that it comes after.
func doubtAwaited(s *session, box *mailbox.Box, awaited []mailbox.ID) {
	for _, id := range awaited {
		if heard, err := mailbox.Heard(box, id); err == nil && !heard {
			s.warnf("nobody has heard of %s yet: what comes after it waits until a task of that id is completed", id)
		}
	}
}
