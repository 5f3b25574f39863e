package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mbox/agents/brain/ollamatest"
)

// mostColony is what mbox up may have resident with agents that were born, also fifty.
const mostColony = 100 << 20

// Agents that were born, and have nothing to do, ask no model, and say all the same
// that they are there.
func TestThinkingIdleColony(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-coder", ollamatest.Line{Say: `{"actions": [], "answer": "Nothing has to be done."}`})
	g := newGate(t, server.URL, nil)
	m := newMind(t, server, g.URL, model("coder", "tiny-coder"))
	var names []string
	for i := range sized(10, 20, 50) {
		name := fmt.Sprintf("a%d", i)
		m.must("agent", "birth", name, "--role", "coder")
		if err := m.set(name, "idle_interval = \"1s\""); err != nil {
			t.Fatal(err)
		}
		var first struct{ ID string }
		if err := json.Unmarshal([]byte(m.must("ls", "--for", name, "--json")), &first); err != nil {
			t.Fatal(err)
		}
		m.must("cancel", first.ID) // its introduction, which would be a thought
		names = append(names, name)
	}
	m.serve()
	begun := time.Now()
	m.await("all have been heard of again and again", func() bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			var state struct {
				At time.Time `json:"last_pulse_at"`
			}
			text, err := os.ReadFile(filepath.Join(m.home, "agents", name, "state.json"))
			return err != nil || json.Unmarshal(text, &state) != nil || state.At.Before(begun.Add(5*time.Second))
		})
	})
	if n := g.chats.Load(); n != 0 {
		t.Errorf("idle agents have thought %d times", n)
	}
	most := peak(t, m.serves.Process.Pid)
	t.Logf("%d idle agents: mbox up had at most %d KiB resident", len(names), most>>10)
	if most > mostColony {
		t.Errorf("mbox up had %d KiB resident", most>>10)
	}
	m.awaitIn("completed", m.must("send", "Do nothing", "--to", names[0]))
	if g.chats.Load() != 1 {
		t.Errorf("%d questions for one thought: the test shows nothing", g.chats.Load())
	}
	m.stop()
}
