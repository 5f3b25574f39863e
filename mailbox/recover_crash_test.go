package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// A recovery that dies at any of its writes is gone on with by the next Open:
// also where no dirty record is left that would lead there (a copy that
// differs, a staged file, a lease, all of nobody).
func TestOpenGoesOnWithRecovery(t *testing.T) {
	deaths := 0
	for k := int64(1); ; k++ {
		home := unwell(t)
		var n atomic.Int64
		hit, begun := "", false
		remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
			if i := n.Add(1); i < k {
				begun = begun || op == durable.OpReplace && filepath.Base(path) == "boot"
				return true, nil
			} else if i == k {
				hit = fmt.Sprintf("write %d (%s %s)", k, op, filepath.Base(path))
			}
			return false, errInjected
		})
		_, err := Recover(t.Context(), home, Options{}, RecoverOptions{})
		remove()
		if hit == "" {
			if err != nil {
				t.Fatal(err)
			}
			if t.Logf("%d writes, %d of them behind the mark", k-1, deaths); deaths < 5 {
				t.Error("too few: the mark has to come first")
			}
			return
		}
		if err == nil {
			t.Fatalf("%s failed, and Recover said nothing", hit)
		}
		if !begun { // nothing but the ledger's own tail was mended
			if _, err := Recover(t.Context(), home, Options{}, RecoverOptions{}); err != nil {
				t.Fatal(err)
			}
			continue
		}
		deaths++
		b, err := Open(t.Context(), home, Options{})
		if err != nil {
			t.Fatalf("%s: opening again: %v", hit, err)
		}
		b.Close()
		if r, err := Verify(t.Context(), home, Options{}, VerifyOptions{}); err != nil || len(r.Faults)+len(r.Notes) > 0 {
			t.Fatalf("%s, then opened: %v %+v", hit, err, r)
		}
	}
}

// unwell makes a home that only a full recovery makes whole.
func unwell(t *testing.T) string {
	t.Helper()
	b := newBox(t, Options{})
	claimed(t, b)
	for path, text := range map[string]string{
		b.path("audit", "coder", "2026-01-01.jsonl"):                          "torn",
		privatePath(b.home, "tmp", "t9~"+strings.Repeat("0", 32)):             "{}",
		privatePath(b.home, "leases", "t1."+strings.Repeat("0", 32)):          "",
		privatePath(b.home, "tmp", "x~"+strings.Repeat("1", 32)+reasonSuffix): "{}",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := Verify(t.Context(), b.home, Options{}, VerifyOptions{}); err != nil || len(r.Faults) < 4 {
		t.Fatalf("%v %+v", err, r)
	}
	return b.home
}

// A recovery that is refused because the mailbox is read-only leaves it to be
// read: only a recovery that has begun is gone on with.
func TestRefusedRecoveryLeavesReading(t *testing.T) {
	b := newBox(t, Options{})
	submitted(t, b)
	if err := os.WriteFile(audit.ReadOnlyPath(b.home), []byte("now: a test"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Recover(t.Context(), b.home, Options{}, RecoverOptions{}); !errors.Is(err, ErrReadOnly) {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), b.home, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, _, err := again.Task(t.Context(), "t1"); err != nil {
		t.Error(err)
	}
}

// While a recovery is at work in this boot, others work on, shard by shard.
func TestOpenBesideRecovery(t *testing.T) {
	b := newBox(t, Options{})
	if err := b.markRecovery(); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(privatePath(b.home, "locks", "recover"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	beside, err := Open(t.Context(), b.home, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	submitted(t, beside)
}
