package life

import (
	"os"
	"path/filepath"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
)

// What a birth has left that was killed before its line is swept, by mbox up and by the
// next birth; nothing of one that counts, and nothing while somebody is at work there.
func TestSweep(t *testing.T) {
	b := newBox(t)
	leave := func(name string) (paths []string) {
		paths = []string{filepath.Join(staged(b, name), "CLAUDE.md"), filepath.Join(b.Home(), EntryName(name)) + ".new"}
		for _, path := range paths {
			must(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must(t, os.WriteFile(path, nil, 0o600))
		}
		return paths
	}
	want := func(is bool, paths []string) {
		t.Helper()
		for _, path := range paths {
			if got, err := there(path); got != is || err != nil {
				t.Errorf("%s is there: %t %v", path, got, err)
			}
		}
	}
	left, counts := leave("ada"), leave("eve")
	must(t, os.Mkdir(filepath.Join(b.Home(), "agents", "kim.birth"), 0o700))
	_, err := mailbox.MoveAgent(t.Context(), b, "human", "began to make eve", lifecycle.Move{Agent: "eve", After: lifecycle.Provisioning, UUID: "u"})
	must(t, err)
	must(t, alone(t.Context(), b, func() error { return Sweep(t.Context(), b) }))
	want(true, left)
	must(t, Sweep(t.Context(), b))
	want(false, left)
	want(true, counts)
	want(true, []string{filepath.Join(b.Home(), "agents", "kim.birth")})
	left = leave("ada")
	must(t, Birth(t.Context(), b, newborn("joy")))
	want(false, left)
	want(true, counts)
}
