package mailbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// on submits a task that works on paths.
func on(t *testing.T, b *Box, id ID, to string, paths ...string) {
	t.Helper()
	submit(t, b, &Task{ID: id, Task: Request{Title: "Work"}, Assignment: Assignment{TargetAgent: to}, Mbox: Meta{Paths: paths}})
}

// neverBoth checks by the ledger that no two tasks with a path in common were in
// progress at once.
func neverBoth(t *testing.T, b *Box) (most int) {
	t.Helper()
	works := map[ID][]string{}
	paths := map[ID][]string{}
	for line, err := range b.ledger.Read(audit.Position{}).Lines() {
		must(t, err)
		e, m := task.MoveIn(line)
		if m == nil {
			continue
		}
		id := ID(e.Task())
		if m.Queue != nil {
			paths[id] = m.Queue.Paths
		}
		if delete(works, id); m.Enters() != InProgress {
			continue
		}
		for other, has := range works {
			if p := task.Overlap(has, paths[id]); p != "" {
				t.Errorf("line %d: %s was taken while %s was in progress; both work on %s", e.Seq, id, other, p)
			}
		}
		works[id] = paths[id]
		most = max(most, len(works))
	}
	return most
}

// Many workers of many boxes take, give back, fail, retry and edit tasks that work on
// the same few folders.
func TestPathsNeverBoth(t *testing.T) {
	first := newBox(t, Options{RetryBase: time.Nanosecond, MaxAttempts: 100})
	folders := []string{".", "a", "a/b", "a/b/c", "ab", "d", "e", "f"}
	tasks := amount(12, 40, 400)
	for i := range tasks {
		on(t, first, ID(fmt.Sprintf("t%d", i)), "any", folders[i%len(folders)])
	}
	saved(t, first)
	var done atomic.Int64
	var wg sync.WaitGroup
	for n := range 6 {
		b, err := Open(t.Context(), first.Home(), first.Options())
		must(t, err)
		t.Cleanup(func() { b.Close() })
		random := rand.New(rand.NewPCG(uint64(n), 13))
		wg.Go(func() {
			for done.Load() < int64(tasks) && !t.Failed() {
				c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
				if errors.Is(err, ErrEmpty) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				_, err = Edit(t.Context(), b, ID(fmt.Sprintf("t%d", random.IntN(tasks))), "human", "", func(t *Task) error {
					t.Mbox.Paths = []string{folders[random.IntN(len(folders))]}
					return nil
				})
				if err != nil && !errors.Is(err, ErrConflict) {
					t.Error(err)
				}
				switch random.IntN(4) {
				case 0:
					err = c.Release(t.Context(), "later", 0)
				case 1:
					if err = c.Fail(t.Context(), Failure{TaskError: TaskError{Code: "broken"}, Final: true}); err == nil {
						err = b.Retry(t.Context(), c.ID(), "human", "again")
					}
				default:
					if err = c.Complete(t.Context(), Result{}); err == nil {
						done.Add(1)
					}
				}
				c.Close()
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if most := neverBoth(t, first); most < 2 {
		t.Errorf("at most %d were in progress at once: nothing was tried", most)
	}
	whole(t, first.Home())
}

// What has a path of a task in progress is passed over, in every process, and named;
// it is to be had when that one has ended.
func TestPathsInTheWay(t *testing.T) {
	b := newBox(t, Options{RetryBase: time.Nanosecond})
	on(t, b, "whole", "any", ".")
	held := claimAs(t, b, "coder")
	on(t, b, "part", "any", "src/login")
	on(t, b, "free", "any")
	for name, box := range map[string]*Box{"its own": b, "one with a snapshot": reopened(t, b)} {
		_, err := box.Claim(t.Context(), ClaimRequest{Agent: "tester", ID: "part"})
		if !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "whole, which coder has had since") {
			t.Errorf("%s box: %v", name, err)
		}
		why, err := box.Why(t.Context(), "part")
		must(t, err)
		if !strings.Contains(why.Summary, "it waits for whole, which coder has had since ") || !strings.HasSuffix(why.Summary, "both work on .") {
			t.Errorf("%s box: %s", name, why.Summary)
		}
		x, err := box.Index()
		must(t, err)
		for _, l := range x.Live {
			if l.Blocked != (l.ID == "part") {
				t.Errorf("%s box: %s is blocked: %v", name, l.ID, l.Blocked)
			}
		}
	}
	if c := claimAs(t, b, "tester"); c.ID() != "free" {
		t.Errorf("%s was taken", c.ID())
	}
	nothingFor(t, b, "tester")
	must(t, held.Release(t.Context(), "", time.Hour))
	if c := claimAs(t, b, "tester"); c.ID() != "part" {
		t.Errorf("%s was taken", c.ID())
	}
	neverBoth(t, b)
}

// A worker that waits gets the task when what was in its way has ended.
func TestPathsWake(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b := newBox(t, Options{ScanInterval: time.Hour})
	on(t, b, "first", "any", "a")
	held := claimAs(t, b, "coder")
	on(t, b, "second", "any", "a/b")
	other, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer other.Close()
	got := make(chan *Claim)
	go func() {
		c, err := other.Wait(ctx, ClaimRequest{Agent: "tester"})
		if err != nil {
			t.Error(err)
		}
		got <- c
	}()
	for !other.queue.Waits() { // until it has looked
		must(t, ctx.Err())
		runtime.Gosched()
	}
	must(t, held.Complete(t.Context(), Result{}))
	if c := <-got; c != nil && c.ID() != "second" {
		t.Errorf("%s came", c.ID())
	}
}

// A file that was moved by hand is in the way of others like any claim.
func TestPathsByHand(t *testing.T) {
	b := newBox(t, Options{})
	on(t, b, "hand", "coder", "a")
	on(t, b, "other", "coder", "a")
	must(t, os.Rename(b.pending("hand.json"), b.path("tasks", "in-progress", "hand.json")))
	mustScan(t, b)
	if said(t, b, "hand") != InProgress {
		t.Fatal("the move was not seen")
	}
	nothingFor(t, b, "coder")
	must(t, os.Rename(b.path("tasks", "in-progress", "hand.json"), b.path("tasks", "completed", "hand.json")))
	mustScan(t, b)
	if c := claimAs(t, b, "coder"); c.ID() != "other" {
		t.Errorf("%s was taken", c.ID())
	}
}

// A task and those that it hands on wait for one another already.
func TestPathsOfFamily(t *testing.T) {
	b := newBox(t, Options{})
	on(t, b, "parent", "boss", ".")
	boss := claimAs(t, b, "boss")
	one, two := child("coder", "One"), child("tester", "Two")
	one.Task.Mbox.Paths, two.Task.Mbox.Paths = []string{"a"}, []string{"a/b"}
	ids := delegate(t, boss, "any", one, two)
	mine := claimAs(t, b, "coder")
	nothingFor(t, b, "tester") // they are not above one another
	must(t, mine.Complete(t.Context(), Result{}))
	late := claimAs(t, b, "tester")
	again := claimAs(t, b, "boss") // any has ended, the other one is at work
	if late.ID() != ids[1] || again.ID() != "parent" {
		t.Errorf("%s and %s were taken", late.ID(), again.ID())
	}
}

// A task that was moved by hand keeps its paths when mbox writes it anew.
func TestPathsAreKept(t *testing.T) {
	b := newBox(t, Options{})
	on(t, b, "t", "coder", "a")
	text, err := os.ReadFile(b.pending("t.json"))
	must(t, err)
	must(t, put(b.path("tasks", "in-progress", "t.json"), strings.Replace(string(text), `"revision": 1`, `"revision": 7`, 1)))
	must(t, os.Remove(b.pending("t.json")))
	mustScan(t, b)
	if _, now := stateOfTask(t, b, "t"); !slices.Equal(now.Mbox.Paths, []string{"a"}) {
		t.Errorf("it works on %q", now.Mbox.Paths)
	}
	if whole(t, b.Home()); len(b.queue.Find("t").Paths) != 1 {
		t.Error("the ledger does not tell of its paths")
	}
}

// Where another process is claiming a task with paths, nobody claims a second one, and
// a task without them is claimed all the same.
func TestPathsHoldDelegations(t *testing.T) {
	b := newBox(t, Options{})
	on(t, b, "paths", "any", "a")
	on(t, b, "plain", "any")
	other, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer other.Close()
	s, err := other.lockShardNumber(context.Background(), home.Delegations)
	must(t, err)
	if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", ID: "paths"}); !errors.Is(err, ErrBusy) {
		t.Errorf("under a held lock: %v", err)
	}
	if c := claimAs(t, b, "coder"); c.ID() != "plain" {
		t.Errorf("%s was taken", c.ID())
	}
	s.unlock()
	if c := claimAs(t, b, "coder"); c.ID() != "paths" {
		t.Errorf("%s was taken", c.ID())
	}
}
