package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func whyVerb() *verb {
	var inJSON bool
	return &verb{
		name: "why", args: "ID|FILE…", least: 1, most: -1,
		brief: "tell why a task is where it is, and what proves it",
		about: `Tells what a task waits for, who can take it, how its claim stands, and which
lines of the ledger prove the way that it took; of a task that waits for an
approval also what is to be approved, whole. It changes nothing.

Of a message of a channel it tells whom it is for and why, how far it has come, and its
line in the ledger. A file that was dropped into tasks/pending is found by its name:
what it waits for there, and, as long as the ledger is there, why it was put away.`,
		shows: []string{"mbox why task-2026-02-16-001", "mbox why milk.json"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error {
				return eachShown(ctx, s, box, args, inJSON, func(id mailbox.ID) error { return why(ctx, s, box, string(id), inJSON) })
			})
		},
		words: taskWords,
	}
}

// why explains a task, or a file that was one.
func why(ctx context.Context, s *session, box *mailbox.Box, name string, inJSON bool) error {
	w, err := box.Why(ctx, mailbox.ID(name))
	s.folder = box.Home()
	if unknownTask(err) {
		var away *putAway
		if away, w, err = whyFile(ctx, box, name, err); away != nil {
			return away.print(s, inJSON)
		}
	}
	switch {
	case unknownTask(err):
		return whyMessage(ctx, s, box, name, inJSON, err)
	case err != nil:
		return err
	case inJSON:
		return s.printJSON(s.proposes.why(w))
	}
	s.printWhy(s.proposes.why(w))
	return nil
}

func (s *printer) printWhy(w *mailbox.Why) {
	s.printf("%s  %s\n%s\n\n", s.paint.bold(clean(string(w.ID), 128)), s.stateColour(w.State)(stateOf(w)), s.hanging(clean(schemas.LocalTimes(w.Summary), maxLine), 0, plain))
	if w.Path != "" {
		s.field("file", s.place(w.Path))
	}
	if w.Lease != "" {
		s.field("claim", schemas.LocalTimes(w.Lease))
	}
	if w.Back != "" {
		s.field("came back", schemas.LocalTimes(w.Back))
	}
	s.fields(plain, "waits for", w.Waits)
	s.fields(s.paint.green, "can take it", append(w.Able, w.Asks...))
	s.fields(s.paint.yellow, "alarm", w.Alarms)
	s.fields(s.paint.red, "fault", w.Faults)
	if w.Approve != "" {
		s.field("action", w.Task.Mbox.Action.Name)
		s.showBound(w)
		s.showParams(w.Task.Mbox.Action)
	}
	s.printTree(w)
	if len(w.Lines) == 0 {
		return
	}
	s.printf("\n%s\n", s.paint.dim("proof"))
	for _, l := range w.Lines {
		s.printf("   %s  %s  %s\n", s.paint.dim(fmt.Sprintf("%6d  %s", l.Seq, clean(schemas.LocalTimes(l.TS), 30))), s.eventColour(l.Event)(fmt.Sprintf("%-16s", clean(string(l.Event), 40))), clean(schemas.LocalTimes(l.Action), maxLine))
		if l.Reason != "" {
			s.printf("           %s\n", s.paint.dim(clean(schemas.LocalTimes(l.Reason), maxLine)))
		}
	}
}

// stateOf is what the state of an explained task is called.
func stateOf(w *mailbox.Why) string {
	if w.Task == nil {
		return string(w.State)
	}
	return w.Task.Called(w.State)
}

// putAway is a drop that was put into quarantine.
type putAway struct {
	home.Reason
	File string `json:"file"`          // where it lies, from the home
	Gone bool   `json:"gone,omitzero"` // somebody has taken it away from there
	Seq  int64  `json:"seq"`           // of the ledger's line that tells of it
	by   string
}

// whyFile looks for a file that was dropped under a name: one that lies in pending, the
// last that was put into quarantine, or the task that a drop became which was rejected.
// unknown is what there is to say where there is none.
func whyFile(ctx context.Context, box *mailbox.Box, path string, unknown error) (*putAway, *mailbox.Why, error) {
	name := schemas.Sentence(filepath.Base(path), 120)
	if id, is := strings.CutSuffix(name, ".json"); is && task.CheckID(mailbox.ID(id)) == nil {
		if _, err := os.Lstat(filepath.Join(box.Home(), "tasks", string(mailbox.Pending), name)); err == nil {
			w, err := box.Why(ctx, mailbox.ID(id))
			return nil, w, err
		}
	}
	for line, err := range box.Ledger().Naming(name) {
		if err != nil || ctx.Err() != nil {
			return nil, nil, cmp.Or(err, ctx.Err())
		}
		switch {
		case line.Event() == audit.TaskQuarantined && (line.Text("name") == name || line.Text("entry") == name):
			away, err := putAwayBy(box.Home(), line)
			return away, nil, err
		case line.Event() == audit.TaskRejected && line.Text("dropped") == name:
			w, err := box.Why(ctx, mailbox.ID(line.Task()))
			return nil, w, err
		}
	}
	return nil, nil, unknown
}

// putAwayBy is what a line tells, and what stands beside the file.
func putAwayBy(in string, line audit.Line) (*putAway, error) {
	e, err := line.Decode()
	if err != nil {
		return nil, err
	}
	away := &putAway{Seq: e.Seq, by: e.Action}
	away.Reason = home.Reason{Name: line.Text("name"), Entry: line.Text("entry"), SHA256: line.Text("sha256"), Reason: line.Text("reason"), Code: line.Text("code"), At: task.At(e.Time())}
	kept, err := home.Kept(in)
	for _, k := range kept {
		if k.Entry == away.Entry {
			away.Reason = k
		}
	}
	away.File = filepath.Join("tasks", "quarantine", away.Entry)
	_, missing := os.Lstat(filepath.Join(in, away.File))
	away.Gone = missing != nil
	return away, err
}

func (a *putAway) print(s *session, inJSON bool) error {
	if inJSON {
		return s.printJSON(a)
	}
	s.printf("%s  %s\n%s\n\n", s.paint.bold(clean(a.Name, 128)), s.paint.red(asQuarantine), clean(a.Reason.Reason, maxLine))
	if a.Path != "" && a.Path != "$" {
		s.field("at", a.Path)
	}
	if a.Want != "" {
		s.field("want", a.Want)
	}
	if a.Gone {
		s.field("file", "somebody has taken it away from tasks/quarantine")
	} else {
		s.field("file", s.place(a.File))
	}
	s.printf("\n%s\n   %s  %s\n", s.paint.dim("proof"), s.paint.dim(fmt.Sprintf("%6d  %s", a.Seq, schemas.LocalTime(a.At.Time))), clean(a.by, maxLine))
	return nil
}

// showBound prints what an approval would name, and what it would leave open.
func (s *printer) showBound(w *mailbox.Why) {
	s.field("sha256", w.Approve)
	for _, f := range w.Folders {
		s.field("folder", f.Path+"  "+cmp.Or(f.SHA256, "not bound: a service may write it"))
	}
}

// printTree draws the delegations that a task belongs to.
func (s *printer) printTree(w *mailbox.Why) {
	if w.Tree == nil {
		return
	}
	s.printf("\n%s\n", s.paint.dim("tree"))
	var draw func(n *mailbox.Node, own, below string)
	draw = func(n *mailbox.Node, own, below string) {
		name := clean(string(n.ID), 128)
		if n.ID == w.ID {
			name = s.paint.bold(name)
		}
		doing := n.Agent
		if n.Action != "" {
			doing += ", " + n.Action
		}
		s.printf("   %s%s  %s  %s\n", own, name, s.stateColour(n.State)(string(n.State)), clean(doing, maxLine))
		children := w.Tree.Children(n.ID)
		for i, c := range children {
			if i == len(children)-1 {
				draw(c, below+"└─ ", below+"   ")
			} else {
				draw(c, below+"├─ ", below+"│  ")
			}
		}
	}
	for _, n := range w.Tree.Nodes {
		if n.ID == w.Tree.Root {
			draw(n, "", "")
		}
	}
	if spent := spentText(w.Tree.Spent); spent != "" {
		s.printf("   spent: %s\n", spent)
	}
}

var oneOfMany = map[string]string{"actions": "action", "children": "child", "seconds": "second", "tokens": "token"}

// spentText is what a tree has used up.
func spentText(b mailbox.Budget) string {
	var spent []string
	for _, kind := range slices.Sorted(maps.Keys(b)) {
		name := kind
		if b[kind] == 1 {
			name = cmp.Or(oneOfMany[kind], kind)
		}
		spent = append(spent, fmt.Sprintf("%d %s", b[kind], name))
	}
	return strings.Join(spent, ", ")
}

func (s *printer) fields(colour paint, name string, values []string) {
	for _, v := range values {
		s.fieldIn(colour, name, schemas.LocalTimes(v))
	}
}
