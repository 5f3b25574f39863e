package main

import (
	"bytes"
	"os/exec"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
)

// A terminal is shown as many tasks as one can look at, and told how many more there
// are; a program gets all, unless it asks for less.
func TestLsOnATerminal(t *testing.T) {
	home := t.TempDir() + "/home"
	box := mailboxtest.In(t, home, mailbox.Options{})
	for range mostForPeople + 3 {
		if _, err := box.Submit(t.Context(), &mailbox.Task{Task: mailbox.Request{Title: "here"}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		tty   bool
		flags []string
		tasks int
		more  bool
	}{
		{true, nil, mostForPeople, true},
		{true, []string{"--limit", "0"}, mostForPeople + 3, false},
		{true, []string{"--json"}, mostForPeople + 3, false},
		{false, nil, mostForPeople + 3, false},
	} {
		cmd, out := exec.Command(program(t), append([]string{"--home", home, "ls"}, c.flags...)...), &watched{}
		if c.tty {
			runOnTerminal(t, cmd, out)
		} else {
			cmd.Stdout, cmd.Stderr = out, out
			if err := cmd.Run(); err != nil {
				t.Fatal(err)
			}
		}
		if n := bytes.Count(out.all.Bytes(), []byte("here")); n != c.tasks || bytes.Contains(out.all.Bytes(), []byte("mbox: 3 more; ")) != c.more {
			t.Errorf("%+v: %d tasks: %s", c, n, out.all.Bytes())
		}
	}
}
