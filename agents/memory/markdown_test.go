package memory_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/agents/memory"
	"mbox/agents/memory/memorytest"
	"mbox/mailbox/durable"
)

func markdownAt(dir, agent string) *memory.Markdown {
	return memory.OpenMarkdown(memory.Places{
		Workspace: filepath.Join(dir, agent, "workspace"), Private: filepath.Join(dir, agent, "memory"),
		Salt: []byte("salt"), Sync: durable.None, Wait: 10 * time.Second,
	})
}

func TestMarkdown(t *testing.T) {
	memorytest.Suite(t, func(dir string) memorytest.Open {
		return func(_ testing.TB, agent string) memory.Store { return markdownAt(dir, agent) }
	})
}

func addTo(t *testing.T, s memory.Store, e memory.Entry) string {
	t.Helper()
	id, err := s.Add(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func allOf(t *testing.T, s memory.Store) (all []memory.Entry) {
	t.Helper()
	for e, err := range s.All(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
	return all
}

var day = time.Date(2026, 2, 16, 10, 30, 0, 0, time.UTC)

func note(category, key, content string) memory.Entry {
	return memory.Entry{Category: category, Key: key, Content: content, At: day, By: "coder", Task: "one"}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The pages have the form that ZeroClaw gives them, and ids count as it counts.
func TestMarkdownForm(t *testing.T) {
	dir := t.TempDir()
	s := markdownAt(dir, "coder")
	first := addTo(t, s, note(memory.Core, "site", "It is up.\n\n# So far\nand well"))
	second := addTo(t, s, note(memory.Core, "tea", "green"))
	third := addTo(t, s, note(memory.Custom, "day", "one of many"))
	if first != "MEMORY:0" || second != "MEMORY:2" || third != "2026-02-16:0" {
		t.Errorf("ids %s, %s, %s", first, second, third)
	}
	core := filepath.Join(dir, "coder", "workspace", "MEMORY.md")
	if got, want := read(t, core), "# Long-Term Memory\n\n- **site**: It is up.\n\n  # So far\n  and well\n- **tea**: green\n"; got != want {
		t.Errorf("core page:\n%s\nwant\n%s", got, want)
	}
	if got, want := read(t, filepath.Join(dir, "coder", "workspace", "memory", "2026-02-16.md")), "# Daily Log — 2026-02-16\n\n- **day**: one of many\n"; got != want {
		t.Errorf("page of a day:\n%s\nwant\n%s", got, want)
	}
	if err := s.Forget(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if got, want := read(t, core), "# Long-Term Memory\n\n-\n-\n- **tea**: green\n"; got != want {
		t.Errorf("after forgetting:\n%s\nwant\n%s", got, want)
	}
	if kept := read(t, filepath.Join(dir, "coder", "memory", "provenance.jsonl")); strings.Count(kept, "\n") != 2 {
		t.Errorf("what is forgotten still has a source:\n%s", kept)
	}
}

// What somebody writes onto a page is an entry that comes from nobody, and so is one that
// somebody has changed: an agent cannot give its words another's name.
func TestMarkdownByHand(t *testing.T) {
	dir := t.TempDir()
	s := markdownAt(dir, "coder")
	addTo(t, s, note(memory.Core, "key", "as mbox wrote it"))
	addTo(t, s, note(memory.Core, "other", "to be changed"))
	core := filepath.Join(dir, "coder", "workspace", "MEMORY.md")
	write(t, core, strings.Replace(read(t, core), "to be changed", "is changed", 1)+"free text\n* star\n- **no key\n- \x1b[2J\xff\n")
	want := []memory.Entry{
		{ID: "MEMORY:1", Category: memory.Core, Key: "other", Content: "is changed"},
		{ID: "MEMORY:2", Category: memory.Core, Key: "note", Content: "free text"},
		{ID: "MEMORY:3", Category: memory.Core, Key: "note", Content: "* star"},
		{ID: "MEMORY:4", Category: memory.Core, Key: "note", Content: "**no key"},
		{ID: "MEMORY:5", Category: memory.Core, Key: "note", Content: "\uFFFD[2J\uFFFD"},
		{ID: "MEMORY:0", Category: memory.Core, Key: "key", Content: "as mbox wrote it", At: day, By: "coder", Task: "one"},
	}
	got := allOf(t, s)
	if len(got) != len(want) {
		t.Fatalf("got %+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %+v, want %+v", got[i], want[i])
		}
	}
	if from := got[0].Source(); from != "nobody knows who" {
		t.Errorf("it comes from %s", from)
	}
	if from := got[5].Source(); from != "coder, 2026-02-16T10:30:00Z, task one" {
		t.Errorf("it comes from %s", from)
	}
}

// A page that a crash has left half replaced is removed; other temporary files stay.
func TestMarkdownSweeps(t *testing.T) {
	dir := t.TempDir()
	s := markdownAt(dir, "coder")
	workspace := filepath.Join(dir, "coder", "workspace")
	left := filepath.Join(workspace, ".mbox-X.new")
	other := filepath.Join(workspace, ".mbox-Y.new")
	daily := filepath.Join(workspace, "memory", ".mbox-Z.new")
	write(t, left, "# Long-Term Memory\n\n- **key**: secret\n")
	write(t, daily, "# Daily Log — 2026-02-16\n\n- **key**: secret\n")
	write(t, other, "somebody else's")
	addTo(t, s, note(memory.Core, "key", "text"))
	for path, want := range map[string]bool{left: false, daily: false, other: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %v", path, err == nil)
		}
	}
}

// The agent's workspace leads nowhere else: what a link leads to is neither read nor
// written.
func TestMarkdownFollowsNoLink(t *testing.T) {
	for _, name := range []string{"MEMORY.md", "memory"} {
		dir := t.TempDir()
		s := markdownAt(dir, "coder")
		canary := filepath.Join(dir, "canary")
		write(t, filepath.Join(canary, "2026-02-16.md"), "- **canary**: sings\n")
		target := canary
		if name == "MEMORY.md" {
			target = filepath.Join(canary, "2026-02-16.md")
		}
		workspace := filepath.Join(dir, "coder", "workspace")
		if err := os.MkdirAll(workspace, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, filepath.Join(workspace, name)); err != nil {
			t.Fatal(err)
		}
		if found, err := s.Recall(t.Context(), "canary", 5); err == nil || len(found) > 0 {
			t.Errorf("%s: recalled %v, %v", name, found, err)
		}
		for _, category := range []string{memory.Core, memory.Daily} {
			if _, err := s.Add(t.Context(), note(category, "key", "text")); err == nil {
				t.Errorf("%s: a %s entry was added", name, category)
			}
		}
		if got := read(t, filepath.Join(canary, "2026-02-16.md")); got != "- **canary**: sings\n" {
			t.Errorf("%s: the canary is %q", name, got)
		}
	}
}

// Every write of an addition and of forgetting fails once, applied and not applied: the
// other entries are whole, and what is told as done is done.
func TestMarkdownFaults(t *testing.T) {
	fault := errors.New("disk")
	for _, apply := range []bool{false, true} {
		for step := 0; ; step++ {
			s := markdownAt(t.TempDir(), "coder")
			gone := addTo(t, s, note(memory.Core, "gone", "one"))
			addTo(t, s, note(memory.Core, "stays", "two"))
			n := 0
			remove := durable.SetFault(func(durable.Op, string) (bool, error) {
				if n++; n == step+1 {
					return apply, fault
				}
				return true, nil
			})
			_, added := s.Add(t.Context(), note(memory.Core, "new", "three"))
			forgot := s.Forget(t.Context(), gone)
			remove()
			found := map[string]string{}
			for _, e := range allOf(t, s) {
				found[e.Key] = e.Content
				if e.By != "coder" || e.Task != "one" {
					t.Errorf("step %d: %+v has lost where it comes from", step, e)
				}
			}
			if found["stays"] != "two" || added == nil && found["new"] != "three" || forgot == nil && found["gone"] != "" {
				t.Errorf("step %d, applied %v: %v; added %v, forgot %v", step, apply, found, added, forgot)
			}
			if n <= step {
				break
			}
		}
	}
}

// A full page takes no more, and what is on it stays.
func TestMarkdownFull(t *testing.T) {
	dir := t.TempDir()
	s := markdownAt(dir, "coder")
	write(t, filepath.Join(dir, "coder", "workspace", "MEMORY.md"), strings.Repeat("# filled\n", 4<<20/9))
	if _, err := s.Add(t.Context(), note(memory.Core, "key", strings.Repeat("x", 100))); !errors.Is(err, memory.ErrFull) {
		t.Errorf("a full page: %v", err)
	}
	if all := allOf(t, s); len(all) != 0 {
		t.Errorf("added all the same: %d", len(all))
	}
}

func TestNone(t *testing.T) {
	s := memory.None{Agent: "coder"}
	if _, err := s.Add(t.Context(), note(memory.Core, "key", "text")); !errors.Is(err, memory.ErrNone) {
		t.Errorf("added: %v", err)
	}
	if found, err := s.Recall(t.Context(), "", 5); err != nil || len(found) > 0 {
		t.Errorf("recalled %v, %v", found, err)
	}
	if err := s.Forget(t.Context(), "1"); !errors.Is(err, memory.ErrNone) {
		t.Errorf("forgot: %v", err)
	}
}

// A peer whose memory cannot be read is told, and the agent's own is recalled.
func TestPeerThatFails(t *testing.T) {
	dir, broken := t.TempDir(), errors.New("broken")
	var warned []string
	m, err := memory.ForAgent(memory.Options{
		Agent: "coder", Peers: []string{"tester"}, By: "human",
		Open: func(agent string) (memory.Store, error) {
			if agent == "tester" {
				return nil, broken
			}
			return markdownAt(dir, agent), nil
		},
		Warn: func(agent string, err error) { warned = append(warned, agent+": "+err.Error()) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Add(t.Context(), "", "key", "text"); err != nil {
		t.Fatal(err)
	}
	found, err := m.Recall(t.Context(), "text", 0)
	if err != nil || len(found) != 1 || len(warned) != 1 || warned[0] != "tester: broken" {
		t.Errorf("recalled %v, %v, warned %q", found, err, warned)
	}
}

// A hash depends on the mailbox and on each part of the entry.
func TestHash(t *testing.T) {
	e := memory.Entry{Agent: "coder", Key: "key", Content: "text", ID: "1", By: "human"}
	h := memory.Hash([]byte("salt"), e)
	other := e
	if other.ID, other.By = "2", "coder"; memory.Hash([]byte("salt"), other) != h {
		t.Error("the hash is not of the text alone")
	}
	for i, change := range []func(e *memory.Entry){
		func(e *memory.Entry) { e.Agent = "x" }, func(e *memory.Entry) { e.Key = "x" }, func(e *memory.Entry) { e.Content = "x" },
	} {
		other := e
		if change(&other); memory.Hash([]byte("salt"), other) == h {
			t.Errorf("change %d does not count", i)
		}
	}
	if memory.Hash([]byte("other"), e) == h {
		t.Error("the salt does not count")
	}
}

// BenchmarkRecall measures what a recall costs where 1,000 texts of 200 bytes are kept.
func BenchmarkRecall(b *testing.B) {
	s := markdownAt(b.TempDir(), "coder")
	for i := range 1000 {
		e := note("core", fmt.Sprintf("key%d", i), fmt.Sprintf("w%d w%d %s", i, i%100, strings.Repeat("text ", 38)))
		if _, err := s.Add(context.Background(), e); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if found, err := s.Recall(context.Background(), "w77 w42", 5); err != nil || len(found) == 0 {
			b.Fatal(found, err)
		}
	}
}
