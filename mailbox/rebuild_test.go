package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/verify"
)

// lived fills a mailbox with tasks in all states, a record and a quarantine entry.
func lived(t *testing.T, b *Box) *Box {
	t.Helper()
	claim := func(id ID) *Claim {
		sent(t, b, id)
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		return c
	}
	must(t, claim("done").Complete(t.Context(), Result{}))
	claim("running")
	sent(t, b, "failed")
	must(t, b.Cancel(t.Context(), "failed", "human", "no"))
	_, err := b.Decide(t.Context(), decision("decision-2026-02-16-001"))
	must(t, err)
	b.drop(t, "junk.json", `{"id":"other"}`)
	must(t, scanNow(b))
	sent(t, b, "waiting")
	return b
}

var livedStates = map[ID]State{"done": Completed, "failed": Failed, "running": InProgress, "waiting": Pending}

// The id, the ledger and every task survive the loss of .mbox, or of a part of
// it; and no other identity is made over them.
func TestRule22_MboxDeleted(t *testing.T) {
	for _, gone := range []string{".", "VERSION", "keys/salt", "keys", "locks", "tmp", "leases", "boot", "index", "journal"} {
		t.Run(gone, func(t *testing.T) {
			b := lived(t, homes{}.open(t, Options{}))
			id, end := b.MailboxID(), b.ledger.End()
			must(t, b.Close())
			must(t, os.RemoveAll(home.Private(b.home, filepath.FromSlash(gone))))
			if err := Create(b.home, b.o); !errors.Is(err, ErrLost) && !errors.Is(err, ErrExists) {
				t.Errorf("another mailbox was made over it: %v", err)
			}
			out, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
			must(t, err)
			if want := gone == "." || gone == "VERSION" || strings.HasPrefix(gone, "keys"); out.Rebuilt != want {
				t.Errorf("rebuilt: %v, want %v", out.Rebuilt, want)
			}
			again := opened(t, b.home, b.o)
			if again.MailboxID() != id || again.ledger.Check(end) != nil {
				t.Errorf("mailbox %s, it was %s", again.MailboxID(), id)
			}
			for task, state := range livedStates {
				if gone == "boot" && task == "running" {
					state = Pending // nobody knows any more that its worker may live
				}
				if !stateIs(task, state)(t, again, nil) {
					t.Errorf("%s is not %s", task, state)
				}
			}
			whole(t, b.home)
		})
	}
}

// A VERSION that is damaged is as good as none.
func TestVersionDamaged(t *testing.T) {
	b := lived(t, homes{}.open(t, Options{}))
	id, path := b.MailboxID(), home.Private(b.home, "VERSION")
	must(t, b.Close())
	for _, text := range []string{"", "\x00\x00", `{"format":1,"mailbox_id":"` + id[:8], `{"format":1,"mailbox_id":"v` + id[1:] + `"}`} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Open(t.Context(), b.home, b.o); !errors.Is(err, ErrLost) {
			t.Errorf("%q: %v", text, err)
		}
		seen, err := Look(b.home, b.o)
		must(t, err)
		if seen.MailboxID() != id {
			t.Errorf("%q: mailbox %q, it was %s", text, seen.MailboxID(), id)
		}
		must(t, seen.Close())
		_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
		must(t, err)
		whole(t, b.home)
	}
}

// A salt that is not as mbox makes one is as good as none: with what is left of it, a
// key that was used would not be known, and a send that is repeated be a second task.
func TestSaltDamaged(t *testing.T) {
	b := lived(t, homes{}.open(t, Options{}))
	must(t, b.Close())
	path := home.Private(b.home, "keys", "salt")
	salt, err := os.ReadFile(path)
	must(t, err)
	for _, text := range []string{"", "\n", string(salt[:20]), string(salt[:63]), string(salt[1:]), string(salt) + "\n", "g" + string(salt[1:])} {
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := Open(t.Context(), b.home, b.o); !errors.Is(err, home.ErrSalt) || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
		report, err := verify.Home(t.Context(), b.home, verify.Options{})
		must(t, err)
		if !slices.ContainsFunc(report.Findings, func(f verify.Finding) bool { return f.File == ".mbox/keys/salt" }) {
			t.Errorf("%q: verify finds nothing", text)
		}
		out, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
		must(t, err)
		if !out.Rebuilt {
			t.Errorf("%q: recover says nothing", text)
		}
		kept, err := filepath.Glob(path + ".damaged-*")
		must(t, err)
		if len(kept) != 1 {
			t.Fatalf("%q: what there was lies in %q", text, kept)
		}
		if data, err := os.ReadFile(kept[0]); err != nil || string(data) != text {
			t.Errorf("%q is kept as %q, %v", text, data, err)
		}
		must(t, os.Remove(kept[0]))
		whole(t, b.home)
	}
	must(t, os.WriteFile(path, salt[:64], 0o600)) // by an editor
	if got, err := home.Salt(b.home); err != nil || string(got) != string(salt) {
		t.Errorf("without the end of its line it is %q, %v", got, err)
	}
	must(t, os.WriteFile(path, salt, 0o600))
	out, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	if now, err := os.ReadFile(path); err != nil || out.Rebuilt || string(now) != string(salt) {
		t.Errorf("the right one is not kept: %v", err)
	}
}

// A ledger that has lost its beginning, or that tells of no mailbox, is no ground
// to build on.
func TestMboxDeletedWithoutLedger(t *testing.T) {
	for name, spoilt := range map[string]func(path string) error{
		"gone": os.Remove,
		"a line lost": func(path string) error {
			data, err := os.ReadFile(path)
			_, rest, _ := strings.Cut(string(data), "\n")
			return errors.Join(err, os.WriteFile(path, []byte(rest), 0o600))
		},
	} {
		b := lived(t, homes{}.open(t, Options{}))
		must(t, b.Close())
		must(t, os.RemoveAll(home.Private(b.home)))
		must(t, spoilt(onlyLedger(t, b.home)))
		before := liveFiles(t, b.home)
		if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); !errors.Is(err, ErrLost) || !errors.Is(err, audit.ErrNoIdentity) {
			t.Errorf("%s: %v", name, err)
		}
		if after := liveFiles(t, b.home); len(after) != len(before) {
			t.Errorf("%s: files changed: %d, there were %d", name, len(after), len(before))
		}
	}
}

// A key of a day that is gone from the ledger was used all the same: a send, a drop, a
// tick and a message that are repeated are no second ones. In a ledger that is begun anew
// they are new.
func TestKeyOfALostDay(t *testing.T) {
	c := newClock()
	b := newBox(t, c.options())
	keyed := func() *Task { return &Task{Task: Request{Title: "x"}, Mbox: Meta{IdempotencyKey: "k"}} }
	submit(t, b, keyed())
	tick := func() error {
		_, _, err := Fire(t.Context(), b, &Task{Task: Request{Title: "x"}}, "daily", "one")
		return err
	}
	must(t, tick())
	day := onlyLedger(t, b.home)
	c.turn(24 * time.Hour)
	sent(t, b, "later")
	saved(t, b)
	must(t, os.Rename(day, b.home+".day"))
	b.queue.Forget() // as who begins with the snapshot
	_, err := b.Submit(t.Context(), keyed())
	for name, err := range map[string]error{"a send": err, "a tick": tick()} {
		if !errors.Is(err, ErrIntegrity) || !strings.Contains(err.Error(), "mbox verify") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := findMessage(b.books, "m"); err != nil {
		t.Errorf("what was never said: %v", err)
	}
	b.drop(t, "again.json", `{"task":{"title":"x"},"mbox":{"idempotency_key":"k"}}`)
	must(t, scanNow(b))
	if _, state, err := b.Task(t.Context(), "again"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the drop is %s, %v", state, err)
	}
	must(t, b.Close())
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{Forget: true})
	must(t, err)
	again := opened(t, b.home, b.o)
	if id, err := again.Submit(t.Context(), keyed()); err != nil {
		t.Errorf("in another ledger it is %q: %v", id, err)
	}
}
