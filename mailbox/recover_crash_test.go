package mailbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/verify"
)

// A recovery that dies at any of its writes is gone on with by the next Open:
// also where no intent record is left that would lead there (a copy that
// differs, a staged file, a lease, all of nobody).
func TestRule17_OpenGoesOnWithRecovery(t *testing.T) {
	deaths := 0
	for k := int64(1); ; k += int64(stride()) {
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
		if r, err := verify.Home(t.Context(), home, verify.Options{Deep: true}); err != nil || len(r.Findings)+len(r.Notes) > 0 {
			t.Fatalf("%s, then opened: %v %+v", hit, err, r)
		}
	}
}

// unwell makes a home that only a full recovery makes whole.
func unwell(t *testing.T) string {
	t.Helper()
	b := newBox(t, Options{})
	claimed(t, b)
	must(t, b.ledger.Copy(t.Context(), time.Second))
	for path, text := range map[string]string{
		b.path("audit", "coder", "2026-01-01.jsonl"):                                "torn",
		home.Private(b.home, "tmp", "t9~"+strings.Repeat("0", 32)):                  "{}",
		home.Private(b.home, "leases", "t1."+strings.Repeat("0", 32)):               "",
		home.Private(b.home, "tmp", "x~"+strings.Repeat("1", 32)+home.ReasonSuffix): "{}",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || len(r.Findings) < 4 {
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
	lock, err := durable.TryLock(home.Private(b.home, "locks", "recovery"))
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

// A stranger's file that is put aside inside a transition is put aside once: a
// death between its line and its move, in the transition and in the recovery
// that goes on with it, leaves no line that names an entry that is not there.
func TestRule08_DeathWhilePuttingAside(t *testing.T) {
	for _, mend := range []string{"open", "recover"} {
		for k := int64(1); ; k += int64(stride()) {
			b := newBox(t, Options{})
			submitted(t, b)
			stranger := b.path("tasks", "failed", "t1.json")
			if err := os.WriteFile(stranger, []byte(`"somebody's"`), 0o600); err != nil {
				t.Fatal(err)
			}
			hit, said := dieAt(k, func() error { return b.Cancel(t.Context(), "t1", "human", "no more") })
			if hit == "" {
				break
			}
			mended(t, b, mend)
			if _, state, err := b.Task(t.Context(), "t1"); err != nil {
				t.Fatal(err)
			} else if state == Pending { // it never happened: the stranger's file is verify's
				if err := os.Remove(stranger); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			} else if kept := quarantine(t, b); len(kept) != 1 || kept[0].SHA256 != audit.Hash([]byte(`"somebody's"`)) {
				t.Errorf("%s, then %s: somebody's file is not kept: %+v", hit, mend, kept)
			}
			if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || len(r.Findings)+len(r.Notes) > 0 {
				t.Errorf("%s, then %s: %v %+v; cancel said: %v", hit, mend, err, r, said)
			}
		}
	}
}

// dieAt runs do, which dies at its k-th write: that and all later ones fail. It
// returns where that was, "" if there were fewer.
func dieAt(k int64, do func() error) (hit string, err error) {
	var n atomic.Int64
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		i := n.Add(1)
		if i == k {
			hit = fmt.Sprintf("write %d (%s %s)", k, op, filepath.Base(path))
		}
		if i < k {
			return true, nil
		}
		return false, errInjected
	})
	defer remove()
	err = do()
	return hit, err
}

// mended makes the home well, in one of two ways.
func mended(t *testing.T, b *Box, how string) {
	t.Helper()
	if how == "recover" {
		if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	again, err := Open(t.Context(), b.home, b.o)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// A recovery finds what a claim had staged before it was killed, and no line of
// it. It is swept, not put into quarantine: and a recovery that dies in between
// leaves no line that says so.
func TestRule16_RecoveryOfWhatWasOnlyStaged(t *testing.T) {
	for k := int64(1); ; k += int64(stride()) {
		b := newBox(t, Options{})
		submitted(t, b)
		_, err := dieAt(4, func() error { _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); return err })
		if staged, _ := home.StagedNames(b.home); err == nil || len(staged) != 1 {
			t.Fatalf("%d staged files; claim said: %v", len(staged), err)
		}
		hit, _ := dieAt(k, func() error { _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); return err })
		mended(t, b, "recover")
		r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true})
		kept, _ := durable.Names(b.path("tasks", "quarantine"))
		if err != nil || len(r.Findings)+len(r.Notes)+len(kept) > 0 {
			t.Errorf("%s: %v %+v, in quarantine %q", hit, err, r, kept)
		}
		if hit == "" {
			return
		}
	}
}
