package main

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"mbox/cmd/mbox/top"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
)

// What ls, tail and show print on a terminal fits it, with colours and without, and what
// matters is seen: why a task has failed, how far it is, which field was wrong.
func TestTerminalsAreWideEnough(t *testing.T) {
	box := variedBox(t)
	for _, wide := range []int{80, 120} {
		for _, on := range []bool{false, true} {
			ls := linesOn(t, wide, on, func(s *session) { listAll(t, s, box) })
			for _, want := range []string{
				`^copy-photos +failed +.*1/1 .*exit_1: the disk is full`,
				`^sweep +rejected .*task\.priority: "soon" is not allo`,
				`^index +in-progress +.*40%`,
				`^fine +completed\? `,
			} {
				if !regexp.MustCompile("(?m)" + want).MatchString(ls) {
					t.Errorf("%d columns: no %s in\n%s", wide, want, ls)
				}
			}
			tail := linesOn(t, wide, on, func(s *session) { tellAll(t, s, box) })
			if want := string(longID) + "\n          human sent it to any: Words"; !strings.Contains(tail, want) {
				t.Errorf("%d columns: no %q in\n%s", wide, want, tail)
			}
			if !strings.Contains(tail, "fine                  coder completed it, unverified\n") {
				t.Errorf("%d columns:\n%s", wide, tail)
			}
			for _, id := range []mailbox.ID{"copy-photos", "sweep", "index", "fine", longID} {
				show := linesOn(t, wide, on, func(s *session) {
					task, state, err := box.Task(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					s.showTask(task, state, nil)
				})
				if id == "copy-photos" && (!strings.Contains(show, "\n   second line\n\nerror        exit_1: the disk is full\n") || strings.Count(show, "\n   ") < 6) {
					t.Errorf("%d columns:\n%s", wide, show)
				}
			}
		}
	}
}

// A wide character has two cells, in titles and in the names of what lies in quarantine.
func TestWideCharactersFit(t *testing.T) {
	wide := strings.Repeat("漢字🙂", 40)
	box := mailboxtest.New(t, mailbox.Options{})
	for _, title := range []string{wide, "short 漢字", strings.Repeat("many 言葉 ", 30)} {
		if _, err := box.Submit(t.Context(), &mailbox.Task{Task: mailbox.Request{Title: title}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, columns := range []int{79, 80} {
		printed := linesOn(t, columns, false, func(s *session) {
			rows := taskTable()
			for it, err := range box.List(t.Context(), mailbox.Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				rows.add(s.taskRow(&listed{Item: it})...)
				if it.Task.Task.Title != wide { // a word is not broken
					s.showTask(it.Task, it.State, nil)
				}
			}
			rows.blank(text(wide), text(asQuarantine), text(wide))
			rows.blank(text("漢.json"), text(asQuarantine), text("x"))
			rows.print(s)
		})
		if at := regexp.MustCompile(`(?m)^漢.json {14}`); !at.MatchString(printed) {
			t.Errorf("%d columns: no %s in\n%s", columns, at, printed)
		}
	}
}

const longID = mailbox.ID("a-name-of-sixty-six-characters-of-which-nobody-can-remember-so-many")

// variedBox is a mailbox with a task of each kind.
func variedBox(t *testing.T) *mailbox.Box {
	box := mailboxtest.New(t, mailbox.Options{})
	long := strings.TrimSpace(strings.Repeat("many words ", 30))
	take := func(id mailbox.ID, title string) *mailbox.Claim {
		task := &mailbox.Task{ID: id, Task: mailbox.Request{Title: title, Description: long + "\nsecond line"}}
		task.Assignment.TargetAgent, task.Mbox.MaxAttempts = "coder", 1
		if _, err := box.Submit(t.Context(), task); err != nil {
			t.Fatal(err)
		}
		c, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder", Process: true})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	forty := 40
	err := errors.Join(
		take("copy-photos", "Copy the photos to the second disk in the cellar, "+long).Fail(t.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "exit_1", Message: "the disk is full"}}),
		take("fine", "All is well").Complete(t.Context(), mailbox.Result{}),
		take("index", "Index it").Progress(t.Context(), mailbox.Progress{Percent: &forty, Message: long}),
		os.WriteFile(filepath.Join(box.Home(), "tasks", "pending", "sweep.json"), []byte(`{"task":{"title":"Sweep the floor","priority":"soon"}}`), 0o600),
		box.Tidy(t.Context()),
	)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := box.Submit(t.Context(), &mailbox.Task{ID: longID, Task: mailbox.Request{Title: "Words, " + long}}); err != nil {
		t.Fatal(err)
	}
	return box
}

var colourCodes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// linesOn is what was printed on a terminal of that many columns, without its colours.
func linesOn(t *testing.T, wide int, on bool, do func(*session)) string {
	t.Helper()
	var b bytes.Buffer
	s := &session{printer: printer{out: bufio.NewWriter(&b), wide: wide, paint: palette{on}}}
	do(s)
	if err := s.out.Flush(); err != nil {
		t.Fatal(err)
	}
	text := colourCodes.ReplaceAllString(b.String(), "")
	if (text != b.String()) != on {
		t.Errorf("colours %v: %q", on, b.String())
	}
	for line := range strings.Lines(text) {
		if n := top.Cells(strings.TrimSuffix(line, "\n")); n > wide {
			t.Errorf("%d of %d columns: %s", n, wide, line)
		}
	}
	return text
}

func listAll(t *testing.T, s *session, box *mailbox.Box) {
	rows, o := taskTable(), lsOptions{}
	items, err := o.items(t.Context(), box, 0)
	for i := range items {
		err = errors.Join(err, o.show(s, rows, &items[i]))
	}
	if err != nil || len(items) != 5 {
		t.Fatal(len(items), err)
	}
	rows.print(s)
}

func tellAll(t *testing.T, s *session, box *mailbox.Box) {
	tell := teller{&s.printer, box}
	for line, err := range box.Ledger().Backward() {
		if err != nil {
			t.Fatal(err)
		}
		e, err := line.Decode()
		if err != nil {
			t.Fatal(err)
		}
		s.printf("%s\n", tell.line(t.Context(), &e))
	}
}
