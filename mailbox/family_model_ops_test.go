package mailbox

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"pgregory.net/rapid"

	"mbox/mailbox/durable"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// The operations of TestFamilies: each on the mailbox and on the model.

func (w *clan) root(t *rapid.T) {
	w.turn(t, "root")
	k := w.newKin(0)
	task := &Task{Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: k.agent}}
	id, err := w.b.Submit(context.Background(), task)
	must(t, err)
	k.id = id
	w.kin = append(w.kin, k)
}

// claimOne claims as a task's agent: it is given the task exactly if it is ready.
func (w *clan) claimOne(t *rapid.T) {
	k := w.pick(t, (*kin).live)
	if k == nil {
		return
	}
	w.turn(t, "claim")
	w.take(k)
}

func (w *clan) take(k *kin) {
	c, err := w.b.Claim(context.Background(), ClaimRequest{Agent: k.agent})
	if errors.Is(err, ErrEmpty) {
		w.did["refused to claim"]++
		if k.ready() && !k.either {
			w.t.Fatalf("%s is ready, and cannot be claimed", k.id)
		}
		return
	}
	must(w.t, err)
	w.did["claimed"]++
	if c.ID() != k.id || !k.ready() && !(k.either && k.state == Pending) {
		w.t.Fatalf("%s was claimed; %s is %q and not ready", c.ID(), k.id, k.state)
	}
	k.state, k.claim, k.either = InProgress, c, false
	k.attempt++
	k.epoch++
}

func (w *clan) plan(t *rapid.T, parent *kin) (d Delegation, children []*kin) {
	d.Join = rapid.SampledFrom(task.Joins).Draw(t, "join")
	for i := range rapid.IntRange(1, 4).Draw(t, "children") {
		k := w.newKin(parent.depth + 1)
		k.agent += string("wxyz"[i])
		k.parent, k.born = parent, parent.epoch
		c := child(k.agent, "x")
		if i > 0 && rapid.IntRange(0, 2).Draw(t, "after") == 0 {
			before := rapid.IntRange(0, i-1).Draw(t, "before")
			c.After, k.after = []int{before}, []*kin{children[before]}
		}
		d.Children, children = append(d.Children, c), append(children, k)
	}
	return d, children
}

// holding picks a task whose claim stands, now and then one whose claim is over.
func (w *clan) holding(t *rapid.T) *kin {
	late := rapid.IntRange(0, 7).Draw(t, "late") == 0
	return w.pick(t, func(k *kin) bool { return k.claim != nil && over(k) == late })
}

func over(k *kin) bool {
	return k.state != InProgress || k.claim.Task.Mbox.Epoch != k.epoch
}

// renewed is the claim as this turn's process has it.
func (w *clan) renewed(k *kin) *Claim {
	return &Claim{Task: k.claim.Task, box: w.b, agent: k.agent, token: k.claim.token}
}

func (w *clan) delegate(t *rapid.T) {
	k := w.holding(t)
	if k == nil {
		return
	}
	w.turn(t, "delegate")
	d, children := w.plan(t, k)
	ids, err := w.renewed(k).Delegate(context.Background(), d)
	var refused *Refusal
	switch {
	case over(k):
		if !errors.Is(err, ErrStale) {
			t.Fatalf("delegating with a claim that is over: %v", err)
		}
		return
	case k.depth == MaxDepth-1:
		if !errors.As(err, &refused) || refused.Step != "depth" {
			t.Fatalf("delegating at depth %d: %v", k.depth, err)
		}
		return
	}
	must(t, err)
	w.did[d.Join]++
	for i, id := range ids {
		children[i].id = id
	}
	w.kin = append(w.kin, children...)
	k.state, k.waits, k.join, k.attempt = Pending, children, d.Join, k.attempt-1
}

// halfDelegate creates children, and their parent's worker dies before it goes
// back to wait for them. The next operation finds them so.
func (w *clan) halfDelegate(t *rapid.T) {
	k := w.pick(t, func(k *kin) bool { return k.claim != nil && !over(k) && k.depth < MaxDepth-1 })
	if k == nil {
		return
	}
	w.turn(t, "half a delegation")
	d, children := w.plan(t, k)
	for _, c := range d.Children {
		c.Task.Task.Title = "half" // another request than a whole one of the same epoch
	}
	ids := make([]ID, len(d.Children))
	c := w.renewed(k)
	n := rapid.IntRange(1, len(children)).Draw(t, "made")
	for i := range n {
		id, err := c.create(context.Background(), nil, d, i, ids)
		must(t, err)
		ids[i] = id
		children[i].id = id
		w.kin = append(w.kin, children[i])
	}
	w.fail(k, "worker_lost", false)
}

func (w *clan) fail(k *kin, code string, final bool) {
	must(w.t, w.renewed(k).Fail(context.Background(), Failure{TaskError: TaskError{Code: code}, Final: final}))
	k.failed(final)
}

func (k *kin) failed(final bool) {
	k.state = Pending
	if final || k.attempt >= 3 {
		k.state = Failed
	}
}

func (w *clan) end(t *rapid.T) {
	k := w.holding(t)
	if k == nil {
		return
	}
	w.turn(t, "end")
	c := w.renewed(k)
	how := rapid.SampledFrom([]string{"complete", "complete", "fail", "fail for good", "release"}).Draw(t, "how")
	if over(k) {
		if err := c.Release(context.Background(), w.b.now().String(), 0); !errors.Is(err, ErrStale) {
			t.Fatalf("releasing a claim that is over: %v", err)
		}
		return
	}
	switch how {
	case "complete":
		must(t, c.Complete(context.Background(), Result{}))
		k.state = Completed
	case "fail", "fail for good":
		w.fail(k, "no", how != "fail")
	case "release":
		must(t, c.Release(context.Background(), "later", 0))
		k.state, k.attempt = Pending, k.attempt-1
	}
}

func (w *clan) cancel(t *rapid.T) {
	k := w.pick(t, (*kin).live)
	if k == nil {
		return
	}
	w.turn(t, "cancel")
	must(t, w.b.Cancel(context.Background(), k.id, "human", "why"))
	k.state = Failed
}

func (w *clan) retry(t *rapid.T) {
	k := w.pick(t, func(k *kin) bool { return k.state == Failed })
	if k == nil {
		return
	}
	w.turn(t, "retry")
	err := w.b.Retry(context.Background(), k.id, "human", "why")
	if errors.Is(err, ErrConflict) { // it is archived
		return
	}
	must(t, err)
	for _, p := range w.kin {
		if p.state == Pending && (slices.Contains(p.waits, k) || slices.Contains(p.after, k)) {
			p.either = true
		}
	}
	k.state, k.attempt, k.waits, k.join, k.parent = Pending, 0, nil, "", nil
}

// loseLeases lets all leases run out.
func (w *clan) loseLeases(t *rapid.T) {
	if !slices.ContainsFunc(w.kin, func(k *kin) bool { return k.state == InProgress }) {
		return
	}
	w.turn(t, "lease lost")
	w.clk.turn(20 * time.Minute)
	must(t, scanNow(w.b))
	for _, k := range w.kin {
		if k.state == InProgress {
			k.failed(false)
		}
	}
	w.clk.turn(time.Second)
}

// byHand is a stranger with mv.
func (w *clan) byHand(t *rapid.T) {
	k := w.pick(t, (*kin).live)
	if k == nil {
		return
	}
	w.turn(t, "by hand")
	from, to := Pending, InProgress
	if k.state == InProgress {
		from, to = InProgress, rapid.SampledFrom([]State{Pending, Completed, Failed}).Draw(t, "to")
	}
	must(t, os.Rename(w.b.path("tasks", string(from), k.id.File()), w.b.path("tasks", string(to), k.id.File())))
	must(t, scanNow(w.b))
	k.state, k.either = to, false
	switch to {
	case InProgress:
		k.attempt++
		k.epoch++
	case Pending:
		k.attempt = max(0, k.attempt-1)
	}
}

// remove is a stranger with rm.
func (w *clan) remove(t *rapid.T) {
	k := w.pick(t, func(k *kin) bool { return k.state == Pending })
	if k == nil {
		return
	}
	w.turn(t, "delete")
	must(t, os.Remove(w.b.pending(k.id.File())))
	k.state = None
}

func (w *clan) archive(t *rapid.T) {
	w.turn(t, "archive")
	_, err := w.b.Archive(context.Background(), 0, "human")
	must(t, err)
}

// reopen is a process that ends and begins anew, with the last snapshot or
// without any.
func (w *clan) reopen(t *rapid.T) {
	w.turn(t, "reopen")
	i := slices.Index(w.boxes[:], w.b)
	w.b.Close()
	if rapid.Bool().Draw(t, "snapshot") {
		w.did["reopen with a snapshot"]++
	} else {
		w.did["reopen without one"]++
		must(t, durable.RemoveIfThere(queue.File(w.dir)))
	}
	w.open(i)
	w.b = w.boxes[i]
	if rapid.Bool().Draw(t, "shadow") {
		w.shadow()
	}
}

// finish ends a run: whoever is ready works, and in the end nobody waits.
func (w *clan) finish(t *rapid.T) {
	w.t, w.b = t, w.boxes[0]
	for n := 0; slices.ContainsFunc(w.kin, (*kin).live); n++ {
		if n > 200 {
			t.Fatalf("somebody waits for ever")
		}
		w.clk.turn(20 * time.Minute)
		must(t, scanNow(w.b))
		for _, k := range w.kin {
			if k.state == InProgress {
				k.failed(false)
			}
		}
		w.clk.turn(time.Second)
		w.rest()
		for _, k := range w.kin {
			if k.live() {
				w.take(k)
			}
			if k.state == InProgress && !over(k) {
				must(t, w.renewed(k).Complete(context.Background(), Result{}))
				k.state = Completed
			}
			w.rest()
		}
	}
	whole(t, w.dir)
}
