package sqlite

import (
	"path/filepath"
	"testing"
	"time"

	"mbox/agents/memory"
)

// What an agent remembers is its own under another name, and has its UUID.
func TestRename(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m", "memory.db")
	if err := Rename(t.Context(), path, "ada", "eve", time.Second); err != nil {
		t.Fatalf("where there is no database: %v", err)
	}
	open := func(agent string) *Store {
		t.Helper()
		s, err := Open(path, agent, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	const id = "0f6c1e9a-3b52-4a49-9c64-1d7a2d0c8f11"
	for _, agent := range []string{"ada", "bob"} {
		s := open(agent)
		if agent == "ada" {
			s.UUID = id
		}
		if _, err := s.Add(t.Context(), memory.Entry{Category: "core", Key: "name", Content: "I am " + agent, By: "human"}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // said again
		if err := Rename(t.Context(), path, "ada", "eve", time.Second); err != nil {
			t.Fatal(err)
		}
		for agent, want := range map[string]bool{"ada": false, "bob": true, "eve": true} {
			if known, err := Knows(t.Context(), path, agent, time.Second); known != want || err != nil {
				t.Errorf("%s is known: %t %v", agent, known, err)
			}
		}
	}
	s := open("eve")
	found := 0
	for e, err := range s.All(t.Context()) {
		if err != nil || e.Content != "I am ada" {
			t.Errorf("%+v %v", e, err)
		}
		found++
	}
	got := ""
	if err := s.db.QueryRowContext(t.Context(), "SELECT uuid FROM agents WHERE alias = 'eve'").Scan(&got); err != nil || got != id || found != 1 {
		t.Errorf("it is %s, with %d entries: %v", got, found, err)
	}
	if err := Rename(t.Context(), path, "eve", "bob", time.Second); err == nil {
		t.Error("two are one")
	}
}
