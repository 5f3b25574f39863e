package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mbox/agents/brain/ollamatest"
)

// writes is the reply of a coder that writes files, of so many characters each.
func writes(characters int, names ...string) string {
	var actions []string
	for _, name := range names {
		var text strings.Builder
		for i := 0; text.Len() < characters; i++ {
			fmt.Fprintf(&text, "line %d of %s. ", i, name)
		}
		actions = append(actions, fmt.Sprintf(`{"action": "write_file", "params": {"path": %q, "content": %q}}`, name, text.String()[:characters]))
	}
	return `{"actions": [` + strings.Join(actions, ", ") + `], "answer": "I wrote it all."}`
}

// wrote wants that the coder's file is there, whole.
func (m *mind) wrote(name string, characters int) {
	m.Helper()
	data, err := os.ReadFile(filepath.Join(m.home, "agents", "coder", "workspace", "projects", name))
	if err != nil || len(data) != characters {
		m.Errorf("%s: %d characters, %v", name, len(data), err)
	}
}

// A server that is killed inside a reply, then is away, then is back without the
// model, and then has it. The task is given back each time without burning an
// attempt; while nobody can think nobody claims it, tasks that carry an action
// are done all the while, and doctor and why say what is missing.
func TestThinkingServerGone(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-coder", ollamatest.Line{Say: writes(1500, "kept.md")})
	inside, killed := make(chan struct{}), make(chan struct{})
	var began sync.Once
	g := newGate(t, server.URL, func(chat int64, sent int, _ <-chan struct{}) bool {
		if chat != 1 || sent == 0 {
			return true
		}
		began.Do(func() { close(inside) })
		<-killed
		return false
	})
	m := newMind(t, server, g.URL, "start_within = \"1s\"\n"+model("coder", "tiny-coder"))
	m.serve()
	id := m.must("send", "Write a file", "--to", "coder")
	m.awaits("a reply has begun", inside)
	server.Kill()
	close(killed)
	m.awaitIn("pending", id)
	m.cannotThink(id, strings.TrimPrefix(g.URL, "http://"))
	m.actsAllTheSame("while-away.md")

	if err := os.RemoveAll(filepath.Join(server.Dir, "models", "manifests")); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	m.cannotThink(id, "the model tiny-coder is not installed")
	m.actsAllTheSame("without-model.md")
	if events, reasons := m.events(id), m.reasons(id); strings.Join(events, " ") != "task_created task_picked task_released" || !strings.HasPrefix(reasons[1], "brain_down: ") {
		t.Errorf("the task was touched: %q %q", events, reasons)
	}

	server.Script("tiny-coder", ollamatest.Line{Say: writes(1500, "kept.md")})
	m.awaitIn("completed", id)
	m.once(id)
	m.wrote("kept.md", 1500)
	m.stop()
}

// cannotThink wants doctor and why to say why the coder cannot think.
func (m *mind) cannotThink(id, reason string) {
	m.Helper()
	m.await("mbox doctor says "+reason, func() bool {
		return strings.Contains(m.must("doctor"), "coder cannot think: "+reason)
	})
	m.await("mbox why says "+reason, func() bool {
		return strings.Contains(m.must("why", id), reason)
	})
}

// actsAllTheSame sends the coder a task that carries an action, and waits for its
// end.
func (m *mind) actsAllTheSame(name string) {
	m.Helper()
	task := fmt.Sprintf(`{"task":{"title":"act"},"assignment":{"target_agent":"coder"},"mbox":{"action":{"name":"write_file","params":{"path":%q,"content":"x"}}}}`, name)
	file := filepath.Join(m.dir, name+".json")
	if err := os.WriteFile(file, []byte(task), 0o600); err != nil {
		m.Fatal(err)
	}
	id := m.must("send", file)
	m.awaitIn("completed", id)
	m.once(id)
	m.wrote(name, 1)
}

// What tokens there are renew the lease, however slow they are.
func TestThinkingSlow(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-coder", ollamatest.Line{Say: writes(900, "slow.md")})
	const lease = 2 * time.Second
	var first, last time.Time // of the answer's lines; one conversation, one goroutine
	g := newGate(t, server.URL, func(chat int64, _ int, gone <-chan struct{}) bool {
		if chat == 0 {
			return true
		}
		if first.IsZero() {
			first = time.Now()
		}
		select {
		case <-gone:
			return false
		case <-time.After(25 * time.Millisecond):
		}
		last = time.Now()
		return true
	})
	m := newMind(t, server, g.URL, fmt.Sprintf("lease = %q\n", lease)+model("coder", "tiny-coder"))
	m.serve()
	id := m.must("send", "Write a file", "--to", "coder")
	m.awaitIn("completed", id)
	m.once(id)
	m.wrote("slow.md", 900)
	if took := last.Sub(first); took < 2*lease {
		t.Errorf("the reply took %v: the test shows nothing", took)
	}
	if events := m.events(id); len(events) != 3 {
		t.Errorf("%q %q", events, m.reasons(id))
	}
	m.stop()
}

// A server that stops inside a reply and says nothing more: the task is taken
// back at the end of its lease, the thought is given up, and the next attempt
// gets its turn at the server.
func TestThinkingStalls(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-coder", ollamatest.Line{Say: writes(900, "late.md")})
	given := make(chan struct{})
	g := newGate(t, server.URL, func(chat int64, sent int, gone <-chan struct{}) bool {
		if chat != 1 || sent == 0 {
			return true
		}
		<-gone
		close(given)
		return false
	})
	m := newMind(t, server, g.URL, "lease = \"5s\"\n"+model("coder", "tiny-coder"))
	m.serve()
	id := m.must("send", "Write a file", "--to", "coder")
	m.awaits("the reply was given up", given)
	m.awaitIn("completed", id)
	events, reasons := m.events(id), m.reasons(id)
	if strings.Join(events, " ") != "task_created task_picked task_retried task_picked task_completed" {
		t.Errorf("%q %q", events, reasons)
	}
	m.wrote("late.md", 900)
	m.stop()
}

// More agents than the server's queue has room for: those that are turned away
// give their task back, and all are done with their first attempt.
func TestThinkingQueueFull(t *testing.T) {
	t.Parallel()
	// While one model speaks, the other cannot be loaded: one question waits for
	// that, and one more has room in the queue.
	server := ollamatest.Start(t, "OLLAMA_MAX_QUEUE=1", "OLLAMA_MAX_LOADED_MODELS=1")
	server.Script("tiny-coder", ollamatest.Line{Say: `{"actions": [], "answer": "Nothing has to be done."}`})
	server.Script("busy", ollamatest.Line{Say: "tick and then tock, and so on, ", Loop: true})
	config := model("coder", "tiny-coder")
	names := []string{"one", "two", "three", "four", "five"}
	for _, name := range names {
		config += fmt.Sprintf("[agents.%s]\nrole = \"coder\"\n", name)
	}
	m := newMind(t, server, server.URL, config)
	m.patch("num_ctx = 8192", "num_ctx = 8192\nparallel = 8")
	release := occupy(t, server, "busy")
	m.serve()
	var ids []string
	for _, name := range names {
		ids = append(ids, m.must("send", "Do nothing", "--to", name))
	}
	busy := func() (n int) {
		for _, id := range ids {
			n += strings.Count(strings.Join(m.reasons(id), "\n"), "brain_busy")
		}
		return n
	}
	m.await("the server turns some away", func() bool { return busy() > 0 })
	release()
	for _, id := range ids {
		m.awaitIn("completed", id)
		m.once(id)
	}
	t.Logf("%d claims were given back while the server was busy", busy())
	m.stop()
}

// occupy has a model speak for ever, until what it returns is called.
func occupy(t *testing.T, server *ollamatest.Server, model string) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	body := fmt.Sprintf(`{"model": %q, "messages": [{"role": "user", "content": "Go on."}]}`, model)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/api/chat", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	speaks, err := http.DefaultClient.Do(r)
	if err != nil || speaks.StatusCode != http.StatusOK {
		t.Fatal(speaks, err)
	}
	return func() {
		cancel()
		speaks.Body.Close()
	}
}

// patch changes the configuration.
func (m *mind) patch(from, to string) {
	m.Helper()
	name := filepath.Join(m.home, "mbox.toml")
	data, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(data), from) {
		m.Fatalf("no %q in %s: %v", from, data, err)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(string(data), from, to, 1)), 0o600); err != nil {
		m.Fatal(err)
	}
}

// The process that runs the model is killed inside a reply: it is asked again, and
// each task ends right, and once.
func TestThinkingRunnerKilled(t *testing.T) {
	t.Parallel()
	names := []string{"one.md", "two.md", "three.md", "four.md"} // a reply long enough to be killed in
	server := ollamatest.Start(t)
	server.Script("tiny-coder", ollamatest.Line{Say: writes(1900, names...)})
	var armed atomic.Bool
	killed := 0 // guarded by armed
	g := newGate(t, server.URL, func(chat int64, sent int, _ <-chan struct{}) bool {
		if chat > 0 && armed.CompareAndSwap(true, false) {
			killed += server.KillRunners()
		}
		return true
	})
	m := newMind(t, server, g.URL, model("coder", "tiny-coder"))
	m.serve()
	for round := range 3 {
		armed.Store(true)
		id := m.must("send", "Write four files", "--to", "coder")
		m.awaitIn("completed", id)
		if events := strings.Join(m.events(id), " "); strings.Count(events, "task_completed") != 1 {
			t.Errorf("%s: %q", events, m.reasons(id))
		}
		for _, name := range names {
			m.wrote(name, 1900)
		}
		if killed <= round {
			t.Errorf("%d runners were killed", killed)
		}
	}
	if asked := g.chats.Load(); asked == 3 {
		t.Errorf("no reply was cut: the test shows nothing")
	}
	m.stop()
}
