package brain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mbox/agents"
)

// fake is a stand-in for an Ollama server: what a real one cannot be made to
// say. What a real one does is in real_test.go.
type fake struct {
	*httptest.Server
	chat   http.HandlerFunc // of /api/chat
	models string           // of /api/tags
	asked  atomic.Int64     // for the models
}

func newFake(t *testing.T, models string, chat http.HandlerFunc) *fake {
	f := &fake{chat: chat, models: models}
	mux := http.NewServeMux()
	mux.HandleFunc("/api/tags", func(w http.ResponseWriter, _ *http.Request) {
		f.asked.Add(1)
		names := strings.Fields(f.models)
		for i, name := range names {
			names[i] = fmt.Sprintf(`{"name":%q,"model":%q}`, name, name)
		}
		fmt.Fprintf(w, `{"models":[%s]}`, strings.Join(names, ","))
	})
	mux.HandleFunc("/api/chat", func(w http.ResponseWriter, r *http.Request) { f.chat(w, r) })
	f.Server = httptest.NewServer(mux)
	t.Cleanup(f.Close)
	forget(f.URL)
	return f
}

// forget drops what brains know of a server: a port that another test has used
// may come again.
func forget(url string) {
	servers.Lock()
	defer servers.Unlock()
	maps.DeleteFunc(servers.known, func(key string, _ *server) bool { return strings.Contains(key, url) })
}

func (f *fake) brain(t *testing.T, o Options) *Ollama {
	t.Helper()
	o.URL = f.URL
	if o.Model == "" {
		o.Model = "m"
	}
	b, err := NewOllama(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// says streams lines, flushed one by one.
func says(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for _, line := range lines {
			fmt.Fprintln(w, line)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func status(code int, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		fmt.Fprint(w, text)
	}
}

// breaks says the lines, and then the connection is gone.
func breaks(lines ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		says(lines...)(w, r)
		panic(http.ErrAbortHandler)
	}
}

func piece(text string) string {
	return fmt.Sprintf(`{"model":"m","message":{"role":"assistant","content":%q},"done":false}`, text)
}

func done(reason string) string {
	return fmt.Sprintf(`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":%q,"prompt_eval_count":7,"eval_count":5}`, reason)
}

func question(text string) agents.Thought {
	return agents.Thought{Messages: []agents.Message{{Role: "user", Content: text}}}
}

// within is a context that ends long after a test that works has ended.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// faultOf fails the test unless err is a *BrainError with the fault, and no
// reply came with it.
func faultOf(t *testing.T, want agents.Fault, r agents.Reply, err error) *agents.BrainError {
	t.Helper()
	var e *agents.BrainError
	if !errors.As(err, &e) || e.Fault != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	if r != (agents.Reply{}) {
		t.Errorf("a reply came with the error: %+v", r)
	}
	return e
}
