package mailbox

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"mbox/mailbox/home"
	"mbox/schemas"
)

// A claim whose file was overwritten, replaced or removed, by its own command
// most likely, ends as its holder says. What stood in the file's place is kept.
func TestClaimOfAnOverwrittenFile(t *testing.T) {
	spoils := map[string]func(path string) error{
		"overwritten": func(path string) error { return put(path, "x") },
		"emptied":     func(path string) error { return os.Truncate(path, 0) },
		"removed":     os.Remove,
		"renamed over": func(path string) error {
			return errors.Join(put(path+".new", "{}"), os.Rename(path+".new", path))
		},
		"a FIFO":   func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) },
		"a folder": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"a symlink": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("nowhere", path))
		},
	}
	verbs := map[State]func(*Claim) error{
		Completed:  func(c *Claim) error { return c.Complete(t.Context(), Result{}) },
		Failed:     func(c *Claim) error { return c.Fail(t.Context(), Failure{Final: true}) },
		Pending:    func(c *Claim) error { return c.Release(t.Context(), "later", 0) },
		InProgress: func(c *Claim) error { return c.Progress(t.Context(), Progress{Message: "on"}) },
	}
	b := newBox(t, Options{})
	for what, spoil := range spoils {
		for to, verb := range verbs {
			id, err := b.Submit(t.Context(), request(what))
			must(t, err)
			c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
			must(t, err)
			if c.ID() != id {
				t.Fatalf("it claimed %s, not %s", c.ID(), id)
			}
			kept := len(quarantine(t, b))
			must(t, spoil(b.path("tasks", "in-progress", id.File())))
			if err := verb(c); err != nil {
				t.Errorf("%s, to %s: %v", what, to, err)
				continue
			}
			if task, s, err := b.Task(t.Context(), id); err != nil || s != to || task.Task.Title != what {
				t.Errorf("%s: it lies in %s: %v", what, s, err)
			}
			if n := len(quarantine(t, b)) - kept; n != 1 && what != "removed" {
				t.Errorf("%s, to %s: %d were put aside", what, to, n)
			}
			if to == Pending || to == InProgress { // for the next round
				must(t, b.Cancel(t.Context(), id, "human", "done"))
			}
		}
	}
	whole(t, b.home)
}

// Another process than the one that claimed does not know what was asked: it is
// refused, and nothing is changed.
func TestRule09_OverwrittenFileOfAnotherProcess(t *testing.T) {
	b := homes{}.open(t, Options{})
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	held, err := b.Held(t.Context(), "x", c.token)
	must(t, err)
	must(t, put(b.path("tasks", "in-progress", "x.json"), "{}"))
	if err := held.Complete(t.Context(), Result{}); !errors.Is(err, ErrIntegrity) {
		t.Errorf("complete: %v", err)
	}
	forged := *c.Task
	forged.Task.Title = "forged"
	other := &Claim{Task: &forged, box: b, agent: "coder", token: c.token, from: c.from}
	if err := other.Complete(t.Context(), Result{}); !errors.Is(err, ErrIntegrity) {
		t.Errorf("complete with another request: %v", err)
	}
	must(t, c.Complete(t.Context(), Result{}))
}

// The token of another task is called that, whether its claim stands or is over;
// nothing comes of it. One that nobody was given is stale.
func TestTokenOfAnotherTask(t *testing.T) {
	b := newBox(t, Options{})
	tokens := map[ID]string{}
	for _, id := range []ID{"over", "one", "two"} {
		sent(t, b, id)
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		tokens[id] = c.token
		if id == "over" {
			must(t, c.Complete(t.Context(), Result{}))
		}
	}
	end := b.ledger.End()
	for id, other := range map[ID]ID{"one": "two", "two": "over", "over": "one"} {
		c, err := b.Held(t.Context(), id, tokens[other])
		must(t, err)
		for verb, err := range map[string]error{
			"complete": c.Complete(t.Context(), Result{}), "fail": c.Fail(t.Context(), Failure{}),
			"release": c.Release(t.Context(), "", 0), "progress": c.Progress(t.Context(), Progress{}),
		} {
			var bad *schemas.Error
			if !errors.As(err, &bad) || bad.Path != "token" || !strings.Contains(err.Error(), "token of another task, "+string(other)) {
				t.Errorf("%s %s with the token of %s: %v", verb, id, other, err)
			}
		}
	}
	if now := b.ledger.End(); now != end {
		t.Errorf("it wrote %d lines", now.Seq-end.Seq)
	}
	c, err := b.Held(t.Context(), "one", home.RandomHex(16))
	must(t, err)
	if err := c.Complete(t.Context(), Result{}); !errors.Is(err, ErrStale) {
		t.Errorf("a token that nobody was given: %v", err)
	}
}
