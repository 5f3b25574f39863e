package audit

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mbox/mailbox/durable"
)

// Whoever is told that a flush failed is the last to be told, so each of them
// makes the mailbox read-only: those of recovery, and of who does without a
// journal, too.
func TestRule19_EachFailedFlush(t *testing.T) {
	needJournal(t)
	for _, c := range []struct {
		name, suffix string
		op           durable.Op
		do           func(l *Ledger) error
	}{
		{"recovery flushes the journal", "journal", durable.OpSync, func(l *Ledger) error {
			_, err := l.Replay(context.Background(), true)
			return err
		}},
		{"recovery flushes lines that it brought back", ".jsonl", durable.OpSync, func(l *Ledger) error {
			clear := make([]byte, 10)
			writeFile(t, newestPath(t, l), append(readFile(t, newestPath(t, l))[:20], clear...))
			_, err := l.Replay(context.Background(), true)
			return err
		}},
		{"the journal is left", "", durable.OpSyncFS, func(l *Ledger) error {
			l.mode = durable.Strict
			_, err := l.Append(context.Background(), note("coder", "two"))
			return err
		}},
		{"the journal is begun", "", durable.OpSyncFS, func(l *Ledger) error {
			if err := durable.Remove(JournalPath(l.home)); err != nil {
				return err
			}
			_, err := l.Append(context.Background(), note("coder", "two"))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLedger(t, nil)
			appendNote(t, l, "coder", "one")
			failed := errors.New("input/output error")
			flushes := 0
			remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
				if op == c.op && strings.HasSuffix(path, c.suffix) {
					flushes++
					return false, failed
				}
				return true, nil
			})
			defer remove()
			if err := c.do(l); !errors.Is(err, failed) || flushes != 1 {
				t.Errorf("%d flushes, and it said %v", flushes, err)
			}
			if err := CheckWritable(l.home); !errors.Is(err, ErrReadOnly) {
				t.Errorf("the mailbox: %v", err)
			}
		})
	}
}
