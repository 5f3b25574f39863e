package main

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"mbox/mailbox"
)

// What was handed on stands below what it is part of, a circle that somebody made by hand
// is drawn once, and nothing is lost.
func TestListInTrees(t *testing.T) {
	var items []listed
	for _, row := range [][2]mailbox.ID{{"leaf", "branch"}, {"alone", ""}, {"root", ""}, {"branch", "root"}, {"orphan", "gone"}, {"own", "own"}, {"hen", "egg"}, {"egg", "hen"}} {
		task := &mailbox.Task{ID: row[0]}
		task.Mbox.ParentID = row[1]
		items = append(items, listed{Item: mailbox.Item{Task: task}})
	}
	items = append(items, listed{Item: mailbox.Item{Path: "no task"}})
	var got []string
	for _, it := range inTrees(items) {
		name := it.Path
		if it.Task != nil {
			name = string(it.Task.ID)
		}
		got = append(got, strings.Repeat(" ", it.depth)+name)
	}
	if want := "alone|root| branch|  leaf|orphan|no task|own|hen| egg"; strings.Join(got, "|") != want {
		t.Errorf("%s, want %s", strings.Join(got, "|"), want)
	}
}

// On a terminal a table fits: empty columns go first, then those that can be spared,
// what all rows share before the others; a pipe gets all of them.
func TestTableFitsTheTerminal(t *testing.T) {
	for wide, head := range map[int]string{0: "ID STATE PRIORITY TYPE FOR BY TRY DONE AGE TITLE", 200: "ID STATE PRIORITY TYPE FOR BY TRY AGE TITLE", 80: "ID STATE FOR TRY AGE TITLE", 60: "ID STATE TRY TITLE"} {
		var out bytes.Buffer
		s := &session{printer: printer{out: bufio.NewWriter(&out), wide: wide}}
		rows := taskTable()
		rows.add(text("task-02-16"), text("in-progress"), text("normal"), text("other"), text("coder"), text("coder"), text("1/3"), text("-"), text("3d"), text(strings.Repeat("long ", 60)))
		rows.print(s)
		if err := s.out.Flush(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(out.String(), "\n")
		if got := strings.Join(strings.Fields(lines[0]), " "); got != head {
			t.Errorf("%d columns: %s, want %s", wide, got, head)
		}
		for _, line := range lines {
			if wide > 0 && utf8.RuneCountInString(line) > wide {
				t.Errorf("%d columns: %d: %s", wide, utf8.RuneCountInString(line), line)
			}
		}
	}
}

// Where room is short, a column in which all rows say the same goes before one that tells
// them apart, and both ends of a long id are seen.
func TestTableDropsWhatAllShare(t *testing.T) {
	rows := taskTable()
	for _, row := range [][2]string{{"fox", "1/3"}, {strings.Repeat("x", 60) + "end", "2/3"}} {
		rows.add(text(row[0]), text("failed"), text("high"), text("other"), text("any"), text(row[0][:3]), text(row[1]), text("-"), text("3d"), text(strings.Repeat("long ", 60)))
	}
	out := printed(80, false, rows.print)
	if head, _, _ := strings.Cut(out, "\n"); strings.Join(strings.Fields(head), " ") != "ID STATE FOR BY TRY TITLE" {
		t.Error(head)
	}
	if !strings.Contains(out, "\nxxxxxxxxxx…xxxxxxend  failed") {
		t.Error(out)
	}
}
