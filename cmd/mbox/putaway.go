package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// putAway is what was put into quarantine.
type putAway struct {
	home.Reason
	File string `json:"file"`          // where it lies, from the home
	Gone bool   `json:"gone,omitzero"` // somebody has taken it away from there
	Seq  int64  `json:"seq"`           // of the ledger's line that tells of it
	Next string `json:"next,omitzero"` // what may be done with it
	by   string
}

// whyFile looks for a file by its name: one that lies in pending, the last that was put
// into quarantine, or the task that a drop became which was rejected. unknown is what
// there is to say where there is none.
func whyFile(ctx context.Context, box *mailbox.Box, path string, unknown error) (*putAway, *mailbox.Why, error) {
	base := filepath.Base(path)
	name := schemas.Sentence(base, 120)
	if id, is := strings.CutSuffix(name, ".json"); is && task.CheckID(mailbox.ID(id)) == nil {
		if _, err := os.Lstat(filepath.Join(box.Home(), "tasks", string(mailbox.Pending), name)); err == nil {
			w, err := box.Why(ctx, mailbox.ID(id))
			return nil, w, err
		}
	}
	told, tells := name, func(l audit.Line) bool {
		return l.Text("name") == name || l.Text("entry") == base || l.Text("dropped") == name
	}
	entries, _ := home.Kept(box.Home()) // what cannot be read, verify and doctor tell of
	var kept home.Reason
	for _, k := range entries {
		if k.Name == name || k.Entry == base {
			kept, told = k, k.Entry
			tells = func(l audit.Line) bool { return bytes.Contains(l.Raw, []byte(`"entry":"`+k.Entry+`"`)) }
		}
	}
	for line, err := range box.Ledger().Naming(told) {
		if err != nil || ctx.Err() != nil {
			return nil, nil, cmp.Or(err, ctx.Err())
		}
		switch {
		case !tells(line):
		case line.Event() == audit.TaskRejected:
			w, err := box.Why(ctx, mailbox.ID(line.Task()))
			return nil, w, err
		case cmp.Or(kept.Entry, line.Text("entry")) != "":
			away, err := putAwayBy(box.Home(), line, kept)
			return away, nil, err
		}
	}
	return nil, nil, unknown
}

// putAwayBy is what a line tells, and what stands beside the file.
func putAwayBy(in string, line audit.Line, kept home.Reason) (*putAway, error) {
	e, err := line.Decode()
	if err != nil {
		return nil, err
	}
	if kept.Entry == "" {
		kept = home.Reason{Name: line.Text("name"), Entry: line.Text("entry"), SHA256: line.Text("sha256"), Reason: line.Text("reason"), Code: line.Text("code"), At: task.At(e.Time())}
	}
	away := &putAway{Reason: kept, File: filepath.Join("tasks", "quarantine", kept.Entry), Seq: e.Seq, by: e.Action}
	_, missing := os.Lstat(filepath.Join(in, away.File))
	away.Gone = missing != nil
	if !away.Gone {
		away.Next = away.next(in, line.Text("place"))
	}
	return away, nil
}

// next is what may be done with what lies in quarantine and came from place.
func (a *putAway) next(in, place string) string {
	file := schemas.ShellWord(filepath.Join(in, a.File))
	switch {
	case a.Code == home.LateResult:
		return "mbox why " + schemas.ShellWord(string(a.Task)) + " tells how the task stands; whoever claims it can hand in what the file holds"
	case a.Code == home.Lost && a.SHA256 != "":
		return a.back(in, place)
	case a.SHA256 != "" && a.Task == "" && home.StateAt(in, filepath.Join(in, place)) != task.None:
		return check.MendAnew(filepath.Join(in, a.File), "")
	}
	of := ""
	if a.Task != "" {
		of = fmt.Sprintf(", which may be another version of what mbox show %s shows", schemas.ShellWord(string(a.Task)))
	}
	return fmt.Sprintf("look at it%s; if nobody needs it: rm -r %s %s, then mbox recover --adopt-deleted", of, file, file+home.ReasonSuffix)
}

// back is how a task comes back whose content was lost, of what was left in its place.
func (a *putAway) back(in, place string) string {
	id, to := schemas.ShellWord(string(a.Task)), filepath.Join(in, place)
	if _, err := os.Lstat(to); err == nil {
		return "mbox why " + id + " tells how the task stands that lies in its place now"
	}
	return fmt.Sprintf("cp %s %s, mend it there, and mbox recover --adopt %s brings the task back; without the file that gives it up",
		schemas.ShellWord(filepath.Join(in, a.File)), schemas.ShellWord(to), id)
}

// leftOf is how a task comes back of which only something in quarantine is left; "" of any
// other.
func leftOf(ctx context.Context, box *mailbox.Box, id mailbox.ID) string {
	if away, _, _ := whyFile(ctx, box, id.File(), nil); away != nil && away.Code == home.Lost && away.SHA256 != "" && away.Task == id {
		return away.Next
	}
	return ""
}

func (a *putAway) print(s *session, inJSON bool) error {
	a.Next = s.proposes.named(a.Next)
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
	if a.Task != "" {
		s.field("task", string(a.Task))
	}
	s.field("since", schemas.LocalTime(a.At.Time))
	if a.Gone {
		s.field("file", "somebody has taken it away from tasks/quarantine")
	} else {
		s.field("file", s.place(a.File))
		s.field("next", a.Next)
	}
	s.printf("\n%s\n   %s  %s\n", s.paint.dim("proof"), s.paint.dim(fmt.Sprintf("%6d  %s", a.Seq, schemas.LocalTime(a.At.Time))), clean(a.by, maxLine))
	return nil
}
