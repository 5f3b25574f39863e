package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents"
	"mbox/agents/sandbox"
	"mbox/cmd/mbox/config"
)

func TestMain(m *testing.M) {
	sandbox.Main()
	os.Exit(m.Run())
}

// An agent's program has to be the version that its table wants; it is asked again when
// its file is another one.
func TestPin(t *testing.T) {
	home := t.TempDir()
	tool := filepath.Join(home, "tool")
	prints := func(text string) {
		t.Helper()
		if err := os.WriteFile(tool+".new", []byte("#!/bin/sh\nprintf x >>"+home+"/asked\n"+text+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tool+".new", tool); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(home, "agents", "a", "workspace"), 0o700); err != nil {
		t.Fatal(err)
	}
	team := &agents.Team{
		Env:     func(string) []string { return []string{"PATH=" + os.Getenv("PATH")} },
		Confine: func(string) func(*exec.Cmd) error { return nil },
	}
	fits := func(version string) func() error {
		t.Helper()
		c, err := config.Parse("mbox.toml", []byte("[agents.a]\nexec = \""+tool+" -p\"\nversion = \""+version+"\"\n"))
		if err != nil {
			t.Fatal(err)
		}
		pin := Pin(c, home, "a", team)
		return func() error { return pin(t.Context()) }
	}
	prints("echo 'tool v1.4.2-rc.1 (Test)'")
	for version, want := range map[string]string{"1.4.2-rc.1": "", "1.4": "", "1": "", "1.4.2": "is version 1.4.2-rc.1, and [agents.a] wants 1.4.2", "1.40": "wants", "4": "wants"} {
		if err := fits(version)(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
	fit := fits("1.4")
	if err := os.Remove(filepath.Join(home, "asked")); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := fit(); err != nil {
			t.Error(err)
		}
	}
	if asked, err := os.ReadFile(filepath.Join(home, "asked")); string(asked) != "x" {
		t.Errorf("it was asked %q: %v", asked, err)
	}
	for text, want := range map[string]string{"echo 1.5.0": "is version 1.5.0", "echo none": `it prints no version: "none"`, "yes": "it prints no version", "exit 3": "it prints no version"} {
		prints(text)
		if err := fit(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	prints("echo 1.4")
	if err := fit(); err != nil {
		t.Error(err)
	}
	if err := os.Remove(tool); err != nil {
		t.Fatal(err)
	}
	if err := fit(); err == nil || !strings.Contains(err.Error(), "is not there") {
		t.Error(err)
	}
	if c, err := config.Parse("mbox.toml", []byte("[agents.a]\nexec = \"true\"\n")); err != nil || Pin(c, home, "a", team) != nil {
		t.Errorf("nothing is wanted, and asked: %v", err)
	}
}
