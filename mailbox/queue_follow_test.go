package mailbox

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
)

// lineOf is the last line with the event; nil if there is none.
func lineOf(t testing.TB, b *Box, event audit.Event) *audit.Entry {
	t.Helper()
	for line, err := range b.ledger.Backward() {
		if err != nil {
			t.Fatal(err)
		}
		if line.Event() == event {
			e, err := line.Decode()
			if err != nil {
				t.Fatal(err)
			}
			return &e
		}
	}
	return nil
}

// worked is a mailbox in which n tasks were sent, claimed and completed.
func worked(t testing.TB, n int) *Box {
	t.Helper()
	b, ctx := newBox(t, Options{}), context.Background()
	for i := range n {
		if _, err := b.Submit(ctx, &Task{ID: ID(fmt.Sprintf("t%d", i)), Task: Request{Title: "a task", Description: strings.Repeat("x", 100)}}); err != nil {
			t.Fatal(err)
		}
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
		if err == nil {
			err = c.Complete(ctx, Result{Output: jsontext.Value(`"done"`)})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// follow folds the whole ledger into a new queue, and returns how many lines it has.
func follow(t testing.TB, b *Box, names bool) (lines int) {
	q := another(b, b.home+"/none")
	defer q.Forget()
	update := q.Update
	if names {
		update = q.Hear
	}
	if err := update(); err != nil {
		t.Fatal(err)
	}
	return int(b.ledger.End().Seq)
}

// TestFollowAllocates holds what a process allocates for each line of another one.
func TestFollowAllocates(t *testing.T) {
	b := worked(t, 60)
	lines := follow(t, b, false)
	for _, row := range []struct {
		names bool
		most  float64
	}{{false, 4}, {true, 3}} {
		n := testing.AllocsPerRun(20, func() { follow(t, b, row.names) }) / float64(lines)
		t.Logf("names only %v: %.2f allocations a line", row.names, n)
		if n > row.most {
			t.Errorf("names only %v: %.2f allocations a line, at most %.0f", row.names, n, row.most)
		}
	}
}

func BenchmarkFollow(b *testing.B) {
	box := worked(b, 500)
	for _, names := range []bool{false, true} {
		b.Run(map[bool]string{false: "queue", true: "names"}[names], func(b *testing.B) {
			b.ReportAllocs()
			lines, begun := 0, time.Now()
			for b.Loop() {
				lines += follow(b, box, names)
			}
			b.ReportMetric(float64(lines)/time.Since(begun).Seconds(), "lines/s")
		})
	}
}
