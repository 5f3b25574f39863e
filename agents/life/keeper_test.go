package life

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// What an agent does to its state.json keeps its worker from nothing.
func TestSpoiltState(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, []byte("{\"status\":"), 0o600) },
		"null":    func(path string) error { return os.WriteFile(path, []byte("null\n"), 0o600) },
		"long":    func(path string) error { return os.Truncate(path, mostState+1) },
		"pipe": func(path string) error {
			return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600))
		},
		"link": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink(filepath.Join(filepath.Dir(path), "CLAUDE.md"), path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			bear(t, b, "ada")
			about, err := os.ReadFile(filepath.Join(b.AgentDir("ada"), "CLAUDE.md"))
			must(t, err)
			must(t, spoil(filepath.Join(b.AgentDir("ada"), stateFile)))
			k, err := Keep(b, "ada", "v2")
			if err != nil || k == nil {
				t.Fatal(k, err)
			}
			must(t, k.Pulse(t.Context(), true))
			s, err := Stateful(b, "ada")
			must(t, err)
			if s.LastPulseAt == nil || s.Status != "healthy" || s.Version != "v2" || s.BootCount != 1 || s.ChannelCursors == nil {
				t.Errorf("%+v", s)
			}
			if now, err := os.ReadFile(filepath.Join(b.AgentDir("ada"), "CLAUDE.md")); err != nil || string(now) != string(about) {
				t.Errorf("the target of a link was written: %q, %v", now, err)
			}
		})
	}
}

// A worker and a dream may write state.json at the same time: nothing of either is lost.
func TestStateOfTwo(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	unlock, err := lockState(t.Context(), b, "ada")
	must(t, err)
	done := make(chan error, 2)
	go func() { done <- Dreamt(t.Context(), b, "ada") }()
	go func() { done <- Pulse(t.Context(), b, "ada", "v2", true) }()
	select {
	case err := <-done:
		t.Errorf("it was written while somebody else had the lock: %v", err)
		done <- err
	case <-time.After(50 * time.Millisecond):
	}
	must(t, unlock())
	must(t, <-done)
	must(t, <-done)
	s, err := Stateful(b, "ada")
	must(t, err)
	if s.LastDreamAt == nil || s.LastPulseAt == nil || s.Version != "v2" {
		t.Errorf("%+v", s)
	}
}

// What mbox writes into a home goes into its archive, or comes to nothing: a pulse that
// waits for its turn is not in a home that was put away meanwhile.
func TestPulseOfTheDead(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	unlock, err := lockState(t.Context(), b, "ada")
	must(t, err)
	done := make(chan error, 2)
	go func() {
		_, err := Drain(t.Context(), b, "ada", "human", "", nil)
		done <- err
	}()
	go func() { done <- change(t.Context(), b, "ada", func(s *State) { s.BootCount = 7 }) }()
	select {
	case err := <-done:
		t.Errorf("the home was changed while somebody else wrote: %v", err)
		done <- err
	case <-time.After(50 * time.Millisecond):
	}
	must(t, unlock())
	must(t, <-done)
	must(t, <-done)
	must(t, Restore(t.Context(), b, "ada", "human", ""))
}

// An agent that was not born has no keeper.
func TestKeepNobody(t *testing.T) {
	b := newBox(t)
	if k, err := Keep(b, "coder", "v"); k != nil || err != nil {
		t.Error(k, err)
	}
}

// What an agent has ended stands in its state, and only goes on.
func TestEnded(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	o := mailbox.Options{Sync: durable.None, Agents: map[string]mailbox.Capabilities{"ada": {}}}
	must(t, mailbox.Create(home, o))
	b, err := mailbox.Open(t.Context(), home, o)
	must(t, err)
	defer b.Close()
	bear(t, b, "ada")
	k, err := Keep(b, "ada", "v")
	must(t, err)
	_, _, _, err = mailbox.PostMessage(t.Context(), b, mailbox.Post{Channel: "garden", From: "human", Text: "About plants.", Create: true})
	must(t, err)
	posted, _, _, err := mailbox.PostMessage(t.Context(), b, mailbox.Post{Channel: "garden", From: "human", Text: "@ada, hello"})
	must(t, err)
	items, err := mailbox.Inbox(t.Context(), b, "ada")
	if err != nil || len(items) != 1 {
		t.Fatal(items, err)
	}
	item, _, err := b.Task(t.Context(), items[0].ID)
	must(t, err)
	must(t, k.Ended(t.Context(), item, true))
	s, err := Stateful(b, "ada")
	must(t, err)
	if s.ChannelCursors["garden"] != posted.Seq || s.InboxCursor != b.Ledger().End().Seq || s.Status != Failing {
		t.Errorf("%+v, want %d in garden and %d", s, posted.Seq, b.Ledger().End().Seq)
	}
	must(t, k.Pulse(t.Context(), false))
	if s, err = Stateful(b, "ada"); err != nil || s.Status != Failing {
		t.Errorf("a pulse forgets that the last work failed: %+v %v", s, err)
	}
	must(t, change(t.Context(), b, "ada", func(s *State) { s.InboxCursor, s.ChannelCursors["garden"] = 1000, 1000 }))
	must(t, k.Ended(t.Context(), item, false))
	if s, err = Stateful(b, "ada"); err != nil || s.ChannelCursors["garden"] != 1000 || s.InboxCursor != 1000 || s.Status != "healthy" {
		t.Errorf("%+v %v", s, err)
	}
}

// A pulse is stale after three intervals.
func TestStale(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	now := time.Now().Truncate(time.Millisecond)
	o := mailbox.Options{Sync: durable.None, Now: func() time.Time { return now }}
	must(t, mailbox.Create(home, o))
	b, err := mailbox.Open(t.Context(), home, o)
	must(t, err)
	defer b.Close()
	bear(t, b, "ada")
	now = now.Add(StaleAfter * time.Second)
	if _, stale := Seen(b, "ada").Stale(b.Options().Now(), time.Second); stale {
		t.Error("stale too soon")
	}
	now = now.Add(time.Millisecond)
	if _, stale := Seen(b, "ada").Stale(b.Options().Now(), time.Second); !stale {
		t.Error("never stale")
	}
	if _, stale := Seen(b, "coder").Stale(b.Options().Now(), time.Second); stale {
		t.Error("who has no home is stale")
	}
}
