package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
	"mbox/mailbox/verify"
)

// planted makes a folder with something in it.
func planted(path string) error {
	return errors.Join(os.Mkdir(path, 0o700), put(filepath.Join(path, "kept"), "x"))
}

// A copy is never evidence: whatever stands in its place, transitions answer as if
// nothing did, verify names it, and recovery keeps it in quarantine and writes the
// copy anew.
func TestRule29_StrangeCopy(t *testing.T) {
	kinds := map[string]func(path string) error{
		"a FIFO":    func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a symlink": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"a file":    func(path string) error { return put(path, "junk") },
		"a folder":  planted,
	}
	for name, make := range kinds {
		for _, fresh := range []bool{false, true} {
			b := newBox(t, Options{Sync: durable.None})
			sent(t, b, "a")
			claimed(t, b)
			must(t, b.ledger.Copy(t.Context(), time.Second))
			place := b.path("audit", "coder")
			if name == "a folder" {
				place = onlyFile(t, place)
			}
			must(t, os.RemoveAll(place))
			must(t, make(place))
			if fresh { // one that has not written to the copy before
				must(t, b.Close())
				b = opened(t, b.home, b.o)
			}
			sent(t, b, "b")
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := c.Complete(t.Context(), Result{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if err := b.ledger.Copy(t.Context(), time.Second); err == nil {
				t.Errorf("%s is no copy", name)
			}
			if err := b.Close(); err != nil { // a copy spoils no answer
				t.Errorf("%s: %v", name, err)
			}
			r, err := verify.Home(t.Context(), b.home, verify.Options{LedgerOnly: true})
			if err != nil || len(r.Findings) == 0 {
				t.Errorf("%s: verify finds %v (%v)", name, r.Findings, err)
			}
			aside(t, b, filepath.Base(place))
		}
	}
}

// aside recovers the home twice: what was called so lies in quarantine then, once,
// and nothing is wrong.
func aside(t *testing.T, b *Box, names ...string) {
	t.Helper()
	for range 2 {
		if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); err != nil {
			t.Fatal(err)
		}
		whole(t, b.home)
		kept := quarantine(t, b)
		if len(kept) != len(names) {
			t.Fatalf("%q: in quarantine are %+v", names, kept)
		}
		for i, r := range kept {
			if r.Name != names[i] && r.Name != names[len(names)-1-i] {
				t.Errorf("%s was put aside", r.Name)
			}
		}
	}
}

func onlyFile(t *testing.T, dir string) string {
	t.Helper()
	names, err := durable.Names(dir)
	must(t, err)
	if len(names) != 1 {
		t.Fatalf("%s holds %q", dir, names)
	}
	return filepath.Join(dir, names[0])
}

// What is no lease, no staged file and no copy, but lies among them, stands in
// nobody's way, and recovery keeps it.
func TestStraysAreKept(t *testing.T) {
	for _, place := range []string{".mbox/leases/a.b", ".mbox/leases/junk", ".mbox/tmp/junk", "audit/coder/junk"} {
		b := newBox(t, Options{Sync: durable.None})
		sent(t, b, "a")
		claimed(t, b)
		must(t, b.ledger.Copy(t.Context(), time.Second))
		must(t, planted(b.path(place)))
		mustScan(t, b)
		if _, err := os.Lstat(b.path(place, "kept")); err != nil {
			t.Errorf("a scan: %v", err)
		}
		if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || len(r.Findings) != 1 {
			t.Errorf("%s: verify finds %v (%v)", place, r.Findings, err)
		}
		aside(t, b, filepath.Base(place))
	}
}
