package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

const walkthroughs = "testdata/walkthroughs"

// The sessions that people have are scripts, of which mbox help walkthroughs is made.
func TestWalkthroughs(t *testing.T) {
	p := scripts(walkthroughs)
	p.Cmds["prints"] = prints
	testscript.Run(t, p)
}

// prints NAME: what was printed last is what the file says, but for times, ids and
// hashes; … stands for the rest of a line, and alone on a line for any lines.
func prints(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: prints NAME")
	}
	got, want := ts.ReadFile("stdout"), ts.ReadFile(args[0])
	if !(block{output: want}).expects().MatchString(normal(got)) {
		ts.Fatalf("it printed\n%s\nand not\n%s", got, want)
	}
}

// TestWalkthroughsAreHelp: the topic is what is made of the scripts (-update).
func TestWalkthroughsAreHelp(t *testing.T) {
	files, err := filepath.Glob(walkthroughs + "/*.txtar")
	if err != nil || len(files) != 12 {
		t.Fatalf("%d walkthroughs, %v", len(files), err)
	}
	text := "# Twelve sessions, from the first minute on\n\nEach begins with an empty folder for a home. They are run by the tests.\n"
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		section, commands := chapter(txtar.Parse(data))
		if commands >= 10 {
			t.Errorf("%s has %d commands, want fewer than 10", file, commands)
		}
		text += section
	}
	const page = "help/walkthroughs.md"
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(page); err != nil || string(there) != text {
		t.Errorf("%s is not what its scripts say: go test ./cmd/mbox -run WalkthroughsAreHelp -update (%v)", page, err)
	}
}

var (
	shown    = regexp.MustCompile(`^(?:! |exits \d+ )?(mbox .*?)(?: &\w+(&))?$`)
	typed    = regexp.MustCompile(`^exec sh -c '(.*)'$`)
	printing = regexp.MustCompile(`^prints (\S+)$`)
)

// chapter is a script as people read it: its comments, the files that it needs, the
// commands that a person types, and what they print where the script says it. What
// stands under exec bash, and what waits and checks, is the test's alone.
func chapter(a *txtar.Archive) (text string, commands int) {
	var b strings.Builder
	files, printed := map[string]string{}, map[string]bool{}
	for _, f := range a.Files {
		files[f.Name] = string(f.Data)
	}
	lines := strings.Split(strings.TrimSpace(string(a.Comment)), "\n")
	for _, line := range lines {
		if m := printing.FindStringSubmatch(line); m != nil {
			printed[m[1]] = true
		}
	}
	fmt.Fprintf(&b, "\n## %s\n\n", strings.TrimPrefix(lines[0], "# "))
	open, began := false, false
	shut := func() {
		if open {
			b.WriteString("```\n\n")
		}
		open = false
	}
	for _, line := range lines[1:] {
		command, output := "", ""
		switch {
		case strings.HasPrefix(line, "# "):
			b.WriteString(strings.TrimPrefix(line, "# ") + "\n")
			continue
		case shown.MatchString(line):
			m := shown.FindStringSubmatch(line)
			command = m[1] + strings.Replace(m[2], "&", " &", 1)
		case typed.MatchString(line):
			command = strings.ReplaceAll(typed.FindStringSubmatch(line)[1], "''", "'")
		case printing.MatchString(line):
			output = files[printing.FindStringSubmatch(line)[1]]
		}
		if !began && command != "" {
			began = true
			b.WriteString("\n")
			for _, f := range a.Files {
				if !printed[f.Name] {
					fmt.Fprintf(&b, "`%s`:\n\n```text\n%s```\n\n", f.Name, f.Data)
				}
			}
		}
		switch {
		case command != "":
			if !open {
				b.WriteString("```sh\n")
			}
			open = true
			commands++
			b.WriteString(folded(command) + "\n")
		case output != "":
			shut()
			fmt.Fprintf(&b, "```text\n%s```\n\n", output)
		}
	}
	shut()
	return strings.TrimRight(b.String(), "\n") + "\n", commands
}

// folded is a command whose flags stand below it where the line would be too long.
func folded(command string) string {
	if len(command) <= 80 {
		return command
	}
	return strings.ReplaceAll(command, " --", " \\\n  --")
}
