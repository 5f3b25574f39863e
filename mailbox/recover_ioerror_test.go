package mailbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// journaledBox is a new mailbox in mode Standard.
func journaledBox(t *testing.T) *Box {
	t.Helper()
	if !durable.CanSyncFS {
		t.Skip("syncfs is missing: there is no journal on this system")
	}
	home := filepath.Join(t.TempDir(), "home")
	must(t, Create(home, Options{}))
	b, err := Open(t.Context(), home, Options{})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// An I/O error made the mailbox read-only, and then the power was cut: what only
// the journal has comes back before the journal goes.
func TestRecoverAfterIOErrorAndPowerCut(t *testing.T) {
	b := journaledBox(t)
	home, id := b.Home(), ID("t1")
	submitted(t, b)
	ledger := onlyLedger(t, home)
	before, err := os.ReadFile(ledger)
	must(t, err)
	records, err := b.ledger.Journaled()
	must(t, err)
	must(t, b.Close())

	must(t, os.WriteFile(audit.ReadOnlyPath(home), []byte("a flush failed"), 0o600))
	must(t, os.Truncate(ledger, records[0].At.Offset))
	must(t, os.Remove(b.path("tasks", "pending", id.file())))
	anotherBoot(t, home)

	if _, err = Recover(t.Context(), home, Options{}, RecoverOptions{AfterIOError: true}); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(ledger)
	must(t, err)
	if !strings.HasPrefix(string(after), string(before)) {
		t.Errorf("the ledger lost lines: %d bytes, %d before", len(after), len(before))
	}
	b, err = Open(t.Context(), home, Options{})
	must(t, err)
	defer b.Close()
	if _, state, err := b.Task(t.Context(), id); err != nil || state != Pending {
		t.Errorf("the task is %s: %v", state, err)
	}
	whole(t, home)
}
