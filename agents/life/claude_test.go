package life

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox"
)

const someUUID = "0f6c1e9a-3b52-4a49-9c64-1d7a2d0c8f11"

func claudeOf(t *testing.T, b *mailbox.Box, name string) *Claude {
	t.Helper()
	c, err := ClaudeOf(b, name)
	must(t, err)
	return c
}

// What mbox has written of an agent tells its new name, and what is kept of its birth does;
// what somebody has said of it stays, and so does a CLAUDE.md that somebody has changed.
func TestRenamedTexts(t *testing.T) {
	for _, role := range []string{"", "coder"} {
		b := newBox(t)
		n := newborn("ada")
		n.UUID, n.Role, n.Soul, n.Instruction = someUUID, role, "", "ada writes.\nYou are **ada**, the first."
		must(t, Birth(t.Context(), b, n))
		read := func(name, file string) string {
			t.Helper()
			text, err := os.ReadFile(filepath.Join(b.AgentDir(name), file))
			must(t, err)
			return string(text)
		}
		before := read("ada", claudeFile)
		must(t, Rename(t.Context(), b, renaming("ada", "eve", nil)))
		text, c := read("eve", claudeFile), claudeOf(t, b, "eve")
		for _, line := range []string{"# eve\n", "You are **eve**, an agent of", "(`@eve`)", "ls --for eve`", "ada writes.\nYou are **ada**, the first.\n"} {
			if !strings.Contains(text, line) {
				t.Errorf("CLAUDE.md has no %q:\n%s", line, text)
			}
		}
		if strings.Count(text, "ada") != 2 || c.Changed() || c.AtBirth == audit.Hash([]byte(before)) {
			t.Errorf("%+v\n%s", c, text)
		}
		if text := read("eve", identityFile); !strings.Contains(text, "# eve\n\n- name: eve\n") || strings.Contains(text, "ada") {
			t.Errorf("IDENTITY.md:\n%s", text)
		}
		must(t, Rename(t.Context(), b, renaming("eve", "ada", nil)))
		if text := read("ada", claudeFile); text != before || claudeOf(t, b, "ada").Changed() {
			t.Errorf("with its old name again:\n%s", text)
		}
		must(t, os.WriteFile(filepath.Join(b.AgentDir("ada"), claudeFile), []byte(before+"Be bold.\n"), 0o600))
		must(t, Rename(t.Context(), b, renaming("ada", "joy", nil)))
		if c := claudeOf(t, b, "joy"); read("joy", claudeFile) != before+"Be bold.\n" || c.AtBirth != audit.Hash([]byte(before)) {
			t.Errorf("what was changed is written anew: %+v", c)
		}
	}
}

// The text of a birth is kept where the agent cannot reach it, whatever becomes of the
// agent's name and home, and of its CLAUDE.md.
func TestClaude(t *testing.T) {
	b := newBox(t)
	n := newborn("ada")
	n.UUID = someUUID
	must(t, Birth(t.Context(), b, n))
	must(t, Pulse(t.Context(), b, "ada", "v", true))
	file := filepath.Join(b.AgentDir("ada"), "CLAUDE.md")
	born, err := os.ReadFile(file)
	must(t, err)
	c := claudeOf(t, b, "ada")
	if c == nil || c.Changed() || c.AtBirth != audit.Hash(born) || c.File != "agents/ada/CLAUDE.md" {
		t.Fatalf("as it was born: %+v", c)
	}
	if text, err := os.ReadFile(filepath.Join(b.Home(), c.Kept)); err != nil || string(text) != string(born) {
		t.Errorf("kept is %q: %v", text, err)
	}
	must(t, os.WriteFile(file, []byte("I do what I want.\n"), 0o600))
	must(t, Rename(t.Context(), b, renaming("ada", "eve", nil)))
	bury(t, b, "eve")
	if c := claudeOf(t, b, "eve"); c != nil {
		t.Errorf("of a dead agent: %+v", c)
	}
	must(t, Restore(t.Context(), b, "eve", "human", "", nil))
	if c := claudeOf(t, b, "eve"); !c.Changed() || c.AtBirth != audit.Hash(born) || c.Now != audit.Hash([]byte("I do what I want.\n")) {
		t.Errorf("after a change, another name and a way back: %+v", c)
	}
	file = filepath.Join(b.AgentDir("eve"), "CLAUDE.md")
	must(t, os.Remove(file))
	must(t, os.Symlink(filepath.Join(b.Home(), c.Kept), file))
	if c := claudeOf(t, b, "eve"); !c.Changed() || c.Now != "" {
		t.Errorf("a link to what is kept: %+v", c)
	}
	must(t, os.Remove(file))
	must(t, os.WriteFile(file, born, 0o600))
	if c := claudeOf(t, b, "eve"); c.Changed() {
		t.Errorf("put back: %+v", c)
	}
	bear(t, b, "bob") // who has no UUID
	for _, name := range []string{"bob", "nobody"} {
		if c := claudeOf(t, b, name); c != nil || c.Changed() {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// A birth that was cut off keeps the text when it goes on, and no later one.
func TestClaudeOfACutBirth(t *testing.T) {
	b := newBox(t)
	n := newborn("ada")
	n.UUID = someUUID
	must(t, Birth(t.Context(), b, n))
	kept, home := claudeOf(t, b, "ada").Kept, b.AgentDir("ada")
	must(t, os.Rename(home, home+".elsewhere"))
	if c := claudeOf(t, b, "ada"); c != nil {
		t.Errorf("before its home is there: %+v", c)
	}
	must(t, os.Rename(home+".elsewhere", home))
	must(t, os.Remove(filepath.Join(b.Home(), kept)))
	if c := claudeOf(t, b, "ada"); c != nil {
		t.Errorf("before: %+v", c)
	}
	_, err := Finish(t.Context(), b, nil)
	must(t, err)
	if c := claudeOf(t, b, "ada"); c == nil || c.Changed() {
		t.Errorf("after: %+v", c)
	}
	must(t, os.WriteFile(filepath.Join(b.AgentDir("ada"), "CLAUDE.md"), []byte("x"), 0o600))
	_, err = Finish(t.Context(), b, nil)
	must(t, err)
	if c := claudeOf(t, b, "ada"); !c.Changed() {
		t.Errorf("a later text is kept: %+v", c)
	}
}
