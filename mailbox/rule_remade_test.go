package mailbox

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/verify"
)

// Tests of what holds when lock files are removed while somebody holds them.

// stoppedAt does a verb, and at the first step that matches something else first:
// what others do while the process of the verb stands still.
func stoppedAt(t *testing.T, op durable.Op, path string, verb func() error, meanwhile func()) error {
	t.Helper()
	return stoppedAtNth(t, 1, op, path, verb, meanwhile)
}

// stoppedAtNth is stoppedAt of the nth such step.
func stoppedAtNth(t *testing.T, n int, op durable.Op, path string, verb func() error, meanwhile func()) error {
	t.Helper()
	remove := durable.SetFault(func(o durable.Op, at string) (bool, error) {
		if o == op && strings.Contains(at, path) {
			if n--; n == 0 {
				meanwhile()
			}
		}
		return true, nil
	})
	defer remove()
	err := verb()
	if n > 0 {
		t.Fatalf("there was no %s of %s", op, path)
	}
	return err
}

// lose removes lock files and makes them anew.
func (b *Box) lose(t *testing.T, gone func(lock string) bool) {
	t.Helper()
	for _, lock := range home.LockNames() {
		if gone(lock) {
			must(t, os.Remove(home.Private(b.home, "locks", lock)))
		}
	}
	if gone("intents") {
		must(t, os.Remove(home.IntentsPath(b.home)))
	}
	_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
}

// heldTwice is a claim of the task x, and the same in another process.
func (b *Box) heldTwice(t *testing.T) (c, held *Claim) {
	t.Helper()
	sent(t, b, "x")
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	held, err = opened(t, b.home, b.o).Held(t.Context(), "x", c.Token())
	must(t, err)
	return c, held
}

func only(locks ...string) func(string) bool {
	return func(lock string) bool { return slices.Contains(locks, lock) }
}

// A process that stands still anywhere before its line, whose lock files are
// removed and made anew meanwhile, does not speak for a task that somebody else
// has completed.
func TestRule31_OneTruth(t *testing.T) {
	for name, at := range map[string]struct {
		op   durable.Op
		path string
	}{
		"before the record": {durable.OpWriteAt, ".mbox/intents"},
		"before staging":    {durable.OpCreate, "tmp/x~"},
		"before the line":   {durable.OpAppend, "audit/shared/"},
	} {
		for which, gone := range map[string]func(lock string) bool{
			"all locks":        func(string) bool { return true },
			"the shard's":      func(lock string) bool { return lock == home.ShardName(home.Shard("x")) },
			"the intents, too": func(lock string) bool { return lock == home.ShardName(home.Shard("x")) || lock == "intents" },
			"the recover lock": func(lock string) bool { return strings.HasPrefix(lock, "task-") || lock == "recovery" },
		} {
			if name == "before the line" && which != "all locks" {
				continue // the ledger's lock is held: recovery has to wait for it
			}
			t.Run(name+", "+which, func(t *testing.T) {
				b := newBox(t, Options{})
				c, held := b.heldTwice(t)
				err := stoppedAt(t, at.op, at.path, func() error { return c.Complete(t.Context(), Result{Output: []byte(`"the stopped"`)}) }, func() {
					b.lose(t, gone)
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
				if r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true}); err != nil || len(r.Findings) > 0 {
					t.Errorf("%v %+v", err, r.Findings)
				}
			})
		}
	}
}

// A line may rest on more locks than that of its task: one that is lost and made
// anew while a process stands still with it lets that process say nothing.
func TestRule31_OneTruthOfOtherLocks(t *testing.T) {
	keyed := func(id ID) *Task {
		return &Task{ID: id, Task: Request{Title: "x"}, Mbox: Meta{IdempotencyKey: "k"}}
	}
	for name, row := range map[string]struct {
		lock    string
		drawn   int // serial numbers, before the record
		prepare func(t *testing.T, b, other *Box) (stopped, faster func() error)
	}{
		"of a key": {home.ShardName(home.Shard("key:k")), 0, func(t *testing.T, b, other *Box) (stopped, faster func() error) {
			submit := func(b *Box, id ID) func() error {
				return func() error { _, err := b.Submit(t.Context(), keyed(id)); return err }
			}
			return submit(b, "a"), submit(other, "b")
		}},
		"of a drop": {home.ShardName(home.Shard("no id")), 1, func(t *testing.T, b, other *Box) (stopped, faster func() error) {
			b.drop(t, "no id.json", `{"task":{"title":"x"}}`)
			return func() error { return scanNow(b) }, func() error { return scanNow(other) }
		}},
		"of a drop's key": {home.ShardName(home.Shard("key:k")), 0, func(t *testing.T, b, other *Box) (stopped, faster func() error) {
			b.drop(t, "a.json", `{"task":{"title":"x"},"mbox":{"idempotency_key":"k"}}`)
			return func() error { return scanNow(b) }, func() error { _, err := other.Submit(t.Context(), keyed("b")); return err }
		}},
		"of delegations": {home.ShardName(home.Delegations), 1, func(t *testing.T, b, other *Box) (stopped, faster func() error) {
			submit(t, b, &Task{ID: "parent", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "boss"}})
			delegate(t, claimAs(t, b, "boss"), "", child("coder", "1"), child("tester", "2"))
			coder := claimAs(t, b, "coder")
			claim := claimAs(t, b, "tester")
			tester, err := other.Held(t.Context(), claim.ID(), claim.Token())
			must(t, err)
			to := func(c *Claim, agent string) func() error {
				return func() error {
					_, err := c.Delegate(t.Context(), Delegation{Children: []Child{child(agent, "3")}})
					return err
				}
			}
			return to(coder, "tester"), to(tester, "coder") // together they would be a circle
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, Options{})
			other := opened(t, b.home, b.o)
			stopped, faster := row.prepare(t, b, other)
			before := len(created(t, b))
			err := stoppedAtNth(t, row.drawn+1, durable.OpWriteAt, ".mbox/intents", stopped, func() {
				b.lose(t, only(row.lock))
				must(t, faster())
			})
			if !errors.Is(err, durable.ErrReplaced) {
				t.Errorf("it was not refused: %v", err)
			}
			if now := created(t, b); len(now) != before+1 {
				t.Errorf("two of them happened: %v", now[before:])
			}
			mustScan(t, b)
			whole(t, b.home)
		})
	}
}

// created are the tasks that were created, in the order of their lines.
func created(t *testing.T, b *Box) (ids []ID) {
	t.Helper()
	for _, e := range lines(t, b, "") {
		if e.Event == audit.TaskCreated {
			ids = append(ids, ID(e.Task()))
		}
	}
	return ids
}

// Who stood still behind his line, and finds his task where others have brought it
// meanwhile, takes nothing for a stranger's and says nothing.
func TestRule31_StoppedBehindTheLine(t *testing.T) {
	for name, move := range map[string]func(c *Claim) error{
		"and it has ended": func(c *Claim) error { return c.Complete(context.Background(), Result{}) },
		"and it goes on":   func(c *Claim) error { return c.Progress(context.Background(), Progress{Message: "further"}) },
	} {
		t.Run(name, func(t *testing.T) {
			clock := newClock()
			b := newBox(t, clock.options())
			c, held := b.heldTwice(t)
			said := 0
			err := stoppedAt(t, durable.OpExchange, "in-progress/x.json", func() error { return c.Progress(t.Context(), Progress{}) }, func() {
				b.lose(t, only(home.ShardName(home.Shard("x"))))
				clock.turn(2 * time.Second)
				must(t, move(held))
				said = len(lines(t, held.box, ""))
			})
			if err == nil {
				t.Error("it was acknowledged")
			}
			again := opened(t, b.home, b.o)
			if now := lines(t, again, ""); len(now) != said {
				t.Errorf("it wrote lines: %+v", now[said:])
			}
			whole(t, b.home)
		})
	}
}

// Who stood still and was overtaken does not put its artifacts in the place of
// those that the completion of the other names.
func TestRule31_OvertakenArtifacts(t *testing.T) {
	b := newBox(t, Options{})
	c, held := b.heldTwice(t)
	complete := func(c *Claim, text string) error {
		path := filepath.Join(t.TempDir(), "out.txt")
		must(t, put(path, text))
		_, err := c.Keep(t.Context(), path)
		must(t, err)
		return c.Complete(t.Context(), Result{})
	}
	err := stoppedAt(t, durable.OpWriteAt, ".mbox/intents", func() error { return complete(c, "the stopped") }, func() {
		b.lose(t, only(home.ShardName(home.Shard("x"))))
		must(t, complete(held, "the other"))
	})
	if !errors.Is(err, durable.ErrReplaced) {
		t.Errorf("it was not refused: %v", err)
	}
	if data, err := os.ReadFile(b.path(task.ArtifactsDir, "x.1", "out.txt")); err != nil || string(data) != "the other" {
		t.Errorf("the artifact is %q (%v)", data, err)
	}
	whole(t, b.home)
}

// A recovery that stood still while its lock was lost, and another did all of it,
// says nothing any more.
func TestRule31_OneRecoverySays(t *testing.T) {
	b := newBox(t, Options{Sync: durable.Strict})
	sent(t, b, "x")
	must(t, os.Remove(home.Private(b.home, "locks", home.ShardName(home.Shard("x")))))
	err := stoppedAt(t, durable.OpSyncDir, ".mbox/locks", func() error {
		_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
		return err
	}, func() { b.lose(t, only("recovery")) })
	if !errors.Is(err, durable.ErrReplaced) {
		t.Errorf("it was not refused: %v", err)
	}
	said := 0
	for _, e := range lines(t, b, "") {
		if strings.Contains(e.Action, "made anew") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("lock files were made anew %d times", said)
	}
}

// A recovery that was killed between making a lock file and saying so is gone on
// with before anybody takes the lock.
func TestRule31_RemadeIsSaidBeforeItIsTaken(t *testing.T) {
	for _, number := range []int{home.Shard("x"), home.Delegations} {
		t.Run(home.ShardName(number), func(t *testing.T) { remadeIsSaid(t, number) })
	}
}

func remadeIsSaid(t *testing.T, number int) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	must(t, b.Close())
	path := home.Private(b.home, "locks", home.ShardName(number))
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
	again, err := open(t.Context(), b.home, b.o)
	must(t, err)
	if s, err := again.lockShardNumber(t.Context(), number); err == nil {
		s.unlock()
		t.Error("the lock is given")
	} else if !errors.Is(err, home.ErrDamagedIntent) {
		t.Error(err)
	}
	must(t, again.Close())
	b = opened(t, b.home, b.o)
	all := lines(t, b, "")
	if last := all[len(all)-1]; !strings.Contains(last.Action, "made anew") {
		t.Errorf("the last line is %q", last.Action)
	}
	if all, err := b.intents.Filled(); err != nil || len(all) > 0 {
		t.Errorf("the slots have %+v (%v)", all, err)
	}
	_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	if now := lines(t, b, ""); len(now) != len(all) {
		t.Errorf("it is said again: %d lines, then %d", len(all), len(now))
	}
}

// Who had the file of intent records open before another one was made finds in the
// new one what somebody has left who was killed.
func TestRule05_IntentsMadeAnew(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	must(t, os.Remove(home.IntentsPath(b.home)))
	_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
	must(t, err)
	other := opened(t, b.home, b.o)
	number := home.Shard("x")
	other.slot(t, number, home.Intent{Kind: "note", Name: "coder", TX: zeroTX, At: b.ledger.End()}.Encode())
	s, err := b.lockShard(t.Context(), "x")
	must(t, err)
	s.unlock()
	if _, set, err := other.intents.Read(number); set || err != nil {
		t.Errorf("the record stands: %v %v", set, err)
	}
}

// Every line of the mailbox goes through say, which asks for its locks.
func TestLinesAreSaid(t *testing.T) {
	files, err := filepath.Glob("*.go")
	must(t, err)
	n := 0
	for _, file := range files {
		if data, err := os.ReadFile(file); err != nil {
			t.Error(err)
		} else if !strings.HasSuffix(file, "_test.go") {
			n += bytes.Count(data, []byte("ledger.Append"))
		}
	}
	if n != 1 {
		t.Errorf("lines are appended in %d places", n)
	}
}
