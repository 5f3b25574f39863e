package policy

import (
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A clock that the test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 2, 16, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func reserve(t testing.TB, w *Window, key string) *Reservation {
	t.Helper()
	r, err := w.Reserve(key)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func refused(t testing.TB, w *Window, key, says string) {
	t.Helper()
	_, err := w.Reserve(key)
	if rule(err) != "action_budget" || !strings.Contains(err.Error(), says) {
		t.Errorf("%s: %v, want %q", key, err, says)
	}
}

func TestWindow(t *testing.T) {
	c := newClock()
	w := NewWindow(2, c.now)
	reserve(t, w, "x").Commit()
	c.pass(10 * time.Minute)
	held := reserve(t, w, "x")
	refused(t, w, "x", "free at 2026-02-16T13:00:00Z, in 50m0s")
	reserve(t, w, "y").Commit() // another sender has its own
	held.Release()
	held.Commit() // too late to count
	if n := w.Used("x"); n != 1 {
		t.Errorf("%d are used, want 1", n)
	}
	held = reserve(t, w, "x")
	c.pass(50*time.Minute - 1)
	refused(t, w, "x", "2 of 2")
	c.pass(1) // the first is an hour old
	last := reserve(t, w, "x")
	refused(t, w, "x", "under way")
	c.pass(24 * time.Hour) // what is under way counts as long as it lasts
	refused(t, w, "x", "under way")
	held.Commit()
	last.Commit()
	last.Release() // too late to be taken back
	refused(t, w, "x", "free at 2026-02-17T14:00:00Z, in 1h0m0s")
}

func TestWindowOfNone(t *testing.T) {
	refused(t, NewWindow(0, nil), "x", "nothing at all")
	refused(t, NewWindow(5, nil).Narrow(0), "x", "nothing at all")
}

func TestWindowWithoutSender(t *testing.T) {
	w := NewWindow(1, newClock().now)
	reserve(t, w, "")
	refused(t, w, NoSender, NoSender)
}

// A parent and its children count in the same hour, each up to its own limit.
func TestWindowIsShared(t *testing.T) {
	parent := NewWindow(3, newClock().now)
	child := parent.Narrow(2)
	greedy := child.Narrow(100)
	reserve(t, child, "x").Commit()
	reserve(t, greedy, "x").Commit()
	refused(t, child, "x", "2 of 2")
	refused(t, greedy, "x", "2 of 2")
	reserve(t, parent, "x")
	refused(t, parent, "x", "3 of 3")
}

func TestWindowAfterARestart(t *testing.T) {
	c := newClock()
	w := NewWindow(3, c.now)
	for _, ago := range []time.Duration{10 * time.Minute, 2 * time.Hour, 59 * time.Minute, 30 * time.Minute} {
		w.Record("x", c.now().Add(-ago))
	}
	refused(t, w, "x", "in 1m0s")
	w.Narrow(1).Record("x", c.now())
	refused(t, w.Narrow(1), "x", "4 of 1 actions in the last hour are used; the next is free at 2026-02-16T13:00:00Z")
}

// Where the clock is set back, nothing counts for longer than an hour from then.
func TestWindowWithAClockSetBack(t *testing.T) {
	c := newClock()
	w := NewWindow(1, c.now)
	reserve(t, w, "x").Commit()
	c.pass(-48 * time.Hour)
	refused(t, w, "x", "in 1h0m0s")
	c.pass(Hour)
	reserve(t, w, "x")
}

// Senders come from outside: those that are quiet are forgotten.
func TestWindowForgets(t *testing.T) {
	c := newClock()
	w := NewWindow(1, c.now)
	open := reserve(t, w, "open")
	for i := range 1000 {
		reserve(t, w, strings.Repeat("x", i+1)).Commit()
	}
	c.pass(2 * Hour)
	reserve(t, w, "last")
	if n := len(w.shared.senders); n != 2 {
		t.Errorf("%d senders are kept, want the last and the one under way", n)
	}
	open.Release()
}

// Of many at once exactly as many as the limit get through.
func TestWindowAtOnce(t *testing.T) {
	w := NewWindow(50, newClock().now)
	var all sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for i := range 40 {
		all.Go(func() {
			for range 10 {
				r, err := w.Reserve("x")
				if err != nil {
					continue
				}
				if i%4 == 0 {
					r.Release()
					continue
				}
				r.Commit()
				mu.Lock()
				got++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if got > 50 || w.Used("x") != got {
		t.Errorf("%d got through, %d are used, of 50", got, w.Used("x"))
	}
}

// The window against a list of all that ever happened.
func TestWindowIsAList(t *testing.T) {
	type past struct {
		key  string
		open bool
		at   time.Time
	}
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		limit := rapid.IntRange(0, 4).Draw(t, "limit")
		w := NewWindow(limit, c.now)
		var all []*past
		var open []*Reservation
		var mine []*past
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			key := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key")
			switch act := rapid.IntRange(0, 3).Draw(t, "act"); {
			case act == 0:
				c.pass(time.Duration(rapid.IntRange(1, 90).Draw(t, "minutes")) * time.Minute)
			case act < 3 || len(open) == 0:
				used := 0
				for _, p := range all {
					if p.key == key && (p.open || c.at.Sub(p.at) < time.Hour) {
						used++
					}
				}
				r, err := w.Reserve(key)
				if (err == nil) != (used < limit) {
					t.Fatalf("%d of %d are used: %v", used, limit, err)
				}
				if err == nil {
					p := &past{key, true, time.Time{}}
					all, open, mine = append(all, p), append(open, r), append(mine, p)
				}
			default:
				last := len(open) - 1
				if rapid.Bool().Draw(t, "commit") {
					open[last].Commit()
					mine[last].at = c.at
				} else {
					open[last].Release()
				}
				mine[last].open = false
				open, mine = open[:last], mine[:last]
			}
		}
	})
}
