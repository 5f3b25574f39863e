package audit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mbox/mailbox/durable"
)

// failFlushes is a fault hook that fails the flushes of paths that contain part.
func failFlushes(part string) durable.Fault {
	return func(op durable.Op, path string) (bool, error) {
		if op == durable.OpSync && strings.Contains(path, part) {
			return false, errors.New("input/output error")
		}
		return true, nil
	}
}

// A failed flush while the journal is replayed makes the mailbox read-only: the
// kernel reports it once, and the next replay would take it for done.
func TestReplayFlushFails(t *testing.T) {
	needJournal(t)
	for _, part := range []string{".mbox/journal", "audit/shared"} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		writeFile(t, newestPath(t, l), nil)
		remove := durable.SetFault(failFlushes(part))
		_, err := l.Replay(context.Background(), true)
		remove()
		if err == nil {
			t.Errorf("%s: the replay said nothing", part)
		}
		if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: afterwards: %v", part, err)
		}
	}
}

// A checkpoint flushes the ledger by itself too, after the file system: audit/
// may lie on another one.
func TestCheckpointFlushesLedger(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	big := Payload{"a~1", make([]byte, MaxPayload)}
	var ops []string
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpSyncFS || op == durable.OpSync && strings.Contains(path, "audit/shared") {
			ops = append(ops, string(op))
		}
		return true, nil
	})
	defer remove()
	for range journalLimit/MaxPayload + 1 {
		if _, err := l.AppendWith(context.Background(), note("coder", "full"), big); err != nil {
			t.Fatal(err)
		}
	}
	if said := strings.Join(ops, " "); !strings.HasSuffix(said, "syncfs sync") {
		t.Error(said)
	}
	ops = nil
	remove = durable.SetFault(failFlushes("audit/shared"))
	defer remove()
	for range journalLimit/MaxPayload + 1 {
		if _, err := l.AppendWith(context.Background(), note("coder", "full"), big); err != nil {
			break
		}
	}
	if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
		t.Errorf("after a failed flush: %v", err)
	}
}

// Recovery acts on the ledger's lines, so they are on disk before that also where
// no journal has them: another process, without one, may have been killed before
// its flush.
func TestRecoverFlushes(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, inMode(t, l, durable.None), "coder", "one")
	flushed := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		flushed = flushed || op == durable.OpSyncFS || op == durable.OpSync && strings.Contains(path, "audit/shared")
		return true, nil
	})
	defer remove()
	if err := l.Recover(context.Background()); err != nil || !flushed {
		t.Errorf("flushed %v: %v", flushed, err)
	}
}
