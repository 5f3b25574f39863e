package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"

	"mbox/mailbox"
)

func printed(wide int, on bool, do func(*session)) string {
	var b bytes.Buffer
	s := &session{printer: printer{out: bufio.NewWriter(&b), wide: wide, paint: palette{on}}}
	do(s)
	s.out.Flush()
	return b.String()
}

func TestTable(t *testing.T) {
	fill := func(s *session) {
		tab := table{head: []string{"ID", "STATE", "TITLE"}}
		tab.add(text("a"), coloured("pending", s.paint.yellow), text("a title that is rather long\nand has two lines"))
		tab.add(text("task-1"), coloured("failed", s.paint.red), text("größer \x1b[2J"))
		tab.print(s)
	}
	want := `ID      STATE    TITLE
a       pending  a title that is rather long\nand has two lines
task-1  failed   größer \x1b[2J
`
	if got := printed(0, false, fill); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(printed(40, false, fill)) {
		if n := len([]rune(strings.TrimSpace(line))); n > 40 {
			t.Errorf("%d columns on a terminal of 40: %s", n, line)
		}
	}
	if got := printed(0, true, fill); !strings.Contains(got, "\x1b[33mpending\x1b[0m  a title") || strings.Contains(got, "\x1b[2J") {
		t.Errorf("%q", got)
	}
}

// A ledger line reaches a program as it stands, and a terminal without what
// moves it or hides.
func TestPrintRaw(t *testing.T) {
	line := "{\"a\":\"\u009b31m\u202e\u200b\"}"
	for terminal, want := range map[bool]string{false: line + "\n", true: `{"a":"\u009b31m\u202e\u200b"}` + "\n"} {
		if got := printed(0, false, func(s *session) { s.terminal = terminal; s.printRaw([]byte(line)) }); got != want {
			t.Errorf("terminal %v: %q", terminal, got)
		}
	}
	if about := tailVerb().about; !strings.Contains(about, "into a pipe") || !strings.Contains(about, "bidi") {
		t.Errorf("tail does not say what --json is: %s", about)
	}
}

func TestColours(t *testing.T) {
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "")
	if !colours().on {
		t.Error("no colours on a terminal")
	}
	t.Setenv("NO_COLOR", "1")
	if colours().on || colours().red("x") != "x" {
		t.Error("colours in spite of NO_COLOR")
	}
}

// Of many tasks the first are named, and the others counted.
func TestIDsOf(t *testing.T) {
	ids := make([]mailbox.ID, mostNamed+2)
	for i := range ids {
		ids[i] = "t"
	}
	got := printed(0, false, func(s *session) {
		s.idsOf("lost", ids)
		s.idsOf("mended", ids[:mostNamed])
		s.idsOf("adopted", nil)
	})
	named := strings.Repeat(" t", mostNamed)
	if want := "lost:" + named + " and 2 more\nmended:" + named + "\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
