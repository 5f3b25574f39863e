package audit

import (
	"context"
	"errors"
	"io"
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
func TestRule06_MendDies(t *testing.T) {
	for k := 1; ; k++ {
		l := newLedger(t, nil)
		l.mode = durable.Standard
		appendNote(t, l, "coder", "a line")
		appendNote(t, l, "tester", "a line")
		addBytes(t, newestPath(t, l), "torn")
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
func TestRule14_BlankDies(t *testing.T) {
	needJournal(t)
	for k := 1; ; k++ {
		l := newLedger(t, nil)
		l.mode = durable.Standard
		appendNote(t, l, "coder", "a line")
		appendNote(t, l, "tester", "a line")
		strict := openLedger(t, l.home, nil)
		strict.mode = durable.None // writes lines that no journal has
		raw := readFile(t, newestPath(t, l))
		journal := readFile(t, JournalPath(l.home))
		appendNote(t, strict, "coder", "a line")
		writeFile(t, JournalPath(l.home), journal)
		if len(readFile(t, newestPath(t, l))) == len(raw) {
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
func stays(t *testing.T, l *Ledger, k int) {
	t.Helper()
	l.Close()
	l = openLedger(t, l.home, nil)
	l.mode = durable.Standard
	before := l.End().Seq
	appendNote(t, l, "coder", "a line")
	appendNote(t, l, "tester", "a line")
	if l.End().Seq < before+2 {
		t.Errorf("dead at write %d: seq %d, then two lines, then seq %d", k, before, l.End().Seq)
	}
	r := NewReader(l.home, testMailbox)
	defer r.Close()
	for {
		line, err := r.Next()
		if err == io.EOF {
			break
		}
		if err = errors.Join(err, line.Strict()); err != nil {
			t.Fatalf("dead at write %d: %v", k, err)
		}
	}
	if r.Stuck() != nil || !r.Reached(l.End(), false) {
		t.Errorf("dead at write %d: the chain ends at %+v (%v), of %+v", k, r.Position(), r.Stuck(), l.End())
	}
}
