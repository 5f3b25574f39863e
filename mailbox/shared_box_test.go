package mailbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"

	"mbox/audit"
	"mbox/mailbox/queue"
	"mbox/mailbox/verify"
)

// TestManyHandsOnOneBox has many goroutines do everything by one Box and by a second one
// of the same home, as the doors of a process do, while snapshots are due all the time.
// Afterwards ledger and files agree, and who begins with a snapshot knows what the whole
// ledger tells.
func TestManyHandsOnOneBox(t *testing.T) {
	old := queue.SnapshotLines
	queue.SnapshotLines = 5
	defer func() { queue.SnapshotLines = old }()
	b := newBox(t, Options{})
	second, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	boxes := []*Box{b, second}
	var hands sync.WaitGroup
	for n := range 8 {
		r := rand.New(rand.NewPCG(seedOf(t), uint64(n)))
		hands.Go(func() {
			for i := range 60 {
				if err := anyVerb(t.Context(), boxes[r.IntN(2)], r, ID(fmt.Sprintf("t%d-%d", n, i))); err != nil {
					t.Errorf("%d, %d: %v", n, i, err)
				}
			}
		})
	}
	hands.Wait()
	must(t, second.Close())
	report, err := verify.Home(t.Context(), b.Home(), verify.Options{})
	must(t, err)
	for _, f := range report.Findings {
		t.Error(f)
	}
	want := queued(t, another(b, b.home+"/none"))
	if got := queued(t, another(b, b.home)); !reflect.DeepEqual(got, want) {
		t.Errorf("by the snapshot: %v\nby the ledger: %v", got, want)
	}
}

// queued is which tasks each folder holds, and which are ready.
func queued(t *testing.T, q *queue.Queue) (out []any) {
	defer q.Forget()
	must(t, q.Update())
	for _, s := range []State{Pending, InProgress, Completed, Failed} {
		out = append(out, q.Holds(s))
	}
	taken, _ := q.Take(func(queue.Class) bool { return true }, 10_000, 0)
	ready := map[ID]bool{}
	for _, one := range taken {
		ready[one.ID] = true
	}
	return append(out, slices.Sorted(maps.Keys(ready)))
}

// anyVerb does one of the things that are done with a mailbox.
func anyVerb(ctx context.Context, b *Box, r *rand.Rand, id ID) error {
	if _, err := b.Submit(ctx, &Task{ID: id, Task: Request{Title: "x"}}); err != nil {
		return err
	}
	switch r.IntN(8) {
	case 0:
		return b.Cancel(ctx, id, "human", "no more")
	case 1:
		_, err := b.Index()
		return err
	case 2:
		_, err := b.Why(ctx, id)
		return err
	case 3:
		return b.Note(ctx, audit.Entry{Event: audit.ErrorEvent, Agent: "coder", Action: "noted"})
	}
	c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
	if errors.Is(err, ErrEmpty) {
		return nil
	}
	if err != nil {
		return err
	}
	switch r.IntN(4) {
	case 0:
		return c.Release(ctx, "later", 0)
	case 1:
		return c.Fail(ctx, Failure{TaskError: TaskError{Code: "broken"}, Final: true})
	case 2:
		if err := c.Progress(ctx, Progress{Message: "half"}); err != nil {
			return err
		}
	}
	return c.Complete(ctx, Result{})
}
