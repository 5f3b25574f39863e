package audit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mbox/mailbox/durable"
)

// A process without a journal removes it. Whoever is killed on the way, what is
// acknowledged after that is not taken for lines that the journal lacks, should a
// power cut bring the journal back.
func TestLeaveJournalByTheKilled(t *testing.T) {
	needJournal(t)
	for _, leaver := range []durable.Mode{durable.Strict, durable.None} {
		leaveJournal(t, leaver, false)
		leaveJournal(t, leaver, true)
	}
}

func leaveJournal(t *testing.T, leaver durable.Mode, restarted bool) {
	t.Helper()
	for n := range 20 {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		journal := readFile(t, JournalPath(l.home))
		gone := false // the removal is on the disk
		killed := killAt(n)
		watch := func(op durable.Op, path string) (bool, error) {
			apply, err := killed(op, path)
			if apply && op == durable.OpSyncDir && path == filepath.Join(l.home, ".mbox") {
				_, err := os.Lstat(JournalPath(l.home))
				gone = errors.Is(err, os.ErrNotExist)
			}
			return apply, err
		}
		if restarted { // the head record is of no use, and another is made
			writeFile(t, l.gate.Path(), make([]byte, headSize))
		}
		remove := durable.SetFault(watch)
		_, err := inMode(t, l, leaver).Append(context.Background(), note("coder", "two"))
		killed = killAt(1000)
		last := inMode(t, l, durable.Strict)
		appendNote(t, last, "coder", "three")
		remove()
		if !gone {
			writeFile(t, JournalPath(l.home), journal)
		}
		last.boot = "another boot"
		if _, err := last.Replay(context.Background(), true); err != nil {
			t.Fatal(err)
		}
		if err := last.Recover(context.Background()); err != nil {
			t.Fatal(err)
		}
		if said := strings.Join(wholeChain(t, last), " "); !strings.HasSuffix(said, "three") {
			t.Errorf("mode %d, killed at step %d: the ledger has %q", leaver, n, said)
		}
		if err == nil {
			return
		}
	}
}

// Before the journal goes, what only the journal has on the disk is brought to
// its place, in mode None too: those lines were acknowledged by others. If that
// fails the mailbox is read-only and the journal stays.
func TestLeaveJournalFlushes(t *testing.T) {
	needJournal(t)
	for _, mode := range []durable.Mode{durable.Strict, durable.None} {
		l := newLedger(t, nil)
		appendNote(t, l, "coder", "one")
		remove := durable.SetFault(func(op durable.Op, _ string) (bool, error) {
			if op == durable.OpSyncFS {
				return false, errors.New("input/output error")
			}
			return true, nil
		})
		_, err := inMode(t, l, mode).Append(context.Background(), note("coder", "two"))
		remove()
		if !errors.Is(err, ErrUnwritten) {
			t.Errorf("mode %d: append: %v", mode, err)
		}
		if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
			t.Errorf("mode %d: afterwards: %v", mode, err)
		}
		if _, err := os.Lstat(JournalPath(l.home)); err != nil {
			t.Errorf("mode %d: %v", mode, err)
		}
	}
}

// inMode is the ledger as a process of another mode has it.
func inMode(t *testing.T, l *Ledger, m durable.Mode) *Ledger {
	t.Helper()
	other, err := Open(l.home, testMailbox, Options{Mode: m})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Close() })
	return other
}

// A process that flushes nothing of its own still brings the lines of others to the disk
// before it removes their journal, also those of a folder audit on another file system.
func TestLeftWithoutFlushes(t *testing.T) {
	needJournal(t)
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	none := openLedger(t, l.home, nil)
	none.mode = durable.None
	got := steps(t, l, func() { appendNote(t, none, "coder", "two") })
	day := slices.Index(got, "sync audit/shared/"+filepath.Base(newestPath(t, l)))
	if removed := slices.Index(got, "remove .mbox/journal"); day < 0 || removed < day {
		t.Errorf("%q", got)
	}
}
