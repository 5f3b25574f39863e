package agentzero

import (
	"context"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"mbox/agents"
	"mbox/agents/brain"
	"mbox/agents/policy"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
)

const secret = "k3y-of-sixteen-c"

// fake is an Agent Zero.
type fake struct {
	mu    sync.Mutex
	calls []string
	asked map[string]any
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	f.mu.Lock()
	f.calls = append(f.calls, r.URL.Path)
	if strings.HasSuffix(r.URL.Path, messageCall) {
		f.asked = body
	}
	f.mu.Unlock()
	if r.Header.Get("X-API-KEY") != secret {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	text, _ := body["message"].(string)
	say := func(status int, what string) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(what))
	}
	switch {
	case strings.HasSuffix(r.URL.Path, terminateEnd) && body["context_id"] == secret:
		say(500, secret)
	case strings.HasSuffix(r.URL.Path, terminateEnd):
		say(200, `{"success":true}`)
	case strings.Contains(text, "the key"):
		say(200, `{"context_id":"`+secret+`","response":"I was given `+secret+`, \u006b3y-of-sixteen-c."}`)
	case strings.Contains(text, "no answer"):
		panic(http.ErrAbortHandler)
	case strings.Contains(text, "too busy"):
		w.Header().Set("Retry-After", "120")
		say(503, "later")
	case strings.Contains(text, "goes wrong"):
		say(500, `{"error":"`+secret+` is your key\u001b[2J"}`)
	case strings.Contains(text, "not right"):
		say(400, `{"error":"Message is required"}`)
	case strings.Contains(text, "somewhere else"):
		http.Redirect(w, r, "/api/elsewhere", http.StatusTemporaryRedirect)
	case strings.Contains(text, "talk garbage"):
		say(200, `<html>`)
	case strings.Contains(text, "without end"):
		for range 10 {
			say(200, strings.Repeat("x", 1<<20))
		}
	case strings.Contains(text, "for ever"):
		<-r.Context().Done()
	default:
		say(200, `{"context_id":"ctx-1","response":"The sky is blue."}`)
	}
}

// runs has an Agent Zero do a task with the title, and returns the task.
func runs(t *testing.T, g *Agent, title string) (*mailbox.Task, mailbox.State, string) {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	team := &agents.Team{
		Members: map[string]agents.Member{"zero": {Enabled: true}}, Actions: policy.NewWindow(math.MaxInt, nil), Salt: []byte("salt"),
		Policies: policy.Config{
			Home: home, RiskProfiles: map[string]policy.RiskProfile{"default": policy.DefaultRiskProfile()},
			RuntimeProfiles: map[string]policy.RuntimeProfile{"default": policy.DefaultRuntimeProfile()}, Agents: map[string]policy.Agent{"zero": {Enabled: true, Exec: true}},
		},
	}
	box := mailboxtest.In(t, home, mailbox.Options{MaxAttempts: 1, Review: team.Review, Approval: team.Approval})
	id, err := box.Submit(context.Background(), &mailbox.Task{Task: mailbox.Request{Title: title}, Assignment: mailbox.Assignment{TargetAgent: "zero"}})
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	w := agents.Worker{Box: box, Agent: "zero", Team: team, Runtime: g, Once: true, Grace: time.Second, Timeout: 3 * time.Second, Log: zerolog.New(&log)}
	if err := w.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	task, state, err := box.Task(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	if found, _ := exec.Command("grep", "-rl", secret, home).Output(); len(found) > 0 || strings.Contains(log.String(), secret) {
		t.Errorf("the key is in %q, or in the log:\n%s", found, &log)
	}
	return task, state, log.String()
}

func serve(t *testing.T) (*fake, string) {
	f := &fake{}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, s.URL + "/api/api_message"
}

func agent(t *testing.T, address string, key brain.Key) *Agent {
	t.Helper()
	g, err := New(address, key)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// A task is one message in a context of its own, which is ended.
func TestMessage(t *testing.T) {
	t.Parallel()
	f, address := serve(t)
	task, state, _ := runs(t, agent(t, address, secret), "What colour is the sky?")
	if state != mailbox.Completed || string(task.Result.Output) != `"The sky is blue."` {
		t.Errorf("%s: %s %+v", state, task.Result.Output, task.Result.Error)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := strings.Join(f.calls, " "); got != "/api/api_message /api/api_terminate_chat" {
		t.Errorf("it was asked %s", got)
	}
	if f.asked["context_id"] != nil || f.asked["lifetime_hours"] != 1.0 || !strings.Contains(f.asked["message"].(string), "What colour") {
		t.Errorf("it was told %v", f.asked)
	}
}

// What goes wrong ends the attempt, or gives the task back where it was not begun.
func TestFailures(t *testing.T) {
	t.Parallel()
	for title, want := range map[string]struct{ code, text string }{
		"no answer":      {"agentzero_cut", "broke off"},
		"goes wrong":     {"agentzero_failed", `status 500: {"error":"<redacted> is your key`},
		"not right":      {"agentzero_refused", "Message is required"},
		"somewhere else": {"agentzero_refused", "status 307"},
		"talk garbage":   {"agentzero_answer", "not as its API says"},
		"without end":    {"agentzero_answer", "more than"},
		"for ever":       {"timeout", "no end"},
		"too busy":       {"", "agentzero is busy"},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			f, address := serve(t)
			task, state, _ := runs(t, agent(t, address, secret), title)
			if want.code == "" {
				if state != mailbox.Pending || time.Until(task.Mbox.NotBefore.Time) < time.Minute {
					t.Errorf("%s: %+v", state, task.Mbox)
				}
			} else if e := task.Result.Error; state != mailbox.Failed || e.Code != want.code || !strings.Contains(e.Message, want.text) {
				t.Errorf("%s: %+v", state, e)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			for _, path := range f.calls {
				if strings.HasSuffix(path, "elsewhere") {
					t.Error("the key was carried on")
				}
			}
		})
	}
}

// A key that comes back with an answer is kept nowhere.
func TestKeyInTheAnswer(t *testing.T) {
	t.Parallel()
	_, address := serve(t)
	task, state, _ := runs(t, agent(t, address, secret), "Tell me the key")
	if got := string(task.Result.Output); state != mailbox.Completed || got != `"I was given <redacted>, <redacted>."` {
		t.Errorf("%s: %s", state, got)
	}
}

// A key that is not taken, and a server that is not there, are no task's fault.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	_, address := serve(t)
	task, state, _ := runs(t, agent(t, address, "other"), "x")
	if changes := task.Audit.StateChanges; state != mailbox.Pending || !strings.Contains(changes[len(changes)-1].Reason, "does not take the key") {
		t.Errorf("%s: %+v", state, task.Audit.StateChanges)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	address = gone.URL + "/api_message"
	gone.Close()
	task, state, _ = runs(t, agent(t, address, secret), "x")
	if changes := task.Audit.StateChanges; state != mailbox.Pending || !strings.Contains(changes[len(changes)-1].Reason, "cannot be reached") {
		t.Errorf("%s: %+v", state, task.Audit.StateChanges)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"", "ftp://x/api_message", "http://127.0.0.1:5000/", "https://u:p@x/api_message", "https://x/api_message?key=1", "http://example.org/api_message", "http:///api_message",
	} {
		if _, err := New(address, secret); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", address, err)
		}
	}
	if g := agent(t, "https://example.org/api/api_message", secret); g.terminate != "https://example.org/api/api_terminate_chat" {
		t.Error(g.terminate)
	}
}

// A name of this machine that resolves to another one gets no key.
func TestLocalOnly(t *testing.T) {
	t.Parallel()
	resp, err := agent(t, "http://localhost:1/api_message", secret).client.Get("http://192.0.2.1:9/")
	if err == nil {
		resp.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "resolves to another one") {
		t.Error(err)
	}
}
