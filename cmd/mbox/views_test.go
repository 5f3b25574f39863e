package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/mailboxtest"
	"mbox/mailbox/task"
)

// TestQueueView sends more tasks than the view shows, the oldest under the last names. It
// shows the oldest, in order, and how many more there are; a drop that nobody has admitted
// is not among them.
func TestQueueView(t *testing.T) {
	const more = 2*mostQueued + 7 // it sorts in between
	box := mailboxtest.New(t, mailbox.Options{Sync: durable.None})
	begun := time.Now().Add(-time.Hour).Truncate(time.Second)
	for i := range mostQueued + more {
		_, err := box.Submit(t.Context(), &mailbox.Task{
			ID: mailbox.ID(fmt.Sprintf("task-%04d", mostQueued+more-i)), Created: task.At(begun.Add(time.Duration(i) * time.Second)),
			Task: task.Request{Title: "waits"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(box.Home(), "tasks", "pending", "dropped.json"), []byte(`{"task":{"title":"dropped"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w := views{service: &service{box: box}}
	q, err := w.queue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(q.Queue) != mostQueued || q.More != more {
		t.Fatalf("%d tasks and %d more, want %d and %d", len(q.Queue), q.More, mostQueued, more)
	}
	for i, it := range q.Queue {
		if want := fmt.Sprintf("task-%04d", mostQueued+more-i); it.ID != want {
			t.Fatalf("place %d: %s, want %s", i, it.ID, want)
		}
	}
}
