package mailbox

import (
	"fmt"
	"os"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// fewer are the bounds of a pass in these tests.
var fewer = bounds{looks: 100, good: 20, bad: 10}

// dropJunk drops n files that are no tasks, of kinds that end in different ways.
func dropJunk(t testing.TB, b *Box, n int) {
	t.Helper()
	for i := range n {
		text := []string{`[]`, `{"task":{}}`, titled(`,"id":"other"`), `{"task":{"title":"x","priority":"soon"}}`, `[1`}[i%5]
		b.drop(t, fmt.Sprintf("junk-%d.json", i), text)
	}
}

// admittedIDs are the tasks that the ledger has seen admitted, and how many
// lines it has in all.
func admittedIDs(t testing.TB, b *Box) (ids map[ID]bool, all int) {
	t.Helper()
	ids = map[ID]bool{}
	for _, e := range lines(t, b, "") {
		if all++; e.Event == audit.TaskCreated {
			ids[ID(e.Task())] = true
		}
	}
	return ids, all
}

// TestPassIsBounded drops far more junk than one pass of a router puts away. No
// pass does more than its quota, the good tasks among the junk are all admitted
// as soon as each file was looked at once, and in the end all of it is put away.
func TestPassIsBounded(t *testing.T) {
	junk := 2*fewer.looks + 50
	b := homes{}.open(t, newClock().options())
	for i := range 10 {
		b.drop(t, fmt.Sprintf("good-%d.json", i), titled(""))
	}
	dropJunk(t, b, junk)
	p := pass{b: b, folders: task.Folders, quota: newQuota(fewer)}
	lines, passes := 0, 0
	for more := true; more; passes++ {
		must(t, p.scan(t.Context()))
		ids, all := admittedIDs(t, b)
		if n := all - lines; n > fewer.bad+fewer.good {
			t.Errorf("pass %d wrote %d lines", passes, n)
		}
		if passes*fewer.looks > junk && len(ids) != 10 {
			t.Fatalf("after pass %d only %d of the good tasks are admitted", passes, len(ids))
		}
		if lines = all; passes > junk/fewer.bad+10 {
			t.Fatal("it does not come to an end")
		}
		left, err := durable.Names(b.path("tasks", "pending"))
		must(t, err)
		more = len(left) > 10
	}
	if passes < junk/fewer.bad {
		t.Errorf("%d passes for %d files", passes, junk)
	}
	whole(t, b.Home())
}

// TestManyTasksAreBounded is the same for drops that are all good: what comes
// after them waits for one pass only.
func TestManyTasksAreBounded(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	for i := range fewer.good + 10 {
		b.drop(t, fmt.Sprintf("good-%d.json", i), titled(""))
	}
	p := pass{b: b, folders: task.Folders, quota: newQuota(fewer)}
	for _, want := range []int{fewer.good, fewer.good + 10} {
		must(t, p.scan(t.Context()))
		if ids, _ := admittedIDs(t, b); len(ids) != want {
			t.Errorf("%d tasks are admitted, want %d", len(ids), want)
		}
	}
}

// TestNewsGoesFirst: a task that is dropped while much lies about is admitted
// with the next pass, wherever the listing has it, and so is a file that was
// junk when it was looked at and has been written anew since.
func TestNewsGoesFirst(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	dropJunk(t, b, fewer.looks+fewer.bad)
	p := pass{b: b, folders: task.Folders, quota: newQuota(fewer)}
	must(t, p.scan(t.Context()))
	left, err := durable.Names(b.path("tasks", "pending"))
	must(t, err)
	var rewritten string
	for _, name := range left {
		if p.quota.putOff[p.quota.key(name)] {
			rewritten = name
		}
	}
	if rewritten == "" {
		t.Fatal("nothing was put off")
	}
	must(t, os.Remove(b.pending(rewritten)))
	b.drop(t, rewritten, titled(""))
	b.drop(t, "late.json", titled(""))
	news := seen{names: map[State]map[string]bool{Pending: {"late.json": true, rewritten: true}}}
	_, before := admittedIDs(t, b)
	p.quota.renew()
	must(t, p.attend(t.Context(), news))
	ids, after := admittedIDs(t, b)
	if len(ids) != 2 || after != before+2 || len(p.later.names) > 0 {
		t.Errorf("%d tasks, %d lines, again %v", len(ids), after-before, p.later.names)
	}
	// A pass that is due attends first.
	b.drop(t, "later.json", titled(""))
	p.after(t.Context(), seen{names: map[State]map[string]bool{Pending: {"later.json": true}}, lost: true})
	if ids, _ := admittedIDs(t, b); !ids["later"] {
		t.Error("what came last waits for what lies about")
	}
}

// TestManyStrays: what is thrown into a folder where nothing is dropped is put
// away in bounded passes too.
func TestManyStrays(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	for i := range fewer.bad + 5 {
		must(t, put(b.path("tasks/completed", fmt.Sprintf("stray-%d.json", i)), "x"))
	}
	p := pass{b: b, folders: task.Folders, quota: newQuota(fewer)}
	for _, want := range []int{fewer.bad, fewer.bad + 5} {
		must(t, p.scan(t.Context()))
		if _, all := admittedIDs(t, b); all != want {
			t.Errorf("%d are put away, want %d", all, want)
		}
	}
}

// TestForgottenNames: what waits to be put away and is taken away by its owner
// is not remembered for ever.
func TestForgottenNames(t *testing.T) {
	q := newQuota(fewer)
	q.bad = 0
	for i := range 3 * fewer.looks {
		q.putAway(fmt.Sprint(i))
	}
	q.keep([]string{"1", "2", "other"})
	if len(q.putOff) != 2 || q.look("1") || !q.look("other") {
		t.Errorf("%d names are kept", len(q.putOff))
	}
}
