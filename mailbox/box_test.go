package mailbox

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/linttest"
)

// newBox makes a mailbox in a temporary folder and opens it. At the end of the
// test its home has to pass the independent checker of the format, agents' copies
// included: whoever was closed has left them whole.
func newBox(t testing.TB, o Options) *Box {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	if o.Sync == durable.Standard {
		o.Sync = durable.None
	}
	if err := Create(dir, o); err != nil {
		t.Fatal(err)
	}
	b, err := Open(context.Background(), dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Logf("closing: %v", err)
		}
		if !t.Failed() {
			lint(t, dir)
		}
	})
	return b
}

// lint runs the independent checker on a home in which everybody has ended.
func lint(t testing.TB, home string) {
	t.Helper()
	lintAll(t, map[string]string{home: home}, "--whole")
}

// lintAll runs the independent checker on homes, which are labelled.
func lintAll(t testing.TB, homes map[string]string, options ...string) {
	t.Helper()
	for _, home := range slices.Sorted(maps.Keys(homes)) {
		if err := linttest.Home(home, options...); err != nil {
			t.Errorf("%s: %v", homes[home], err)
		}
	}
}

func request(title string) *Task { return &Task{Task: Request{Title: title}} }

func TestRule07_OneTask(t *testing.T) {
	ctx := t.Context()
	b := newBox(t, Options{})
	id, err := b.Submit(ctx, request("Summarise README"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(id), "task-") || !strings.HasSuffix(string(id), "-001") {
		t.Errorf("id %s", id)
	}
	c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Claim(ctx, ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) {
		t.Errorf("second claim: %v", err)
	}
	if err := c.Progress(ctx, Progress{Message: "half"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(ctx, Result{Output: jsontext.Value(`"done"`)}); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(ctx, Result{Output: jsontext.Value(`"done"`)}); err != nil {
		t.Errorf("the same completion again: %v", err)
	}
	if err := c.Complete(ctx, Result{Output: jsontext.Value(`"other"`)}); !errors.Is(err, ErrStale) {
		t.Errorf("another completion: %v", err)
	}
	task, state, err := b.Task(ctx, id)
	if err != nil || state != Completed || string(task.Result.Output) != `"done"` {
		t.Errorf("%v %v %v", task, state, err)
	}
}

func TestDrop(t *testing.T) {
	ctx := t.Context()
	b := newBox(t, Options{})
	drop := func(name, text string) {
		if err := os.WriteFile(b.path("tasks", "pending", name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	drop("hello.json", `{"task":{"title":"Summarise README"}}`)
	drop("my task.json", `{"task":{"title":"a name that is no id"}}`)
	drop("bad.json", `{"task":{"title":"x","priority":"hihg"}}`)
	drop("junk.json", `[1,2,3]`)
	r, err := b.Scan(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if r.Looked != 4 {
		t.Errorf("looked at %d", r.Looked)
	}
	for range 2 {
		c, err := b.Claim(ctx, ClaimRequest{Agent: "coder"})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Complete(ctx, Result{}); err != nil {
			t.Fatal(err)
		}
	}
	bad, state, err := b.Task(ctx, "bad")
	if err != nil || state != Failed || bad.Result.Error.Path != "task.priority" {
		t.Errorf("%+v %v %v", bad, state, err)
	}
}

// The first task of a new mailbox waits for no checkpoint: that was made with it.
func TestFirstTaskNeedsNoCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "home")
	must(t, Create(dir, Options{}))
	b := opened(t, dir, Options{})
	defer durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		if op == durable.OpSyncFS {
			t.Error("a checkpoint")
		}
		return true, nil
	})()
	sent(t, b, "x")
}

// slot writes a slot of the intents.
func (b *Box) slot(t *testing.T, number int, slot []byte) {
	t.Helper()
	f, err := b.intents.Open()
	must(t, err)
	must(t, home.WriteSlot(f, number, slot))
}
