package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"mbox/agents/brain/ollamatest"
	"mbox/mailbox/linttest"
)

// These tests run the real program with models of a real Ollama server.

// mind is a home whose agents think.
type mind struct {
	*storm
	server *ollamatest.Server
	serves *exec.Cmd
}

// newMind makes a home that thinks with the server at url. The configuration is
// for quick tests; more of it comes behind, and may begin with plain keys.
func newMind(t *testing.T, server *ollamatest.Server, url, config string) *mind {
	t.Helper()
	bin := program(t)
	m := &mind{storm: &storm{T: t, bin: bin, dir: t.TempDir()}, server: server}
	m.home = filepath.Join(m.dir, "home")
	m.must("init", "--sync", "none")
	config, tables, _ := strings.Cut(config, "\n[")
	text := "sync = \"none\"\npoll_interval = \"1s\"\nretry_base = \"10ms\"\n" + config +
		fmt.Sprintf("\n[ollama]\nurl = %q\nnum_ctx = 8192\nnum_thread = 1\n", url)
	if tables != "" {
		text += "[" + tables
	}
	if err := os.WriteFile(filepath.Join(m.home, "mbox.toml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

// model is the table of a role that thinks with the model.
func model(role, name string) string {
	return fmt.Sprintf("\n[roles.%s]\nmodel = %q\n", role, name)
}

// serve runs mbox up until the test ends. Its log is shown when the test fails.
func (m *mind) serve() {
	m.Helper()
	m.serves = m.command("--log-level", "debug", "up", "--grace", "1s")
	log := &logbook{}
	m.serves.Stderr = log
	if err := m.serves.Start(); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		_ = m.serves.Process.Kill()
		_ = m.serves.Wait()
		if m.Failed() {
			m.Logf("mbox up said\n%s", log)
		}
	})
	m.await("mbox up serves", func() bool { return strings.Contains(log.String(), "mbox: ready") })
}

// said is what mbox up has logged by now.
func (m *mind) said() string { return fmt.Sprint(m.serves.Stderr) }

// stop ends mbox up in good order, and looks at what it leaves.
func (m *mind) stop() {
	m.Helper()
	if err := m.serves.Process.Signal(syscall.SIGTERM); err != nil {
		m.Fatal(err)
	}
	if err := m.serves.Wait(); err != nil {
		m.Errorf("mbox up: %v", err)
	}
	m.must("verify")
	if err := linttest.Home(m.home, "--whole"); err != nil {
		m.Error(err)
	}
}

// await looks until something holds. How long it takes is no matter; two minutes
// are the end of a test that hangs.
func (m *mind) await(what string, holds func() bool) {
	m.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.Fatalf("%s: not after two minutes; the tasks:\n%s", what, m.must("ls", "--json"))
		}
	}
}

// awaits waits for a channel to be closed, as long as await.
func (m *mind) awaits(what string, closed <-chan struct{}) {
	m.Helper()
	m.await(what, func() bool {
		select {
		case <-closed:
			return true
		default:
			return false
		}
	})
}

// seenTask is a task file, as far as these tests read it.
type seenTask struct {
	Result struct {
		Status string          `json:"status"`
		Output json.RawMessage `json:"output"`
		Error  struct{ Code, Message string }
	} `json:"result"`
	Audit struct {
		Changes []struct{ Reason string } `json:"state_changes"`
	} `json:"audit"`
	Mbox struct {
		Attempt int `json:"attempt"`
	} `json:"mbox"`
}

// task reads a task, and returns in which folder it lies.
func (m *mind) task(id string) (t seenTask, folder string) {
	m.Helper()
	for range 100 { // it may move while we look
		for _, folder := range []string{"pending", "in-progress", "completed", "failed"} {
			data, err := os.ReadFile(filepath.Join(m.home, "tasks", folder, id+".json"))
			if err != nil {
				continue
			}
			if err := json.Unmarshal(data, &t); err != nil {
				m.Fatalf("%s: %v", id, err)
			}
			return t, folder
		}
	}
	m.Fatalf("%s lies nowhere", id)
	return t, ""
}

func (m *mind) awaitIn(folder, id string) seenTask {
	m.Helper()
	m.await(id+" is "+folder, func() bool {
		_, at := m.task(id)
		if at != folder && (at == "failed" || at == "completed") {
			m.Fatalf("%s is %s: %s", id, at, m.must("show", id, "--json"))
		}
		return at == folder
	})
	t, _ := m.task(id)
	return t
}

// events are the ledger's lines of a task that moved it, in their order.
func (m *mind) events(id string) (events []string) {
	m.Helper()
	for _, line := range m.ledger() {
		if line.TaskID != nil && *line.TaskID == id && line.Details.To != nil {
			events = append(events, line.Event)
		}
	}
	return events
}

// reasons are why a task moved, as its file tells.
func (m *mind) reasons(id string) (reasons []string) {
	m.Helper()
	t, _ := m.task(id)
	for _, change := range t.Audit.Changes {
		reasons = append(reasons, change.Reason)
	}
	return reasons
}

// once wants that the task was completed once, with its first attempt.
func (m *mind) once(id string) {
	m.Helper()
	events := m.events(id)
	completed := strings.Count(strings.Join(events, " "), "task_completed")
	if t, _ := m.task(id); completed != 1 || t.Mbox.Attempt != 1 {
		m.Errorf("%s has attempt %d, and %q: %q", id, t.Mbox.Attempt, events, m.reasons(id))
	}
}

// logbook is a log that is read while it is written.
type logbook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logbook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logbook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const (
	reported = "The agents that you handed work to have ended." // what a coordinator is told then

	handsOn = `{"actions": [` +
		`{"action": "delegate", "params": {"role": "coder", "task": "write_file", "payload": {"path": "note.md", "content": "# A note\n"}, "name": "note"}}, ` +
		`{"action": "delegate", "params": {"role": "tester", "task": "file_check", "payload": {"path": "coder:note.md"}, "name": "check", "after": ["note"]}}], ` +
		`"answer": "I hand it on."}`
)

// A coordinator thinks twice: it hands a task on to two agents, and puts together
// what they report.
func TestThinkingHandsOn(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-coordinator",
		ollamatest.Line{Say: handsOn},
		ollamatest.Line{When: reported, Say: `{"actions": [], "answer": "The note is written, and it is there."}`})
	m := newMind(t, server, server.URL, model("coordinator", "tiny-coordinator"))
	m.serve()
	id := m.must("send", "Write a note and check that it is there", "--to", "coordinator")
	task := m.awaitIn("completed", id)

	var output struct {
		Answer   string
		Children []struct {
			ID, Agent, Status string
			Output            struct{ Status, Path string }
		}
	}
	if err := json.Unmarshal(task.Result.Output, &output); err != nil || len(output.Children) != 2 {
		t.Fatalf("%v: %s", err, task.Result.Output)
	}
	note, check := output.Children[0], output.Children[1]
	if output.Answer != "The note is written, and it is there." ||
		note.Agent != "coder" || note.Status != "completed" || note.Output.Status != "written" || note.Output.Path != "projects/note.md" ||
		check.Agent != "tester" || check.Status != "completed" || check.Output.Status != "exists" {
		t.Errorf("%s", task.Result.Output)
	}
	written, err := os.ReadFile(filepath.Join(m.home, "agents", "coder", "workspace", "projects", "note.md"))
	if err != nil || string(written) != "# A note\n" {
		t.Errorf("the note: %q %v", written, err)
	}
	m.once(id)
	if got := strings.Join(m.events(id), " "); got != "task_created task_picked task_released task_picked task_completed" {
		t.Error(got)
	}
	tree := m.must("why", id)
	for _, branch := range []string{"├─ " + note.ID + "  completed  coder, write_file\n", "└─ " + check.ID + "  completed  tester, file_check\n"} {
		if !strings.Contains(tree, branch) {
			t.Errorf("no %q in\n%s", branch, tree)
		}
	}
	for _, decision := range []string{"coordinator coder write_file delivered", "coordinator tester file_check delivered"} {
		if n := m.decisions()[decision]; n != 2 { // handed on, and done
			t.Errorf("%q stands %d times in the ledger, not twice: %v", decision, n, m.decisions())
		}
	}
	m.stop()
}

// A model is told who the agent is that was born, and what it remembers: of this script it
// says each line only where it has read that.
func TestThinkingOfOneself(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-coder",
		ollamatest.Line{Say: `{"actions": [], "answer": "I am nobody."}`},
		ollamatest.Line{When: "walrus", Say: `{"actions": [], "answer": "I am the one with tusks."}`},
		ollamatest.Line{When: "the tide is at noon", Say: `{"actions": [], "answer": "It came back to me."}`})
	m := newMind(t, server, server.URL, model("coder", "tiny-coder"))
	m.must("agent", "birth", "ada", "--role", "coder", "--instruction", "You are the walrus.")
	m.serve()
	if got := string(m.awaitIn("completed", m.must("send", "Who are you?", "--to", "ada")).Result.Output); !strings.Contains(got, "with tusks") {
		t.Errorf("of its CLAUDE.md it says %s", got)
	}
	memory := filepath.Join(m.home, "agents", "ada", "memory", "memory.md")
	if err := os.WriteFile(memory, []byte(strings.Repeat("- nothing of any interest\n", 2000)+"- the tide is at noon\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Of 50 KB the newest are told, and they fit: else the server would refuse the prompt.
	if got := string(m.awaitIn("completed", m.must("send", "What do you remember?", "--to", "ada")).Result.Output); !strings.Contains(got, "came back") {
		t.Errorf("of its memory it says %s", got)
	}
	if got := string(m.awaitIn("completed", m.must("send", "Who are you?", "--to", "coder")).Result.Output); !strings.Contains(got, "nobody") {
		t.Errorf("who was not born says %s", got)
	}
	m.stop()
}

// decisions counts what was decided on delegations, as "from to task decision".
func (m *mind) decisions() map[string]int {
	m.Helper()
	var view struct {
		Entries []struct{ From, To, Task, Decision string }
	}
	if err := json.Unmarshal([]byte(m.must("audit", "delegation", "-n", "1000", "--json")), &view); err != nil {
		m.Fatal(err)
	}
	counts := map[string]int{}
	for _, e := range view.Entries {
		counts[strings.Join([]string{e.From, e.To, e.Task, e.Decision}, " ")]++
	}
	return counts
}
