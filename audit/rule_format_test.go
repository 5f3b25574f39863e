package audit

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"mbox/mailbox/durable"
)

// Who has a home open that is brought to a later format appends no more, and leaves
// the head record as it is.
func TestRule39_LaterHead(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "a line")
	head, err := l.seeHead()
	if err != nil {
		t.Fatal(err)
	}
	later := head
	later.Format++
	if err := os.WriteFile(l.gate.Path(), later.encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(t.Context(), note("coder", "x")); !errors.Is(err, ErrFormat) || !errors.Is(err, ErrUnwritten) {
		t.Errorf("it was not refused: %v", err)
	}
	if data := readFile(t, l.gate.Path()); !bytes.Equal(data, later.encode()) {
		t.Errorf("the head record has become %q", data)
	}
}

// Each time the records of the journal begin anew they are of another generation.
func TestRule25_Generation(t *testing.T) {
	if !durable.CanSyncFS {
		t.Skip("there is no journal here")
	}
	l := newLedger(t, nil)
	seen := map[uint64]bool{}
	for range 3 {
		appendNote(t, l, "coder", "a line")
		head, err := l.seeHead()
		if err != nil || head.Journal.Generation == 0 || seen[head.Journal.Generation] {
			t.Errorf("generation %d (%v), there were %v", head.Journal.Generation, err, seen)
		}
		appendNote(t, l, "coder", "a line")
		if same, err := l.seeHead(); err != nil || same.Journal.Generation != head.Journal.Generation {
			t.Errorf("generation %d, and %d behind the next line (%v)", head.Journal.Generation, same.Journal.Generation, err)
		}
		seen[head.Journal.Generation] = true
		if err := os.Remove(JournalPath(l.home)); err != nil {
			t.Fatal(err)
		}
	}
}
