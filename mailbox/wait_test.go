package mailbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
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

// What Wait goes by: a claim that found nothing says whether that was for a lock
// that somebody holds, or for what another claim of the process has in its hands.
func TestClaimTellsOfAHeldLock(t *testing.T) {
	dir := t.TempDir() + "/home"
	must(t, Create(dir, Options{Sync: durable.None}))
	b := opened(t, dir, Options{Sync: durable.None})
	r := ClaimRequest{Agent: "coder"}
	empty := func(want bool, why string) {
		t.Helper()
		if _, busy, err := b.claimNext(t.Context(), r); busy != want || !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: busy %v, %v", why, busy, err)
		}
	}
	empty(false, "an empty mailbox")
	id, err := b.Submit(t.Context(), request("held"))
	must(t, err)
	lock, err := durable.TryLock(home.Private(dir, "locks", home.ShardName(home.Shard(string(id)))))
	must(t, err)
	empty(true, "a task whose lock is held")
	if _, err := b.Claim(t.Context(), r); !errors.Is(err, ErrEmpty) {
		t.Errorf("a lock that is never given back: %v", err)
	}
	must(t, lock.Unlock())
	recs, others := b.queue.Take(b.fits(r), 1, 0)
	if len(recs) != 1 || others {
		t.Fatalf("taken %v, out %v", recs, others)
	}
	empty(true, "what another claim has in its hands")
	b.queue.PutBack(recs)
	c, err := b.Claim(t.Context(), r)
	must(t, err)
	if c.ID() != id {
		t.Errorf("it claimed %s", c.ID())
	}
}

// A claim waits for a task whose lock is held for a moment by somebody else.
func TestClaimWaitsForAHeldLock(t *testing.T) {
	dir := t.TempDir() + "/home"
	must(t, Create(dir, Options{Sync: durable.None}))
	b := opened(t, dir, Options{Sync: durable.None})
	for range 20 {
		id, err := b.Submit(t.Context(), request("held"))
		must(t, err)
		lock, err := durable.TryLock(home.Private(dir, "locks", home.ShardName(home.Shard(string(id)))))
		must(t, err)
		gaveBack := make(chan error, 1)
		go func() { gaveBack <- lock.Unlock() }()
		_, err = b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, errors.Join(err, <-gaveBack))
	}
}

// Rule 33: the head of the queue comes first. While somebody else is at it, others
// of its standing come before all that stand lower, not all of them in one order,
// and every one of them is tried before there is nothing.
func TestRule33_OthersStandAlike(t *testing.T) {
	dir := t.TempDir() + "/home"
	must(t, Create(dir, Options{Sync: durable.None}))
	o := Options{Sync: durable.None}
	first, second := opened(t, dir, o), opened(t, dir, o)
	submit := func(priority string) ID {
		task := request("one of many")
		task.Task.Priority = priority
		id, err := first.Submit(t.Context(), task)
		must(t, err)
		return id
	}
	head := submit("high")
	for range 12 {
		submit("high")
	}
	low := submit("low")
	r := ClaimRequest{Agent: "coder"}
	lock, err := durable.TryLock(home.Private(dir, "locks", home.ShardName(home.Shard(string(head)))))
	must(t, err)
	then, order := map[ID]bool{}, []ID{}
	for range 20 {
		must(t, second.queue.Update())
		one, _ := second.queue.Take(second.fits(r), 1, 0)
		others, _ := second.queue.Take(second.fits(r), amongHeads, 1)
		if len(one) != 1 || one[0].ID != head || len(others) != 12 {
			t.Fatalf("first %v, then %d", one, len(others))
		}
		then[others[0].ID] = true
		second.queue.PutBack(append(one, others...))
	}
	if len(then) < 2 {
		t.Error("all that find the head taken meet again at the same task")
	}
	for {
		c, busy, err := second.claimNext(t.Context(), r)
		if errors.Is(err, ErrEmpty) {
			if !busy {
				t.Error("nothing is said to be there although the head is held")
			}
			break
		}
		must(t, err)
		order = append(order, c.ID())
	}
	must(t, lock.Unlock())
	for _, id := range order {
		if home.Shard(string(id)) == home.Shard(string(head)) {
			t.Errorf("%s was claimed under a lock that is held", id)
		}
	}
	if home.Shard(string(low)) != home.Shard(string(head)) && (len(order) == 0 || order[len(order)-1] != low) {
		t.Errorf("the order was %v, want %s behind all that stand higher", order, low)
	}
	c, err := first.Claim(t.Context(), r)
	must(t, err)
	if c.ID() != head {
		t.Errorf("then comes %s, want the head %s", c.ID(), head)
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
