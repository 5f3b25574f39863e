package life

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
)

func renaming(from, to string, follow Follow) Renaming {
	return Renaming{From: from, To: to, Entry: []byte("[agents." + to + "]\nformerly = [\"" + from + "\"]\n"), By: "human", Reason: "r", Follow: follow}
}

// The home, the entry and what is kept elsewhere follow, and it may have its name back.
func TestRename(t *testing.T) {
	b := newBox(t)
	n := newborn("ada")
	n.UUID = "u"
	must(t, Birth(t.Context(), b, n))
	must(t, Pulse(t.Context(), b, "ada", "v", true))
	must(t, os.WriteFile(filepath.Join(b.AgentDir("ada"), "workspace", "mine"), []byte("x"), 0o600))
	var told []string
	follow := func(_ context.Context, from, to string) error {
		told = append(told, from+" "+to)
		return nil
	}
	must(t, Rename(t.Context(), b, renaming("ada", "eve", follow)))
	for path, want := range map[string]string{
		"agents/eve/workspace/mine": "x", "mbox.d/eve.toml": `formerly = ["ada"]`, "agents/eve/agent.toml": "mbox.d/eve.toml", "agents/eve/SOUL.md": "Kind.",
	} {
		if text, err := os.ReadFile(filepath.Join(b.Home(), path)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %q %v", path, text, err)
		}
	}
	for _, path := range []string{"agents/ada", "mbox.d/ada.toml", "mbox.d/eve.toml.new"} {
		if is, err := there(filepath.Join(b.Home(), path)); is || err != nil {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	if a, err := mailbox.AgentOf(b, "eve"); err != nil || a.State != lifecycle.Healthy || a.UUID != "u" {
		t.Errorf("it is %+v: %v", a, err)
	}
	must(t, Pulse(t.Context(), b, "eve", "v", true))
	must(t, Rename(t.Context(), b, renaming("eve", "ada", follow)))
	if strings.Join(told, ", ") != "ada eve, eve ada" {
		t.Errorf("what follows is told %q", told)
	}
	if s, err := Stateful(b, "ada"); err != nil || s == nil || s.BootCount != 2 {
		t.Errorf("its state: %+v %v", s, err)
	}
}

// Who works, is dead, or was never born has no new name; nor has anybody
// a name that somebody has or had.
func TestRenameRefused(t *testing.T) {
	b := newBox(t)
	for _, name := range []string{"ada", "eve", "joy", "dead"} {
		bear(t, b, name)
	}
	bury(t, b, "dead")
	must(t, Rename(t.Context(), b, renaming("joy", "sue", nil)))
	claim, err := b.Claim(t.Context(), mailbox.ClaimRequest{Agent: "ada"})
	must(t, err)
	end := b.Ledger().End()
	for _, names := range [][2]string{
		{"eve", "sue"}, {"eve", "joy"}, {"eve", "dead"}, {"eve", "ada"}, {"dead", "new"}, {"joy", "new"}, {"coder", "new"}, {"ada", "new"},
	} {
		if err := Rename(t.Context(), b, renaming(names[0], names[1], nil)); !errors.Is(err, mailbox.ErrConflict) {
			t.Errorf("%s is %s now: %v", names[0], names[1], err)
		}
	}
	for _, name := range []string{"any", "bridge:x", "Eve"} {
		if err := Rename(t.Context(), b, renaming("eve", name, nil)); err == nil {
			t.Errorf("it is called %s", name)
		}
	}
	if b.Ledger().End() != end {
		t.Error("a line was written")
	}
	must(t, claim.Close())
	if err := Birth(t.Context(), b, newborn("joy")); !errors.Is(err, mailbox.ErrConflict) {
		t.Errorf("somebody is born with a name that means another: %v", err)
	}
}

// A task that was claimed while the name changed is finished in the home that it was begun
// in, which follows then; so is who is in the home waited for.
func TestRenameWaits(t *testing.T) {
	for name, enter := range map[string]func(b *mailbox.Box) func() error{
		"a claim": func(b *mailbox.Box) func() error {
			claim, err := b.Claim(t.Context(), mailbox.ClaimRequest{Agent: "ada"})
			must(t, err)
			return func() error { return claim.Complete(t.Context(), mailbox.Result{}) }
		},
		"somebody in the home": func(b *mailbox.Box) func() error {
			leave, err := Enter(t.Context(), b, "ada", time.Second)
			must(t, err)
			return leave
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			bear(t, b, "ada")
			// As Rename does, up to its line.
			must(t, stageEntry(filepath.Join(b.Home(), EntryName("eve"))+".new", []byte("[agents.eve]\n"), b.Options().Sync))
			leave := enter(b)
			must(t, mailbox.RenameAgent(t.Context(), b, "human", "ada", "eve", ""))
			for _, moved := range []bool{false, true} {
				if _, err := Finish(t.Context(), b, nil); err != nil {
					t.Fatal(err)
				}
				for path, want := range map[string]bool{b.AgentDir("eve"): moved, b.AgentDir("ada"): !moved, filepath.Join(b.Home(), EntryName("ada")): !moved} {
					if is, err := there(path); is != want || err != nil {
						t.Errorf("%s is there: %t %v", path, is, err)
					}
				}
				if !moved {
					must(t, leave())
				}
			}
		})
	}
}
