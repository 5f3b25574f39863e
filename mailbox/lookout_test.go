package mailbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// take waits for a task and completes it.
func take(ctx context.Context, t *testing.T, b *Box) ID {
	t.Helper()
	c, err := b.Wait(ctx, ClaimRequest{Agent: "coder", Process: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Complete(ctx, Result{}), c.Close()); err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

// A watcher costs 5 to 15 ms to close, so a worker keeps it from one claim to
// the next; and what it saw in between is not lost with the scan that the next
// Wait saves.
func TestWaitKeepsItsLookout(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	home := t.TempDir() + "/home"
	if err := Create(home, Options{Sync: durable.None}); err != nil {
		t.Fatal(err)
	}
	b := opened(t, home, Options{Sync: durable.None, ScanInterval: time.Minute})
	if _, err := b.Submit(ctx, request("first")); err != nil {
		t.Fatal(err)
	}
	take(ctx, t, b)
	kept := b.lookout
	if kept == nil {
		t.Fatal("the first Wait has kept nothing")
	}
	for _, name := range []string{"second", "third"} {
		part := filepath.Join(home, name+".part")
		if err := os.WriteFile(part, []byte(`{"task":{"title":"dropped"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(part, b.path("tasks", "pending", name+".json")); err != nil {
			t.Fatal(err)
		}
		if id := take(ctx, t, b); id != ID(name) {
			t.Errorf("took %s, want %s", id, name)
		}
		if b.lookout != kept {
			t.Errorf("after %s another lookout is kept", name)
		}
	}
}

// Two that wait at once have a lookout each, one of them is kept, and Close ends
// it: no inotify descriptor is left.
func TestCloseEndsTheLookout(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("/proc/self/fd is missing: open descriptors cannot be counted")
	}
	home := t.TempDir() + "/home"
	if err := Create(home, Options{Sync: durable.None}); err != nil {
		t.Fatal(err)
	}
	before := watchers(t)
	b, err := Open(t.Context(), home, Options{Sync: durable.None})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	for range 2 {
		go func() {
			_, err := b.Wait(ctx, ClaimRequest{Agent: "coder"})
			ended <- err
		}()
	}
	cancel()
	for range 2 {
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled Wait answers %v", err)
		}
	}
	if n := watchers(t) - before; n > 1 {
		t.Errorf("%d watchers are kept, want one at most", n)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if n := watchers(t) - before; n != 0 {
		t.Errorf("%d watchers are open after Close", n)
	}
}

func watchers(t *testing.T) (n int) {
	t.Helper()
	fds, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "inotify") {
			n++
		}
	}
	return n
}

// A worker that waits is woken by what comes into pending; by the ledger only once
// a task waits for what others have to say, and then at once.
func TestWaitListensForALine(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	home := t.TempDir() + "/home"
	must(t, Create(home, Options{Sync: durable.None}))
	o := Options{Sync: durable.None, ScanInterval: time.Minute}
	b, other := opened(t, home, o), opened(t, home, o)
	_, err := other.Submit(ctx, request("first"))
	must(t, err)
	take(ctx, t, b)
	if watched := b.lookout.w.fs.WatchList(); len(watched) != 1 || filepath.Base(watched[0]) != "pending" {
		t.Errorf("it watches %v", watched)
	}
	before, err := other.Submit(ctx, request("before"))
	must(t, err)
	c, err := other.Claim(ctx, ClaimRequest{Agent: "coder"})
	must(t, err)
	behind := request("behind")
	behind.Mbox.DependsOn = []ID{before}
	id, err := other.Submit(ctx, behind)
	must(t, err)
	got := make(chan ID, 1)
	go func() { defer close(got); got <- take(ctx, t, b) }()
	for listens := false; !listens; runtime.Gosched() {
		must(t, ctx.Err())
		listens = b.queue.Waits()
	}
	// Between the line and the file a disk may take its time: the line alone does not
	// tell that the task has ended.
	remove := durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		if op == durable.OpExchange {
			time.Sleep(50 * time.Millisecond)
		}
		return true, nil
	})
	err = c.Complete(ctx, Result{})
	remove()
	must(t, err)
	if taken := <-got; taken != id {
		t.Errorf("it took %s, want %s", taken, id)
	}
}

// Rule 33: where a lock is held, that name is looked at again, and nothing else.
func TestRule33_NoScanForALock(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	scans := 0
	p := pass{b: b, folders: task.Folders, quota: newQuota(perPass), last: time.Now(), scanned: func(ScanReport, error) { scans++ }}
	b.drop(t, "x.json", titled(""))
	lock, err := durable.TryLock(home.Private(b.Home(), "locks", home.ShardName(home.Shard("x"))))
	must(t, err)
	var s seen
	s.put(Pending, "x.json", true)
	p.after(t.Context(), s)
	if !p.again.IsZero() || len(p.later.names) != 1 || time.Until(p.look) > 200*time.Millisecond {
		t.Errorf("a scan is due at %v, %v are looked at at %v", p.again, p.later.names, p.look)
	}
	must(t, lock.Unlock())
	p.look = time.Now()
	p.after(t.Context(), seen{})
	if r, err := b.lookup("x"); err != nil || r == nil || scans != 0 || len(p.later.names) != 0 {
		t.Errorf("after the second look: %v, %v, %d scans, %v left", r, err, scans, p.later.names)
	}
}

// A drop that is being written under another name wakes nobody.
func TestHalfWrittenWakesNobody(t *testing.T) {
	b := homes{}.open(t, newClock().options())
	w := b.newWatcher("tasks/pending")
	defer w.close()
	must(t, os.WriteFile(b.pending("x.part"), []byte("{}"), 0o600))
	begun, most := time.Now(), 50*time.Millisecond
	if _, err := w.wait(t.Context(), most); err != nil || time.Since(begun) < most {
		t.Errorf("it wakes after %v, %v", time.Since(begun), err)
	}
	must(t, os.Rename(b.pending("x.part"), b.pending("x.json")))
	s, err := w.wait(t.Context(), time.Minute)
	if must(t, err); !s.names[Pending]["x.json"] {
		t.Errorf("what has come is not seen: %v", s.names)
	}
}
