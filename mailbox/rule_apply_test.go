package mailbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// Tests of single rules of the protocol: bringing the tree in line with the
// ledger.

// Settling keeps the order of the renames: no reader sees a completed task
// without its result.
func TestRule08_FinishPutsBeforeItMoves(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	killedAtMove(t, 1, func() error { return c.Complete(t.Context(), Result{}) })
	got := steps(t, b.home, func() { opened(t, b.home, b.o) })
	inOrder(t, "a completion", got, "exchange tasks/in-progress/x.json", "move tasks/completed/x.json")

	sent(t, b, "y")
	killedAtMove(t, 1, func() error { _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); return err })
	got = steps(t, b.home, func() { opened(t, b.home, b.o) })
	inOrder(t, "a claim", got, "move tasks/in-progress/y.json", "exchange tasks/in-progress/y.json")
}

// A copy that comes into the way of a move between our two renames takes nothing
// with it: the content that the line names comes to its place.
func TestCopyInTheWay(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	was, err := os.ReadFile(b.path("tasks", "in-progress", "x.json"))
	must(t, err)
	done := b.path("tasks", "completed", "x.json")
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpMove && path == done {
			if _, err := os.Lstat(done); errors.Is(err, fs.ErrNotExist) && was != nil {
				must(t, os.WriteFile(done, was, 0o600))
				was = nil
			}
		}
		return true, nil
	})
	must(t, c.Complete(t.Context(), Result{}))
	remove()
	if !stateIs("x", Completed)(t, b, nil) || was != nil {
		t.Error("it was lost")
	}
}

// That a task was moved by hand is said only by who has its shard.
func TestRule09_VerdictNeedsTheShard(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	other := opened(t, b.home, b.o)
	s, err := other.lockShard(t.Context(), "x")
	must(t, err)
	mv(t, b, "x", Pending, InProgress)
	mustScan(t, b)
	if n := len(lines(t, b, "x")); n != 1 {
		t.Errorf("%d lines while somebody else had it", n)
	}
	s.unlock()
	mustScan(t, b)
	if at := said(t, b, "x"); at != InProgress {
		t.Errorf("it is %s", at)
	}
}

// A record whose renames and intent record a power cut took comes to its place.
func TestRule21_RecordIsRecovered(t *testing.T) {
	b := newBox(t, Options{})
	killedAtMove(t, 1, func() error { _, err := b.Decide(t.Context(), decision("")); return err })
	names, err := home.StagedNames(b.home)
	if err != nil || len(names) != 1 {
		t.Fatalf("%q %v", names, err)
	}
	want, err := os.ReadFile(home.Private(b.home, "tmp", names[0]))
	must(t, err)
	record, _, _ := home.CutLast(names[0], "~")
	b.slot(t, home.Shard(record), home.BlankSlot)
	anotherBoot(t, b.home)
	opened(t, b.home, b.o)
	if got, err := os.ReadFile(b.path("decisions", record)); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %v", record, err)
	}
}

// What a stranger wrote in a task's place is left there within a boot, for an
// operator to judge; after a restart nobody can tell, so the content comes back
// from the journal, and his bytes are kept.
func TestRule08_ReplayLeavesAStranger(t *testing.T) {
	if !durable.CanSyncFS {
		t.Skip("syncfs is missing: there is no journal on this system")
	}
	for _, restart := range []bool{false, true} {
		b := realBox(t, durable.Standard)
		sent(t, b, "x")
		ours, err := os.ReadFile(b.pending("x.json"))
		must(t, err)
		theirs := strings.Replace(string(ours), `"pending"`, `"failed"`, 1)
		must(t, put(b.pending("x.json"), theirs))
		if restart {
			anotherBoot(t, b.home)
		}
		_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
		must(t, err)
		now, err := os.ReadFile(b.pending("x.json"))
		must(t, err)
		want, kept := theirs, 0
		if restart {
			want, kept = string(ours), 1
		}
		if string(now) != want || len(quarantine(t, b)) != kept {
			t.Errorf("restart %v: quarantine %+v, in pending\n%s", restart, quarantine(t, b), now)
		}
	}
}

// What broke a task without being an edit of it costs nothing while the journal has the
// content: that comes back, and what lies in its place is kept.
func TestRule21_ReplayUndoesWhatBroke(t *testing.T) {
	for what, breaks := range map[string]func(x, y string) error{
		"a slip":      func(x, _ string) error { return os.WriteFile(x, []byte("oops"), 0o600) },
		"a link":      func(x, _ string) error { return errors.Join(os.Remove(x), os.Symlink("nowhere", x)) },
		"a folder":    func(x, _ string) error { return errors.Join(os.Remove(x), os.Mkdir(x, 0o700)) },
		"other bytes": func(x, y string) error { return errors.Join(os.Remove(x), os.Link(y, x)) },
	} {
		t.Run(what, func(t *testing.T) {
			b := realBox(t, durable.Standard)
			sent(t, b, "x")
			sent(t, b, "y")
			ours, err := os.ReadFile(b.pending("x.json"))
			must(t, err)
			must(t, breaks(b.pending("x.json"), b.pending("y.json")))
			r, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
			must(t, err)
			if now, err := os.ReadFile(b.pending("x.json")); err != nil || string(now) != string(ours) || r.Lost > 0 {
				t.Errorf("%+v: %v, in pending\n%s", r, err, now)
			}
			if kept := quarantine(t, b); len(kept) != 1 || kept[0].Name != "x.json" {
				t.Errorf("quarantine %+v", kept)
			}
			if at := said(t, b, "y"); at != Pending {
				t.Errorf("y is %s", at)
			}
		})
	}
}

// What is nowhere any more is said to be lost, once, and what was left of it is
// kept.
func TestRule21_LossIsSaid(t *testing.T) {
	b := homes{}.open(t, Options{})
	sent(t, b, "x")
	must(t, put(b.pending("x.json"), "{ what a power cut left"))
	for n := range 2 {
		anotherBoot(t, b.home)
		r, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
		if err != nil || r.Lost != 1 {
			t.Errorf("%+v %v", r, err)
		}
		if alarms := alarmsOf(t, b, "x"); alarms != 1 {
			t.Errorf("after %d recoveries: %d alarms", n+1, alarms)
		}
		if kept := quarantine(t, b); len(kept) != 1 || kept[0].Code != "lost" {
			t.Errorf("%+v", kept)
		}
	}
}

// A backup takes the locks in ascending order, as everybody does.
func TestRule23_BackupLocksInOrder(t *testing.T) {
	b := newBox(t, Options{LockWait: time.Millisecond})
	other := opened(t, b.home, b.o)
	for _, n := range []int{0, home.Shards - 1} {
		s, err := other.holdShard(t.Context(), n)
		must(t, err)
		defer s.unlock()
	}
	if _, err := b.Backup(t.Context(), io.Discard, nil, nil); !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), home.ShardName(0)) {
		t.Errorf("%v, want %s first", err, home.ShardName(0))
	}
}

// Where the mailbox is read-only, whoever opens it later writes nothing either.
func TestReadOnlyForAll(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	must(t, put(audit.ReadOnlyPath(b.home), "now: a test"))
	later := opened(t, b.home, b.o)
	if _, err := later.Submit(t.Context(), request("y")); !errors.Is(err, ErrReadOnly) {
		t.Errorf("submit: %v", err)
	}
	if _, err := later.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrReadOnly) {
		t.Errorf("claim: %v", err)
	}
	if n := len(lines(t, b, "")); n != 1 {
		t.Errorf("%d lines", n)
	}
	must(t, os.Remove(audit.ReadOnlyPath(b.home)))
}
