package mailbox

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// Tests of what holds when lock files are removed while somebody holds them.

// stoppedAt does a verb, and at the first step that matches something else first:
// what others do while the process of the verb stands still.
func stoppedAt(t *testing.T, op durable.Op, path string, verb func() error, meanwhile func()) error {
	t.Helper()
	stopped := false
	remove := durable.SetFault(func(o durable.Op, at string) (bool, error) {
		if !stopped && o == op && strings.Contains(at, path) {
			stopped = true
			meanwhile()
		}
		return true, nil
	})
	defer remove()
	err := verb()
	if !stopped {
		t.Fatalf("there was no %s of %s", op, path)
	}
	return err
}

// A process that stands still anywhere before its line, whose lock files are
// removed and made anew meanwhile, does not speak for a task that somebody else
// has completed.
func TestOneTruth(t *testing.T) {
	for name, at := range map[string]struct {
		op   durable.Op
		path string
	}{
		"before the record": {durable.OpWriteAt, "locks/" + shardName(shardOf("x"))},
		"before staging":    {durable.OpCreate, "tmp/x~"},
		"before the line":   {durable.OpAppend, "audit/shared/"},
	} {
		for which, gone := range map[string]func(lock string) bool{
			"all locks":        func(string) bool { return true },
			"the shard's":      func(lock string) bool { return lock == shardName(shardOf("x")) },
			"the recover lock": func(lock string) bool { return strings.HasPrefix(lock, "shard-") || lock == "recover" },
		} {
			if name == "before the line" && which != "all locks" {
				continue // the ledger's lock is held: recovery has to wait for it
			}
			t.Run(name+", "+which, func(t *testing.T) {
				b := newBox(t, Options{})
				sent(t, b, "x")
				c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
				must(t, err)
				other := opened(t, b.home, b.o)
				held, err := other.Held(t.Context(), "x", c.Token())
				must(t, err)
				err = stoppedAt(t, at.op, at.path, func() error { return c.Complete(t.Context(), Result{Output: []byte(`"the stopped"`)}) }, func() {
					for _, lock := range lockNames() {
						if gone(lock) {
							must(t, os.Remove(privatePath(b.home, "locks", lock)))
						}
					}
					if _, err := Recover(t.Context(), b.home, b.o, RecoverOptions{}); err != nil {
						t.Fatal(err)
					}
					must(t, held.Complete(t.Context(), Result{Output: []byte(`"the other"`)}))
				})
				if err == nil {
					t.Error("it was acknowledged")
				}
				again := opened(t, b.home, b.o)
				task, state, err := again.Task(t.Context(), "x")
				if err != nil || state != Completed || string(task.Result.Output) != `"the other"` {
					t.Errorf("%s %s %v", state, task.Result.Output, err)
				}
				sent(t, again, "y") // who appends next names bytes that do not count
				completions, remade := 0, 0
				for _, e := range lines(t, again, "") {
					if e.Event == audit.TaskCompleted {
						completions++
					}
					if strings.Contains(e.Action, "made anew") {
						remade++
					}
				}
				if completions != 1 || remade != 1 {
					t.Errorf("%d completions, %d lines about lock files", completions, remade)
				}
				mustScan(t, again)
				if r, err := Verify(t.Context(), b.home, b.o, VerifyOptions{}); err != nil || len(r.Faults) > 0 {
					t.Errorf("%v %+v", err, r.Faults)
				}
			})
		}
	}
}

// A recovery that was killed between making a lock file and saying so is gone on
// with before anybody takes the lock.
func TestRemadeIsSaidBeforeItIsTaken(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	must(t, b.Close())
	path := privatePath(b.home, "locks", shardName(shardOf("x")))
	must(t, os.Remove(path))
	killed := errors.New("killed")
	remove := durable.SetFault(func(op durable.Op, at string) (bool, error) {
		if op == durable.OpAppend && strings.Contains(at, "audit/shared/") {
			return false, killed
		}
		return true, nil
	})
	_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	remove()
	if !errors.Is(err, killed) {
		t.Fatal(err)
	}
	again, err := open(b.home, b.o)
	must(t, err)
	if s, err := again.lockShard(t.Context(), "x"); err == nil {
		s.unlock()
		t.Error("the lock is given")
	} else if !errors.Is(err, errDamagedRecord) {
		t.Error(err)
	}
	must(t, again.Close())
	b = opened(t, b.home, b.o)
	all := lines(t, b, "")
	if last := all[len(all)-1]; !strings.Contains(last.Action, "made anew") {
		t.Errorf("the last line is %q", last.Action)
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, blankRecord) {
		t.Errorf("the record is %.20q (%v)", data, err)
	}
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	if now := lines(t, b, ""); len(now) != len(all) {
		t.Errorf("it is said again: %d lines, then %d", len(all), len(now))
	}
}
