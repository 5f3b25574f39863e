package mailbox

import (
	"testing"
	"time"
)

// A task that only its deadline can take back is not read before that.
func TestRule13_DeadlineIsKnownWithoutTheFile(t *testing.T) {
	late := time.Duration(0)
	b := newBox(t, Options{Lease: time.Hour, Now: func() time.Time { return time.Now().Add(late) }})
	const n = 30
	for range n {
		if _, err := b.Submit(t.Context(), &Task{Task: Request{Title: "x"}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.queue.Update(); err != nil { // as a scan does before
		t.Fatal(err)
	}
	reclaimed := func(want int) {
		t.Helper()
		if back, err := b.reclaimer.reclaim(t.Context()); err != nil || back != want {
			t.Fatalf("%d come back, want %d: %v", back, want, err)
		}
	}
	allocs := testing.AllocsPerRun(5, func() { reclaimed(0) })
	if allocs > 2*n { // reading a task makes about 200
		t.Errorf("%.0f allocations for %d tasks whose time has not come", allocs, n)
	}
	late = 59 * time.Minute
	reclaimed(0)
	late = 61 * time.Minute
	reclaimed(n)
}
