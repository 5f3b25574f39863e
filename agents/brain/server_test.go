package brain

import (
	"context"
	"errors"
	"testing"
	"time"

	"mbox/agents"
)

func TestRest(t *testing.T) {
	r := rest{spread: func(time.Duration) time.Duration { return 0 }}
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	busy := &agents.BrainError{Fault: agents.BrainBusy, Text: "busy"}
	expect := func(after, want time.Duration) {
		t.Helper()
		at = at.Add(after)
		if got := r.begin(at, busy); got != want {
			t.Errorf("rests for %v, want %v", got, want)
		}
	}
	if r.now(at) != nil {
		t.Error("rests without a failure")
	}
	expect(0, time.Second)
	expect(400*time.Millisecond, 600*time.Millisecond) // a second thought that was under way
	var e *agents.BrainError
	if err := r.now(at); !errors.As(err, &e) || e.Delay != 600*time.Millisecond || e.Text != "busy" {
		t.Errorf("%+v", e)
	}
	if r.now(at.Add(600*time.Millisecond)) != nil {
		t.Error("rests for too long")
	}
	expect(600*time.Millisecond, 2*time.Second)
	expect(2*time.Second, 4*time.Second)
	expect(4*time.Second, 8*time.Second)
	expect(8*time.Second, 16*time.Second)
	expect(16*time.Second, longRest)
	expect(longRest, longRest)
	expect(2*longRest+time.Second, shortRest) // long quiet
	r.end()
	if r.now(at) != nil {
		t.Error("rests after a success")
	}
	busy.Delay = time.Hour
	expect(0, maxRest)
}

// Who is sent away comes back at no time that others know, and not before it may.
func TestRestsAreSpread(t *testing.T) {
	busy := &agents.BrainError{Fault: agents.BrainBusy, Delay: time.Minute}
	at, different := time.Now(), map[time.Duration]bool{}
	for range 100 {
		var r rest
		got := r.begin(at, busy)
		different[got] = true
		if got < time.Minute || got > 75*time.Second || r.now(at.Add(got-1)) == nil || r.now(at.Add(got)) != nil {
			t.Fatalf("rests for %v", got)
		}
	}
	if len(different) < 50 {
		t.Errorf("%d different rests of 100", len(different))
	}
}

// Turns come in the order in which they were asked for, whatever their limits.
func TestTurns(t *testing.T) {
	var turns turns
	first, err := turns.take(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	order := make(chan int, 3)
	for i, limit := range []int{1, 5, 1} {
		go func() {
			giveBack, err := turns.take(t.Context(), limit)
			order <- i
			if err == nil {
				giveBack()
			}
		}()
		for waiting := 0; waiting <= i; { // until it stands in the queue
			turns.mu.Lock()
			waiting = len(turns.queue)
			turns.mu.Unlock()
		}
	}
	if !turns.full(5) {
		t.Error("somebody waits, and it is not full")
	}
	first()
	seen := []int{<-order, <-order, <-order}
	if seen[0]+seen[1]+seen[2] != 3 || turns.full(1) {
		t.Errorf("order %v, taken %d", seen, turns.taken)
	}
}

// A turn that comes at the moment in which the wait for it ends is not lost.
func TestTurnNotLost(t *testing.T) {
	var turns turns
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 { // a select with two ways open takes either
		if giveBack, err := turns.take(ended, 1); err == nil {
			giveBack()
		}
	}
	if turns.full(1) {
		t.Error("a turn that nobody has is taken")
	}
}
