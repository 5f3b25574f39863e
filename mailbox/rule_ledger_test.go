package mailbox

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// A hole in the newest file before a line whose effect is in the tree is damage:
// that line was flushed once. Recovery changes nothing there, no file and none of
// what is staged.
func TestRule21_RecoverLeavesDamage(t *testing.T) {
	b := homes{}.open(t, Options{Sync: durable.Strict})
	sent(t, b, "before")
	sent(t, b, "x")
	sent(t, b, "y")
	must(t, b.Close())
	path := onlyLedger(t, b.home)
	data, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(data, []byte("\n"))
	clear(lines[1])
	must(t, os.WriteFile(path, data, 0o600))
	must(t, put(home.Private(b.home, "tmp", "t9~"+strings.Repeat("0", 32)), "{}"))
	anotherBoot(t, b.home)
	before := liveFiles(t, b.home)
	if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); !errors.Is(err, audit.ErrDamaged) {
		t.Errorf("recover: %v", err)
	}
	if now := liveFiles(t, b.home); !maps.Equal(now, before) {
		t.Errorf("%d files, %d before", len(now), len(before))
	}
	if staged, err := home.StagedNames(b.home); err != nil || len(staged) != 1 {
		t.Errorf("staged: %q %v", staged, err)
	}
	if now, err := os.ReadFile(path); err != nil || !bytes.Equal(now, data) {
		t.Error("it has changed the ledger")
	}
}
