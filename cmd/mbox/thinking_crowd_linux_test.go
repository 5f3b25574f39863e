package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mostForFifty is what an mbox up with fifty agents may ever have resident.
const mostForFifty = 100 << 20

// Fifty agents with a role and a brain in one mbox up. Each does a task that
// carries an action, and is asked to think, which it cannot: there is no server.
func TestThinkingCrowd(t *testing.T) {
	config := ""
	for i := range 50 {
		config += fmt.Sprintf("\n[agents.a%02d]\nrole = \"coder\"", i)
	}
	m := newMind(t, nil, "http://127.0.0.1:9", config+"\n")
	m.serve()
	for i := range 50 {
		name := fmt.Sprintf("a%02d", i)
		task := fmt.Sprintf(`{"task":{"title":"act"},"assignment":{"target_agent":%q},"mbox":{"action":{"name":"write_file","params":{"path":"here.md","content":"x"}}}}`, name)
		for id, text := range map[string]string{
			"act-" + name:   task,
			"think-" + name: fmt.Sprintf(`{"task":{"title":"think"},"assignment":{"target_agent":%q}}`, name),
		} {
			drop := filepath.Join(m.home, "tasks", "pending", id)
			if err := os.WriteFile(drop+".part", []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(drop+".part", drop+".json"); err != nil {
				t.Fatal(err)
			}
		}
	}
	completed := func() int { return len(names(t, filepath.Join(m.home, "tasks", "completed"))) }
	m.await("fifty tasks are done", func() bool { return completed() == 50 })
	if n := len(names(t, filepath.Join(m.home, "tasks", "pending"))); n != 50 {
		t.Errorf("%d tasks wait for a brain, not 50", n)
	}
	m.await("every drop is admitted", func() bool {
		for _, name := range names(t, filepath.Join(m.home, "tasks", "pending")) {
			data, err := os.ReadFile(filepath.Join(m.home, "tasks", "pending", name))
			if err != nil || !strings.Contains(string(data), `"tx"`) {
				return false
			}
		}
		return true
	})
	if most := peak(t, m.serves.Process.Pid); most > mostForFifty {
		t.Errorf("mbox up had %d KiB resident", most>>10)
	} else {
		t.Logf("50 agents: mbox up had at most %d KiB resident", most>>10)
	}
	m.stop()
}
