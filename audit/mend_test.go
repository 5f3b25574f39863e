package audit

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file whose lines are younger than its name was renamed. Recover appends
// nothing to it, and goes on once it has its name again.
func TestRecoverRenamedFile(t *testing.T) {
	l := newLedger(t, nil)
	appendNote(t, l, "coder", "one")
	name := l.head.File
	path := filepath.Join(sharedDir(l.home), name)
	other := filepath.Join(sharedDir(l.home), "2020-01-01.jsonl")
	before, err := os.ReadFile(path)
	must(t, err)
	must(t, os.Rename(path, other))
	if err := l.Recover(t.Context()); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "renamed") {
		t.Errorf("recovered: %v", err)
	}
	if after, err := os.ReadFile(other); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%v: %d bytes, %d before", err, len(after), len(before))
	}
	must(t, errors.Join(os.Rename(other, path), os.Remove(ReadOnlyPath(l.home))))
	must(t, l.Recover(t.Context()))
	appendNote(t, l, "coder", "two")
	if said := wholeChain(t, l); len(said) != 2 {
		t.Errorf("the ledger has %q", said)
	}
}
