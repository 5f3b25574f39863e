package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/urfave/cli/v2"

	"mbox/audit/record"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

type showOptions struct{ output, attempts, json bool }

func showVerb() *verb {
	var o showOptions
	return &verb{
		name: "show", args: "ID…", least: 1, most: -1,
		brief: "show tasks",
		about: `Shows what is asked, an action with all its parameters, who has it, what came of
it, and the states that it went through. --output prints the result alone: a text as
it is, anything else as JSON, and all of one that became an artifact. --attempts tells who tried it, how long, and how each
attempt ended; mbox logs has what was said in them. With --json it prints the task
file, whose times are in UTC; for people they are those of this machine. The id of a
decision shows that record, that of a message what was said, and who has got it.`,
		shows: []string{"mbox show task-2026-02-16-001", "mbox show task-2026-02-16-001 --output >report.md"},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("output", "print the result alone", &o.output),
			boolFlag("attempts", "print a line for each attempt", &o.attempts),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if o.output && (o.attempts || o.json) {
				return usagef("mbox show ID --output", "--output is the result alone")
			}
			return s.looking(ctx, func(box *mailbox.Box) error {
				return eachShown(ctx, s, box, args, o.output || o.json, func(id mailbox.ID) error {
					err := o.run(ctx, s, box, id)
					if !unknownTask(err) {
						return err
					}
					if way := cmp.Or(mendFile(box.Home(), id), keptUnder(box.Home(), id)); way != "" {
						err = hint(err, "%s", way)
					}
					return err
				})
			})
		},
		words: taskWords,
	}
}

// eachShown shows what has these ids, one below the other.
func eachShown(ctx context.Context, s *session, box *mailbox.Box, args []string, close bool, show func(mailbox.ID) error) error {
	ids, err := new(selection).ids(ctx, s, box, "show", args)
	if err != nil {
		return err
	}
	first := true
	return each(ctx, s, ids, false, func(id mailbox.ID) error {
		if !first && !close {
			s.printf("\n")
		}
		first = false
		return show(id)
	})
}

func (o *showOptions) run(ctx context.Context, s *session, box *mailbox.Box, id mailbox.ID) error {
	it, err := mailbox.Lying(ctx, box, id)
	t, state := it.Task, it.State
	if err == nil {
		warnByHand(s, mailbox.ByHand(ctx, box, it))
	}
	switch {
	case errors.Is(err, mailbox.ErrNotFound) && record.IsDecision(string(id)):
		return showDecision(ctx, s, box, string(id), o.json)
	case unknownTask(err) && !o.output && !o.attempts:
		return showMessage(ctx, s, box, string(id), o.json, err)
	case err != nil:
		return err
	case o.output:
		return printOutput(s, box.Home(), t)
	case o.attempts:
		return printAttempts(s, attemptsOf(t), o.json)
	case o.json:
		return s.printJSON(t)
	}
	var why *mailbox.Why
	if state == mailbox.Pending && t.Mbox.Action != nil || t.Result.Status == mailbox.Completed {
		if why, err = box.Why(ctx, t.ID); err != nil {
			s.warnf("%v", err)
		}
	}
	s.folder = box.Home()
	s.showTask(t, state, why)
	return nil
}

// warnByHand says that a task's file was changed by hand, and what helps.
func warnByHand(s *session, err error) {
	if err != nil {
		_, hint := s.judged(err)
		s.warnf("%v; %s", err, hint)
	}
}

// printOutput prints the result of a task and nothing else. A program gets the very text,
// where it became an artifact from there; a terminal gets the end of such a one.
func printOutput(s *session, dir string, t *mailbox.Task) error {
	if t.Result.Status != mailbox.Completed {
		return hint(fmt.Errorf("%s is %s, and has no result: %w", t.ID, t.Result.Status, mailbox.ErrConflict), "mbox why %s", schemas.ShellWord(string(t.ID)))
	}
	text := task.Text(t.Result.Output)
	whole, of, spilled := mailbox.Spilled(dir, t)
	if whole != nil {
		defer whole.Close()
		if !s.terminal {
			return printWhole(s.out, whole, of)
		}
		s.warnf("this is the end of it: it is whole, %s, in %s", schemas.Size(uint64(of.Size)), clean(filepath.Join(dir, of.Path), maxLine))
	}
	if s.terminal {
		text = wholeLines(text)
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	if _, err := s.out.WriteString(text); err != nil {
		return err
	}
	if spilled && whole == nil {
		return fmt.Errorf("this was the end of it, and %s, which had all, is not as the task names it: %w", of.Path, mailbox.ErrIntegrity)
	}
	return nil
}

// printWhole prints an artifact, and says at the end if it is not as its task names it.
func printWhole(out io.Writer, f *os.File, of mailbox.Artifact) error {
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), f); err != nil {
		return err
	}
	if last := make([]byte, 1); of.Size > 0 {
		if _, err := f.ReadAt(last, of.Size-1); err == nil && last[0] != '\n' { // as of any other result
			fmt.Fprintln(out)
		}
	}
	if fmt.Sprintf("sha256:%x", sum.Sum(nil)) != of.SHA256 {
		return fmt.Errorf("%s is not as the task names it: %w", of.Path, mailbox.ErrIntegrity)
	}
	return nil
}

// attempt is one claim of a task.
type attempt struct {
	Claim  int           `json:"claim"`
	By     string        `json:"by"`
	Began  mailbox.Time  `json:"began"`
	Ended  *mailbox.Time `json:"ended,omitzero"`
	Became mailbox.State `json:"became,omitzero"`
	Reason string        `json:"reason,omitzero"`
}

// attemptsOf reads the attempts at a task from the states that it went through.
func attemptsOf(t *mailbox.Task) []attempt {
	all := []attempt{}
	for _, c := range t.Audit.StateChanges {
		if c.To == mailbox.InProgress {
			all = append(all, attempt{Claim: len(all) + 1, By: c.By, Began: c.At})
		} else if n := len(all); n > 0 && all[n-1].Ended == nil {
			all[n-1].Ended, all[n-1].Became, all[n-1].Reason = &c.At, c.To, c.Reason
		}
	}
	return all
}

func printAttempts(s *session, all []attempt, inJSON bool) error {
	if inJSON {
		return s.printJSON(all)
	}
	rows := table{head: []string{"CLAIM", "BY", "BEGAN", "TOOK", "BECAME", "WHY"}, spare: []string{"BEGAN", "BY"}}
	for _, a := range all {
		took, became := "-", "-"
		if a.Ended != nil {
			took, became = a.Ended.Sub(a.Began.Time).Round(time.Millisecond).String(), string(a.Became)
		}
		rows.add(text(fmt.Sprint(a.Claim)), text(a.By), text(schemas.LocalTime(a.Began.Time)), text(took), coloured(became, s.stateColour(a.Became)), text(a.Reason))
	}
	rows.printIfAny(s, "nobody has tried it yet")
	return nil
}

// showTask prints a task for people, with what an approval would bind if it waits
// for one, and what its result has passed.
func (s *printer) showTask(t *mailbox.Task, state mailbox.State, w *mailbox.Why) {
	s.printf("%s  %s\n%s\n\n", s.paint.bold(clean(string(t.ID), 128)), s.stateColour(state)(t.Called(state)), s.hanging(clean(t.Task.Title, maxLine), 0, plain))
	s.field("for", t.Assignment.TargetAgent)
	if by := t.Assignment.PickedUpBy; by != nil {
		s.field("by", *by+at(t.Assignment.PickedUpAt))
	}
	if w != nil && len(w.Checks) > 0 {
		s.field("has passed", strings.Join(w.Checks, ", "))
	}
	s.field("from", strings.TrimSpace(t.Source.Agent+" "+t.Source.User))
	s.field("type", t.Task.Type+", "+t.Task.Priority)
	s.field("created", schemas.LocalTime(t.Created.Time))
	s.showMeta(&t.Mbox, state)
	s.showAttached(t, state)
	if w != nil && w.Approve != "" {
		s.showBound(w)
	}
	s.showText("description", t.Task.Description)
	s.showParams(t.Mbox.Action)
	s.showResult(t, t.Task.Description != "" || t.Mbox.Action != nil)
	s.showTrail(t.Audit.StateChanges)
}

// showAttached lists what came with the task; of a task in the archive it lies beside
// its file.
func (s *printer) showAttached(t *mailbox.Task, state mailbox.State) {
	in := task.ArtifactsDir
	if state == mailbox.Archived {
		months, _ := home.Months(s.folder)
		for _, month := range months {
			there := path.Join("tasks/archive", month)
			if _, err := os.Lstat(filepath.Join(s.folder, there, task.ArtifactFolder(t.ID, 0))); err == nil {
				in = there
			}
		}
	}
	for _, a := range t.Attached(in) {
		s.field("attached", s.kept(a))
	}
}

// kept is a file that mbox keeps, with what it is known by.
func (s *printer) kept(a mailbox.Artifact) string {
	return fmt.Sprintf("%s (%s, %s)", s.place(a.Path), schemas.Size(uint64(max(a.Size, 0))), a.SHA256)
}

func (s *printer) showMeta(m *mailbox.Meta, state mailbox.State) {
	if m.Attempt > 0 {
		s.field("attempt", fmt.Sprintf("%d of %d", m.Attempt, m.MaxAttempts))
	}
	if m.NotBefore != nil {
		s.field("not before", schemas.LocalTime(m.NotBefore.Time))
	}
	if m.Deadline != nil {
		s.field("deadline", schemas.LocalTime(m.Deadline.Time))
	}
	for _, name := range m.Accept {
		s.field("accept", name)
	}
	if m.ExpectOutput {
		s.field("accept", "the output is not empty")
	}
	for _, label := range labelsOf(m) {
		s.field("label", label)
	}
	if m.Lease != nil && state == mailbox.InProgress {
		s.field("lease", "until "+schemas.LocalTime(m.Lease.Deadline.Time))
	}
	for _, id := range m.DependsOn {
		s.field("depends on", string(id))
	}
	for _, p := range m.Paths {
		s.field("path", p)
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

// showResult prints what came of a task; texts stand before it, from which it is apart.
func (s *printer) showResult(t *mailbox.Task, texts bool) {
	r := &t.Result
	if texts && (r.Error != nil || len(r.Artifacts) > 0) {
		s.printf("\n")
	}
	if r.Error != nil {
		s.fieldIn(s.paint.red, "error", schemas.LocalTimes(r.Error.Text()))
	}
	for _, a := range r.Artifacts {
		s.field("artifact", s.kept(a))
	}
	output := "output"
	if whole, of, spilled := mailbox.Spilled(s.folder, t); spilled {
		output = "output, the end of it: " + clean(of.Path, maxLine) + ", which had all, is not as the task names it"
		if whole != nil {
			whole.Close()
			output = "output, the end of it: mbox show " + clean(string(t.ID), 128) + " --output | less prints all"
		}
	}
	s.showText(output, task.Text(r.Output))
}

func (s *printer) showTrail(changes []mailbox.StateChange) {
	if len(changes) == 0 {
		return
	}
	s.printf("\n%s\n", s.paint.dim("history"))
	for _, c := range changes {
		moved := fmt.Sprintf("%s → %s by %s: %s", clean(string(c.From), 20), clean(string(c.To), 20), clean(c.By, 80), clean(schemas.LocalTimes(c.Reason), maxLine))
		s.printf("   %s  %s\n", schemas.LocalTime(c.At.Time), s.hanging(moved, 3+len(time.DateTime)+2, plain))
	}
}

func (s *printer) field(name, value string) { s.fieldIn(plain, name, value) }

func (s *printer) fieldIn(colour paint, name, value string) {
	s.printf("%s %s\n", s.paint.dim(fmt.Sprintf("%-12s", name)), s.hanging(clean(value, maxLine), 13, colour))
}

func (s *printer) showText(name, text string) {
	if strings.TrimSpace(text) == "" {
		return
	}
	s.printf("\n%s\n", s.paint.dim(name))
	for line := range strings.SplitSeq(cleanLines(text), "\n") {
		s.printf("%s\n", strings.TrimRight("   "+s.hanging(line, 3, plain), " "))
	}
}

// place is a path of the home as it can be put into a shell's line.
func (s *printer) place(path string) string {
	if s.folder != "" {
		path = filepath.Join(s.folder, path)
	}
	return schemas.ShellWord(path)
}

func at(t *mailbox.Time) string {
	if t == nil {
		return ""
	}
	return ", " + schemas.LocalTime(t.Time)
}
