package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/cmd/mbox/config"
)

// read reads a configuration by itself.
func read(t *testing.T, text string) *config.File {
	t.Helper()
	c, err := config.Parse("/home/you/agents/mbox.toml", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

// found are the findings of a check, each with its level.
func (e *Exam) found(check string) string {
	var out []string
	for _, f := range e.Findings {
		if f.Check == check {
			out = append(out, string(f.Level)+" "+f.Text)
		}
	}
	return strings.Join(out, "\n")
}

// Where space is low, --fix removes old logs and nothing else.
func TestDoctorMakesRoom(t *testing.T) {
	home := t.TempDir()
	logs := filepath.Join(home, "agents", "coder", "logs")
	archive := filepath.Join(home, "tasks", "archive", "2026-01")
	for _, dir := range []string{logs, archive} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	paths := map[string]bool{ // and whether it stays
		filepath.Join(logs, "coder.log"): true, filepath.Join(logs, "coder.log.1"): false, filepath.Join(logs, "coder.log.3"): false,
		filepath.Join(logs, "mine.txt"): true, filepath.Join(archive, "old.json"): true,
	}
	for path := range paths {
		if err := os.WriteFile(path, []byte("0123456789"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (n int) {
		for path := range paths {
			if _, err := os.Lstat(path); err == nil {
				n++
			}
		}
		return n
	}
	for _, e := range []*Exam{{Home: home, Fix: true}, {Home: home}} {
		if e.room(map[bool]uint64{true: enoughDisk, false: leastDisk - 1}[e.Fix]); left() != len(paths) {
			t.Errorf("files are gone with fix %v", e.Fix)
		}
	}
	e := &Exam{Home: home, Fix: true}
	e.room(leastDisk - 1)
	if got := e.found("disk"); !strings.HasPrefix(got, "fixed 20 B of old logs are removed\nok") && !strings.HasPrefix(got, "fixed 20 B of old logs are removed\nwarn") {
		t.Error(got)
	}
	for path, stays := range paths {
		if _, err := os.Lstat(path); (err == nil) != stays {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestDoctorAsksClaudesMemory(t *testing.T) {
	c := read(t, "[risk_profiles.default]\nallowed_commands = ['claude']\n[agents.a]\nexec = '/opt/bin/claude -p'\n[agents.b]\nenabled = false\nexec = 'claude'\n"+
		"[agents.c]\nrole = 'coder'\nbrain = { kind = 'exec', command = 'claude -p' }\n[agents.d]\nexec = 'echo claude.txt'")
	e := &Exam{}
	e.claudeMemory(2*gigabyte, withClaude(c))
	if got := e.found("memory"); !strings.HasPrefix(got, "warn a, c run Claude Code, which needs 4 GB") {
		t.Error(got)
	}
	e = &Exam{}
	e.claudeMemory(4*gigabyte, withClaude(c))
	e.claudeMemory(gigabyte, withClaude(read(t, "")))
	if got := e.found("memory"); got != "" {
		t.Error(got)
	}
}

func TestDoctorLooksForDocker(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	runs := read(t, "[actions.deploy_compose]\nrun = true")
	look := func(c *config.File, script string) string {
		if err := os.WriteFile(filepath.Join(bin, "docker"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		if script == "" {
			os.Remove(filepath.Join(bin, "docker"))
		}
		e := &Exam{Config: c}
		e.docker(t.Context())
		return e.found("docker")
	}
	for _, c := range []struct {
		config       *config.File
		script, want string
	}{
		{read(t, ""), "", "ok is not there, and not needed"},
		{read(t, ""), "#!/bin/sh\nexit 1\n", "ok " + bin},
		{runs, "", "warn is not there"},
		{runs, "#!/bin/sh\nexit 1\n", "warn " + bin + "/docker compose does not answer"},
		{runs, "#!/bin/sh\ntest \"$1 $2\" = 'compose version'\n", "ok " + bin},
	} {
		if got := look(c.config, c.script); !strings.HasPrefix(got, c.want) {
			t.Errorf("%q with %q, want %q", got, c.script, c.want)
		}
	}
}

func TestMemoryBudget(t *testing.T) {
	for text, want := range map[string]uint64{
		"":                                  1<<30 + 640<<20, // Ollama, coordinator, coder, tester
		"[agents.deployer]\nenabled = true": 1<<30 + 896<<20,
		"[agents.coder]\nenabled = false":   1<<30 + 384<<20,
		"[agents.coder]\nexec = 'x'":        1<<30 + 384<<20,
		"[agents]\ncoder.enabled = false\ncoordinator.enabled = false\ntester.enabled = false":     0,
		"[agents]\ncoder.brain.kind = 'none'\ncoordinator.enabled = false\ntester.enabled = false": 256 << 20,
	} {
		if have, _ := budget(read(t, text)); have != want {
			t.Errorf("%q: %d MiB, want %d", text, have>>20, want>>20)
		}
	}
}
