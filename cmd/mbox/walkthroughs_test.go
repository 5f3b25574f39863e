package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/rogpeppe/go-internal/txtar"
)

const walkthroughs = "testdata/walkthroughs"

// The sessions that people have are scripts, of which mbox help walkthroughs is made.
func TestWalkthroughs(t *testing.T) {
	oneByOne(t)
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
	text := "# Twelve sessions, from the first minute on\n\nEach begins with an empty folder for a home, in which the files lie that it names.\nThey are run by the tests as they stand here.\n"
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

// A walkthrough works as it is typed: by its commands and files alone, in one shell that
// ends at the first that fails.
func TestWalkthroughsTyped(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Skip("no jq, which walkthroughs use")
	}
	bin := filepath.Dir(program(t))
	files, err := filepath.Glob(walkthroughs + "/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no walkthroughs: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			typeIn(t, bin, file)
		})
	}
}

// typeIn runs the commands of a walkthrough, and compares what is printed where the
// topic says it. mbox is the one in bin.
func typeIn(t *testing.T, bin, file string) {
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	for _, f := range a.Files {
		if err := os.WriteFile(filepath.Join(home, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, _ := chapter(a)
	blocks := slices.DeleteFunc(blocksOf(text), func(b block) bool { return b.lang != "sh" })
	script := "set -e\n"
	for _, b := range blocks {
		before, last := "", strings.TrimSuffix(b.text, "\n")
		if at := strings.LastIndex(strings.ReplaceAll(last, "\\\n", "  "), "\n"); at >= 0 {
			before, last = last[:at+1], last[at+1:]
		}
		script += before + "printf '\\f'\n" + last + "\nprintf '\\f'\n"
	}
	out := typedInto(t, bin, home, script)
	parts := strings.Split(out, "\f")
	if len(parts) != 2*len(blocks)+1 {
		t.Fatalf("it broke off:\n%s\n%s", script, out)
	}
	for i, b := range blocks {
		if got := parts[2*i+1]; b.output != "" && !b.expects().MatchString(normal(got)) {
			t.Errorf("it printed\n%s\nand not\n%s", got, b.output)
		}
	}
}

// typedInto is what a shell prints for a script, at most for some minutes; what it has
// left running is ended.
func typedInto(t *testing.T, bin, home, script string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "sh", "-c", script)
	shell.Dir = home
	shell.Env = []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C"}
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := os.Create(filepath.Join(home, ".out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	said, err := os.Create(filepath.Join(home, ".err"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	shell.Stdout, shell.Stderr = out, said
	failed := shell.Run()
	if shell.Process != nil {
		_ = syscall.Kill(-shell.Process.Pid, syscall.SIGKILL)
	}
	printed, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	if failed != nil {
		problem, _ := os.ReadFile(said.Name())
		t.Fatalf("%v:\n%s\n%s\n%s", failed, script, printed, problem)
	}
	return string(printed)
}

var (
	shown    = regexp.MustCompile(`^(?:! |exits \d+ )?(mbox .*?)(?: &\w+(&))?$`)
	typed    = regexp.MustCompile(`^exec sh -c '(.*)'$`)
	printing = regexp.MustCompile(`^prints (\S+)$`)
)

// chapter is a script as people read it: its comments, the files that it needs, the
// commands that a person types, and what they print where the script says it. What
// stands under exec bash, and what waits and checks, is the test's alone: typeIn works
// without it.
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
