package agents

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
)

// canary is a value that may stand in task files and nowhere else.
const canary = "canary7f3a"

// poisoned are actions that hold the canary in one of their values, right ones and
// wrong ones, by agent.
var poisoned = []struct{ to, name, params string }{
	{"coder", "write_file", `{"path":"canary7f3a.md","content":"x"}`},
	{"coder", "write_file", `{"path":"a.md","content":"canary7f3a"}`},
	{"coder", "write_file", `{"path":"../canary7f3a.md","content":"x"}`},
	{"coder", "write_file", `{"path":"/etc/canary7f3a.md","content":"x"}`},
	{"coder", "write_file", `{"path":"a.canary7f3a","content":"x"}`},
	{"coder", "write_file", `{"path":"canary7f3a","content":"x"}`},
	{"coder", "write_file", `{"path":"folder/canary7f3a/","content":"x"}`},
	{"coder", "write_file", `{"path":"link/canary7f3a.md","content":"x"}`},
	{"coder", "write_file", `{"path":"folder.md","content":"canary7f3a"}`},
	{"coder", "read_file", `{"path":"canary7f3a.md"}`},
	{"coder", "read_file", `{"path":"/etc/canary7f3a"}`},
	{"coder", "read_file", `{"path":"~canary7f3a/x"}`},
	{"coder", "read_file", `{"path":"canary7f3a:x"}`},
	{"coder", "read_file", `{"path":"canary7f3a\u0000"}`},
	{"coder", "read_file", `{"path":["canary7f3a"]}`},
	{"coder", "read_file", `"canary7f3a"`},
	{"coder", "http_check", `{"url":"https://example.org/canary7f3a"}`},
	{"tester", "http_check", `{"url":"http://127.0.0.1:1/canary7f3a"}`},
	{"tester", "http_check", `{"url":"http://localhost:1/canary7f3a"}`},
	{"tester", "http_check", `{"url":"http://canary7f3a.invalid/"}`},
	{"tester", "http_check", `{"url":"http://canary7f3a.local/"}`},
	{"tester", "http_check", `{"url":"ftp://canary7f3a.org/"}`},
	{"tester", "http_check", `{"url":"http://u:canary7f3a@example.org/"}`},
	{"tester", "http_check", `{"url":"http://example.org:canary7f3a/"}`},
	{"tester", "file_check", `{"path":"canary7f3a.md"}`},
	{"tester", "file_check", `{"path":"/etc/canary7f3a"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {canary7f3a: {image: canary7f3a}}"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {a: {image: b, canary7f3a: c}}"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {a: {image: b, volumes: ['/canary7f3a:/b']}}"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {a: {image: b, volumes: ['./canary7f3a:/b']}}"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {a: {image: b, environment: [canary7f3a]}}"}`},
	{"deployer", "deploy_compose", `{"compose":"canary7f3a"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {a: {image: 'canary7f3a ${x}'}}"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {a: {image: b, ports: ['canary7f3a:80']}}"}`},
	{"deployer", "deploy_compose", `{"compose":"services: {a: {image: b, mem_limit: canary7f3a}}"}`},
	{"coordinator", "delegate", `{"role":"coder","title":"canary7f3a"}`},
	{"coordinator", "delegate", `{"role":"coder","title":"x","description":"canary7f3a"}`},
	{"coordinator", "delegate", `{"role":"coder","title":"x","name":"canary7f3a"}`},
	{"coordinator", "delegate", `{"role":"coder","title":"x","join":"canary7f3a"}`},
	{"coordinator", "delegate", `{"role":"coder","task":"write_file","payload":{"path":"../canary7f3a","content":"x"}}`},
	{"coordinator", "delegate", `{"role":"coder","task":"write_file","payload":{"path":"a.md","content":"#!canary7f3a"}}`},
	{"coordinator", "delegate", `{"role":"coder","task":"write_file","payload":{"path":"link/canary7f3a.md","content":"x"}}`},
	{"coordinator", "delegate", `{"role":"tester","task":"http_check","payload":{"url":"http://127.0.0.1/canary7f3a"}}`},
}

// wild is a company in whose workspaces lie things that actions stumble over.
func wild(t *testing.T) *company {
	c := newCompany(t, nil)
	workspace := filepath.Join(c.box.Home(), "agents/coder/workspace/projects")
	for _, dir := range []string{"folder.md", "folder"} {
		if err := os.MkdirAll(filepath.Join(workspace, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("folder", filepath.Join(workspace, "link")); err != nil {
		t.Fatal(err)
	}
	return c
}

// silent checks that the canary stands in no ledger, no copy, no derived view and
// no log.
func (c *company) silent() {
	c.Helper()
	for _, tree := range []string{"audit", ".mbox/leases", "decisions", "changes", "memory"} {
		_ = filepath.WalkDir(filepath.Join(c.box.Home(), tree), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil
			}
			data, err := os.ReadFile(path)
			if err != nil {
				c.Fatal(err)
			}
			for line := range strings.Lines(string(data)) {
				if strings.Contains(line, canary) {
					c.Errorf("%s has the value: %s", filepath.Base(path), line)
				}
			}
			return nil
		})
	}
	for line := range strings.Lines(c.log.String()) {
		if strings.Contains(line, canary) {
			c.Errorf("the log has the value: %s", line)
		}
	}
}

// A task that is sent, dropped, or thought up: no value of its parameters gets into
// the ledger or the log, whatever comes of it.
func TestNoValueInTheLedger(t *testing.T) {
	for _, way := range []string{"sent", "dropped", "said"} {
		t.Run(way, func(t *testing.T) {
			c := wild(t)
			for _, q := range poisoned {
				c.come(way, q.to, q.name, q.params)
			}
			c.works("coordinator", "coder", "tester", "deployer", "coordinator")
			c.silent()
		})
	}
}

// Nor does any value of a file that is no task at all, or no right one.
func TestNoValueOfADrop(t *testing.T) {
	c := newCompany(t, nil)
	for _, text := range []string{
		`canary7f3a`, `"canary7f3a"`, `["canary7f3a"]`, `{"task":"canary7f3a"}`, `{"task":{"title":"canary7f3a",`,
		`{"task":{"title":"a","title":"canary7f3a"}}`, `{"task":{"title":"x","type":"canary7f3a"}}`,
		`{"task":{"title":"x","priority":"canary7f3a"}}`, `{"task":{"title":"x"},"created":"canary7f3a"}`,
		`{"task":{"title":"x"},"version":"canary7f3a"}`, `{"task":{"title":"x"},"source":{"agent":"Canary7f3a canary7f3a"}}`,
		`{"task":{"title":"x"},"assignment":{"target_agent":"canary7f3a canary7f3a"}}`,
		`{"task":{"title":"x"},"mbox":{"deadline":"canary7f3a"}}`, `{"task":{"title":"x"},"mbox":{"labels":"canary7f3a"}}`,
		`{"task":{"title":"x"},"mbox":{"max_attempts":"canary7f3a"}}`, `{"task":{"title":"x"},"mbox":{"idempotency_key":"canary7f3a"}}`,
		`{"task":{"title":"x"},"mbox":{"action":"canary7f3a"}}`, `{"task":{"title":"x"},"result":{"output":"canary7f3a"}}`,
		`{"task":{"title":"x","context":{"relevant_files":"canary7f3a"}}}`, `{"task":{"title":"x"}} canary7f3a`,
	} {
		c.drop(text)
	}
	c.silent()
}

// come brings an action into the mailbox: sent, dropped, or as the reply of the
// agent's brain to a task without one.
func (c *company) come(way, to, name, params string) {
	c.Helper()
	switch way {
	case "sent":
		_, _ = c.box.Submit(context.Background(), &mailbox.Task{
			Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: to}, Mbox: mailbox.Meta{Action: act(name, params)},
		}) // many are refused
	case "dropped":
		text := fmt.Sprintf(`{"task":{"title":"x"},"assignment":{"target_agent":%q},"mbox":{"action":{"name":%q,"params":%s}}}`, to, name, params)
		c.drop(text)
	case "said":
		reply := fmt.Sprintf(`{"actions":[{"action":%q,"params":%s}]}`, name, params)
		c.brains[to].says = append(c.brains[to].says, reply)
		_, err := c.box.Submit(context.Background(), &mailbox.Task{
			Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: to}, Mbox: mailbox.Meta{MaxAttempts: 1},
		})
		if err != nil {
			c.Fatal(err)
		}
	}
}

func (c *company) drop(text string) {
	c.Helper()
	path := filepath.Join(c.box.Home(), "tasks/pending", fmt.Sprintf("drop-%x.json", sha256.Sum256([]byte(text))))
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	old := time.Now().Add(-time.Minute) // it has been complete for long
	if err := os.Chtimes(path, old, old); err != nil {
		c.Fatal(err)
	}
	until(c.T, "somebody looks at the drop", func() bool {
		if err := c.box.Tidy(context.Background()); err != nil {
			c.Fatal(err)
		}
		now, err := os.ReadFile(path)
		return err != nil || string(now) != text // put away, or made a task
	})
}
