package mailbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// family is a mailbox in which a parent task has been claimed by the agent boss.
func family(t *testing.T, o Options) (*Box, *Claim) {
	t.Helper()
	b := newBox(t, o)
	submit(t, b, &Task{ID: "parent", Task: Request{Title: "Hand on"}, Assignment: Assignment{TargetAgent: "boss"}})
	return b, claimAs(t, b, "boss")
}

func submit(t *testing.T, b *Box, task *Task) ID {
	t.Helper()
	id, err := b.Submit(context.Background(), task)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func claimAs(t *testing.T, b *Box, agent string) *Claim {
	t.Helper()
	c, err := b.Claim(context.Background(), ClaimRequest{Agent: agent})
	if err != nil {
		t.Fatalf("claim as %s: %v", agent, err)
	}
	return c
}

// nothingFor checks that an agent can claim nothing.
func nothingFor(t *testing.T, b *Box, agent string) {
	t.Helper()
	c, err := b.Claim(context.Background(), ClaimRequest{Agent: agent})
	if !errors.Is(err, ErrEmpty) {
		t.Fatalf("%s claimed %v, %v; want nothing", agent, c, err)
	}
}

func child(to, title string, after ...int) Child {
	return Child{Task: &Task{Task: Request{Title: title}, Assignment: Assignment{TargetAgent: to}}, After: after}
}

func delegate(t *testing.T, c *Claim, join string, children ...Child) []ID {
	t.Helper()
	ids, err := c.Delegate(context.Background(), Delegation{Children: children, Join: join})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func finish(t *testing.T, b *Box, agent string, well bool) ID {
	t.Helper()
	c := claimAs(t, b, agent)
	var err error
	if well {
		err = c.Complete(context.Background(), Result{Output: jsontext.Value(`"done"`)})
	} else {
		err = c.Fail(context.Background(), Failure{TaskError: TaskError{Code: "broken"}, Final: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

func stateOfTask(t *testing.T, b *Box, id ID) (State, *Task) {
	t.Helper()
	task, state, err := b.Task(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return state, task
}

func TestDelegate(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, "", child("coder", "Write"), child("tester", "Check", 0))
	if len(ids) != 2 {
		t.Fatalf("children %v", ids)
	}
	nothingFor(t, b, "boss")
	nothingFor(t, b, "tester") // it comes after the coder
	state, parent := stateOfTask(t, b, "parent")
	if m := parent.Mbox; state != Pending || m.Attempt != 0 || !slices.Equal(m.WaitsFor, ids) || m.Join != JoinAll || m.RootID != "parent" {
		t.Fatalf("the parent is %s with %+v", state, m)
	}
	_, first := stateOfTask(t, b, ids[0])
	if m := first.Mbox; m.ParentID != "parent" || m.RootID != "parent" || m.Depth != 1 || first.Source.Agent != "boss" {
		t.Fatalf("the child has %+v from %s", m, first.Source.Agent)
	}
	finish(t, b, "coder", true)
	nothingFor(t, b, "boss")
	finish(t, b, "tester", true)
	again := claimAs(t, b, "boss")
	if again.ID() != "parent" || again.Task.Mbox.Attempt != 1 || again.Task.Mbox.Epoch != 2 {
		t.Fatalf("claimed %s, %+v", again.ID(), again.Task.Mbox)
	}
	tree, err := b.Tree(context.Background(), "parent")
	if err != nil {
		t.Fatal(err)
	}
	if kids := tree.Children("parent"); len(kids) != 2 || kids[0].ID != ids[0] || kids[1].State != Completed || tree.Spent[SpentChildren] != 2 {
		t.Fatalf("tree %+v, children %+v", tree, kids)
	}
}

func TestJoin(t *testing.T) {
	type end = []bool // of the children one after another: completed
	for _, c := range []struct {
		join  string
		ends  end
		ready int // after so many ends
	}{
		{JoinAll, end{true, true, true}, 3},
		{JoinAll, end{false, true, true}, 3},
		{JoinAny, end{true}, 1},
		{JoinAny, end{false, true}, 2},
		{JoinAny, end{false, false, false}, 3},
		{JoinQuorum, end{true, true}, 2},
		{JoinQuorum, end{true, false, true}, 3},
		{JoinQuorum, end{false, false}, 2}, // it cannot come to two any more
	} {
		t.Run(c.join, func(t *testing.T) {
			b, claim := family(t, Options{})
			delegate(t, claim, c.join, child("a", "1"), child("b", "2"), child("c", "3"))
			for i, well := range c.ends {
				nothingFor(t, b, "boss")
				finish(t, b, string("abc"[i]), well)
			}
			if got := claimAs(t, b, "boss"); got.ID() != "parent" || len(c.ends) != c.ready {
				t.Fatalf("claimed %s", got.ID())
			}
		})
	}
}

func TestDelegateRefused(t *testing.T) {
	three := []Child{child("x", "1"), child("x", "2"), child("x", "3")}
	for _, c := range []struct {
		name string
		d    Delegation
		step string
		says string
	}{
		{"nobody", Delegation{}, "parameters", "nobody"},
		{"too many", Delegation{Children: slices.Repeat(three, 34)}, "parameters", "102 children"},
		{"join", Delegation{Children: three, Join: "most"}, "join", `"most"`},
		{"after nothing", Delegation{Children: []Child{child("x", "1", 7)}}, "parameters", "child 8"},
		{"after itself", Delegation{Children: []Child{child("x", "1", 0)}}, "cycle", "1 → 1"},
		{"ring", Delegation{Children: []Child{child("x", "1", 1), child("x", "2", 0)}}, "cycle", "1 → 2 → 1"},
		{"to itself", Delegation{Children: []Child{child("boss", "1")}}, "cycle", "boss → boss"},
		{"on its parent", Delegation{Children: []Child{{Task: &Task{
			Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "x"}, Mbox: Meta{DependsOn: []ID{"parent"}},
		}}}}, "cycle", "parent → its child → parent"},
		{"budget", Delegation{Children: three, Budget: Budget{SpentChildren: 2}}, "budget", "2 children"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, claim := family(t, Options{})
			_, err := claim.Delegate(context.Background(), c.d)
			var r *Refusal
			if !errors.As(err, &r) || r.Step != c.step || !strings.Contains(r.Reason, c.says) {
				t.Fatalf("got %v, want a refusal at %s that says %q", err, c.step, c.says)
			}
			if tasks := listed(t, b, Pending); len(tasks) != 0 {
				t.Fatalf("%d tasks were created", len(tasks))
			}
		})
	}
}

// A circle over tasks that wait for one another is found however their ids are
// spelled, and told as those who wait spell themselves.
func TestDelegateAround(t *testing.T) {
	b, c := family(t, Options{})
	between := request("between")
	between.ID, between.Mbox.DependsOn = "Between", []ID{"PARENT"}
	_, err := b.Submit(t.Context(), between)
	must(t, err)
	task := child("x", "1")
	task.Task.Mbox.DependsOn = []ID{"other", "between"}
	_, err = c.Delegate(t.Context(), Delegation{Children: []Child{task}})
	var r *Refusal
	if !errors.As(err, &r) || r.Step != "cycle" || !strings.HasSuffix(r.Reason, "parent → its child → Between → parent") {
		t.Fatalf("got %v", err)
	}
}

func TestDelegateDepth(t *testing.T) {
	b, c := family(t, Options{})
	delegate(t, c, "", child("one", "1"))
	c = claimAs(t, b, "one")
	delegate(t, c, "", child("two", "2"))
	c = claimAs(t, b, "two")
	_, err := c.Delegate(context.Background(), Delegation{Children: []Child{child("three", "3")}})
	var r *Refusal
	if !errors.As(err, &r) || r.Step != "depth" || !strings.Contains(r.Reason, "(3/3)") {
		t.Fatalf("got %v", err)
	}
}

// A circle of agents is found over the whole tree: coder hands on to tester in
// one branch, so tester may not hand on to coder in another.
func TestDelegateSideways(t *testing.T) {
	b, c := family(t, Options{})
	delegate(t, c, "", child("coder", "1"), child("tester", "2"))
	delegate(t, claimAs(t, b, "coder"), "", child("tester", "3"))
	tester := claimAs(t, b, "tester")
	if tester.Task.Mbox.Depth != 1 {
		t.Fatalf("claimed depth %d", tester.Task.Mbox.Depth)
	}
	_, err := tester.Delegate(context.Background(), Delegation{Children: []Child{child("coder", "4")}})
	var r *Refusal
	if !errors.As(err, &r) || r.Step != "cycle" || !strings.Contains(r.Reason, "tester → coder → tester") {
		t.Fatalf("got %v", err)
	}
	_, err = tester.Delegate(context.Background(), Delegation{Children: []Child{child("boss", "5")}})
	if !errors.As(err, &r) || r.Step != "cycle" || !strings.Contains(r.Reason, "tester → boss") {
		t.Fatalf("got %v", err)
	}
}

func TestCancelTree(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, "", child("coder", "1"), child("tester", "2"))
	inner := delegate(t, claimAs(t, b, "coder"), "", child("third", "3"))
	claimAs(t, b, "third")
	if err := b.Cancel(context.Background(), "parent", "human", "not needed"); err != nil {
		t.Fatal(err)
	}
	for _, id := range append(append([]ID{"parent"}, ids...), inner...) {
		state, task := stateOfTask(t, b, id)
		if state != Failed || task.Result.Error.Code != "cancelled" {
			t.Errorf("%s is %s, %+v", id, state, task.Result.Error)
		}
	}
}

// A parent that ends takes the children along that it did not wait for.
func TestParentEnds(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, JoinAny, child("a", "1"), child("b", "2"))
	finish(t, b, "a", true)
	finish(t, b, "boss", true)
	if _, err := b.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if state, _ := stateOfTask(t, b, ids[1]); state != Failed {
		t.Fatalf("the child that nobody waits for is %s", state)
	}
}

// A worker that died between its children and its own way back leaves children
// that nobody waits for.
func TestOrphans(t *testing.T) {
	b, c := family(t, Options{})
	d := Delegation{Children: []Child{child("a", "1"), child("b", "2")}, Join: JoinAll}
	first, err := c.create(context.Background(), nil, d, 0, make([]ID, 2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if state, _ := stateOfTask(t, b, first); state != Pending {
		t.Fatalf("the child is %s while it is being handed on", state)
	}
	if err := c.Fail(context.Background(), Failure{TaskError: TaskError{Code: "worker_lost"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if state, _ := stateOfTask(t, b, first); state != Failed {
		t.Fatalf("the child that nobody waits for is %s", state)
	}
}

// The same delegation said again by the same claim means the same children.
func TestDelegateAgain(t *testing.T) {
	b, c := family(t, Options{})
	d := Delegation{Children: []Child{child("a", "1"), child("b", "2")}, Join: JoinAll, Budget: Budget{SpentChildren: 2}}
	first, err := c.create(context.Background(), nil, d, 0, make([]ID, 2))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := c.Delegate(context.Background(), d)
	if err != nil || ids[0] != first {
		t.Fatalf("children %v, %v; the first was %s", ids, err, first)
	}
	tree, err := b.Tree(context.Background(), "parent")
	if err != nil || tree.Spent[SpentChildren] != 2 {
		t.Fatalf("%v children are debited, %v", tree.Spent, err)
	}
}

func TestBudget(t *testing.T) {
	b, c := family(t, Options{})
	if _, err := c.Delegate(context.Background(), Delegation{
		Children: []Child{child("a", "1"), child("b", "2")}, Budget: Budget{SpentTokens: 100, SpentActions: 5},
	}); err != nil {
		t.Fatal(err)
	}
	a := claimAs(t, b, "a")
	a.Spend(Budget{SpentTokens: 60})
	a.Spend(Budget{SpentTokens: 40, SpentActions: 1})
	if err := a.Complete(context.Background(), Result{}); err != nil {
		t.Fatal(err)
	}
	nothingFor(t, b, "b")
	items := listed(t, b, Failed)
	if len(items) != 1 || items[0].Task.Result.Error.Code != "budget_spent" ||
		!strings.Contains(items[0].Task.Result.Error.Message, "100 of 100 tokens") {
		t.Fatalf("failed: %+v", items)
	}
	nothingFor(t, b, "boss") // its children have ended, and it has nothing left to go on with
	if state, task := stateOfTask(t, b, "parent"); state != Failed || task.Result.Error.Code != "budget_spent" {
		t.Fatalf("the parent is %s, %+v", state, task.Result.Error)
	}
}

// A child that an operator retries works for itself: its parent has ended.
func TestRetryChild(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, "", child("a", "1"))
	finish(t, b, "a", false)
	finish(t, b, "boss", true)
	if err := b.Retry(context.Background(), ids[0], "human", "once more"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if got := finish(t, b, "a", true); got != ids[0] {
		t.Fatalf("finished %s", got)
	}
}

func listed(t *testing.T, b *Box, s State) (items []Item) {
	t.Helper()
	for it, err := range b.List(context.Background(), Filter{States: []State{s}}) {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, it)
	}
	return items
}

// A child whose file somebody deleted has ended: its parent does not wait for
// ever.
func TestChildDeleted(t *testing.T) {
	b, c := family(t, Options{})
	ids := delegate(t, c, "", child("a", "1"), child("b", "2"))
	if err := os.Remove(b.path("tasks", string(Pending), ids[0].File())); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	nothingFor(t, b, "boss")
	finish(t, b, "b", true)
	if got := claimAs(t, b, "boss"); got.ID() != "parent" {
		t.Fatalf("claimed %s", got.ID())
	}
}

// The same for a task that another depends on: it fails, and says why.
func TestDependencyDeleted(t *testing.T) {
	b := newBox(t, Options{})
	submit(t, b, &Task{ID: "first", Task: Request{Title: "1"}})
	submit(t, b, &Task{ID: "second", Task: Request{Title: "2"}, Mbox: Meta{DependsOn: []ID{"first"}}})
	if err := os.Remove(b.path("tasks", string(Pending), "first.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	if state, task := stateOfTask(t, b, "second"); state != Failed || task.Result.Error.Code != "dependency_failed" {
		t.Fatalf("it is %s, %+v", state, task.Result.Error)
	}
}

// A child that is archived has ended as it did before.
func TestChildArchived(t *testing.T) {
	b, c := family(t, Options{})
	delegate(t, c, "", child("a", "1"), child("b", "2"))
	finish(t, b, "a", true)
	if _, err := b.Archive(context.Background(), 0, "human"); err != nil {
		t.Fatal(err)
	}
	nothingFor(t, b, "boss")
	finish(t, b, "b", true)
	if got := claimAs(t, b, "boss"); got.ID() != "parent" {
		t.Fatalf("claimed %s", got.ID())
	}
}

// A tree that is kept and goes on growing is what a fresh fold finds.
func TestTreeGrows(t *testing.T) {
	b, c := family(t, Options{})
	same := func(what string) {
		t.Helper()
		kept, err := b.Tree(context.Background(), "parent")
		if err != nil {
			t.Fatal(err)
		}
		other, err := Open(context.Background(), b.Home(), b.Options())
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		fresh, err := other.Tree(context.Background(), "parent")
		if err != nil || !reflect.DeepEqual(kept, fresh) {
			t.Fatalf("%s: kept %+v, fresh %+v, %v", what, kept, fresh, err)
		}
	}
	same("alone")
	delegate(t, c, "", child("a", "1"), child("b", "2", 0))
	same("handed on")
	delegate(t, claimAs(t, b, "a"), "", child("c", "3"))
	same("in a child")
	third := claimAs(t, b, "c")
	third.Spend(Budget{SpentTokens: 5})
	if err := third.Complete(context.Background(), Result{}); err != nil {
		t.Fatal(err)
	}
	same("spent")
	if err := b.Cancel(context.Background(), "parent", "human", "x"); err != nil {
		t.Fatal(err)
	}
	same("cancelled")
}

// A family is its tree's tasks, and so after it has grown and where another box is
// asked. The ledger is read once: of what was read before, nothing is read again.
func TestFamily(t *testing.T) {
	b, c := family(t, Options{})
	alone := submit(t, b, &Task{Task: Request{Title: "Alone"}, Assignment: Assignment{TargetAgent: "x"}})
	same := func(b *Box, root ID) {
		t.Helper()
		tree, err := b.Tree(t.Context(), root)
		must(t, err)
		var want []ID
		for _, n := range tree.Nodes {
			want = append(want, n.ID)
		}
		if got, err := Family(t.Context(), b, root); err != nil || !slices.Equal(got, want) {
			t.Errorf("the family of %s: %v, %v; want %v", root, got, err, want)
		}
	}
	same(b, "parent")
	delegate(t, c, "", child("coder", "1"), child("tester", "2"))
	other, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer other.Close()
	for _, box := range []*Box{b, other} {
		same(box, "parent")
		same(box, alone)
	}
	delegate(t, claimAs(t, b, "coder"), "", child("third", "3"))
	same(b, "parent")
	same(other, "parent")

	days, err := filepath.Glob(filepath.Join(b.Home(), "audit", "shared", "*.jsonl"))
	must(t, err)
	f, err := os.OpenFile(days[0], os.O_WRONLY, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte("x"), 0)
	must(t, err)
	delegate(t, claimAs(t, b, "tester"), "", child("fourth", "4"))
	if got, err := Family(t.Context(), b, "parent"); err != nil || len(got) != 5 {
		t.Errorf("behind what was read before: %v, %v", got, err)
	}
	_, err = f.WriteAt([]byte("{"), 0)
	must(t, err)
}
