package mailbox

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"mbox/mailbox/durable"
	"mbox/mailbox/queue"
)

// The model of delegation: what is known of each task without looking at the
// mailbox. Each task has an agent of its own, so that a claim as that agent tells
// whether the task is ready.

// kin is a task of the model.
type kin struct {
	id      ID
	agent   string
	state   State // None once its file was deleted: it counts as failed
	depth   int
	attempt int64
	epoch   int64
	after   []*kin // its dependencies
	parent  *kin   // nil for a root, and for a child that was retried
	born    int64  // the parent's epoch in which it was made
	waits   []*kin
	join    string
	either  bool   // one of those that it waits for was retried when it was ready: it may be taken or not
	claim   *Claim // the last one
}

func (k *kin) live() bool { return k.state == Pending || k.state == InProgress }

// stuck tells whether a dependency has failed, in the order of the list.
func (k *kin) stuck() bool {
	for _, d := range k.after {
		if d.state != Completed {
			return !d.live()
		}
	}
	return false
}

// ready tells whether the task may be claimed: the rule of the join, said once
// more in other words than the mailbox's.
func (k *kin) ready() bool {
	if k.state != Pending || slices.ContainsFunc(k.after, func(d *kin) bool { return d.state != Completed }) {
		return false
	}
	well, alive, all := 0, 0, len(k.waits)
	for _, c := range k.waits {
		if c.state == Completed {
			well++
		}
		if c.live() {
			alive++
		}
	}
	switch k.join {
	case JoinAny:
		return well > 0 || alive == 0
	case JoinQuorum:
		return 2*well > all || 2*(well+alive) <= all
	}
	return alive == 0
}

// wanted tells whether somebody waits for the child, or is about to.
func (k *kin) wanted() bool {
	p := k.parent
	switch {
	case p == nil:
		return true
	case !p.live():
		return false
	}
	return slices.Contains(p.waits, k) || p.state == InProgress && p.epoch == k.born
}

// clan is a mailbox, open in two processes, and the model of it.
type clan struct {
	t     *rapid.T
	clk   *clock
	dir   string
	boxes [2]*Box
	b     *Box // whose turn it is
	kin   []*kin
	base  *queue.Queue // began with a snapshot, and was folded on ever since
	did   map[string]int
}

func (w *clan) options() Options {
	return Options{Now: w.clk.now, RetryBase: time.Nanosecond, Sync: durable.None}
}

func (w *clan) open(i int) {
	b, err := Open(context.Background(), w.dir, w.options())
	must(w.t, err)
	w.boxes[i] = b
}

// turn begins an operation of one of the processes.
func (w *clan) turn(t *rapid.T, what string) {
	w.t = t
	w.did[what]++
	w.b = w.boxes[rapid.IntRange(0, 1).Draw(t, "process")]
	w.clk.turn(time.Second)
}

func (w *clan) pick(t *rapid.T, fits func(*kin) bool) *kin {
	var some []*kin
	for _, k := range w.kin {
		if fits(k) {
			some = append(some, k)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some[rapid.IntRange(0, len(some)-1).Draw(t, "task")]
}

func (w *clan) newKin(depth int) *kin {
	return &kin{agent: fmt.Sprintf("a%d", len(w.kin)), state: Pending, depth: depth}
}

// settle brings the model to rest: who depends on what failed fails, and who is
// unwanted is cancelled.
func (w *clan) settle() {
	for again := true; again; {
		again = false
		for _, k := range w.kin {
			if k.state == Pending && k.stuck() || k.live() && !k.wanted() {
				k.state, again = Failed, true
			}
		}
	}
}

// rest brings the mailbox to rest, and compares it with the model and its index
// with what the ledger alone says.
func (w *clan) rest() {
	for n := 0; ; n++ {
		end := w.b.ledger.End().Seq
		must(w.t, scanNow(w.b))
		if w.b.ledger.End().Seq == end {
			break
		}
		if n > 40 {
			w.t.Fatal("the mailbox does not come to rest")
		}
	}
	w.settle()
	for _, k := range w.kin {
		for _, b := range w.boxes {
			r, err := b.lookup(k.id)
			must(w.t, err)
			switch {
			case r == nil && k.live(), r != nil && r.State != k.state:
				w.t.Fatalf("%s is %+v; the model has it as %q", k.id, r, k.state)
			case r != nil && (r.Attempt != k.attempt || r.Epoch != k.epoch):
				w.t.Fatalf("%s has attempt %d of epoch %d; the model %d of %d", k.id, r.Attempt, r.Epoch, k.attempt, k.epoch)
			}
		}
	}
	w.compareIndexes()
}

// TestFamilies runs random families of tasks against the model.
func TestFamilies(t *testing.T) {
	old := queue.SnapshotLines
	queue.SnapshotLines = 9
	defer func() { queue.SnapshotLines = old }()
	place, n := t.TempDir(), 0
	all, did := map[string]string{}, map[string]int{}
	rapidFlags(t, amount(40, 60, 2000))
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := &clan{t: rt, clk: newClock(), dir: filepath.Join(place, fmt.Sprint(n)), did: did}
		must(rt, Create(w.dir, w.options()))
		w.open(0)
		w.open(1)
		defer func() { w.boxes[0].Close(); w.boxes[1].Close() }()
		w.base = another(w.boxes[0], w.dir+"/none")
		defer func() { w.base.Forget() }()
		w.root(rt)
		ops := w.ops()
		for range rapid.IntRange(5, 60).Draw(rt, "operations") {
			ops[rapid.IntRange(0, len(ops)-1).Draw(rt, "operation")](rt)
			w.rest()
		}
		w.finish(rt)
		all[w.dir] = fmt.Sprint("run ", n)
	})
	if t.Failed() {
		return
	}
	lintAll(t, all)
	t.Logf("%d runs: %v", n, did)
	for _, what := range []string{"claimed", "refused to claim", "delegate", "half a delegation", "any", "quorum", "all", "cancel", "retry", "lease lost", "by hand", "delete", "reopen with a snapshot", "reopen without one"} {
		if did[what] < n/10 {
			t.Errorf("%q came %d times in %d runs: they prove little", what, did[what], n)
		}
	}
}

// ops are the operations, each as often as it shall come.
func (w *clan) ops() (ops []func(*rapid.T)) {
	for _, op := range []struct {
		often int
		do    func(*rapid.T)
	}{
		{1, w.root},
		{12, w.claimOne},
		{7, w.delegate},
		{2, w.halfDelegate},
		{8, w.end},
		{1, w.cancel},
		{2, w.retry},
		{1, w.loseLeases},
		{2, w.byHand},
		{1, w.remove},
		{1, w.archive},
		{3, w.reopen},
	} {
		ops = append(ops, slices.Repeat([]func(*rapid.T){op.do}, op.often)...)
	}
	return ops
}
