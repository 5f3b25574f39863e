package life

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The copy of an entry follows it, through no link, and one who was not born has none.
func TestRecopy(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	path, entry := filepath.Join(b.AgentDir("ada"), entryFile), filepath.Join(b.Home(), EntryName("ada"))
	canary := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(canary, []byte("sings"), 0o600))
	must(t, os.Remove(path))
	must(t, os.Symlink(canary, path))
	must(t, os.WriteFile(entry, []byte("[agents.ada]\nversion = \"2\"\n"), 0o600))
	must(t, Recopy(t.Context(), b, "ada"))
	text, err := os.ReadFile(path)
	if err != nil || !strings.HasSuffix(string(text), "mbox.d/ada.toml.\n[agents.ada]\nversion = \"2\"\n") {
		t.Errorf("%q %v", text, err)
	}
	if text, err := os.ReadFile(canary); string(text) != "sings" {
		t.Errorf("a link was followed: %q %v", text, err)
	}
	before, err := os.Stat(path)
	must(t, err)
	must(t, Recopy(t.Context(), b, "ada"))
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("what is right is written anew: %v", err)
	}
	must(t, os.Remove(entry))
	must(t, Recopy(t.Context(), b, "ada"))
	must(t, Recopy(t.Context(), b, "coder"))
	if is, err := there(b.AgentDir("coder")); is || err != nil {
		t.Errorf("a home was made: %v", err)
	}
}
