package mailbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// familyScene is a scene of a delegation. Besides what a scene has, it says what
// of a family lies where in the end, acknowledged or not: the oracle of one more
// full cycle, in which everybody who can works.
type familyScene struct {
	scene
	options func(*Options)
	least   func(t *testing.T, b *Box, prior any) bool // what holds where it was only committed; nil: all of it
	ends    func(t *testing.T, f *folk)
}

// folk is what lies in a home when everybody has worked: by title, for the ids of
// children are mbox's.
type folk struct {
	states map[string][]State
	codes  map[string][]string
	done   map[string]int // task_completed lines by title
}

func (f *folk) want(t *testing.T, title string, allowed ...State) {
	t.Helper()
	for _, s := range f.states[title] {
		if !slices.Contains(allowed, s) {
			t.Errorf("%s ended as %v %v, want %v", title, f.states[title], f.codes[title], allowed)
		}
	}
}

// once wants exactly one task of the title to have been completed, once.
func (f *folk) once(t *testing.T, title string) {
	t.Helper()
	n := 0
	for _, s := range f.states[title] {
		if s == Completed {
			n++
		}
	}
	if n != 1 || f.done[title] != 1 {
		t.Errorf("%s ended as %v %v, completed %d times; want one that completed once", title, f.states[title], f.codes[title], f.done[title])
	}
}

func bossTask() *Task {
	return &Task{ID: "t1", Task: Request{Title: "parent"}, Assignment: Assignment{TargetAgent: "boss"}}
}

func bossClaims(t *testing.T, b *Box) any {
	t.Helper()
	submit(t, b, bossTask())
	return claimAs(t, b, "boss").Token()
}

func twoChildren(join string) Delegation {
	return Delegation{Join: join, Children: []Child{child("a", "first"), child("b", "second", 0)}, Budget: Budget{SpentChildren: 2}}
}

func waits(t *testing.T, b *Box, _ any) bool {
	task, state, err := b.Task(context.Background(), "t1")
	if err != nil || state != Pending || len(task.Mbox.WaitsFor) != 2 {
		return false
	}
	for _, id := range task.Mbox.WaitsFor {
		if _, state, err := b.Task(context.Background(), id); err != nil || state != Pending {
			return false
		}
	}
	return true
}

// threeDeep is a tree in which a parent waits for a child that waits for another.
func threeDeep(t *testing.T, b *Box) any {
	t.Helper()
	submit(t, b, bossTask())
	delegate(t, claimAs(t, b, "boss"), "", child("a", "first"), child("b", "second", 0))
	delegate(t, claimAs(t, b, "a"), "", child("c", "third"))
	claimAs(t, b, "c")
	return nil
}

func spentTree(t *testing.T, b *Box) any {
	t.Helper()
	submit(t, b, bossTask())
	c := claimAs(t, b, "boss")
	c.Spend(Budget{SpentTokens: 10})
	_, err := c.Delegate(context.Background(), Delegation{Children: []Child{child("a", "first")}, Budget: Budget{SpentTokens: 10}})
	must(t, err)
	return nil
}

func refusedAtClaim(agent string) func(context.Context, *Box, any) error {
	return func(ctx context.Context, b *Box, _ any) error {
		c, err := b.Claim(ctx, ClaimRequest{Agent: agent})
		if err == nil {
			return fmt.Errorf("%s was given out", c.ID())
		}
		if errors.Is(err, ErrEmpty) {
			return nil
		}
		return err
	}
}

// failedWith tells whether the task with the title has failed with the code.
func failedWith(title, code string) func(*testing.T, *Box, any) bool {
	return func(t *testing.T, b *Box, _ any) bool {
		f := folkOf(t, b)
		return slices.Equal(f.states[title], []State{Failed}) && slices.Equal(f.codes[title], []string{code})
	}
}

func reviewed(o *Options) {
	o.Review = func(t *Task) ([]audit.Entry, error) {
		if t.Task.Title == "one more" {
			return nil, nil
		}
		note := delegation.Details{RequestID: 1, FromAgent: "human", ToAgent: "a", Task: "write_file", Decision: delegation.Delivered}
		return []audit.Entry{note.Entry(audit.MboxAgent, "")}, nil
	}
}

var familyScenes = []familyScene{
	{
		scene: scene{
			name: "delegate", before: bossClaims,
			verb: func(ctx context.Context, b *Box, token any) error {
				return held(b, token, func(c *Claim) error { _, err := c.Delegate(ctx, twoChildren("")); return err })
			},
			holds: waits,
		},
		ends: func(t *testing.T, f *folk) {
			f.once(t, "parent")
			if len(f.states["first"]) > 0 && slices.Contains(f.states["first"], Completed) {
				f.once(t, "first")
				f.once(t, "second")
			}
		},
	},
	{
		scene: scene{
			name: "submit with a review", before: func(*testing.T, *Box) any { return nil },
			verb: func(ctx context.Context, b *Box, _ any) error {
				task := bossTask()
				_, err := b.Submit(ctx, task)
				return err
			},
			holds: func(t *testing.T, b *Box, _ any) bool {
				e := lineOf(t, b, audit.DelegationEvent)
				return e != nil && e.Task() == "t1" && stateIs("t1", Pending)(t, b, nil)
			},
		},
		options: reviewed, least: stateIs("t1", Pending),
		ends: func(t *testing.T, f *folk) { f.want(t, "parent", Completed) },
	},
	{
		scene: scene{
			name: "approve", before: func(t *testing.T, b *Box) any {
				task := bossTask()
				task.Mbox.Action = &Action{Name: "deploy"}
				submit(t, b, task)
				return nil
			},
			verb: func(ctx context.Context, b *Box, _ any) error {
				_, err := b.Approve(ctx, "t1", Consent{By: "human", From: "a test", Why: "looked at it", For: time.Hour})
				return err
			},
			holds: func(t *testing.T, b *Box, _ any) bool {
				f, _, err := b.current("t1")
				if err != nil {
					return false
				}
				a, err := b.approvals.approved("t1", f.Hash)
				return a != nil && err == nil
			},
		},
		options: func(o *Options) {
			o.Approval = func(t *Task) string {
				if t.ID == "t1" {
					return "it deploys"
				}
				return ""
			}
		},
		ends: func(t *testing.T, f *folk) { f.want(t, "parent", Completed, Pending) }, // Pending: not approved
	},
	{
		scene: scene{
			name: "cancel a tree", before: threeDeep,
			verb:  func(ctx context.Context, b *Box, _ any) error { return b.Cancel(ctx, "t1", "human", "no more") },
			holds: func(t *testing.T, b *Box, _ any) bool { return allCancelled(folkOf(t, b)) },
		},
		ends: func(t *testing.T, f *folk) {
			if slices.Contains(f.codes["parent"], "cancelled") && !allCancelled(f) {
				t.Errorf("the root was cancelled, and its tree was not: %v %v", f.states, f.codes)
			}
		},
	},
	{
		scene: scene{
			name: "refused for the budget", before: spentTree,
			verb: refusedAtClaim("a"), holds: failedWith("first", "budget_spent"),
		},
		ends: func(t *testing.T, f *folk) { f.want(t, "first", Failed); f.want(t, "parent", Failed) },
	},
	{
		scene: scene{
			name: "refused for the depth", before: func(t *testing.T, b *Box) any {
				threeDeep(t, b)
				must(t, b.Cancel(context.Background(), "t1", "human", "x"))
				task := bossTask()
				task.ID = "deep"
				id := submit(t, b, task)
				ids := delegate(t, claimAs(t, b, "boss"), "", child("d", "deep"))
				b.o.MaxDepth = 1 // as an operator sets it behind the delegation
				return []ID{id, ids[0]}
			},
			verb: refusedAtClaim("d"), holds: failedWith("deep", "depth"),
		},
		ends: func(t *testing.T, f *folk) { f.want(t, "deep", Failed, Completed) },
	},
	{
		scene: scene{
			name: "second claim", before: func(t *testing.T, b *Box) any {
				bossClaims(t, b)
				c, err := b.Held(context.Background(), "t1", tokenOf(t, b, "t1"))
				must(t, err)
				delegate(t, c, JoinAny, child("a", "first"), child("b", "second"))
				finish(t, b, "a", true)
				return nil
			},
			verb: func(ctx context.Context, b *Box, _ any) error {
				c, err := b.Claim(ctx, ClaimRequest{Agent: "boss"})
				if err != nil {
					return err
				}
				return c.Complete(ctx, Result{})
			},
			holds: stateIs("t1", Completed),
		},
		least: func(*testing.T, *Box, any) bool { return true }, // the claim, or the end
		ends:  func(t *testing.T, f *folk) { f.once(t, "parent"); f.once(t, "first") },
	},
}

func tokenOf(t *testing.T, b *Box, id ID) string {
	t.Helper()
	_, task := stateOfTask(t, b, id)
	return task.Mbox.Lease.Token
}

func allCancelled(f *folk) bool {
	for _, title := range []string{"parent", "first", "second", "third"} {
		if !slices.Equal(f.states[title], []State{Failed}) {
			return false
		}
	}
	return true
}

func folkOf(t *testing.T, b *Box) *folk {
	t.Helper()
	f := &folk{map[string][]State{}, map[string][]string{}, map[string]int{}}
	titles := map[ID]string{}
	for it, err := range b.List(context.Background(), Filter{States: task.Folders}) {
		must(t, err)
		title := it.Task.Task.Title
		titles[it.Task.ID] = title
		f.states[title] = append(f.states[title], it.State)
		if e := it.Task.Result.Error; e != nil {
			f.codes[title] = append(f.codes[title], e.Code)
		}
	}
	for _, e := range lines(t, b, "") {
		if m, ok := task.MoveOf(&e); ok && m.Enters() == Completed {
			f.done[titles[ID(e.Task())]]++
		}
	}
	return f
}

// TestEveryFamilyWriteFails is TestRule05_EveryWriteFails for what a delegation writes,
// with one more full cycle: whoever can work works, until nobody can.
func TestEveryFamilyWriteFails(t *testing.T) {
	for _, sc := range familyScenes {
		t.Run(sc.name, func(t *testing.T) {
			homes, points := map[string]string{}, 0
			writes := sc.fail(t, 0, false, false, "no fault", homes)
			for k := 1; k <= writes; k += amount(9, 1, 1) {
				for _, f := range failures {
					if (k%2 == 0) == (f.applied == f.death) || amount(0, 0, 1) == 1 { // the short form: each once not applied and once applied
						sc.fail(t, k, f.applied, f.death, f.name, homes)
						points++
					}
				}
			}
			lintAll(t, homes)
			t.Logf("%d writes failed", points)
		})
	}
}

// fail runs the scene with a fault at write k, and returns how many there were.
func (sc *familyScene) fail(t *testing.T, k int, applied, death bool, how string, homes map[string]string) int {
	ctx, clk := context.Background(), newClock()
	o := Options{Now: clk.now, RetryBase: time.Nanosecond}
	if sc.options != nil {
		sc.options(&o)
	}
	dir := filepath.Join(t.TempDir(), "home")
	must(t, Create(dir, Options{Sync: durable.None}))
	b, err := Open(ctx, dir, o)
	must(t, err)
	prior := sc.before(t, b)
	o.MaxDepth = b.o.MaxDepth
	n, hit := 0, ""
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		switch n++; {
		case k == 0 || n < k || n > k && !death:
			return true, nil
		case n > k:
			return false, errInjected
		}
		hit = fmt.Sprintf("%s %s", op, filepath.Base(path))
		return applied, errInjected
	})
	said := sc.verb(ctx, b, prior)
	remove()
	b.Close()
	if hit == "" && (said != nil || k > 0) {
		t.Fatalf("without a fault: %v", said)
	}
	label := fmt.Sprintf("write %d (%s), %s; verb said: %v", k, hit, how, said)
	if audit.CheckWritable(dir) != nil {
		if _, err := Recover(ctx, dir, o, RecoverOptions{AfterIOError: true}); err != nil {
			t.Fatalf("%s: recover: %v", label, err)
		}
	}
	b, err = Open(ctx, dir, o)
	must(t, err)
	defer b.Close()
	must(t, scanNow(b))
	holds := sc.holds
	if errors.Is(said, ErrCommitted) && sc.least != nil {
		holds = sc.least
	}
	if (said == nil || errors.Is(said, ErrCommitted)) && !holds(t, b, prior) {
		t.Errorf("acknowledged, and not there: %+v", folkOf(t, b))
	}
	whole(t, dir)
	sc.cycle(t, b, clk)
	whole(t, dir)
	if t.Failed() {
		t.Fatal(label)
	}
	homes[dir] = label
	return n
}

// cycle lets everybody work until nobody can, and one more task go all the way.
func (sc *familyScene) cycle(t *testing.T, b *Box, clk *clock) {
	t.Helper()
	ctx := context.Background()
	submit(t, b, &Task{Task: Request{Title: "one more"}, Assignment: Assignment{TargetAgent: "a"}})
	clk.turn(time.Hour) // leases of the dead run out
	for worked := true; worked; {
		worked = false
		must(t, scanNow(b))
		clk.turn(time.Second)
		for _, agent := range []string{"boss", "a", "b", "c", "d"} {
			c, err := b.Claim(ctx, ClaimRequest{Agent: agent})
			if errors.Is(err, ErrEmpty) {
				continue
			}
			must(t, err)
			worked = true
			if c.ID() == "t1" && sc.name == "delegate" && c.Task.Mbox.WaitsFor == nil {
				delegate(t, c, "", child("a", "first"), child("b", "second", 0))
				continue
			}
			must(t, c.Complete(ctx, Result{}))
		}
	}
	f := folkOf(t, b)
	f.once(t, "one more")
	for title, states := range f.states {
		if sc.name != "approve" && (slices.Contains(states, Pending) || slices.Contains(states, InProgress)) {
			t.Errorf("%s did not end: %v", title, states)
		}
	}
	sc.ends(t, f)
}
