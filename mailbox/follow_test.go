package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/queue"
)

// TestProducerFollowsNames has a process that only sends beside one that works:
// it keeps no queue, knows every id and key all the same, over snapshots that are
// due, and has the queue as soon as it asks for it.
func TestProducerFollowsNames(t *testing.T) {
	for _, lines := range []int{queue.SnapshotLines, 5} {
		t.Run(fmt.Sprint(lines), func(t *testing.T) {
			old := queue.SnapshotLines
			queue.SnapshotLines = lines
			defer func() { queue.SnapshotLines = old }()
			ctx, b := context.Background(), newBox(t, Options{})
			sends, err := Open(ctx, b.home, b.o)
			if err != nil {
				t.Fatal(err)
			}
			defer sends.Close()
			task := func(i int) *Task {
				return &Task{ID: ID(fmt.Sprintf("t%d", i)), Task: Request{Title: "x"}, Mbox: Meta{IdempotencyKey: fmt.Sprint("key", i)}}
			}
			for i := range 12 {
				submit(t, sends, task(i))
				if i%2 == 0 {
					finish(t, b, "coder", true)
				}
				if live := inside[map[ID]*queue.Entry](sends.queue, "live"); !inside[bool](sends.queue, "names") || len(live) > 0 || inside[bool](sends.queue, "asked") {
					t.Fatalf("after %d tasks it keeps %d of the queue", i+1, len(live))
				}
			}
			other := task(3)
			other.Mbox.IdempotencyKey, other.Task.Title = "", "y"
			if _, err := sends.Submit(ctx, other); !errors.Is(err, ErrConflict) {
				t.Errorf("another task with a known id: %v", err)
			}
			again := task(4)
			again.ID = ""
			if id, err := sends.Submit(ctx, again); err != nil || id != "t4" {
				t.Errorf("a known key: %s, %v", id, err)
			}
			for key, want := range map[string]ID{"key4": "t4", "key11": "t11", "key": "", "": ""} {
				if id, err := SentWith(ctx, sends, key); err != nil || id != want {
					t.Errorf("sent with %q: %s, %v", key, id, err)
				}
			}
			if id := finish(t, sends, "coder", true); inside[bool](sends.queue, "names") {
				t.Errorf("it has claimed %s without a queue", id)
			}
		})
	}
}

// TestProducerOfMany sends from many goroutines of one process while snapshots are
// due all the time. Whoever begins with a snapshot knows as many as the ledger.
func TestProducerOfMany(t *testing.T) {
	old := queue.SnapshotLines
	queue.SnapshotLines = 3
	defer func() { queue.SnapshotLines = old }()
	const each = 60
	b, failed := newBox(t, Options{}), make(chan error, 8)
	for w := range cap(failed) {
		go func() {
			for i := range each {
				if _, err := b.Submit(context.Background(), &Task{ID: ID(fmt.Sprintf("t%d-%d", w, i)), Task: Request{Title: "x"}}); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for w := range cap(failed) {
		if known, err := b.known(ID(fmt.Sprintf("t%d-%d", w, each-1))); !known || err != nil {
			t.Errorf("sender %d: known %v, %v", w, known, err)
		}
	}
	from := another(b, b.home)
	defer from.Forget()
	must(t, from.Update())
	taken, _ := from.Take(func(queue.Class) bool { return true }, 10_000, 0)
	if len(taken) != each*cap(failed) {
		t.Errorf("by the snapshot %d tasks are ready, of %d that were sent", len(taken), each*cap(failed))
	}
}

// Who has just begun writes a snapshot when it had to fold a quarter of what others may:
// commands come one after another, and each would fold the same lines. Senders do, too.
func TestSnapshotOfCommands(t *testing.T) {
	old := queue.SnapshotLines
	queue.SnapshotLines = 40
	defer func() { queue.SnapshotLines = old }()
	for name, ask := range map[string]func(*queue.Queue) error{"queue": (*queue.Queue).Update, "names": (*queue.Queue).Hear} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			sent := 0
			written := func() time.Time {
				other, err := Open(t.Context(), b.home, b.o)
				must(t, err)
				defer other.Close()
				must(t, ask(other.queue))
				info, err := os.Stat(queue.File(b.home))
				if errors.Is(err, fs.ErrNotExist) {
					return time.Time{}
				}
				must(t, err)
				return info.ModTime()
			}
			send := func(n int) {
				for range n {
					sent++
					submit(t, b, &Task{ID: ID(fmt.Sprint("t", sent)), Task: Request{Title: "x"}})
				}
			}
			send(5)
			if at := written(); !at.IsZero() {
				t.Error("5 lines are worth a snapshot")
			}
			send(5)
			first := written()
			if first.IsZero() {
				t.Error("10 lines are worth none")
			}
			send(10)
			if again := written(); !again.After(first) {
				t.Error("10 more are worth none")
			}
		})
	}
}

// A snapshot that cannot be written stops no verb: the queue goes on from memory, by one
// reading of the ledger, and the next lines that are worth a snapshot get one.
func TestSnapshotThatCannotBeWritten(t *testing.T) {
	old := queue.SnapshotLines
	queue.SnapshotLines = 20
	defer func() { queue.SnapshotLines = old }()
	for _, in := range []string{".new", ""} { // in the way of the file, and of its place
		t.Run("index"+in, func(t *testing.T) {
			b := newBox(t, Options{})
			index := queue.File(b.home)
			must(t, os.Mkdir(index+in, 0o700))
			names, err := Open(t.Context(), b.home, b.o)
			must(t, err)
			defer names.Close()
			work := func(from, to int) {
				for i := from; i < to; i++ {
					submit(t, b, &Task{ID: ID(fmt.Sprint("t", i)), Task: Request{Title: "x"}})
				}
				c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
				must(t, err)
				must(t, c.Complete(t.Context(), Result{}))
				must(t, names.queue.Hear())
			}
			work(0, 50)
			reader := inside[*audit.Reader](names.queue, "reader")
			work(50, 52)
			if reader != inside[*audit.Reader](names.queue, "reader") {
				t.Error("the ledger is read from its beginning each time")
			}
			if err := b.queue.Save(); err == nil {
				t.Error("who wants it written is not told")
			}
			if _, err := os.Lstat(index + ".new"); in == "" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("of the one that was not written there is: %v", err)
			}
			must(t, os.Remove(index+in))
			work(52, 52+queue.SnapshotLines)
			if info, err := os.Lstat(index); err != nil || !info.Mode().IsRegular() {
				t.Errorf("none is written when it can be: %v", err)
			}
		})
	}
}
