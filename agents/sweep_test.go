package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"mbox/mailbox"
)

// In a home where something else works nothing is swept: it may be put away just then.
func TestSweepEnters(t *testing.T) {
	s := newScene(t, mailbox.Options{})
	k := &keeper{}
	w := &shift{Worker: *s.worker(`true`), workspace: t.TempDir()}
	settle(t, &w.Worker, k)
	left := filepath.Join(w.workspace, ".task-gone.1.json")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k.inside.Lock()
	w.sweep(t.Context())
	if _, err := os.Lstat(left); err != nil {
		t.Errorf("it was swept meanwhile: %v", err)
	}
	k.inside.Unlock()
	w.sweep(t.Context())
	if _, err := os.Lstat(left); err == nil {
		t.Error("it was not swept afterwards")
	}
	if !k.inside.TryLock() {
		t.Error("the home was not left")
	}
}

// A command may leave as many files as it likes under the names of copies: a sweep
// looks at so many of them, and the next goes on, past all that have other names.
func TestSweepIsBounded(t *testing.T) {
	s := newScene(t, mailbox.Options{})
	w := &shift{Worker: *s.worker(`true`), workspace: t.TempDir()}
	const more = 50
	for i := range sweptAtMost + more {
		for _, name := range []string{".task-gone-%d.1.json", ".task-no id %d.1.json"} {
			if err := os.WriteFile(filepath.Join(w.workspace, fmt.Sprintf(name, i)), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, want := range []int{more, 0, 0} {
		w.sweep(t.Context())
		if left, err := filepath.Glob(filepath.Join(w.workspace, ".task-gone-*")); err != nil || len(left) != want {
			t.Errorf("%d are left, want %d (%v)", len(left), want, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(w.workspace, ".task-no id *")); len(left) != sweptAtMost+more {
		t.Errorf("of what is no copy %d are left", len(left))
	}
}
