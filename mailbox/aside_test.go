package mailbox

import (
	"errors"
	"strings"
	"testing"

	"mbox/mailbox/durable"
)

// dieAside is a fault hook under which the process dies when it would move bytes
// whose line is written into quarantine; meddle is called once, when the
// ledger's first line is flushed or, where nothing is, when it is written.
func dieAside(meddle func()) (died func() bool, hook durable.Fault) {
	dead := false
	hook = func(op durable.Op, path string) (bool, error) {
		if meddle != nil && (op == durable.OpMove || op == durable.OpExchange) {
			meddle()
			meddle = nil
		}
		if op == durable.OpMove && strings.Contains(path, "/quarantine/") {
			dead = true
		}
		if dead {
			return false, errInjected
		}
		return true, nil
	}
	return func() bool { return dead }, hook
}

// What a transition put aside on its way is not forgotten when it dies between
// that line and the move: settling must not name the bytes a second time and
// leave the first line without its entry.
func TestRule08_DeadInAnAside(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	died, hook := dieAside(func() { must(t, put(b.path("tasks", "in-progress", "x.json"), "not what it was")) })
	remove := durable.SetFault(hook)
	err = c.Complete(t.Context(), Result{Output: []byte(`"done"`)})
	remove()
	if !died() || !errors.Is(err, errInjected) {
		t.Fatalf("it did not die on its way into quarantine: %v", err)
	}
	mustScan(t, b)
	whole(t, b.Home())
	if kept := quarantine(t, b); len(kept) != 1 {
		t.Errorf("one file was put aside, quarantine has %d: %+v", len(kept), kept)
	}
}
