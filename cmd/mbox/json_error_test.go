package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Every verb that prints JSON says in JSON what is wrong with a line.
func TestErrorsAreJSON(t *testing.T) {
	bin, n := program(t), 0
	var walk func(v *verb, path []string)
	walk = func(v *verb, path []string) {
		for _, sub := range v.verbs {
			walk(sub, append(slices.Clone(path), sub.name))
		}
		if flagNamed(v.flags, "json") == nil || len(v.verbs) > 0 {
			return
		}
		n++
		cmd := exec.CommandContext(t.Context(), bin, append(slices.Clone(path), "--json", "--no-such-flag")...)
		var stderr, stdout strings.Builder
		cmd.Stderr, cmd.Stdout = &stderr, &stdout
		_ = cmd.Run()
		var f failure
		if err := json.Unmarshal([]byte(stderr.String()), &f); err != nil || f.Exit != exitUsage || cmd.ProcessState.ExitCode() != exitUsage || f.Error == "" || f.Hint == "" {
			t.Errorf("mbox %s: %v: %q", strings.Join(path, " "), err, stderr.String())
		}
		if stdout.Len() > 0 || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("mbox %s: %q on stdout, %q on stderr", strings.Join(path, " "), stdout.String(), stderr.String())
		}
	}
	walk(tree(), nil)
	if n < 20 {
		t.Errorf("only %d verbs print JSON", n)
	}
}
