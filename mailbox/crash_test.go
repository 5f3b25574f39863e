package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	records "mbox/audit/record"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// scene is a verb with what has to be there before it, and the oracle that
// tells whether its effect is visible.
type scene struct {
	name   string
	before func(t *testing.T, b *Box) any
	verb   func(ctx context.Context, b *Box, prior any) error
	holds  func(t *testing.T, b *Box, prior any) bool
}

func stateIs(id ID, s State) func(*testing.T, *Box, any) bool {
	return func(t *testing.T, b *Box, _ any) bool {
		_, state, err := b.Task(context.Background(), id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			t.Errorf("reading %s: %v", id, err)
		}
		return state == s
	}
}

func submitted(t *testing.T, b *Box) any {
	t.Helper()
	task := request("crash")
	task.ID = "t1"
	if _, err := b.Submit(context.Background(), task); err != nil {
		t.Fatal(err)
	}
	return nil
}

func claimed(t *testing.T, b *Box) any {
	t.Helper()
	submitted(t, b)
	c, err := b.Claim(context.Background(), ClaimRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	return c.Token()
}

func ended(t *testing.T, b *Box) any {
	t.Helper()
	token := claimed(t, b)
	if err := held(b, token, func(c *Claim) error {
		return c.Fail(context.Background(), Failure{TaskError: TaskError{Code: "no"}, Final: true})
	}); err != nil {
		t.Fatal(err)
	}
	return nil
}

func held(b *Box, token any, verb func(*Claim) error) error {
	c, err := b.Held(context.Background(), "t1", token.(string))
	if err != nil {
		return err
	}
	return verb(c)
}

func dropFile(t *testing.T, b *Box, name, text string) {
	t.Helper()
	if err := os.WriteFile(b.path("tasks", "pending", name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// leaves claims a task and lays the files that its completion is to hand over.
func leaves(t *testing.T, b *Box) any {
	t.Helper()
	token := claimed(t, b)
	must(t, os.MkdirAll(b.path("left", "deep"), 0o700))
	must(t, os.WriteFile(b.path("left", "one.txt"), []byte("one"), 0o600))
	must(t, os.WriteFile(b.path("left", "deep", "two.txt"), []byte("two"), 0o600))
	return token
}

// completeWith hands in those files and an output that becomes a third.
func completeWith(ctx context.Context, b *Box, token any) error {
	return held(b, token, func(c *Claim) error {
		if _, err := c.Keep(ctx, b.path("left")); err != nil {
			return err
		}
		return c.Complete(ctx, Result{Output: jsontext.Value(`"` + strings.Repeat("x", MaxOutput) + `"`)})
	})
}

// hasArtifacts tells whether the task has the state and the three artifacts.
func hasArtifacts(s State) func(*testing.T, *Box, any) bool {
	return func(t *testing.T, b *Box, _ any) bool {
		task, state, err := b.Task(context.Background(), "t1")
		if err != nil || state != s || len(task.Result.Artifacts) != 3 {
			return false
		}
		for _, a := range task.Result.Artifacts {
			if data, err := os.ReadFile(b.path(a.Path)); err != nil || audit.Hash(data) != a.SHA256 {
				t.Errorf("%s: %d bytes: %v", a.Path, len(data), err)
			}
		}
		return true
	}
}

// submitWith sends a task with two files, one of them of this name.
func submitWith(ctx context.Context, b *Box, _ any) error {
	task := request("crash")
	task.ID, task.Mbox.IdempotencyKey = "t1", "once"
	_, err := SubmitWith(ctx, b, task, []File{{Name: "../one.txt", Data: []byte("one")}, {Name: "two.txt", Data: []byte("two")}})
	return err
}

// hasAttached tells whether the task has the state and both files.
func hasAttached(s State, in func(*Box) string) func(*testing.T, *Box, any) bool {
	return func(t *testing.T, b *Box, _ any) bool {
		task, state, err := b.Task(context.Background(), "t1")
		if err != nil || state != s || len(task.Mbox.Attachments) != 2 {
			return false
		}
		wantClean(t, b)
		for _, a := range task.Attached(in(b)) {
			if data, err := os.ReadFile(b.path(a.Path)); err != nil || audit.Hash(data) != a.SHA256 {
				t.Errorf("%s: %d bytes: %v", a.Path, len(data), err)
			}
		}
		return true
	}
}

func inArtifacts(*Box) string { return task.ArtifactsDir }

var scenes = []scene{
	{
		name: "submit with files", before: func(*testing.T, *Box) any { return nil },
		verb: submitWith, holds: hasAttached(Pending, inArtifacts),
	},
	{
		name: "archive with files",
		before: func(t *testing.T, b *Box) any {
			t.Helper()
			must(t, submitWith(t.Context(), b, nil))
			must(t, b.Cancel(t.Context(), "t1", "human", "no"))
			return nil
		},
		verb: func(ctx context.Context, b *Box, _ any) error {
			n, err := b.Archive(ctx, 0, "human")
			if err == nil && n != 1 {
				err = fmt.Errorf("%d archived", n)
			}
			return err
		},
		holds: hasAttached(Archived, func(b *Box) string {
			months, _ := filepath.Glob(b.path("tasks/archive/*/t1.json"))
			return "tasks/archive/" + filepath.Base(filepath.Dir(strings.Join(months, "")))
		}),
	},
	{name: "complete with artifacts", before: leaves, verb: completeWith, holds: hasArtifacts(Completed)},
	{
		name: "archive with artifacts",
		before: func(t *testing.T, b *Box) any {
			t.Helper()
			must(t, completeWith(t.Context(), b, leaves(t, b)))
			return nil
		},
		verb: func(ctx context.Context, b *Box, _ any) error {
			n, err := b.Archive(ctx, 0, "human")
			if err == nil && n != 1 {
				err = fmt.Errorf("%d archived", n)
			}
			return err
		},
		holds: hasArtifacts(Archived),
	},
	{
		name:   "submit",
		before: func(*testing.T, *Box) any { return nil },
		verb: func(ctx context.Context, b *Box, _ any) error {
			task := request("crash")
			task.ID = "t1"
			_, err := b.Submit(ctx, task)
			return err
		},
		holds: stateIs("t1", Pending),
	},
	{
		name:   "admit",
		before: func(t *testing.T, b *Box) any { dropFile(t, b, "t1.json", `{"task":{"title":"drop"}}`); return nil },
		verb:   func(ctx context.Context, b *Box, _ any) error { _, err := b.Scan(ctx); return err },
		holds:  stateIs("t1", Pending),
	},
	{
		name:   "admit under another name",
		before: func(t *testing.T, b *Box) any { dropFile(t, b, "a name.json", `{"task":{"title":"drop"}}`); return nil },
		verb:   func(ctx context.Context, b *Box, _ any) error { _, err := b.Scan(ctx); return err },
		holds: func(t *testing.T, b *Box, _ any) bool {
			names, err := durable.Names(b.path("tasks", "pending"))
			return err == nil && len(names) == 1
		},
	},
	{
		name: "reject",
		before: func(t *testing.T, b *Box) any {
			dropFile(t, b, "t1.json", `{"task":{"title":"drop","priority":"soon"}}`)
			return nil
		},
		verb:  func(ctx context.Context, b *Box, _ any) error { _, err := b.Scan(ctx); return err },
		holds: stateIs("t1", Failed),
	},
	{
		name:   "quarantine",
		before: func(t *testing.T, b *Box) any { dropFile(t, b, "t1.json", `[]`); return nil },
		verb:   func(ctx context.Context, b *Box, _ any) error { _, err := b.Scan(ctx); return err },
		holds: func(t *testing.T, b *Box, _ any) bool {
			names, err := durable.Names(b.path("tasks", "quarantine"))
			return err == nil && len(names) == 2
		},
	},
	{
		name:   "claim",
		before: submitted,
		verb: func(ctx context.Context, b *Box, _ any) error {
			c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: true})
			if err == nil {
				err = c.Close()
			}
			return err
		},
		// A claim whose answer was lost is reclaimed by the scan, its attempt burnt.
		holds: func(t *testing.T, b *Box, _ any) bool {
			task, state, err := b.Task(context.Background(), "t1")
			return err == nil && task.Mbox.Attempt == 1 && (state == InProgress || state == Pending)
		},
	},
	{
		name:   "progress",
		before: claimed,
		verb: func(ctx context.Context, b *Box, token any) error {
			return held(b, token, func(c *Claim) error { return c.Progress(ctx, Progress{Message: "half"}) })
		},
		holds: func(t *testing.T, b *Box, _ any) bool {
			task, _, err := b.Task(context.Background(), "t1")
			return err == nil && task.Mbox.Progress != nil
		},
	},
	{
		name:   "complete",
		before: claimed,
		verb: func(ctx context.Context, b *Box, token any) error {
			return held(b, token, func(c *Claim) error { return c.Complete(ctx, Result{Output: jsontext.Value(`"yes"`)}) })
		},
		holds: stateIs("t1", Completed),
	},
	{
		name:   "fail",
		before: claimed,
		verb: func(ctx context.Context, b *Box, token any) error {
			return held(b, token, func(c *Claim) error { return c.Fail(ctx, Failure{Final: true}) })
		},
		holds: stateIs("t1", Failed),
	},
	{
		name:   "retry after failure",
		before: claimed,
		verb: func(ctx context.Context, b *Box, token any) error {
			return held(b, token, func(c *Claim) error { return c.Fail(ctx, Failure{}) })
		},
		holds: stateIs("t1", Pending),
	},
	{
		name:   "release",
		before: claimed,
		verb: func(ctx context.Context, b *Box, token any) error {
			return held(b, token, func(c *Claim) error { return c.Release(ctx, "later", 0) })
		},
		holds: stateIs("t1", Pending),
	},
	{
		name:   "late result",
		before: claimed,
		verb: func(ctx context.Context, b *Box, _ any) error {
			err := held(b, "0123", func(c *Claim) error { return c.Complete(ctx, Result{}) })
			if errors.Is(err, ErrStale) && err.Error() == "task t1: stale token: no claim of it is known that had this one; what was handed in is kept in tasks/quarantine" {
				return nil
			}
			return fmt.Errorf("not refused as it should be: %w", err)
		},
		holds: func(t *testing.T, b *Box, _ any) bool {
			names, err := durable.Names(b.path("tasks", "quarantine"))
			return err == nil && len(names) >= 2
		},
	},
	{
		name:   "cancel",
		before: claimed,
		verb:   func(ctx context.Context, b *Box, _ any) error { return b.Cancel(ctx, "t1", "human", "no more") },
		holds:  stateIs("t1", Failed),
	},
	{
		name:   "retry",
		before: ended,
		verb:   func(ctx context.Context, b *Box, _ any) error { return b.Retry(ctx, "t1", "human", "again") },
		holds:  stateIs("t1", Pending),
	},
	{
		name:   "edit",
		before: submitted,
		verb: func(ctx context.Context, b *Box, _ any) error {
			_, err := Edit(ctx, b, "t1", "human", "sooner", urgently)
			return err
		},
		holds: func(t *testing.T, b *Box, _ any) bool {
			task, state, err := b.Task(context.Background(), "t1")
			return err == nil && state == Pending && task.Task.Priority == "urgent"
		},
	},
	{
		name:   "archive",
		before: ended,
		verb: func(ctx context.Context, b *Box, _ any) error {
			n, err := b.Archive(ctx, 0, "human")
			if err == nil && n != 1 {
				err = fmt.Errorf("archived %d", n)
			}
			return err
		},
		holds: stateIs("t1", Archived),
	},
	{
		name: "adopt a move",
		before: func(t *testing.T, b *Box) any {
			submitted(t, b)
			if err := os.Rename(b.path("tasks/pending/t1.json"), b.path("tasks/in-progress/t1.json")); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		verb: func(ctx context.Context, b *Box, _ any) error { _, err := b.Scan(ctx); return err },
		holds: func(t *testing.T, b *Box, _ any) bool {
			task, state, err := b.Task(context.Background(), "t1")
			return err == nil && state == InProgress && task.Mbox.Lease != nil
		},
	},
	{
		name: "adopt two moves",
		before: func(t *testing.T, b *Box) any {
			submitted(t, b)
			if err := os.Rename(b.path("tasks/pending/t1.json"), b.path("tasks/completed/t1.json")); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		verb: func(ctx context.Context, b *Box, _ any) error { _, err := b.Scan(ctx); return err },
		holds: func(t *testing.T, b *Box, _ any) bool {
			_, state, err := b.Task(context.Background(), "t1")
			return err == nil && (state == Completed || state == InProgress)
		},
	},
	{
		name:   "decision",
		before: func(*testing.T, *Box) any { return nil },
		verb: func(ctx context.Context, b *Box, _ any) error {
			_, err := b.Decide(ctx, records.Decision{Agent: "coder", Context: "c", Options: []string{"a: good"}, Decision: "a"})
			return err
		},
		holds: func(t *testing.T, b *Box, _ any) bool {
			d, err := b.Decisions(context.Background())
			return err == nil && len(d) == 1
		},
	},
	{
		name: "outcome",
		before: func(t *testing.T, b *Box) any {
			id, err := b.Decide(context.Background(), records.Decision{Agent: "coder", Context: "c", Options: []string{"a: good"}, Decision: "a"})
			if err != nil {
				t.Fatal(err)
			}
			return id
		},
		verb: func(ctx context.Context, b *Box, id any) error {
			return b.Outcome(ctx, id.(string), "coder", "it went well")
		},
		holds: func(t *testing.T, b *Box, _ any) bool {
			d, err := b.Decisions(context.Background())
			return err == nil && len(d) == 1 && d[0].Outcome == "it went well"
		},
	},
	{
		name: "post",
		before: func(t *testing.T, b *Box) any {
			if _, _, _, err := PostMessage(context.Background(), b, Post{Channel: "general", From: "human", Text: "talk", Create: true}); err != nil {
				t.Fatal(err)
			}
			return nil
		},
		verb: func(ctx context.Context, b *Box, _ any) error {
			b.o.Agents = map[string]Capabilities{"coder": {}, "tester": {Watches: []string{"general"}}}
			_, _, _, err := PostMessage(ctx, b, Post{Channel: "general", From: "human", Text: "@coder hello", ID: "m1"})
			return err
		},
		holds: func(t *testing.T, b *Box, _ any) bool {
			m, err := MessageOf(b, "m1")
			if errors.Is(err, ErrNotFound) {
				return false
			}
			must(t, err)
			must(t, b.Tidy(context.Background()))
			got, err := Receipts(context.Background(), b, m)
			must(t, err)
			if len(got) != 2 || got[0].State != Pending || got[1].State != Pending || got[0].Item == got[1].Item {
				t.Errorf("it is posted, and its receipts are %+v", got)
			}
			return true
		},
	},
	{
		name:   "note",
		before: func(*testing.T, *Box) any { return nil },
		verb: func(ctx context.Context, b *Box, _ any) error {
			return b.Note(ctx, audit.Entry{Agent: "coder", Event: audit.AgentState, Action: "coder is up"})
		},
		holds: func(t *testing.T, b *Box, _ any) bool {
			return lineOf(t, b, audit.AgentState) != nil
		},
	},
}

// How a step fails: alone or with all that follow (the process has died), and
// with or without having been applied.
var failures = []struct {
	name           string
	applied, death bool
}{
	{"not applied", false, false},
	{"applied", true, false},
	{"death before", false, true},
	{"death after", true, true},
}

var errInjected = errors.New("injected fault")

// TestRule05_EveryWriteFails fails every write of every verb in four ways, opens the
// mailbox again as the next command does, and asks the oracle: what was
// acknowledged is there, and the home passes the checker of the format. The short
// form takes one way for each write in a mode, in turn.
func TestRule05_EveryWriteFails(t *testing.T) {
	for _, mode := range []durable.Mode{durable.Standard, durable.Strict} {
		for _, sc := range scenes {
			if mode == durable.Strict && testing.Short() {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d", sc.name, mode), func(t *testing.T) {
				homes := map[string]string{}
				step := amount(3*len(failures), len(failures), 1)
				for i, f := range failures {
					for k := 1 + (i+2*int(mode))%step; failStep(t, sc, mode, k, f.applied, f.death, f.name, homes); k += step {
					}
				}
				lintAll(t, homes)
			})
		}
	}
}

// failStep runs the scene with a fault at write k; false if there were fewer.
func failStep(t *testing.T, sc scene, mode durable.Mode, k int, applied, death bool, how string, homes map[string]string) bool {
	ctx := context.Background()
	o := Options{Sync: mode, RetryBase: time.Nanosecond}
	dir := filepath.Join(t.TempDir(), "home")
	if err := Create(dir, Options{Sync: durable.None}); err != nil {
		t.Fatal(err)
	}
	b, err := Open(ctx, dir, o)
	if err != nil {
		t.Fatal(err)
	}
	prior := sc.before(t, b)
	var n atomic.Int64
	var hit string
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		switch i := n.Add(1); {
		case i < int64(k) || i > int64(k) && !death:
			return true, nil
		case i > int64(k):
			return false, errInjected
		}
		hit = fmt.Sprintf("%s %s", op, filepath.Base(path))
		return applied, errInjected
	})
	said := sc.verb(ctx, b, prior)
	remove()
	b.Close()
	if hit == "" {
		if said != nil {
			t.Fatalf("without a fault: %v", said)
		}
		return false
	}
	label := fmt.Sprintf("write %d (%s), %s", k, hit, how)
	if audit.CheckWritable(dir) != nil {
		if _, err := Recover(ctx, dir, o, RecoverOptions{AfterIOError: true}); err != nil {
			t.Fatalf("%s: recover: %v", label, err)
		}
	}
	b, err = Open(ctx, dir, o)
	if err != nil {
		t.Fatalf("%s: opening again: %v", label, err)
	}
	defer b.Close()
	if _, err := b.Scan(ctx); err != nil {
		t.Errorf("%s: scan: %v", label, err)
	}
	if said == nil && !sc.holds(t, b, prior) {
		t.Errorf("%s: acknowledged, and not there", label)
	}
	if errors.Is(said, ErrCommitted) && !sc.holds(t, b, prior) {
		t.Errorf("%s: said to be committed (%v), and not there", label, said)
	}
	if t.Failed() {
		t.Fatalf("%s: verb said: %v", label, said)
	}
	homes[dir] = fmt.Sprintf("%s; verb said: %v", label, said)
	return true
}
