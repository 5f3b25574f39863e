package mailbox

import (
	"testing"
	"time"
)

// A task that was not ready when the snapshot was written, and has ended since,
// is not found there again: a box that began with the snapshot would take its
// file in completed for one that somebody has moved by hand.
func TestEndedSinceSnapshot(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "one")
	sent(t, b, "two")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	other, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, other.Release(t.Context(), "not now", time.Hour))
	saved(t, b)
	must(t, c.Complete(t.Context(), Result{}))
	must(t, b.Cancel(t.Context(), other.ID(), "human", "no"))

	second, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer second.Close()
	for _, id := range []ID{"one", "two"} {
		if r, err := second.lookup(id); err != nil || r != nil {
			t.Errorf("%s is %+v: %v", id, r, err)
		}
	}
	if !hasBase(second.queue) {
		t.Error("it did not begin with the snapshot")
	}
	end := second.ledger.End()
	for _, id := range []ID{"one", "two"} {
		if _, err := second.reconciler.lookInto(t.Context(), id); err != nil {
			t.Error(err)
		}
	}
	if now := second.ledger.End(); now != end {
		t.Errorf("looking at what has ended wrote %d lines", now.Seq-end.Seq)
	}
}
