package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents"
)

func TestDoctorLooksForCommands(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	t.Setenv("HOME", t.TempDir())
	for _, path := range []string{filepath.Join(bin, "claude"), filepath.Join(os.Getenv("HOME"), "agent.sh")} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), "plain.sh"), []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lost := filepath.Join(bin, "lost")
	for _, script := range []string{"#!/nowhere/sh -e\n", "#!/usr/bin/env claude\n"} {
		if err := os.WriteFile(lost, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		e := &Exam{Findings: Workers(t.Context(), read(t, "[agents.claude]\nexec = 'lost -p'"), t.TempDir(), &agents.Team{})}
		want := "ok claude runs " + lost
		if strings.Contains(script, "nowhere") {
			want = "warn claude cannot run: " + lost + ` needs "/nowhere/sh", which is not there`
		}
		if got := e.found("command"); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	for line, want := range map[string]string{
		"exec = 'claude -p'":              "ok claude runs " + bin + "/claude",
		"exec = 'LANG=C exec claude -p'":  "ok claude runs " + bin + "/claude",
		"exec = '~/agent.sh'":             "ok claude runs ",
		"acp = 'claude-code-acp'":         `warn claude cannot run: "claude-code-acp" is not there`,
		"exec = './gone.sh'":              `warn claude cannot run: "./gone.sh" is not there`,
		"exec = '~/plain.sh'":             "warn claude cannot run: " + os.Getenv("HOME") + "/plain.sh is not executable",
		"exec = '$HOME/agent.sh'":         `ok claude runs "$HOME/agent.sh"`,
		"exec = 'unset X Y'":              `ok claude runs "unset X Y"`,
		"exec = 'echo hello; nowhere'":    `ok claude runs "echo hello; nowhere"`,
		"acp = 'gone'\nenabled = false":   "",
		"exec = 'if claude; then a; fi'":  `ok claude runs "if claude; then a; fi"`,
		"exec = '/nowhere/at/all --flag'": `warn claude cannot run: "/nowhere/at/all" is not there`,
	} {
		c := read(t, "[agents.claude]\n"+line)
		e := &Exam{Findings: Workers(t.Context(), c, t.TempDir(), &agents.Team{})}
		if got := e.found("command"); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
}
