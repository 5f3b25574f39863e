package mailbox

import (
	"os"
	"slices"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// lookedAt is a mailbox with a task whose pending, last changed so long ago, a scan has
// dealt with; and another process's Box of it.
func lookedAt(t *testing.T, ago time.Duration) (b, other *Box) {
	t.Helper()
	b = newBox(t, Options{})
	submit(t, b, &Task{ID: "t1", Task: Request{Title: "x"}})
	changedAgo(t, b, ago)
	b.paces.crowd = 0
	_, err := b.Scan(t.Context())
	must(t, err)
	p := b.paces.of(Pending)
	p.took = 0 // the next listing need not wait, however slow this machine is
	b.paces.set(Pending, p, 1)
	other, err = Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	t.Cleanup(func() { other.Close() })
	return b, other
}

// changedAgo lets pending look as if it had last changed so long ago.
func changedAgo(t *testing.T, b *Box, ago time.Duration) {
	t.Helper()
	at := time.Now().Add(-ago)
	must(t, os.Chtimes(b.path("tasks", "pending"), at, at))
}

func unchanged(t *testing.T, b *Box) bool {
	t.Helper()
	info, err := os.Stat(b.path("tasks", "pending"))
	must(t, err)
	return b.paces.of(Pending).holds(info)
}

// A crowded folder that one process has dealt with is not listed by the next one, until
// something changes in it.
func TestCrowdedFolderIsListedOnce(t *testing.T) {
	b, other := lookedAt(t, time.Hour)
	if !unchanged(t, other) {
		t.Fatal("the other process would list it again")
	}
	path := b.path("tasks", "pending", "drop.json")
	must(t, os.WriteFile(path, []byte(`{"task":{"title":"x"}}`), 0o600))
	must(t, os.Chtimes(path, time.Now().Add(-time.Minute), time.Now().Add(-time.Minute)))
	if unchanged(t, other) {
		t.Fatal("a drop does not count as a change")
	}
	if names, err := Unexpected(other, Pending); err != nil || !slices.Equal(names, []string{"drop.json"}) {
		t.Fatalf("unexpected are %q, %v", names, err)
	}
	_, err := other.Scan(t.Context())
	must(t, err)
	if names, err := Unexpected(other, Pending); err != nil || len(names) != 0 {
		t.Fatalf("unexpected are %q, %v", names, err)
	}
	if state, _ := stateOfTask(t, b, "drop"); state != Pending {
		t.Fatalf("the drop is %s", state)
	}
}

// A pace that cannot be written stops no scan, and the process itself knows it.
func TestPaceThatCannotBeWritten(t *testing.T) {
	b := newBox(t, Options{})
	submit(t, b, &Task{ID: "t1", Task: Request{Title: "x"}})
	changedAgo(t, b, time.Hour)
	b.paces.crowd = 0
	must(t, os.Mkdir(home.Private(b.home, "pace-pending"), 0o700))
	_, err := b.Scan(t.Context())
	must(t, err)
	if !unchanged(t, b) {
		t.Error("the folder would be listed again")
	}
}

// What takes long is done with what was found, not the listing: the next drop is not kept
// waiting for ten times as long.
func TestPaceIsOfTheListing(t *testing.T) {
	const long = time.Second
	b := newBox(t, Options{Review: func(*Task) ([]audit.Entry, error) {
		time.Sleep(long)
		return nil, nil
	}})
	b.drop(t, "slow.json", `{"task":{"title":"x"}}`)
	must(t, scanNow(b))
	if p := b.paces.of(Pending); p.begun.IsZero() || p.took >= long {
		t.Errorf("it counts %v for the listing", p.took)
	}
}

// A change just before the listing may have another one behind it with the same time.
func TestFolderChangedJustNow(t *testing.T) {
	_, other := lookedAt(t, 0)
	if unchanged(t, other) {
		t.Fatal("it counts as dealt with")
	}
}

// What cannot be a pace counts for nothing.
func TestPaceIsNotBelieved(t *testing.T) {
	_, other := lookedAt(t, time.Hour)
	file := home.Private(other.home, "pace-pending")
	data, err := os.ReadFile(file)
	must(t, err)
	for _, text := range []string{"", "1ms\n", "1ms x y\n", "-1ms" + string(data)[3:], string(data[:len(data)-2]) + "99\n"} {
		must(t, durable.Replace(file, []byte(text), durable.None))
		if p := other.paces.shared(Pending); p != (pace{}) {
			t.Errorf("%q is believed: %+v", text, p)
		}
	}
	must(t, durable.Replace(file, data, durable.None))
	if !unchanged(t, other) {
		t.Fatal("the pace itself is not believed")
	}
	later := time.Now().Add(time.Hour)
	must(t, os.Chtimes(file, later, later))
	if unchanged(t, other) {
		t.Error("one of the future is believed")
	}
}

// An id that begins with another one is told apart from it, though the names of their
// files come in another order than the ids.
func TestUnexpectedBesideLikeIDs(t *testing.T) {
	b := newBox(t, Options{})
	for _, id := range []ID{"a", "a-b", "a.b"} {
		sent(t, b, id)
	}
	b.drop(t, "drop.json", titled(""))
	if names, err := Unexpected(b, Pending); err != nil || !slices.Equal(names, []string{"drop.json"}) {
		t.Errorf("unexpected are %q, %v", names, err)
	}
	_, err := b.Scan(t.Context())
	must(t, err)
}
