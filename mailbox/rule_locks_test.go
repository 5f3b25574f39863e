package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// Tests of single rules of the protocol: locks, names and leases.

// One task has one lock, however its id is written.
func TestShardFoldsCase(t *testing.T) {
	for n := range 50 {
		id := fmt.Sprintf("Task-%dX", n)
		if shardOf(id) != shardOf(strings.ToLower(id)) || shardOf(id) != shardOf(strings.ToUpper(id)) {
			t.Errorf("%s has several locks", id)
		}
	}
}

// keyAndID returns an idempotency key and an id of which the key's shard is the
// lower one.
func keyAndID() (key string, id ID) {
	for n := 0; ; n++ {
		key, id = fmt.Sprintf("key-%d", n), ID(fmt.Sprintf("t%d", n))
		if shardOf("key:"+key) < shardOf(string(id)) {
			return key, id
		}
	}
}

// A send with an idempotency key holds the key's shard and the id's, the lower
// number first, and who cannot have one is told which and who has it.
func TestSendHoldsItsShards(t *testing.T) {
	b := newBox(t, Options{LockWait: time.Millisecond})
	other := opened(t, b.home, b.o)
	key, id := keyAndID()
	task := request("with a key")
	task.ID, task.Mbox.IdempotencyKey = id, key
	low, high := shardOf("key:"+key), shardOf(string(id))
	for _, held := range [][]int{{low}, {high}, {low, high}} {
		var locks []*shard
		for _, n := range held {
			s, err := other.holdShard(t.Context(), n)
			must(t, err)
			must(t, s.mark(dirty{kind: "note", name: "somebody", tx: strings.Repeat("0", 32), at: other.ledger.End()}))
			locks = append(locks, s)
		}
		_, err := b.Submit(t.Context(), task)
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), shardName(held[0])) {
			t.Errorf("with %v of %d and %d held: %v", held, low, high, err)
		}
		if want := fmt.Sprintf("held by process %d for somebody", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		for _, s := range locks {
			must(t, s.clean())
			s.unlock()
		}
	}
	if all := lines(t, b, ""); len(all) > 0 {
		t.Errorf("%d lines", len(all))
	}
	if _, err := b.Submit(t.Context(), task); err != nil {
		t.Error(err)
	}
}

// A line tells of a key by a hash that nobody can make who has not the home.
func TestKeyInTheLedger(t *testing.T) {
	b := newBox(t, Options{})
	task := request("with a key")
	task.Mbox.IdempotencyKey = "an open secret"
	first, err := b.Submit(t.Context(), task)
	must(t, err)
	if again, err := b.Submit(t.Context(), task); err != nil || again != first {
		t.Errorf("sent again: %s (%v), want %s", again, err, first)
	}
	e := lines(t, b, first)
	if len(e) != 1 {
		t.Fatalf("%d lines", len(e))
	}
	m, _ := moveOf(&e[0])
	for _, plain := range []string{"an open secret", audit.Hash([]byte("an open secret")), audit.Hash([]byte("key\nan open secret"))} {
		if m.Key == "" || strings.Contains(string(e[0].Details), plain) {
			t.Errorf("the line has %q", plain)
		}
	}
}

// An id that is sent again is fine with the same content, writes nothing, and is
// refused with another one.
func TestSendAgain(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	task := request("another")
	task.ID = "X"
	if _, err := b.Submit(t.Context(), task); !errors.Is(err, ErrConflict) {
		t.Errorf("other content: %v", err)
	}
	same := lines(t, b, "x")
	sent(t, b, "x")
	if now := lines(t, b, ""); len(now) != len(same) {
		t.Errorf("%d lines, there were %d", len(now), len(same))
	}
}

// The drawn number of an id is a hint: one that is taken is not used again.
func TestSerialIsTried(t *testing.T) {
	b := newBox(t, Options{})
	now := b.now()
	sent(t, b, serialID(now.UTC().Format(time.DateOnly), 1))
	must(t, put(privatePath(b.home, "locks", "serial"), fmt.Sprintf("%-63s\n", now.UTC().Format(time.DateOnly)+" 0")))
	id, err := b.Submit(t.Context(), request("the next"))
	if err != nil || id != serialID(now.UTC().Format(time.DateOnly), 2) {
		t.Errorf("%s (%v)", id, err)
	}
}

// A lock file that is gone is made by recovery alone.
func TestLockFileGone(t *testing.T) {
	b := newBox(t, Options{})
	path := privatePath(b.home, "locks", shardName(shardOf("x")))
	must(t, os.Remove(path))
	task := request("x")
	task.ID = "x"
	if _, err := b.Submit(t.Context(), task); !errors.Is(err, ErrIntegrity) {
		t.Errorf("without its lock: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock file was made: %v", err)
	}
	r, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	if err != nil || r.Locks != 1 {
		t.Errorf("%+v %v", r, err)
	}
	sent(t, b, "x")
}

// Only where a rename can be told not to replace a file is a mailbox made.
func TestRenamesAreProbed(t *testing.T) {
	for name, hook := range map[string]durable.Fault{
		"no flags": func(op durable.Op, _ string) (bool, error) { return op != durable.OpMove, unlessOp(op, durable.OpMove) },
		"no exchange": func(op durable.Op, _ string) (bool, error) {
			return op != durable.OpExchange, unlessOp(op, durable.OpExchange)
		},
		"it clobbers":  func(op durable.Op, _ string) (bool, error) { return op != durable.OpMove, nil },
		"all are fine": func(durable.Op, string) (bool, error) { return true, nil },
	} {
		dir := filepath.Join(t.TempDir(), "home")
		remove := durable.SetFault(hook)
		err := Create(dir, Options{Sync: durable.None})
		remove()
		if refused := errors.Is(err, ErrFileSystem); refused != (name != "all are fine") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func unlessOp(op, bad durable.Op) error {
	if op == bad {
		return unix.EINVAL
	}
	return nil
}

// Closing a claim leaves the lease to the child that inherited it.
func TestLeaseOfTheChild(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	fd, err := unix.Dup(int(c.LeaseFile().Fd()))
	must(t, err)
	child := os.NewFile(uintptr(fd), "child")
	must(t, c.Close())
	mustScan(t, b)
	if at := said(t, b, "x"); at != InProgress {
		t.Errorf("while the child lives it is %s", at)
	}
	must(t, child.Close())
	mustScan(t, b)
	if at := said(t, b, "x"); at != Pending {
		t.Errorf("after its death it is %s", at)
	}
}

// A lease is judged only by who has the task's shard: a claim that is being made
// has a lease file before it has a line.
func TestLeaseIsJudgedUnderTheShard(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	must(t, c.Close())
	other := opened(t, b.home, b.o)
	s, err := other.lockShard(t.Context(), "x")
	must(t, err)
	before := treeOf(t, b.home)
	mustScan(t, b)
	if treeOf(t, b.home) != before {
		t.Error("it was judged all the same")
	}
	s.unlock()
	mustScan(t, b)
	if at := said(t, b, "x"); at != Pending {
		t.Errorf("it is %s", at)
	}
}

// After a restart of the machine every lease is over, those too that are a
// deadline alone; within one boot none is that its holder keeps.
func TestLeasesEndWithTheBoot(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBox(t, Options{})
		sent(t, b, "a")
		sent(t, b, "b")
		for _, process := range []bool{false, true} {
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: process})
			must(t, err)
			defer c.Close()
		}
		want := InProgress
		if restart {
			anotherBoot(t, b.home)
			want = Pending
		}
		_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
		must(t, err)
		for _, id := range []ID{"a", "b"} {
			if at := said(t, b, id); at != want {
				t.Errorf("restart %v: %s is %s", restart, id, at)
			}
		}
	}
}
