package policy

import (
	"errors"
	"path/filepath"
	"testing"
)

// What brains are told is mbox's own to write: an agent that has the whole disk,
// or the mailbox's folder as a root, rewrites no prompt of another.
func TestPromptsAreProtected(t *testing.T) {
	home := t.TempDir()
	risk := DefaultRiskProfile()
	risk.AllowedRoots = []string{home}
	p, err := ForAgent(Config{
		Home: home, RiskProfiles: map[string]RiskProfile{"default": risk},
		RuntimeProfiles: map[string]RuntimeProfile{"default": DefaultRuntimeProfile()},
		Agents:          map[string]Agent{"coder": {Enabled: true, Workspace: Workspace{UnrestrictedFilesystem: true}}},
	}, "coder")
	if err != nil {
		t.Fatal(err)
	}
	var denied *Denied
	if _, err := p.Write(filepath.Join(home, "prompts/coordinator.md")); !errors.As(err, &denied) || denied.Rule != rulePathProtected {
		t.Errorf("got %v", err)
	}
	if _, err := p.Write(filepath.Join(home, "notes.md")); err != nil {
		t.Error(err)
	}
}
