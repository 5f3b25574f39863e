package main

import (
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
	told := &logbook{}
	s := &session{err: told, meter: &meter{}, level: choice{value: "info"}}
	s.config = read(t, "[ollama]\nurl = 'http://"+address+"'\npull = ['small']")
	if s.team, err = assemble(s.config, t.TempDir()); err != nil {
		t.Fatal(err)
	}
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
