package agents

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"mbox/mailbox"
)

// An agent with a role has a log of its own: whose task it did, how far it is
// trusted, and what came of it, without a word of the task.
func TestLogOfARoleAgent(t *testing.T) {
	c := newCompany(t, nil)
	id, err := c.box.Submit(t.Context(), &mailbox.Task{
		Source: mailbox.Source{Agent: "human", Session: "chat-7"}, Task: mailbox.Request{Title: "Write"},
		Assignment: mailbox.Assignment{TargetAgent: "coder"},
		Mbox:       mailbox.Meta{Action: act("write_file", `{"path":"a.md","content":"canary"}`)},
	})
	if err != nil {
		t.Fatal(err)
	}
	c.works("coder")
	data, err := os.ReadFile(filepath.Join(c.box.AgentDir("coder"), "logs", "coder.log"))
	if err != nil || bytes.Contains(data, []byte("canary")) {
		t.Fatalf("%v\n%s", err, data)
	}
	var said []string
	for line := range bytes.Lines(data) {
		var l map[string]any
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatal(err)
		}
		for key, want := range map[string]any{"agent_alias": "coder", "task_id": string(id), "session_key": "chat-7", "risk_profile": "default", "attempt": 1.0} {
			if l[key] != want {
				t.Errorf("%s is %v in %s", key, l[key], line)
			}
		}
		said = append(said, l["message"].(string))
	}
	if got := strings.Join(said, ", "); got != "claimed, acted, completed" {
		t.Errorf("it tells %s", got)
	}
}

// Two workers that append to a full log put it aside once, lose no line, and keep
// three old files.
func TestLogsAreTurned(t *testing.T) {
	defer func(n int64) { maxLog = n }(maxLog)
	maxLog = 2000
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 2 {
		j, err := openJournal(dir, "coder")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			defer j.close()
			for range 50 {
				if _, err := j.Write([]byte(strings.Repeat("x", 59) + "\n")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	files, err := filepath.Glob(filepath.Join(dir, "coder.log*"))
	lines := 0
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil || len(data) > 2200 {
			t.Errorf("%s: %d bytes, %v", f, len(data), err)
		}
		lines += bytes.Count(data, []byte("\n"))
	}
	if err != nil || len(files) != 3 && len(files) != 4 || lines != 100 {
		t.Errorf("%d files with %d lines, %v", len(files), lines, err)
	}
	for range 200 {
		j, err := openJournal(dir, "coder")
		if err != nil {
			t.Fatal(err)
		}
		j.Write(bytes.Repeat([]byte("y"), 500))
		j.close()
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 4 {
		t.Errorf("%v", files)
	}
}
