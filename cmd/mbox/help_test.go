package main

import (
	"bufio"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mbox/cmd/mbox/help"
)

var (
	testName = regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*|\b\w+(?:\.txtar|_test\.go)\b`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
)

// Every file is a topic, listed by mbox help and in the man page. Every test that a
// topic names is there, and it fits a terminal.
func TestHelpTopics(t *testing.T) {
	there, topics := allTests(t), help.Topics()
	if files, err := filepath.Glob("help/*.md"); err != nil || len(files) != len(topics) {
		t.Errorf("%d files %v are %d topics: %v", len(files), files, len(topics), err)
	}
	var printed strings.Builder
	s := &session{printer: printer{out: bufio.NewWriter(&printed)}}
	s.printHelp(tree(), []string{"mbox"})
	if err := s.out.Flush(); err != nil {
		t.Fatal(err)
	}
	page := manPage(tree(), nil)
	for _, topic := range topics {
		if !regexp.MustCompile(`(?m)^   ` + topic.Name + ` +` + regexp.QuoteMeta(topic.Title) + `$`).MatchString(printed.String()) {
			t.Errorf("mbox help does not list %s", topic.Name)
		}
		if !strings.Contains(page, "\n.B "+topic.Name+"\n"+roff(topic.Title)+"\n") {
			t.Errorf("the man page does not list %s", topic.Name)
		}
		for _, name := range testName.FindAllString(topic.Text, -1) {
			if !there[name] {
				t.Errorf("mbox help %s: there is no test %s", topic.Name, name)
			}
		}
		for line := range strings.SplitSeq(topic.Text, "\n") {
			if n := utf8.RuneCountInString(line); n > 85 {
				t.Errorf("mbox help %s: %d characters: %s", topic.Name, n, line)
			}
		}
	}
}

// The help of each verb but mbox itself fits a terminal, and what stands before its
// flags a narrow one, too. Examples are to be copied, and stay as they are.
func TestHelpOfVerbsFits(t *testing.T) {
	printed := func(v *verb, path []string, wide int) string {
		var out strings.Builder
		s := &session{printer: printer{out: bufio.NewWriter(&out), wide: wide}}
		s.printHelp(v, path)
		if err := s.out.Flush(); err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(out.String(), "\n\n   ") // behind the usage
		text, _, _ = strings.Cut(text, "\n\nExamples:")
		return text
	}
	fits := func(text string, path []string, wide int) {
		for line := range strings.SplitSeq(text, "\n") {
			if n := utf8.RuneCountInString(line); n > wide {
				t.Errorf("%v: %d characters: %s", path, n, line)
			}
		}
	}
	var walk func(v *verb, path []string)
	walk = func(v *verb, path []string) {
		fits(printed(v, path, 0), path, 85)
		about, _, _ := strings.Cut(printed(v, path, 60), "\n\nFlags:")
		about, _, _ = strings.Cut(about, "\n\nCommands:")
		fits(about, path, 60)
		if got, want := strings.Join(strings.Fields(about), " "), strings.Join(strings.Fields(v.about), " "); !strings.HasPrefix(got, want) {
			t.Errorf("%v says\n%s\nnot\n%s", path, got, want)
		}
		for _, sub := range v.verbs {
			walk(sub, append(slices.Clone(path), sub.name))
		}
	}
	for _, v := range tree().verbs {
		walk(v, []string{"mbox", v.name})
	}
}

// Each chat system has a line in mbox help bridges, and what has settings of its own a
// page.
func TestHelpBridges(t *testing.T) {
	texts := map[string]string{}
	for _, topic := range help.Topics() {
		texts[topic.Name] = topic.Text
	}
	for _, k := range chatKinds()[:len(chatKinds())-len(testKinds)] {
		page := texts[k.Name]
		if k.Stdio {
			page = texts["bridges"]
		}
		if !strings.Contains(texts["bridges"], "\n| `"+k.Name+"` | ") || !strings.Contains(page, `kind = "`+k.Name+`"`) {
			t.Errorf("mbox help bridges does not list %s, or it has no page", k.Name)
		}
	}
}

// Each attack of mbox help threats is held by a test, and the table is no sample.
func TestHelpThreats(t *testing.T) {
	topics := help.Topics()
	at := slices.IndexFunc(topics, func(topic help.Topic) bool { return topic.Name == "threats" })
	if at < 0 {
		t.Fatal("there is no such topic")
	}
	rows := 0
	_, table, _ := strings.Cut(topics[at].Text, "|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.SplitSeq(table, "\n") {
		if cells := strings.Split(row, " | "); len(cells) != 3 || !testName.MatchString(cells[2]) {
			t.Errorf("no attack, end and test: %s", row)
		}
		rows++
	}
	if rows < 30 {
		t.Errorf("%d attacks, want 30 at least", rows)
	}
}

// allTests are the names of all test functions of the module, whatever their build
// tags, of their files, and of the scripts here.
func allTests(t *testing.T) map[string]bool {
	t.Helper()
	there := map[string]bool{}
	root := moduleRoot(t)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || path == root:
			return err
		case d.IsDir():
			rel, _ := filepath.Rel(root, path)
			return skipped(os.DirFS(root), filepath.ToSlash(rel))
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		there[d.Name()] = true
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	scripts, err := filepath.Glob("testdata/script/*.txtar")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("%d scripts: %v", len(scripts), err)
	}
	for _, path := range scripts {
		there[filepath.Base(path)] = true
	}
	return there
}

var helpNamed = regexp.MustCompile(`mbox help ([a-z][a-z_-]*)`)

// Each page that a page, a hint or the README leads to is there.
func TestHelpLeadsSomewhere(t *testing.T) {
	root, there, links := moduleRoot(t), append(helpWords(), "exit"), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		if rel, _ := filepath.Rel(root, path); d.IsDir() {
			return skipped(os.DirFS(root), filepath.ToSlash(rel))
		}
		if strings.HasSuffix(path, "_test.go") || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md") {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range helpNamed.FindAllSubmatch(text, -1) {
			if links++; !slices.Contains(there, string(m[1])) {
				t.Errorf("%s: there is no %s", path, m[0])
			}
		}
		return err
	})
	if err != nil || links < 50 {
		t.Errorf("%d links: %v", links, err)
	}
}

// What a flag is where it is not given is told once.
func TestHelpTellsDefaultsOnce(t *testing.T) {
	var walk func(v *verb)
	walk = func(v *verb) {
		for _, f := range v.flags {
			_, usage := describe(f)
			if m := regexp.MustCompile(`(\([^()]+\))$`).FindString(usage); m != "" && strings.Count(usage, m) > 1 {
				t.Errorf("mbox %s: %s", v.name, usage)
			}
		}
		for _, sub := range v.verbs {
			walk(sub)
		}
	}
	walk(tree())
}
