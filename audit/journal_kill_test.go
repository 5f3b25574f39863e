package audit

import (
	"context"
	"errors"
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
func TestRepairByTheKilled(t *testing.T) {
	for n := range 40 {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		writeFile(t, newestPath(t, l), append(readFile(t, newestPath(t, l)), `{"action":"to`...))
		remove := durable.SetFault(killAt(n))
		_, err := l.Append(context.Background(), note("coder", "two"))
		remove()
		next := reopened(t, l)
		appendNote(t, next, "coder", "three")
		if said := chain(t, next); said[len(said)-1] != "three" {
			t.Errorf("killed at step %d, the ledger ends with %q", n, said[len(said)-1])
		}
		if err == nil {
			return
		}
	}
	t.Error("the line was never written")
}

// reopened is the ledger as another process has it.
func reopened(t *testing.T, l *Ledger) *Ledger {
	t.Helper()
	next, err := Open(l.home, testMailbox, Options{Mode: l.mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { next.Close() })
	return next
}
