package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The README is run: every "$ command" of its console blocks, in one shell and
// one empty home folder, and what the command prints has to be what stands
// below it. Dates, times, hashes and the width of columns may differ; … stands
// for the rest of a line, and alone on a line for any lines. A block whose first
// lines name a file, "# verify.py", is that file.
func TestReadme(t *testing.T) {
	for _, program := range []string{"python3", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s, which the README's examples use", program)
		}
	}
	readme := readReadme(t)
	home := t.TempDir()
	for name, text := range readmeFiles(readme) {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	steps := readmeSteps(readme)
	for i, got := range runSteps(t, home, steps) {
		got = strings.ReplaceAll(got, home, "/home/you")
		if !steps[i].expects().MatchString(normal(got)) {
			t.Errorf("README.md:%d: $ %s\nprints:\n%s\nand not:\n%s", steps[i].line, steps[i].command, got, steps[i].output)
		}
	}
}

// Every verb is in the README, and every exit code with its meaning.
func TestReadmeIsWhole(t *testing.T) {
	readme := readReadme(t)
	for _, v := range tree().verbs {
		if !regexp.MustCompile(`\bmbox (--home \S+ )?` + v.name + `\b`).MatchString(readme) {
			t.Errorf("README.md does not show mbox %s", v.name)
		}
	}
	for code, meaning := range exitMeaning {
		if row := fmt.Sprintf("| %d | %s", code, meaning); !strings.Contains(readme, row) {
			t.Errorf("README.md has no row %q", row)
		}
	}
}

func readReadme(t *testing.T) string {
	data, err := os.ReadFile(filepath.Join(moduleRoot(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// step is a command of the README, with what it prints there.
type step struct {
	line            int
	command, output string
}

var (
	fence    = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")
	fileName = regexp.MustCompile(`^(?:#!.*\n)?# ([\w.-]+\.\w+)\b`)
)

func readmeSteps(readme string) (steps []step) {
	for _, at := range fence.FindAllStringSubmatchIndex(readme, -1) {
		if readme[at[2]:at[3]] != "console" {
			continue
		}
		line := strings.Count(readme[:at[4]], "\n")
		for text := range strings.Lines(readme[at[4]:at[5]]) {
			line++
			last := len(steps) - 1
			if command, ok := strings.CutPrefix(text, "$ "); ok {
				steps = append(steps, step{line: line, command: command})
			} else if more, ok := strings.CutPrefix(text, "> "); ok && steps[last].output == "" {
				steps[last].command += more
			} else {
				steps[last].output += text
			}
		}
	}
	return steps
}

func readmeFiles(readme string) map[string]string {
	files := map[string]string{}
	for _, block := range fence.FindAllStringSubmatch(readme, -1) {
		if name := fileName.FindStringSubmatch(block[2]); name != nil {
			files[name[1]] = block[2]
		}
	}
	return files
}

// runSteps runs the commands one after another in one shell, and returns what
// each prints.
func runSteps(t *testing.T, home string, steps []step) []string {
	const mark = "@@@ next @@@"
	var script strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&script, "%s\ncode=$?; echo; echo '%s'; (exit $code)\n", strings.TrimSuffix(s.command, "\n"), mark)
	}
	path := filepath.Join(home, ".session.sh")
	if err := os.WriteFile(path, []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("sh", path)
	shell.Dir = home
	shell.Env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C"}
	shell.WaitDelay = 10 * time.Second
	out, _ := shell.CombinedOutput() // the last command's exit code is in what it printed, or does not matter
	parts := strings.Split(string(out), "\n"+mark+"\n")
	if len(parts) != len(steps)+1 {
		t.Fatalf("the session broke off after %d of %d commands:\n%s", len(parts)-1, len(steps), out)
	}
	return parts[:len(steps)]
}

var volatile = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`(?m)^ +\d+  (\d{4}-)`), "SEQ  $1"}, // how many progress lines came before is a matter of speed
	{regexp.MustCompile(`\w+day, \d{4}-\d\d-\d\d`), "DAY"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\d`), "DATE"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d(\.\d+)?`), "TIME"},
	{regexp.MustCompile(`\d{4}-\d\d/`), "MONTH/"},
	{regexp.MustCompile(`\b[0-9a-f]{32,}\b`), "HEX"},
	{regexp.MustCompile(`\b\d+m?s\b`), "AGE"},
	{regexp.MustCompile(`\bpid \d+`), "pid PID"},
	{regexp.MustCompile(`\bseq \d+|\b\d+ ledger lines`), "SEQ"},
	{regexp.MustCompile(`[ \t]+`), " "},
	{regexp.MustCompile(` ?\n`), "\n"},
}

// normal is text without what differs from run to run.
func normal(text string) string {
	text = strings.TrimSpace(text) + "\n"
	for _, v := range volatile {
		text = v.what.ReplaceAllString(text, v.name)
	}
	return text
}

func (s step) expects() *regexp.Regexp {
	want := regexp.QuoteMeta(normal(s.output))
	want = regexp.MustCompile(`(?m)^ ?…\n`).ReplaceAllString(want, "(?s:.*)")
	return regexp.MustCompile(`^` + strings.ReplaceAll(want, "…", ".*") + `$`)
}
