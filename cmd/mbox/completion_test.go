package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// A line that ends with the completion's flag is never run, whatever stands before it:
// a TAB sends nothing, cancels nothing and waits for nothing. Here is a line of every
// verb with arguments that it takes.
func TestCompletionRunsNothing(t *testing.T) {
	oneByOne(t)
	dir := t.TempDir()
	for _, line := range [][]string{{"init", "--sync", "none"}, {"send", "One", "--id", "one"}} {
		if out, err := inFolder(t, dir, line...).CombinedOutput(); err != nil {
			t.Fatalf("mbox %v: %v: %s", line, err, out)
		}
	}
	before := filesOf(t, dir)
	tried := 0
	for _, line := range linesOfAll(tree(), nil) {
		for _, more := range [][]string{{}, {"--"}, {"--", "x"}} {
			line := slices.Concat(line, more, []string{completionFlag})
			var out, told bytes.Buffer
			cmd := inFolder(t, dir, line...)
			cmd.Stdout, cmd.Stderr = &out, &told
			if err := cmd.Run(); err != nil || told.Len() > 0 {
				t.Errorf("mbox %q: %v, and it says %q", line, err, told.String())
			}
			tried++
		}
		after := filesOf(t, dir)
		for name, text := range after {
			if was, there := before[name]; !there || was != text {
				t.Errorf("mbox %q changes %s", line, name)
			}
		}
		before = after
	}
	if tried < 200 {
		t.Errorf("%d lines were tried", tried)
	}
}

// inFolder is mbox with all that it may touch in one folder.
func inFolder(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	bin := program(t) // which may have to be built
	ctx, end := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(end)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + dir, "MBOX_HOME=" + filepath.Join(dir, "agents"), "PATH=" + os.Getenv("PATH")}
	return cmd
}

// linesOfAll are the shortest lines of all verbs below one, with an argument at least
// where one is taken.
func linesOfAll(v *verb, path []string) (lines [][]string) {
	for _, sub := range v.verbs {
		lines = append(lines, linesOfAll(sub, append(slices.Clone(path), sub.name))...)
	}
	if len(v.verbs) > 0 {
		return lines
	}
	args := regexp.MustCompile(`[A-Z]+`).FindAllString(v.args, -1)
	line := slices.Clone(path)
	for i := range max(v.least, min(1, len(args))) {
		word := "x"
		if i < len(args) && args[i] == "ID" {
			word = "one"
		}
		line = append(line, word)
	}
	if v.least > 0 || len(args) == 0 {
		return [][]string{line}
	}
	return [][]string{path, line}
}

// filesOf are all files of a folder, with what is in them, and the folders.
func filesOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			all[path] = "a folder"
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
