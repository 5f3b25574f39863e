// Package memorytest holds every backend of package memory to the same rules.
package memorytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/agents/memory"
)

// Open opens the store of an agent. Each test has a folder of its own, in which the
// stores of the same agent are the same one, also for other processes.
type Open func(t testing.TB, agent string) memory.Store

// Suite runs all tests, each in a new folder.
func Suite(t *testing.T, in func(dir string) Open) {
	if dir := os.Getenv(dirVariable); dir != "" {
		work(t, in(dir))
		return
	}
	for name, test := range map[string]func(t *testing.T, open Open){
		"Keeps": keeps, "Recalls": recalls, "Forgets": forgets, "Hostile": hostile, "Isolated": isolated,
		"Peers": peers, "Together": together, "Moves": moves, "Refuses": refuses,
	} {
		t.Run(name, func(t *testing.T) { test(t, in(t.TempDir())) })
	}
	t.Run("Killed", func(t *testing.T) { killed(t, in) })
}

// dirVariable has the folder in which a process of a test works until it is killed.
const dirVariable = "MEMORYTEST_DIR"

// work adds and forgets, and tells on standard output what is done.
func work(t *testing.T, open Open) {
	name := fmt.Sprint(os.Getpid())
	s := open(t, "coder")
	for i := 0; ; i++ {
		key := fmt.Sprint(name, "-", i)
		id, err := s.Add(t.Context(), memory.Entry{Category: memory.Core, Key: key, Content: strings.Repeat("text", 2000), By: "coder", At: start})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("has", key)
		if i%2 == 0 {
			continue
		}
		fmt.Println("loses", key)
		if err := s.Forget(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		fmt.Println("lost", key)
	}
}

// killed kills processes that add and forget at once, again and again: what they told as
// done is done, whatever else is there is whole, and the next one goes on.
func killed(t *testing.T, in func(dir string) Open) {
	dir := t.TempDir()
	state := map[string]string{}
	for round := range 6 {
		var lines sync.WaitGroup
		var lock sync.Mutex
		for child := range 2 {
			cmd := exec.Command(os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.v=false")
			cmd.Env = append(os.Environ(), dirVariable+"="+dir)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines.Go(func() {
				scanner, n := bufio.NewScanner(out), 0
				for scanner.Scan() {
					what, key, _ := strings.Cut(scanner.Text(), " ")
					lock.Lock()
					state[key] = what
					lock.Unlock()
					if n++; n == 3+round*2+child {
						cmd.Process.Kill()
					}
				}
				cmd.Wait()
				if n < 3+round*2+child {
					t.Errorf("a process has ended by itself after %d lines", n)
				}
			})
		}
		lines.Wait()
		there := map[string]bool{}
		for _, e := range list(t, memoryOf(t, in(dir), "coder")) {
			there[e.Key] = true
			if e.Content != strings.Repeat("text", 2000) || e.By != "coder" {
				t.Errorf("round %d: %s is not whole: by %q, %d bytes", round, e.Key, e.By, len(e.Content))
			}
		}
		for key, what := range state {
			if what == "has" && !there[key] || what == "lost" && there[key] {
				t.Errorf("round %d: %s %s, and is there: %v", round, what, key, there[key])
			}
		}
	}
}

// ManyWords are more words than anybody asks for.
func ManyWords() string {
	var text strings.Builder
	for i := range 3000 {
		fmt.Fprint(&text, "q", i, " ")
	}
	return text.String()
}

var start = time.Date(2026, 2, 16, 23, 59, 58, 123e6, time.UTC)

// memoryOf is the memory of an agent whose clock goes a second with each entry.
func memoryOf(t testing.TB, open Open, agent string, peers ...string) *memory.Memory {
	t.Helper()
	now := start
	m, err := memory.ForAgent(memory.Options{
		Agent: agent, Peers: peers, By: agent, Task: "task-of-" + agent,
		Open: func(name string) (memory.Store, error) { return open(t, name), nil },
		Warn: func(agent string, err error) { t.Errorf("%s is left out: %v", agent, err) },
		Now:  func() time.Time { now = now.Add(time.Second); return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func add(t testing.TB, m *memory.Memory, category, key, content string) memory.Entry {
	t.Helper()
	e, err := m.Add(t.Context(), category, key, content)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func list(t testing.TB, m *memory.Memory) []memory.Entry {
	t.Helper()
	all, err := m.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func recall(t testing.TB, m *memory.Memory, query string, limit int) (found []string) {
	t.Helper()
	all, err := m.Recall(t.Context(), query, limit)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		found = append(found, e.Attributed())
	}
	return found
}

func same[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// What was added is there, whole, also for who opens the store later.
func keeps(t *testing.T, open Open) {
	m := memoryOf(t, open, "coder")
	var want []memory.Entry
	for _, category := range memory.Categories {
		want = append(want, add(t, m, category, "about "+category, "what there is to say"))
	}
	want = append(want, add(t, m, "", "plain", "of no category"))
	if want[4].Category != memory.Core || want[0].By != "coder" || want[0].Task != "task-of-coder" || want[0].At.IsZero() {
		t.Errorf("not stamped: %+v", want)
	}
	same(t, "kept", list(t, m), want)
	same(t, "opened again", list(t, memoryOf(t, open, "coder")), want)
}

// The best entries come first; of equal ones the newest.
func recalls(t *testing.T, open Open) {
	m := memoryOf(t, open, "coder")
	if found := recall(t, m, "anything", 0); len(found) > 0 {
		t.Errorf("an empty memory recalls %q", found)
	}
	add(t, m, memory.Core, "deploys", "The site deploys on Tuesday")
	add(t, m, memory.Daily, "site", "The staging site is down")
	add(t, m, memory.Core, "tea", "Anna drinks green tea")
	add(t, m, memory.Conversation, "site", "The site has moved")
	for _, c := range []struct {
		query string
		limit int
		want  []string
	}{
		{"SITE Tuesday", 0, []string{"[coder] deploys: The site deploys on Tuesday", "[coder] site: The site has moved", "[coder] site: The staging site is down"}},
		{"site", 1, []string{"[coder] site: The site has moved"}},
		{"", 2, []string{"[coder] site: The site has moved", "[coder] tea: Anna drinks green tea"}},
		{" * ", 1, []string{"[coder] site: The site has moved"}},
		{"coffee", 0, nil},
		{`" OR * ( ' -- %`, 0, nil},
		{"\u0301 \u00bd \U0001f642 \ue000", 0, nil},
		{"key:site NEAR(x) AND NOT", 0, nil},
		{ManyWords(), 0, nil},
	} {
		same(t, fmt.Sprintf("%q, %d", c.query, c.limit), recall(t, m, c.query, c.limit), c.want)
	}
	all, err := m.Recall(t.Context(), "site tuesday green missing", 0)
	if err != nil || len(all) == 0 || all[0].Score != 0.5 || all[0].By != "coder" || all[0].Task == "" {
		t.Errorf("score and source: %+v, %v", all, err)
	}
}

// What is forgotten is gone, the others keep their ids, and no id comes again.
func forgets(t *testing.T, open Open) {
	m := memoryOf(t, open, "coder")
	var all []memory.Entry
	for i := range 5 {
		all = append(all, add(t, m, memory.Core, fmt.Sprint("key", i), fmt.Sprintf("secret%d\nof two lines", i)))
	}
	if err := m.Forget(t.Context(), all[1].ID, "nothing"); !errors.Is(err, memory.ErrUnknown) {
		t.Errorf("an id that is not there: %v", err)
	}
	same(t, "after a refusal", list(t, m), all)
	if err := m.Forget(t.Context(), all[1].ID, all[4].ID); err != nil {
		t.Fatal(err)
	}
	same(t, "left", list(t, m), []memory.Entry{all[0], all[2], all[3]})
	same(t, "recalled", recall(t, m, "secret1", 0), nil)
	if err := m.Forget(t.Context(), all[1].ID); !errors.Is(err, memory.ErrUnknown) {
		t.Errorf("forgotten twice: %v", err)
	}
	again := add(t, m, memory.Core, "key", "new")
	for _, e := range all {
		if e.ID == again.ID {
			t.Errorf("the id %s comes again", e.ID)
		}
	}
	if err := m.Forget(t.Context(), all[0].ID, all[2].ID, all[3].ID, again.ID); err != nil {
		t.Fatal(err)
	}
	same(t, "all forgotten", list(t, m), nil)
}

// Texts that look like the store's own form come back as they were.
func hostile(t *testing.T, open Open) {
	m := memoryOf(t, open, "coder")
	var want []memory.Entry
	for _, text := range []string{
		"# Long-Term Memory", "one\n# two\n- **three**: four\n\n\n  five\n-\n- ", "a\n   \nb", "- x", "**x**: y", "-", "a\n\t\tb",
		"'); DROP TABLE memories; --", `{"agent":"root"}`, "\u202etxt.exe", "<!-- x -->", "emoji 🙂\u0301", "%s %d $1 ?1 :x",
		strings.Repeat("word and ", memory.MaxContent/9), strings.Repeat("\n", 1000) + "deep" + strings.Repeat("\n\n- ", 1000) + "end",
	} {
		want = append(want, add(t, m, memory.Categories[len(want)%4], "k*e_y `"+fmt.Sprint(len(want))+"`", text))
	}
	same(t, "hostile", list(t, m), want)
	if err := m.Forget(t.Context(), want[1].ID); err != nil {
		t.Fatal(err)
	}
	same(t, "one forgotten", list(t, m), slices.Delete(slices.Clone(want), 1, 2))
}

// Nobody sees or forgets what another agent has.
func isolated(t *testing.T, open Open) {
	a, b := memoryOf(t, open, "coder"), memoryOf(t, open, "tester")
	kept := add(t, a, memory.Core, "mine", "only for the coder")
	same(t, "the other lists", list(t, b), nil)
	same(t, "the other recalls", recall(t, b, "coder", 0), nil)
	if err := b.Forget(t.Context(), kept.ID); !errors.Is(err, memory.ErrUnknown) {
		t.Errorf("the other forgets: %v", err)
	}
	same(t, "kept", list(t, a), []memory.Entry{kept})
}

// Peers are recalled with their names, merged by score; of equal ones its own first.
func peers(t *testing.T, open Open) {
	a, b := memoryOf(t, open, "coder"), memoryOf(t, open, "tester")
	add(t, a, memory.Core, "x", "red")
	add(t, b, memory.Core, "y", "red green")
	add(t, b, memory.Core, "z", "green")
	both := memoryOf(t, open, "coder", "tester")
	same(t, "merged", recall(t, both, "red green", 0), []string{"[tester] y: red green", "[coder] x: red", "[tester] z: green"})
	same(t, "cut", recall(t, both, "red green", 2), []string{"[tester] y: red green", "[coder] x: red"})
	same(t, "not the other way", recall(t, b, "red", 0), []string{"[tester] y: red green"})
	same(t, "listed", list(t, both), list(t, a))
}

// Several add and forget at once, each by a store that it has opened itself.
func together(t *testing.T, open Open) {
	const writers, each = 4, 10
	var wait sync.WaitGroup
	for w := range writers {
		s := open(t, "coder")
		wait.Go(func() {
			defer s.Close()
			for i := range each {
				e := memory.Entry{Category: memory.Core, Key: fmt.Sprintf("%d-%d", w, i), Content: "text", At: start, By: "coder"}
				id, err := s.Add(context.Background(), e)
				if err == nil && i%2 == 1 {
					err = s.Forget(context.Background(), id)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	left := map[string]bool{}
	for _, e := range list(t, memoryOf(t, open, "coder")) {
		left[e.Key] = true
	}
	for w := range writers {
		for i := range each {
			if key := fmt.Sprintf("%d-%d", w, i); left[key] != (i%2 == 0) {
				t.Errorf("%s is there: %v", key, left[key])
			}
		}
	}
}

// What is exported can be imported elsewhere, once, with where it comes from.
func moves(t *testing.T, open Open) {
	m, other := memoryOf(t, open, "coder"), memoryOf(t, open, "tester")
	add(t, m, memory.Core, "one", "first\n\nlines")
	add(t, m, memory.Core, "one", "first\n\nlines")
	add(t, m, memory.Custom, "two", "second")
	exported := list(t, m)
	for i, want := range []int{3, 0} {
		if added, err := other.Import(t.Context(), exported); err != nil || added != want {
			t.Errorf("import %d: %d, %v; want %d", i, added, err, want)
		}
	}
	bare := func(all []memory.Entry) []memory.Entry {
		for i := range all {
			all[i].ID, all[i].Agent = "", ""
		}
		return all
	}
	same(t, "imported", bare(list(t, other)), bare(exported))
	bad := append(exported[:1:1], memory.Entry{Category: memory.Core, Key: "x", Content: "\x00"})
	if added, err := memoryOf(t, open, "third").Import(t.Context(), bad); err == nil || added != 0 || !strings.Contains(err.Error(), "entry 2: content") {
		t.Errorf("a bad entry: %d, %v", added, err)
	}
}

// What cannot be stored is refused, and nothing is.
func refuses(t *testing.T, open Open) {
	m := memoryOf(t, open, "coder")
	for _, c := range []struct{ category, key, content, want string }{
		{"cor", "key", "text", "category"},
		{"", "", "text", "key"},
		{"", "a\nb", "text", "key"},
		{"", "a**b", "text", "key"},
		{"", strings.Repeat("k", memory.MaxKey+1), "text", "key"},
		{"", "key", " \n ", "content is empty"},
		{"", "key", "a\x1b[2Jb", "U+001B at byte 1"},
		{"", "key", "\x00", "U+0000"},
		{"", "key", "\xff", "no UTF-8"},
		{"", "key", strings.Repeat("x", memory.MaxContent+1), "65537 bytes"},
	} {
		if _, err := m.Add(t.Context(), c.category, c.key, c.content); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), ": ", " "), c.want) {
			t.Errorf("%q %q: %v; want %s", c.category, c.key, err, c.want)
		}
	}
	same(t, "kept", list(t, m), nil)
}
