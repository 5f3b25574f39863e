package agents

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mbox/agents/policy"
)

// athome gives the coder of a company a home with these files, and a worker that lives there.
func (c *company) athome(files map[string]string) *Worker {
	c.Helper()
	for name, text := range files {
		path := filepath.Join(c.box.AgentDir("coder"), name)
		c.must(os.MkdirAll(filepath.Dir(path), 0o700))
		c.must(os.WriteFile(path, []byte(text), 0o600))
	}
	w := c.member("coder")
	settle(c.T, w, &keeper{})
	return w
}

// lastAsked is the conversation of the coder's last thought.
func (c *company) lastAsked() []Message {
	c.Helper()
	all := c.brains["coder"].asked
	if len(all) == 0 {
		c.Fatal("nobody was asked")
	}
	return all[len(all)-1].Messages
}

func roomFor(tokens int) func(*Team) {
	return func(t *Team) {
		m := t.Members["coder"]
		m.Context = tokens
		t.Members["coder"] = m
	}
}

// What one of its texts says that a text before it says, too, an agent is told once.
func TestOwnTextsOnce(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{`{"actions":[]}`}
	w := c.athome(map[string]string{"CLAUDE.md": "# coder\n\nI am a\nSOUL\n\n## More\n", "SOUL.md": "I am a\nSOUL\n", "IDENTITY.md": "an IDENTITY"})
	c.send("coder", "the TASK", nil)
	c.once(w)
	told := c.lastAsked()[0].Content
	if strings.Count(told, "I am a\nSOUL") != 1 || strings.Contains(told, "# SOUL.md") || !strings.Contains(told, "an IDENTITY") {
		t.Errorf("it is told\n%s", told)
	}
}

// Who an agent is that was born stands in its instructions, in order; what it remembers
// between marks, before the task. One without a home is told none of it.
func TestOwnTexts(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{`{"actions":[]}`, `{"actions":[]}`}
	files := map[string]string{"CLAUDE.md": "I am CLAUDE\n", "SOUL.md": "a SOUL <|im_start|>\n", "IDENTITY.md": "an IDENTITY", "memory/memory.md": "- I REMEMBER\n"}
	w := c.athome(files)
	c.send("coder", "the TASK", nil)
	c.once(w)
	talk := c.lastAsked()
	at := 0
	whole := talk[0].Content + talk[1].Content
	for _, text := range []string{"It never changes these rules", "\n# CLAUDE.md\n\nI am CLAUDE\n", "\n# SOUL.md\n\na SOUL < |im_start|>\n", "\n# IDENTITY.md\n\nan IDENTITY\n", " from your memory/memory.md\n- I REMEMBER\nDATA-", "the TASK"} {
		i := strings.Index(whole[at:], text)
		if i < 0 {
			t.Fatalf("%q does not come next in\n%s", text, whole)
		}
		at += i
	}
	if strings.Contains(talk[0].Content, "REMEMBER") || strings.Contains(whole, "cut off") {
		t.Error(whole)
	}
	w.Home = nil
	c.send("coder", "another", nil)
	c.once(w)
	if talk := c.lastAsked(); strings.Contains(talk[0].Content+talk[1].Content, "CLAUDE") {
		t.Errorf("one without a home is told %s", talk)
	}
}

// What does not fit is cut at a line, and the agent is told: what it remembers first, and
// of that the oldest. The prompt has no more than the brain has room for.
func TestOwnTextsAreCut(t *testing.T) {
	lines := func(word string, n int) string { return strings.Repeat("a line of "+word+" that is long enough\n", n) }
	long := map[string]string{"CLAUDE.md": lines("CLAUDE", 40), "SOUL.md": lines("SOUL", 40), "IDENTITY.md": lines("IDENTITY", 40), "memory/memory.md": lines("AGES AGO", 40) + "YESTERDAY\n"}
	most := 0
	for _, room := range []int{400, 1500, 2000, 2600, 3200, 3700, 4200, 4600, 5200, 6500, 8000} {
		c := newCompany(t, roomFor(room))
		c.brains["coder"].says = []any{`{"actions":[]}`}
		w := c.athome(long)
		c.send("coder", "the TASK", nil)
		c.once(w)
		talk := c.lastAsked()
		whole := talk[0].Content + talk[1].Content
		has := 0
		for i, word := range []string{"CLAUDE", "SOUL", "IDENTITY", "AGES AGO"} {
			n := strings.Count(whole, "a line of "+word+" that is long enough\n")
			has += n
			if later := []string{"SOUL", "IDENTITY", "AGES AGO", ""}[i]; n < 40 && later != "" && strings.Contains(whole, "a line of "+later) {
				t.Errorf("%d: it has %d lines of %s, and some of %s", room, n, word, later)
			}
			name := []string{"CLAUDE.md", "SOUL.md", "IDENTITY.md", "memory/memory.md"}[i]
			if told := strings.Contains(whole, "(cut off: "+name); told != (n < 40) {
				t.Errorf("%d: it has %d lines of %s; told that it is cut: %v", room, n, word, told)
			}
			if strings.Contains(whole, "AGES AGO") && !strings.Contains(whole, "YESTERDAY\nDATA-") {
				t.Errorf("%d: what is newest was cut", room)
			}
		}
		if strings.Count(whole, "a line of") != strings.Count(whole, "that is long enough\n") {
			t.Errorf("%d: a line is cut in two", room)
		}
		if n := weight(whole); has > 0 && n > room*int(firstToken) {
			t.Errorf("%d: the prompt weighs %d", room, n)
		}
		if has < most {
			t.Errorf("%d: %d lines, fewer than with less room", room, has)
		}
		most = has
		if !strings.Contains(whole, "the TASK") {
			t.Errorf("%d: the task is gone", room)
		}
	}
	if most != 160 {
		t.Errorf("with all the room %d lines", most)
	}
}

// How much fits follows what the server has counted.
func TestOwnTextsAreMeasured(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		roomFor(4096)(team)
		loop := policy.DefaultRuntimeProfile()
		loop.MaxActionsPerHour = 3
		team.Policies.RuntimeProfiles["default"] = loop
	})
	counted := func(perToken float64) func(context.Context) (Reply, error) {
		return func(context.Context) (Reply, error) {
			n := 0
			for _, m := range c.lastAsked() {
				n += weight(m.Content)
			}
			return Reply{Text: `{"actions":[]}`, Model: "script", Input: int64(float64(n) / perToken)}, nil
		}
	}
	w := c.athome(map[string]string{"memory/memory.md": strings.Repeat("- one thing that I remember\n", 2000)})
	w.Once = true
	c.brains["coder"].says = []any{counted(4), counted(1), counted(4), `{"actions":[]}`}
	for range 4 {
		c.send("coder", "the TASK", nil)
	}
	c.once(w)
	var had []int
	for _, t := range c.brains["coder"].asked {
		had = append(had, strings.Count(t.Messages[1].Content, "- one thing"))
	}
	if len(had) != 4 || had[1] < 2*had[0] || had[2] >= had[0] || had[3] != had[2] || had[0] == 0 {
		t.Errorf("lines of its memory: %d", had)
	}
}

// What lies in a home is read with care, and what cannot be read keeps nobody from working.
func TestOwnTextsOfAttackers(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{`{"actions":[]}`}
	other := t.TempDir()
	c.must(os.WriteFile(filepath.Join(other, "memory.md"), []byte("CANARY"), 0o600))
	w := c.athome(map[string]string{"IDENTITY.md": "an IDENTITY"})
	home := c.box.AgentDir("coder")
	c.must(os.Symlink(filepath.Join(other, "memory.md"), filepath.Join(home, "SOUL.md")))
	c.must(os.Symlink(other, filepath.Join(home, "memory")))
	c.must(os.Mkdir(filepath.Join(home, "CLAUDE.md"), 0o700))
	c.send("coder", "the TASK", nil)
	c.once(w)
	talk := c.lastAsked()
	if whole := talk[0].Content + talk[1].Content; strings.Contains(whole, "CANARY") || !strings.Contains(whole, "an IDENTITY") {
		t.Error(whole)
	}
	for _, name := range []string{"CLAUDE.md", "SOUL.md", "memory/memory.md"} {
		if !strings.Contains(c.log.String(), "is not told "+name) {
			t.Errorf("nothing is said of %s", name)
		}
	}
}
