package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/check"
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
what it waits for there, and why it was put away. So is all else that lies in
tasks/quarantine, by the name that mbox ls --state quarantine lists, or its own there.`,
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
	}
	if w.Path == "" {
		if left := leftOf(ctx, box, w.ID); left != "" {
			w.Waits = append(w.Waits, "a person: "+left)
		}
	}
	if inJSON {
		return s.printJSON(s.proposes.why(w))
	}
	s.printWhy(s.proposes.why(w), s.proposes.named(anew(s.folder, w)))
	return nil
}

// anew is how a drop that was rejected is sent anew; "" of any other task.
func anew(in string, w *mailbox.Why) string {
	if w.Task == nil || w.Task.Called(w.State) != task.Rejected {
		return ""
	}
	entries, _ := home.Entries(in) // what cannot be read, verify and doctor tell of
	if at := check.Dropped(in, entries, w.ID); at != "" {
		return check.MendAnew(at, "") + "; then mbox archive " + schemas.ShellWord(string(w.ID))
	}
	return ""
}

// printWhy prints an explanation for people. next is what may be done, where that is known.
func (s *printer) printWhy(w *mailbox.Why, next string) {
	s.printf("%s  %s\n%s\n\n", s.paint.bold(clean(string(w.ID), 128)), s.stateColour(w.State)(stateOf(w)), s.hanging(clean(schemas.LocalTimes(w.Summary), maxLine), 0, plain))
	if w.Path != "" {
		s.field("file", s.place(w.Path))
	}
	if next != "" {
		s.field("next", next)
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
