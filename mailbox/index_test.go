package mailbox

import (
	"maps"
	"testing"
	"time"

	"mbox/mailbox/task"
)

// What the index tells is what the folders hold, in the process that made it so and
// in one that begins with the snapshot.
func TestIndexIsWhatLies(t *testing.T) {
	c := newClock()
	o := c.options()
	o.Lease = time.Minute
	b := newBox(t, o)
	for _, id := range []ID{"done", "held", "late", "waits"} {
		sent(t, b, id)
		c.turn(time.Second)
	}
	done, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, done.Complete(t.Context(), Result{}))
	held, err := b.Claim(t.Context(), ClaimRequest{Agent: "tester"})
	must(t, err)
	must(t, b.Cancel(t.Context(), "late", "human", "no"))
	saved(t, b)
	second, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer second.Close()

	want := map[State]int{Pending: 1, InProgress: 1, Completed: 1, Failed: 1}
	for _, b := range []*Box{b, second} {
		x, err := b.Index()
		must(t, err)
		if !maps.Equal(x.Count, want) || len(x.Live) != 2 {
			t.Fatalf("%v and %d that have not ended: %+v", x.Count, len(x.Live), x.Live)
		}
		for _, l := range x.Live {
			found, state, err := b.Task(t.Context(), l.ID)
			must(t, err)
			if state != l.State || !found.Created.Equal(l.Created) || found.Task.Priority != l.Priority || l.Target != "any" || l.Hash == (task.Digest{}) {
				t.Errorf("%+v is %s: %+v", l, state, found)
			}
			if l.ID == held.ID() && (l.Claimant != "tester" || !l.Until.Equal(c.now().Add(time.Minute)) || !l.Since.Equal(c.now())) {
				t.Errorf("the claimed one is %+v", l)
			}
		}
	}
}

// Why says of a claim whether it is over, so that nobody has to read its text.
func TestWhyClaimIsOver(t *testing.T) {
	c := newClock()
	o := c.options()
	o.Lease = time.Minute
	b := newBox(t, o)
	sent(t, b, "one")
	_, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	for _, over := range []bool{false, true} {
		w, err := b.Why(t.Context(), "one")
		must(t, err)
		if w.Over != over {
			t.Errorf("over is %t: %s", w.Over, w.Lease)
		}
		c.turn(2 * time.Minute)
	}
}
