package audit

import (
	"context"
	"errors"
	"os"
	"testing"

	"mbox/mailbox/durable"
)

var errKilled = errors.New("killed")

// killAt is a fault hook that lets the first n steps pass and none after them.
func killAt(n int) durable.Fault {
	return func(durable.Op, string) (bool, error) {
		if n--; n < 0 {
			return false, errKilled
		}
		return true, nil
	}
}

// Who repairs a torn end may be killed at any step: the next one repairs it.
func TestRule06_RepairByTheKilled(t *testing.T) {
	for n := range 40 {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		writeFile(t, newestPath(t, l), append(readFile(t, newestPath(t, l)), `{"action":"to`...))
		remove := durable.SetFault(killAt(n))
		_, err := l.Append(context.Background(), note("coder", "two"))
		remove()
		next := inMode(t, l, l.mode)
		appendNote(t, next, "coder", "three")
		if said := wholeChain(t, next); said[len(said)-1] != "three" {
			t.Errorf("killed at step %d, the ledger ends with %q", n, said[len(said)-1])
		}
		if err == nil {
			return
		}
	}
	t.Error("the line was never written")
}

// A journal that has been removed is begun anew with its base, whoever is killed
// on the way, and also where the new file has the inode number of the old one.
func TestJournalMadeAnewByTheKilled(t *testing.T) {
	needJournal(t)
	for n := range 40 {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		if err := os.Remove(JournalPath(l.home)); err != nil {
			t.Fatal(err)
		}
		remove := durable.SetFault(killAt(n))
		_, err := l.Append(context.Background(), note("coder", "two"))
		remove()
		renumber(t, l)
		next := inMode(t, l, l.mode)
		appendNote(t, next, "coder", "three")
		j := parseJournal(readFile(t, JournalPath(l.home)))
		if j == nil || j.end != next.End() {
			t.Fatalf("killed at step %d: the journal has %+v, the ledger ends at seq %d", n, j, next.End().Seq)
		}
		if err == nil {
			return
		}
	}
	t.Error("the line was never written")
}

// renumber writes into the head record that the journal which is there now bears
// the number of the one that was: a file system may give it out again.
func renumber(t *testing.T, l *Ledger) {
	t.Helper()
	st, err := durable.Lstat(JournalPath(l.home))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	h, ok := decodeHead(readFile(t, l.gate.Path()))
	if !ok {
		t.Fatal("no head record")
	}
	if h.Journal.Ino != 0 {
		h.Journal.Ino = st.Ino
	}
	data := readFile(t, l.gate.Path())
	copy(data, h.encode())
	writeFile(t, l.gate.Path(), data)
}
