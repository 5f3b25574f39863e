package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/verify"
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
	records, err := b.ledger.Replay(t.Context(), true)
	must(t, err)
	must(t, b.Close())

	must(t, os.WriteFile(audit.ReadOnlyPath(home), []byte("a flush failed"), 0o600))
	must(t, os.Truncate(ledger, records[0].At.Offset))
	must(t, os.Remove(b.path("tasks", "pending", id.File())))
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

// After an I/O error a content that only the journal is known to have on the
// disk is written anew: another flush of the old file would prove nothing.
func TestRule19_RecoverAfterIOErrorWritesAnew(t *testing.T) {
	b := journaledBox(t)
	submitted(t, b)
	running, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	second := request("second")
	second.ID = "t2"
	_, err = b.Submit(t.Context(), second)
	must(t, err)
	places := []string{b.path("tasks", "in-progress", running.ID().File()), b.path("tasks", "pending", "t2.json")}
	must(t, os.WriteFile(audit.ReadOnlyPath(b.Home()), []byte("a flush failed"), 0o600))
	var was []os.FileInfo
	for _, p := range places {
		info, err := os.Stat(p)
		must(t, err)
		was = append(was, info)
	}
	out, err := Recover(t.Context(), b.Home(), Options{}, RecoverOptions{AfterIOError: true})
	if err != nil || out.Replayed != 0 {
		t.Fatalf("%+v: %v", out, err)
	}
	for i, p := range places {
		if now, err := os.Stat(p); err != nil || os.SameFile(was[i], now) {
			t.Errorf("%s is the file that it was: %v", p, err)
		}
	}
	whole(t, b.Home())
}

// Lines that the journal lacks and whose effect is in the tree are damage (an
// earlier mbox, which knows no journal, has worked here). The operator's word
// lifts the mark, and they count.
func TestRecoverLinesBehindTheJournal(t *testing.T) {
	b := journaledBox(t)
	home := b.Home()
	submitted(t, b)
	journal, err := os.ReadFile(audit.JournalPath(home))
	must(t, err)
	must(t, b.Close())
	strict, err := Open(t.Context(), home, Options{Sync: durable.Strict})
	must(t, err)
	second := request("second")
	second.ID = "t2"
	_, err = strict.Submit(t.Context(), second)
	must(t, err)
	must(t, strict.Close())
	must(t, os.WriteFile(audit.JournalPath(home), journal, 0o600))
	anotherBoot(t, home)

	if _, err := Open(t.Context(), home, Options{}); !errors.Is(err, audit.ErrDamaged) {
		t.Errorf("opened: %v", err)
	}
	_, err = Recover(t.Context(), home, Options{}, RecoverOptions{AfterIOError: true})
	must(t, err)
	b, err = Open(t.Context(), home, Options{})
	must(t, err)
	defer b.Close()
	for _, id := range []ID{"t1", "t2"} {
		if _, state, err := b.Task(t.Context(), id); err != nil || state != Pending {
			t.Errorf("%s is %q: %v", id, state, err)
		}
	}
	whole(t, home)
}

// Such a recovery that is killed leaves the task's bytes where they lay: verify
// finds no fault before the next one.
func TestRecoverAfterIOErrorDies(t *testing.T) {
	for k := int64(1); ; k += int64(stride()) {
		b := journaledBox(t)
		submitted(t, b)
		remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
			if op == durable.OpSync && path == audit.JournalPath(b.Home()) {
				return false, errInjected
			}
			return true, nil
		})
		_, err := b.Submit(t.Context(), request("lost"))
		remove()
		if err == nil || audit.CheckWritable(b.Home()) == nil {
			t.Fatalf("a flush that failed: %v", err)
		}
		b.Close()
		hit, _ := dieAt(k, func() error {
			_, err := Recover(t.Context(), b.Home(), Options{}, RecoverOptions{AfterIOError: true})
			return err
		})
		if r, err := verify.Home(t.Context(), b.Home(), verify.Options{Deep: true}); err != nil || len(r.Findings) > 0 {
			t.Errorf("%s: %v %+v", hit, err, r)
		}
		if hit == "" {
			return
		}
	}
}
