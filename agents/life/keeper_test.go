package life

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
	"mbox/mailbox/task"
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

// Who finishes for mbox up does not wait for a dream of an agent that is to go: the next
// time it puts the agent away.
func TestFinishDuringADream(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	c, err := b.Claim(t.Context(), mailbox.ClaimRequest{Agent: "ada"})
	must(t, err)
	if _, err := Drain(t.Context(), b, "ada", "human", "", nil, nil); err != nil {
		t.Fatal(err)
	}
	must(t, c.Complete(t.Context(), mailbox.Result{}))
	leave, err := Enter(t.Context(), b, "ada", 0)
	must(t, err)
	ctx, stop := context.WithTimeout(t.Context(), lockWait/2)
	defer stop()
	if buried, err := Finish(ctx, b, nil); err != nil || ctx.Err() != nil || len(buried) > 0 {
		t.Errorf("during a dream: %v %v %v", buried, err, ctx.Err())
	}
	must(t, leave())
	if buried, err := Finish(t.Context(), b, nil); err != nil || len(buried) != 1 {
		t.Errorf("afterwards: %v %v", buried, err)
	}
	must(t, Restore(t.Context(), b, "ada", "human", "", nil))
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
		_, err := Drain(t.Context(), b, "ada", "human", "", nil, nil)
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
	must(t, Restore(t.Context(), b, "ada", "human", "", nil))
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
	b := mailboxtest.New(t, mailbox.Options{Agents: map[string]mailbox.Capabilities{"ada": {}}})
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

// What an agent has done stands in its memory, a line each, whatever the agent makes of that.
func TestRemember(t *testing.T) {
	b := newBox(t)
	bear(t, b, "ada")
	k, err := Keep(b, "ada", "v")
	must(t, err)
	home := b.AgentDir("ada")
	file := filepath.Join(home, memoryFile)
	remember := func(title, output string, failed bool) (string, error) {
		t.Helper()
		did := &mailbox.Task{ID: "t1", Task: mailbox.Request{Title: title}, Result: task.Result{Output: []byte(output)}}
		err := k.remember(did, failed)
		text, _ := os.ReadFile(file)
		return string(text), err
	}
	begun := "# What ada remembers\n- mine"
	must(t, os.WriteFile(file, []byte(begun), 0o600))
	at := now(b).Format("- 2006-01-02 15:04 ") + "t1, "
	want := begun
	for _, q := range []struct {
		title, output string
		failed        bool
		line          string
	}{
		{"Look", `"It is\n# green"`, false, "Look: It is\\n# green"},
		{"Look\nagain", `{"a":1}`, false, "Look\\nagain: {\"a\":1}"},
		{"Think", `{"answer":"well"}`, false, "Think: well"},
		{"Look", `"no"`, true, "Look: failed"},
		{strings.Repeat("x", 200), `""`, false, strings.Repeat("x", mostTitle-1) + "…: done"},
	} {
		want += "\n" + at + q.line
		if text, err := remember(q.title, q.output, q.failed); err != nil || text != want+"\n" {
			t.Errorf("%v\n%s\nwant\n%s", err, text, want)
		}
	}
	beat := &mailbox.Task{ID: "t2", Result: task.Result{Output: []byte(`"HEARTBEAT_OK"`)}}
	beat.Mbox.Trigger = task.Heartbeat
	must(t, k.remember(beat, false))
	if text, err := os.ReadFile(file); err != nil || string(text) != want+"\n" {
		t.Errorf("a heartbeat in which nothing was done: %v\n%s", err, text)
	}
	canary := filepath.Join(t.TempDir(), "canary")
	must(t, os.WriteFile(canary, nil, 0o600))
	for name, spoil := range map[string]func() error{
		"a link":            func() error { return errors.Join(os.Remove(file), os.Symlink(canary, file)) },
		"a link to its own": func() error { return errors.Join(os.Remove(file), os.Symlink("../SOUL.md", file)) },
		"a pipe":            func() error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) },
		"too long": func() error {
			return errors.Join(os.Remove(file), os.WriteFile(file, nil, 0o600), os.Truncate(file, mostLines+1))
		},
	} {
		must(t, spoil())
		if k.remember(&mailbox.Task{ID: "t1"}, false) == nil {
			t.Errorf("%s is written to", name)
		}
	}
	if text, err := os.ReadFile(filepath.Join(home, "SOUL.md")); err != nil || strings.Contains(string(text), "t1") {
		t.Errorf("who the agent is was written to: %q %v", text, err)
	}
	if text, err := os.ReadFile(canary); err != nil || len(text) > 0 {
		t.Errorf("the target of a link was written: %q %v", text, err)
	}
	must(t, os.RemoveAll(filepath.Join(home, "memory")))
	if _, err := remember("x", "", false); err != nil {
		t.Errorf("without a memory: %v", err)
	}
}

// A pulse is stale after three intervals.
func TestStale(t *testing.T) {
	now := time.Now().Truncate(time.Millisecond)
	b := mailboxtest.New(t, mailbox.Options{Now: func() time.Time { return now }})
	bear(t, b, "ada")
	now = now.Add(StaleAfter * time.Second)
	if _, stale := Seen(b, "ada").Stale(b.Options().Now(), time.Second, true); stale {
		t.Error("stale too soon")
	}
	now = now.Add(time.Millisecond)
	if _, stale := Seen(b, "ada").Stale(b.Options().Now(), time.Second, true); !stale {
		t.Error("never stale")
	}
	if _, stale := Seen(b, "coder").Stale(b.Options().Now(), time.Second, true); stale {
		t.Error("who has no home is stale")
	}
}
