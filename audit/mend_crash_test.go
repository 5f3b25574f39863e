package audit

import (
	"context"
	"errors"
	"testing"

	"mbox/mailbox/durable"
)

// dying lets every write from the k-th on fail, as if the process were dead.
func dying(k int) (n *int, remove func()) {
	n = new(int)
	return n, durable.SetFault(func(durable.Op, string) (bool, error) {
		if *n++; *n >= k {
			return false, errors.New("killed")
		}
		return true, nil
	})
}

// Whoever dies while he mends a torn tail leaves a ledger that the next one
// mends: the head record never counts bytes as passed that no line names.
func TestMendDies(t *testing.T) {
	for k := 1; ; k++ {
		l := newVerifyLedger(t)
		l.mode = durable.Standard
		l.add(2)
		addBytes(t, newestPath(t, l.Ledger), "torn")
		n, remove := dying(k)
		_, died := l.Append(context.Background(), note("coder", "three"))
		remove()
		if died == nil {
			if k < 8 {
				t.Errorf("mending makes only %d writes: it proves little", *n)
			}
			return
		}
		stays(t, l, k)
	}
}

// Whoever dies while he takes a line back that the journal does not cover leaves
// a ledger that the next one goes on with.
func TestBlankDies(t *testing.T) {
	needJournal(t)
	for k := 1; ; k++ {
		l := newVerifyLedger(t)
		l.mode = durable.Standard
		l.add(2)
		strict := &verifyLedger{t: t, home: l.home, now: l.now}
		strict.open() // writes lines that no journal has
		raw := readFile(t, newestPath(t, l.Ledger))
		journal := readFile(t, JournalPath(l.home))
		strict.add(1)
		writeFile(t, JournalPath(l.home), journal)
		if len(readFile(t, newestPath(t, l.Ledger))) == len(raw) {
			t.Fatal("no line was written")
		}
		_, remove := dying(k)
		_, died := l.Replay(context.Background(), true)
		if died == nil {
			died = l.Recover(context.Background())
		}
		remove()
		if died == nil {
			return
		}
		stays(t, l, k)
	}
}

// stays wants that the ledger can be gone on with, and is whole then but for the
// copies, which package mailbox has mended.
func stays(t *testing.T, l *verifyLedger, k int) {
	t.Helper()
	l.Close()
	l.open()
	l.mode = durable.Standard
	before := l.End().Seq
	l.add(2)
	if l.End().Seq < before+2 {
		t.Errorf("dead at write %d: seq %d, then two lines, then seq %d", k, before, l.End().Seq)
	}
	for _, f := range l.verify(VerifyOptions{}).Faults {
		if f.Invariant != 11 {
			t.Errorf("dead at write %d: %+v", k, f)
		}
	}
}
