package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// A mutant is mbox with one change that a power cut has to bring to light. A
// change is a piece of text that stands exactly once in a file, and what takes
// its place; where the text is no longer there, nothing is built.
type mutant struct {
	name   string
	file   string // from the repository
	text   string
	change string
	needed bool // the run is void unless it is found
}

// mutants is the only place that knows how mbox flushes.
var mutants = []mutant{
	{
		"journal-unflushed", "audit/flush.go",
		"f.failed = durable.Flush(f.file)", "f.failed = nil", true,
	},
	{
		"content-not-journaled", "mailbox/transition.go",
		"return audit.Payload{Name: name, Data: data}", "return audit.Payload{}", true,
	},
}

// build builds mbox from the repository at root, with the mutant's change if
// there is one.
func build(root, bin string, m *mutant) error {
	args := []string{"build", "-buildvcs=false", "-o", bin}
	if m != nil {
		overlay, err := m.overlay(root, bin)
		if err != nil {
			return fmt.Errorf("mutant %s: %w", m.name, err)
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./cmd/mbox")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	return nil
}

// overlay writes the changed file and go build's list of what it stands for.
func (m *mutant) overlay(root, bin string) (list string, err error) {
	path, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := bytes.Count(source, []byte(m.text)); n != 1 {
		return "", fmt.Errorf("%s has %q %d times: the table in cmd/prove/power/build.go is out of date", m.file, m.text, n)
	}
	changed := bin + ".go"
	if err := os.WriteFile(changed, bytes.Replace(source, []byte(m.text), []byte(m.change), 1), 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", err
	}
	return bin + ".overlay.json", os.WriteFile(bin+".overlay.json", data, 0o600)
}
