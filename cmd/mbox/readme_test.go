package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/cmd/mbox/config"
	"mbox/cmd/mbox/help"
)

// notRun lists the sh blocks that are not run, by document and first line, and why.
var notRun = map[string]string{
	"README.md: make build":              "it builds what is tested here, and installs it",
	"README.md: make demo":               ".ci/run runs it",
	"help/proof.md: make test":           "it is what runs here",
	"help/performance.md: make bench":    "it takes minutes, and measures the machine",
	"help/models.md: mbox doctor --pull": "it needs a network",
}

// The README and the topics of mbox help are run, each in one shell and one empty
// folder for a home; for a topic there is a mailbox in it. What a sh block prints
// has to stand in the text block behind it; where there is none, it prints nothing.
// Dates, times, hashes and the width of columns may differ; … stands for the rest
// of a line, and alone on a line for any lines.
func TestReadme(t *testing.T) {
	oneByOne(t)
	for _, program := range []string{"python3", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("no %s, which the README's examples use", program)
		}
	}
	for name, text := range manuals(t) {
		if name == "help/walkthroughs.md" {
			continue // TestWalkthroughs runs what it is made of
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			blocks := slices.DeleteFunc(blocksOf(text), func(b block) bool {
				first, _, _ := strings.Cut(b.text, "\n")
				return b.lang != "sh" || notRun[name+": "+first] != ""
			})
			if name != readmeFile {
				blocks = slices.Insert(blocks, 0, block{text: "mbox init >init.log 2>&1\n"})
			}
			home := t.TempDir()
			for i, got := range runBlocks(t, home, blocks) {
				got = strings.ReplaceAll(got, home, "/home/you")
				if b := blocks[i]; !b.expects().MatchString(normal(got)) {
					t.Errorf("%s:%d:\n%sprints:\n%s\nand not:\n%s", name, b.line, b.text, got, b.output)
				}
			}
		})
	}
}

// What a block is, its mark says: sh can be pasted into a shell, toml into mbox.toml.
func TestReadmeBlocks(t *testing.T) {
	left := len(notRun)
	for name, text := range manuals(t) {
		for _, b := range blocksOf(text) {
			first, _, _ := strings.Cut(b.text, "\n")
			switch {
			case notRun[name+": "+first] != "":
				left--
			case b.lang == "sh" && regexp.MustCompile(`(?m)^[$>] `).MatchString(b.text):
				t.Errorf("%s:%d: a prompt cannot be pasted: %s", name, b.line, first)
			case b.lang == "toml":
				if _, err := config.Parse(config.Name, []byte(b.text)); err != nil {
					t.Errorf("%s:%d: %v", name, b.line, err)
				}
			case b.lang != "sh" && b.lang != "text":
				t.Errorf("%s:%d: a block of %q is neither run nor read: want sh, text or toml", name, b.line, b.lang)
			}
		}
	}
	if left != 0 {
		t.Errorf("%d blocks of notRun are not there", left)
	}
}

const readmeFile = "README.md"

// Who opens the README has a task of his own soon, and is not told everything there.
func TestReadmeIsShort(t *testing.T) {
	text := manuals(t)[readmeFile]
	if n := strings.Count(text, "\n"); n > 350 {
		t.Errorf("README.md has %d lines, want 350 at most: the rest belongs into mbox help TOPIC", n)
	}
	before, _, found := strings.Cut(text, "\nmbox send ")
	if n := strings.Count(before, "\n") + 2; !found || n > 25 {
		t.Errorf("the first task is sent in line %d of README.md, want 25 at most", n)
	}
}

// Every command is in the README's table, every topic, and every exit code with its
// meaning; its links lead somewhere.
func TestReadmeIsWhole(t *testing.T) {
	readme := manuals(t)[readmeFile]
	for _, path := range leaves(tree(), "mbox") {
		if !regexp.MustCompile("(?m)^\\|.*`" + path + "`.*\\|").MatchString(readme) {
			t.Errorf("README.md has no row for %s", path)
		}
	}
	for _, topic := range help.Topics() {
		if link := fmt.Sprintf("%s`](cmd/mbox/help/%[1]s.md)", topic.Name); !strings.Contains(readme, link) {
			t.Errorf("README.md has no row with %q", link)
		}
	}
	for code := range exitMeaning {
		if row := fmt.Sprintf("| %d | %s |", code, exitTold(code)); !strings.Contains(strings.ReplaceAll(readme, "`", ""), row) {
			t.Errorf("README.md has no row %q", row)
		}
	}
	for _, link := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(readme, -1) {
		if _, err := os.Stat(repoFile(link[1])); err != nil {
			t.Errorf("README.md links to %s: %v", link[1], err)
		}
	}
}

// leaves lists the commands that are not groups.
func leaves(v *verb, path string) (out []string) {
	for _, sub := range v.verbs {
		out = append(out, leaves(sub, path+" "+sub.name)...)
	}
	if len(v.verbs) == 0 {
		out = append(out, path)
	}
	return out
}

// manuals are the README and the topics, by the name that messages give them.
func manuals(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(repoFile(readmeFile))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{readmeFile: string(data)}
	for _, topic := range help.Topics() {
		out["help/"+topic.Name+".md"] = topic.Text
	}
	return out
}

// block is a fenced block, and the text block that stands right behind it.
type block struct {
	line               int
	lang, text, output string
}

var fence = regexp.MustCompile("(?ms)^```(\\w*)\n(.*?)^```$")

func blocksOf(document string) (blocks []block) {
	end := 0
	for _, at := range fence.FindAllStringSubmatchIndex(document, -1) {
		lang, text := document[at[2]:at[3]], document[at[4]:at[5]]
		if last := len(blocks) - 1; lang == "text" && last >= 0 && blocks[last].lang == "sh" && strings.TrimSpace(document[end:at[0]]) == "" {
			blocks[last].output = text
		} else {
			blocks = append(blocks, block{line: strings.Count(document[:at[4]], "\n"), lang: lang, text: text})
		}
		end = at[1]
	}
	return blocks
}

// runBlocks runs blocks one after another in one shell, and returns what each
// prints.
func runBlocks(t *testing.T, home string, blocks []block) []string {
	const mark = "@@@ next @@@"
	var script strings.Builder
	for _, b := range blocks {
		fmt.Fprintf(&script, "%s\ncode=$?; echo; echo '%s'; (exit $code)\n", strings.TrimSuffix(b.text, "\n"), mark)
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
	if len(parts) != len(blocks)+1 {
		t.Fatalf("the session broke off after %d of %d blocks:\n%s", len(parts)-1, len(blocks), out)
	}
	return parts[:len(blocks)]
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

// expects matches what a block may print.
func (b block) expects() *regexp.Regexp {
	want := regexp.QuoteMeta(normal(b.output))
	want = regexp.MustCompile(`(?m)^ ?…\n`).ReplaceAllString(want, "(?s:.*)")
	return regexp.MustCompile(`^` + strings.ReplaceAll(want, "…", ".*") + `$`)
}
