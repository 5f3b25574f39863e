package mailbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

// A worker that waits finds a task whose sender still held its lock at the
// first look. Nothing tells it when the lock is given back, so before it looked
// again by itself, every third task lay there until the next scan.
func TestWaitLooksAgainAtATaskThatWasHeld(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	home := t.TempDir() + "/home"
	if err := Create(home, Options{Sync: durable.None}); err != nil {
		t.Fatal(err)
	}
	o := Options{Sync: durable.None, ScanInterval: time.Minute}
	sender, worker := opened(t, home, o), opened(t, home, o)
	claims := make(chan error)
	go func() {
		for range 40 {
			c, err := worker.Wait(ctx, ClaimRequest{Agent: "coder", Process: true})
			if err == nil {
				err = errors.Join(c.Complete(ctx, Result{}), c.Close())
			}
			claims <- err
		}
	}()
	for range 40 {
		if _, err := sender.Submit(ctx, request("now")); err != nil {
			t.Fatal(err)
		}
		if err := <-claims; err != nil {
			t.Fatalf("the worker did not find the task within half a scan interval: %v", err)
		}
	}
}

// What Wait goes by: a claim that found nothing says whether that was for a
// lock.
func TestClaimTellsOfAHeldLock(t *testing.T) {
	home := t.TempDir() + "/home"
	if err := Create(home, Options{Sync: durable.None}); err != nil {
		t.Fatal(err)
	}
	b := opened(t, home, Options{Sync: durable.None})
	r := ClaimRequest{Agent: "coder", Process: true}
	if _, h, err := b.claimNext(t.Context(), r); h != nil || !errors.Is(err, ErrEmpty) {
		t.Fatalf("an empty mailbox: held %v, %v", h, err)
	}
	id, err := b.Submit(t.Context(), request("held"))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(privatePath(home, "locks", shardName(shardOf(string(id)))))
	if err != nil {
		t.Fatal(err)
	}
	if _, h, err := b.claimNext(t.Context(), r); h == nil || h.id != id || !errors.Is(err, ErrEmpty) {
		t.Errorf("a task whose lock is held: held %v, %v", h, err)
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	c, _, err := b.claimNext(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// A claim waits for a task whose lock is held for a moment by somebody else, and
// for what another claim of the process has in its hands.
func TestClaimWaitsForAHeldLock(t *testing.T) {
	home := t.TempDir() + "/home"
	must(t, Create(home, Options{Sync: durable.None}))
	b := opened(t, home, Options{Sync: durable.None})
	id, err := b.Submit(t.Context(), request("held"))
	must(t, err)
	lock, err := durable.TryLock(privatePath(home, "locks", shardName(shardOf(string(id)))))
	must(t, err)
	if _, busy, err := b.claimSoon(t.Context(), ClaimRequest{Agent: "coder"}); !busy || !errors.Is(err, ErrEmpty) {
		t.Errorf("a lock that is never given back: busy %v, %v", busy, err)
	}
	gaveBack := make(chan error, 1)
	asked := make(chan struct{})
	go func() {
		<-asked
		gaveBack <- lock.Unlock()
	}()
	_, h, err := b.claimNext(t.Context(), ClaimRequest{Agent: "coder"})
	if h == nil || !errors.Is(err, ErrEmpty) {
		t.Fatalf("held %v, %v", h, err)
	}
	close(asked)
	must(t, b.letGo(t.Context(), h, time.Minute))
	must(t, <-gaveBack)
	rec, others := b.takeNext(b.fits(ClaimRequest{Agent: "coder"}), 0)
	if rec == nil || !others {
		t.Fatalf("taken %v, out %v", rec, others)
	}
	if _, h, err := b.claimNext(t.Context(), ClaimRequest{Agent: "coder"}); h == nil || h.id != "" || !errors.Is(err, ErrEmpty) {
		t.Errorf("what another claim has in its hands: held %v, %v", h, err)
	}
	b.putBack([]*record{rec})
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	if c.ID() != id {
		t.Errorf("it claimed %s", c.ID())
	}
}

func opened(t *testing.T, home string, o Options) *Box {
	t.Helper()
	b, err := Open(t.Context(), home, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}
