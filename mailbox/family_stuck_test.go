package mailbox

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// A parent whose child had ended when a stranger harmed its file cannot know how
// the child ended. It waits, and an alarm names the child; the other tasks of the
// mailbox go on; and what an operator decides lets the parent go on.
func TestHarmedChildAlarms(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(b *Box, id ID) error
	}{
		{"deleted", func(b *Box, id ID) error { return os.Remove(b.path("tasks/completed", id.File())) }},
		{"damaged", func(b *Box, id ID) error { return put(b.path("tasks/completed", id.File()), `{"task":`) }},
		{"moved back", func(b *Box, id ID) error {
			return os.Rename(b.path("tasks/completed", id.File()), b.path("tasks/pending", id.File()))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			clk := newClock()
			dir := t.TempDir() + "/home"
			o := Options{Now: clk.now, Sync: durable.None}
			must(t, Create(dir, o))
			b, err := Open(t.Context(), dir, o)
			must(t, err)
			defer b.Close()
			submit(t, b, &Task{ID: "parent", Task: Request{Title: "Hand on"}, Assignment: Assignment{TargetAgent: "boss"}})
			ids := delegate(t, claimAs(t, b, "boss"), "", child("a", "1"), child("b", "2"))
			finish(t, b, "a", true)
			must(t, c.harm(b, ids[0]))
			finish(t, b, "b", true)
			nothingFor(t, b, "boss")
			submit(t, b, &Task{ID: "plain", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "b"}})
			finish(t, b, "b", true)
			clk.turn(time.Hour)
			mustScan(t, b)
			if _, state, err := b.Task(t.Context(), "parent"); err != nil || state != Pending {
				t.Fatalf("the parent is %s, %v", state, err)
			}
			w, err := b.Why(t.Context(), "parent")
			if err != nil || len(w.Alarms) != 1 || !strings.Contains(w.Alarms[0], string(ids[0])) || !strings.Contains(w.Alarms[0], "recover --adopt") {
				t.Fatalf("alarms %q, %v", w.Alarms, err)
			}
			if c.name != "deleted" {
				return // what is no task cannot be adopted, and a task that lies in pending has not ended
			}
			b.Close()
			if _, err := Recover(t.Context(), dir, o, RecoverOptions{Adopt: ids[:1]}); err != nil {
				t.Fatal(err)
			}
			b, err = Open(t.Context(), dir, o)
			must(t, err)
			defer b.Close()
			if got := claimAs(t, b, "boss"); got.ID() != "parent" {
				t.Fatalf("claimed %s", got.ID())
			}
		})
	}
}

// What an attempt has spent stands in the ledger with the line that came to
// pass, where one before it could not be written.
func TestSpentIsKept(t *testing.T) {
	b, c := family(t, Options{})
	delegate(t, c, "", child("a", "1"))
	a := claimAs(t, b, "a")
	a.Spend(Budget{SpentTokens: 7})
	remove := durable.SetFault(func(durable.Op, string) (bool, error) { return false, errInjected })
	err := a.Complete(context.Background(), Result{})
	remove()
	if !errors.Is(err, errInjected) || errors.Is(err, ErrCommitted) {
		t.Fatalf("complete without a disk: %v", err)
	}
	must(t, a.Complete(context.Background(), Result{}))
	tree, err := b.Tree(t.Context(), "parent")
	if err != nil || tree.Spent[SpentTokens] != 7 {
		t.Fatalf("debited: %v, %v", tree.Spent, err)
	}
}
