package mailbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// An output that becomes an artifact must not replace an artifact of the work.
func TestSpillKeepsArtifacts(t *testing.T) {
	b := newBox(t, Options{})
	if _, err := b.Submit(t.Context(), request("x")); err != nil {
		t.Fatal(err)
	}
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	dir := attemptDir(t, b, c)
	own := filepath.Join(dir, "output.txt")
	if err := os.WriteFile(own, []byte("the work's own file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Keep(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(t.Context(), Result{Output: []byte(`"` + strings.Repeat("x", 300<<10) + `"`)}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(b.path(task.ArtifactsDir, task.ArtifactFolder(c.ID(), 1), "output.txt")); err != nil || !bytes.Equal(data, []byte("the work's own file")) {
		t.Errorf("the artifact now has %d bytes: %v", len(data), err)
	}
	done, _, err := b.Task(t.Context(), c.ID())
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	for _, a := range done.Result.Artifacts {
		if paths[a.Path] {
			t.Errorf("%s is named twice: %+v", a.Path, done.Result.Artifacts)
		}
		paths[a.Path] = true
	}
}

// Two artifacts of one base name must not become one.
func TestAddArtifactsOfOneName(t *testing.T) {
	b := newBox(t, Options{})
	if _, err := b.Submit(t.Context(), request("x")); err != nil {
		t.Fatal(err)
	}
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, text := range []string{"one", "two"} {
		path := filepath.Join(t.TempDir(), "report.txt")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Keep(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	must(t, c.Complete(t.Context(), Result{}))
	done, _, err := b.Task(t.Context(), c.ID())
	must(t, err)
	for _, a := range done.Result.Artifacts {
		data, err := os.ReadFile(b.path(a.Path))
		must(t, err)
		seen[string(data)] = a.Path
	}
	if len(seen) != 2 || seen["one"] == seen["two"] {
		t.Errorf("artifacts %v", seen)
	}
}

// A claim that is committed and not applied is not a claim that somebody else
// had: Claim has to stop and say so.
func TestClaimThatIsCommittedIsNotBusy(t *testing.T) {
	b := newBox(t, Options{LockWait: 50 * time.Millisecond})
	for range 3 {
		if _, err := b.Submit(t.Context(), request("x")); err != nil {
			t.Fatal(err)
		}
	}
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpExchange && filepath.Dir(path) == b.path("tasks/in-progress") {
			return false, durable.ErrBusy
		}
		return true, nil
	})
	_, err := b.Claim(context.Background(), ClaimRequest{Agent: "coder", Process: true})
	remove()
	taken, _ := os.ReadDir(b.path("tasks/in-progress"))
	if !errors.Is(err, ErrCommitted) || len(taken) != 1 {
		t.Errorf("%d tasks were claimed by one call, which said: %v", len(taken), err)
	}
	if _, err := b.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A line that a verb writes on the way to its own makes nobody believe that the
// verb itself is committed.
func TestCommittedIsTheVerbsOwnLine(t *testing.T) {
	for name, on := range map[string]func(*testing.T, *Box) func() error{
		"a tidy before the verb": func(t *testing.T, b *Box) func() error {
			b.drop(t, "d.json", `{"task":{"title":"dropped"}}`)
			return func() error { return b.Tidy(context.Background()) }
		},
		"a claim of a task that was moved": func(t *testing.T, b *Box) func() error {
			sent(t, b, "x")
			mv(t, b, "x", Pending, InProgress)
			return func() error {
				_, err := b.Claim(context.Background(), ClaimRequest{Agent: "coder"})
				return err
			}
		},
		"a completion of a task that was moved": func(t *testing.T, b *Box) func() error {
			sent(t, b, "x")
			c := claimAs(t, b, "coder")
			mv(t, b, "x", InProgress, Pending)
			return func() error { return c.Complete(context.Background(), Result{}) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			verb := on(t, b)
			count := len(lines(t, b, ""))
			remove := durable.SetFault(func(op durable.Op, _ string) (bool, error) {
				switch op {
				case durable.OpMove, durable.OpExchange, durable.OpRemove:
					return false, errInjected
				}
				return true, nil
			})
			err := verb()
			remove()
			if !errors.Is(err, errInjected) || errors.Is(err, ErrCommitted) || len(lines(t, b, "")) == count {
				t.Errorf("%d lines were %d before; it says: %v", len(lines(t, b, "")), count, err)
			}
			mustScan(t, b)
		})
	}
}
