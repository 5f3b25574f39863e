package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// TestRule05_ShardThatCannotBeSettled: where a file of one task may not be moved, its shard
// waits, and nobody else does. An error of the disk, or of the ledger, still stops all.
func TestRule05_ShardThatCannotBeSettled(t *testing.T) {
	b := newBox(t, Options{})
	b.drop(t, "junk", "junk")
	number := syscall.EACCES
	fault := func(op durable.Op, path string) (bool, error) {
		if op == durable.OpMove && filepath.Dir(path) == b.path("tasks", "quarantine") {
			return false, &os.LinkError{Op: "rename", Old: b.pending("junk"), New: path, Err: number}
		}
		return true, nil
	}
	remove := durable.SetFault(fault)
	defer func() { remove() }()
	if _, err := b.Scan(context.Background()); !errors.Is(err, ErrCommitted) {
		t.Fatalf("the first scan: %v", err)
	}
	other, err := Open(t.Context(), b.Home(), b.o)
	must(t, err)
	defer other.Close()
	if news := Unsettled(other); len(news) != 1 || !errors.Is(news[0], fs.ErrPermission) {
		t.Errorf("not settled: %v", news)
	}
	if news := Unsettled(other); len(news) != 0 {
		t.Errorf("told again: %v", news)
	}
	sent(t, other, "t1")
	_, err = other.Scan(t.Context())
	must(t, err)
	c := claimAs(t, other, "hand")
	must(t, c.Complete(t.Context(), Result{}))
	if _, err := other.Submit(t.Context(), inShard(request("x"), home.Shard("junk"))); !errors.Is(err, ErrUnsettled) || !errors.Is(err, ErrBusy) {
		t.Errorf("a task of the shard: %v", err)
	}
	if _, err := Recover(t.Context(), b.Home(), b.o, RecoverOptions{}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a recovery: %v", err)
	}
	sent(t, other, "t2")
	for _, number = range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EROFS} {
		if _, err := Open(t.Context(), b.Home(), b.o); !errors.Is(err, number) {
			t.Errorf("with %v it opens: %v", number, err)
		}
	}
	for path, alone := range map[string]bool{"tasks/pending/x": true, "decisions/x.md": true, "audit/shared/x.jsonl": false, ".mbox/tmp/x": false} {
		if err := (&fs.PathError{Op: "open", Path: b.Home() + "/" + path, Err: syscall.EPERM}); ofOneFile(b.Home(), err) != alone {
			t.Errorf("an error at %s is that of one file: %v", path, !alone)
		}
	}
	remove()
	remove = func() {}
	mustScan(t, other)
	if len(quarantine(t, b)) != 1 {
		t.Error("it was not finished when that could be done")
	}
}

// TestRule21_RecoveryLeavesAShard: a task of which a file may not be moved keeps no recovery
// from its end. Its intent record stays, and settles it when the file can be moved.
func TestRule21_RecoveryLeavesAShard(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c := claimAs(t, b, "hand")
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpExchange && path == b.path("tasks/in-progress/x.json") {
			return false, &os.LinkError{Op: "rename", Old: path, New: path, Err: syscall.EPERM}
		}
		return true, nil
	})
	defer func() { remove() }()
	if err := c.Complete(t.Context(), Result{}); !errors.Is(err, ErrCommitted) {
		t.Fatalf("complete: %v", err)
	}
	for range 2 {
		if _, err := Recover(t.Context(), b.Home(), b.o, RecoverOptions{}); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("a recovery: %v", err)
		}
		other, err := Open(t.Context(), b.Home(), b.o)
		must(t, err)
		if _, err := other.Submit(t.Context(), request("y")); err != nil {
			t.Errorf("another task: %v", err)
		}
		must(t, other.Close())
	}
	remove()
	remove = func() {}
	mustScan(t, b)
	if !stateIs("x", Completed)(t, b, nil) {
		t.Error("it was not finished when that could be done")
	}
}

// inShard gives a task an id of this shard.
func inShard(t *Task, number int) *Task {
	for n := 0; t.ID == "" || home.Shard(string(t.ID)) != number; n++ {
		t.ID = ID("x" + string(rune('a'+n%26)) + home.RandomHex(4))
	}
	return t
}
