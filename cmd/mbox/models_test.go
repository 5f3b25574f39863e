package main

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A server of models that is not up yet is asked until it is.
func TestPrepullWaitsForTheServer(t *testing.T) {
	t.Parallel()
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := at.Addr().String()
	at.Close()
	s, told := puller(t, "[ollama]\nurl = 'http://"+address+"'\npull = ['small']"), &logbook{}
	s.err = told
	done := make(chan struct{})
	go func() { defer close(done); s.prepull(t.Context()) }()
	for !strings.Contains(told.String(), "will try again until it answers") {
		select {
		case <-done:
			t.Fatalf("it has given up: %s", told)
		case <-time.After(5 * time.Millisecond):
		}
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write([]byte(`{"models":[{"name":"small:latest","model":"small:latest"}]}`))
	}))
	server.Listener.Close()
	if server.Listener, err = net.Listen("tcp", address); err != nil {
		t.Skip("somebody else has taken the port")
	}
	server.Start()
	defer server.Close()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("it does not come back")
	}
}

// The models of [ollama] pull are fetched even if nobody thinks with Ollama; when all are
// asked for, those that memories find by, too.
func TestPullWhatIsWanted(t *testing.T) {
	t.Parallel()
	var pulled []string
	mux := http.NewServeMux()
	mux.HandleFunc("/api/tags", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(`{"models":[{"name":"there:1"}]}`)) })
	mux.HandleFunc("/api/pull", func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		pulled = append(pulled, asked.Model)
		w.Write([]byte(`{"status":"success"}`))
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	s := puller(t, "[ollama]\nurl = '"+server.URL+"'\npull = ['small', 'there']\n"+nobodyThinks+
		"[agents.clerk.memory]\nbackend = 'sqlite'\nembed_model = 'nomic'\n[agents.off]\nenabled = false\nmemory = {backend = 'sqlite', embed_model = 'm'}")
	for _, c := range []struct {
		all  bool
		want string
	}{{false, "small"}, {true, "small nomic"}} {
		pulled = nil
		if err := s.pull(t.Context(), c.all); err != nil || strings.Join(pulled, " ") != c.want {
			t.Errorf("pull, all %v: %q, %v; want %s", c.all, pulled, err, c.want)
		}
	}
}

// A server that is down is told of once, whoever thinks by it, and all in one line.
func TestPullTellsOfAServerOnce(t *testing.T) {
	t.Parallel()
	s := puller(t, "[ollama]\nurl = 'http://127.0.0.1:1'\npull = ['small', 'other']\n[agents.tester.brain]\nurl = 'http://127.0.0.1:2'")
	err := s.pull(t.Context(), true)
	if err == nil || strings.Contains(err.Error(), "\n") {
		t.Fatalf("pull: %v; want one line", err)
	}
	for _, where := range []string{"127.0.0.1:1: ", "127.0.0.1:2: "} {
		if strings.Count(err.Error(), where) != 1 {
			t.Errorf("pull: %v; want %s once", err, where)
		}
	}
}

const nobodyThinks = "[agents.coordinator.brain]\nkind = 'none'\n[agents.coder.brain]\nkind = 'none'\n[agents.tester.brain]\nkind = 'none'\n[agents.deployer.brain]\nkind = 'none'\n"

// puller is a session with that configuration.
func puller(t *testing.T, text string) *session {
	s := &session{err: &logbook{}, meter: &meter{}, level: choice{value: "info"}}
	s.config = read(t, text)
	var err error
	if s.team, err = assemble(s.config, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return s
}
