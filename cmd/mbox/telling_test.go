package main

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
)

// A text keeps its indentation, of each line that it is broken into, and all else that it
// has; so Python, YAML and JSON can be read.
func TestWrapKeepsIndentation(t *testing.T) {
	for _, c := range []struct {
		text string
		wide int
		want []string
	}{
		{"    return 1", 40, []string{"    return 1"}},
		{"    return 1", 0, []string{"    return 1"}},
		{"  - name: a  # two", 40, []string{"  - name: a  # two"}},
		{"  one two three four five", 20, []string{"  one two three four", "  five"}},
		{"one two three four five", 20, []string{"one two three four", "five"}},
		{strings.Repeat(" ", 30) + "deep in a text", 40, []string{strings.Repeat(" ", 30) + "deep in a text"}},
		{"", 40, []string{""}},
		{"   ", 40, []string{"   "}},
	} {
		if got := wrap(c.text, c.wide); !slices.Equal(got, c.want) {
			t.Errorf("%q in %d: %q, want %q", c.text, c.wide, got, c.want)
		}
	}
}

// A line is told with its task's file as it was afterwards: the file follows the line, and
// whoever reads it before that waits.
func TestLineIsToldWithTheFileThatFollowsIt(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, box := t.Context(), mailboxtest.New(t, mailbox.Options{})
	s := &mailbox.Task{ID: "one"}
	s.Task.Title, s.Source.Agent = "One", "human"
	_, err := box.Submit(ctx, s)
	must(err)
	c, err := box.Claim(ctx, mailbox.ClaimRequest{Agent: "coder", Process: true})
	must(err)
	defer c.Close()
	id := "one"
	e := audit.Entry{
		TS: time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05.000Z"), Event: audit.TaskFailed, TaskID: &id,
		Details: audit.Details(map[string]int{"revision": 3}),
	}
	tell := teller{&printer{}, box}
	brief, end := context.WithTimeout(ctx, time.Second/2)
	defer end()
	if before := tell.fileOf(brief, &e); before.ID != "" {
		t.Errorf("revision %d is taken for what the line left", before.Mbox.Revision)
	}
	must(c.Fail(ctx, mailbox.Failure{TaskError: mailbox.TaskError{Code: "exit", Message: "exit status 1: no"}, Final: true}))
	if after := tell.fileOf(ctx, &e); after.Result.Error == nil || after.Mbox.Revision != 3 {
		t.Errorf("%+v", after.Result)
	}
}
