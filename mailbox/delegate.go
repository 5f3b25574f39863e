package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// A task may hand work on: its children are tasks of their own, in the same
// mailbox, and it waits in pending until they have ended. The order is: the
// children are created, one by one; then the parent goes back to pending with
// their ids in mbox.waits_for. A worker that dies in between leaves children
// that nobody waits for: their parent's next claim, or its way back to pending,
// cancels them (tend). The same rule takes a cancelled parent's children away,
// however the one who cancelled it ended.

// Child is a task that a claim hands on.
type Child struct {
	Task  *Task // target, request, action, depends_on and labels; mbox fills in the rest
	After []int // positions, in the list, of those that have to be completed first
}

// Delegation is what a claim hands on.
type Delegation struct {
	Children []Child
	Join     string // one of Joins; "" is all
	Budget   Budget // of the whole tree; counts for the first delegation of a tree only
	// Own is what the claim's agent will do itself, once somebody has approved it:
	// each child is for the agent and carries an action. Nothing is handed to anybody,
	// so neither depth nor circles of agents count it.
	Own bool
}

// depth is that of the children.
func (d *Delegation) depth(parent *Task) int64 {
	if d.Own {
		return parent.Mbox.Depth
	}
	return parent.Mbox.Depth + 1
}

// Refusal says why work may not be handed on, or a task not be worked at.
type Refusal struct {
	Step   string // depth, cycle, budget, join, parameters
	Reason string
}

func (r *Refusal) Error() string { return r.Reason }

func refusal(step, format string, a ...any) error {
	return &Refusal{step, fmt.Sprintf(format, a...)}
}

// Delegate creates the children, and gives the task back to wait for them,
// without burning an attempt: the claim is over then. It is checked first: the
// depth, the tree's budget, and that nobody comes to wait for itself, neither a
// task nor an agent; the error is a *Refusal. It returns the children's ids.
//
// After an error some children may have been created. The same Delegate again,
// by the same claim, goes on with them.
func (c *Claim) Delegate(ctx context.Context, d Delegation) ([]ID, error) {
	if d.Join == "" {
		d.Join = JoinAll
	}
	order, err := d.check()
	if err != nil {
		return nil, task.About(c.ID(), err)
	}
	if err := c.Valid(ctx); err != nil {
		return nil, err
	}
	ids, err := c.createAll(ctx, d, order)
	if err != nil {
		return nil, err
	}
	return ids, c.await(ctx, d, ids)
}

// createAll checks the delegation and creates its children, one delegation at a
// time in the whole mailbox: two that were checked side by side would each find
// what the other one closes, a circle or the budget, still open.
func (c *Claim) createAll(ctx context.Context, d Delegation, order []int) (ids []ID, err error) {
	s, err := c.box.lockShardNumber(ctx, home.Delegations)
	if err != nil {
		return nil, err
	}
	defer s.unlock()
	if err := c.mayDelegate(ctx, d); err != nil {
		return nil, task.About(c.ID(), err)
	}
	ids = make([]ID, len(d.Children))
	for _, i := range order {
		ids[i], err = c.create(ctx, s.locks, d, i, ids)
		if errors.Is(err, ErrCommitted) { // said again it settles what the first left; the delegation itself is not committed
			ids[i], err = c.create(ctx, s.locks, d, i, ids)
		}
		if err != nil {
			return nil, notYet(err)
		}
	}
	return ids, nil
}

// notYet is an error of a child's creation as one of the delegation, which is
// committed only when the parent waits.
func notYet(err error) error {
	if errors.Is(err, ErrCommitted) {
		return fmt.Errorf("a child was created, the delegation is not complete: %v", err)
	}
	return err
}

// check returns the order in which the children can be created: each behind
// those that it comes after.
func (d *Delegation) check() (order []int, err error) {
	switch n := len(d.Children); {
	case n == 0:
		return nil, refusal("parameters", "there is nobody to hand work to")
	case n > MaxChildren:
		return nil, refusal("parameters", "%d children at once, at most %d are allowed", n, MaxChildren)
	case !slices.Contains(task.Joins, d.Join):
		return nil, refusal("join", "%q is no join rule: want one of %s", schemas.Sentence(d.Join, 40), strings.Join(task.Joins, ", "))
	}
	for i, c := range d.Children {
		for _, before := range c.After {
			if before < 0 || before >= len(d.Children) {
				return nil, refusal("parameters", "child %d is to come after child %d, which is none", i+1, before+1)
			}
		}
	}
	for i := range d.Children {
		way := wayTo(i, func(at int) bool { return at == i }, func(at int) []int { return d.Children[at].After })
		if way != nil {
			for i := range way {
				way[i]++ // people count from one
			}
			return nil, refusal("cycle", "the children would wait for one another: %s", joinWay(way))
		}
	}
	done := make([]bool, len(d.Children))
	for len(order) < len(done) { // no circle, so one of the others comes next
		for i, c := range d.Children {
			if !done[i] && !slices.ContainsFunc(c.After, func(before int) bool { return !done[before] }) {
				done[i], order = true, append(order, i)
			}
		}
	}
	return order, nil
}

// mayDelegate holds a delegation against the depth, the budget and the graph.
func (c *Claim) mayDelegate(ctx context.Context, d Delegation) error {
	t := c.Task
	if depth := d.depth(t); depth >= int64(c.box.o.MaxDepth) {
		return refusal("depth", "delegation depth limit reached (%d/%d)", depth, c.box.o.MaxDepth)
	}
	tree, err := c.box.Tree(ctx, t.Root())
	if err != nil {
		return err
	}
	limit := t.Mbox.Budget
	if limit == nil {
		limit = d.Budget
	}
	missing := 0
	for i := range d.Children {
		if _, there := tree.keys[c.box.childHash(c.childKey(i))]; !there {
			missing++
		}
	}
	if most, ok := limit[SpentChildren]; ok && tree.Spent[SpentChildren]+int64(missing) > most {
		return refusal("budget", "the tree may have %d children, it has %d and would get %d more", most, tree.Spent[SpentChildren], missing)
	}
	for _, child := range d.Children {
		to := child.Task.Assignment.TargetAgent
		if d.Own && (to != c.agent || child.Task.Mbox.Action == nil) {
			return refusal("parameters", "%s would do it itself: it has to be for %s and to carry an action", c.agent, c.agent)
		}
		if way := tree.circle(c.agent, to); way != nil && !d.Own {
			return refusal("cycle", "the agents would wait for one another: %s", joinWay(way))
		}
		tree.edge(c.agent, to)
		if way, err := c.waitsForChild(child); err != nil || way != nil {
			if err == nil {
				err = refusal("cycle", "the tasks would wait for one another: %s → its child → %s", c.ID(), joinWay(way))
			}
			return err
		}
	}
	return nil
}

// waitsForChild is the way on which what the child depends on waits for the
// claim's task, which waits for the child; nil if there is none.
func (c *Claim) waitsForChild(child Child) (way []ID, err error) {
	if err := c.box.update(); err != nil {
		return nil, err
	}
	deps := child.Task.Mbox.DependsOn
	isDep := func(at ID) bool { return slices.ContainsFunc(deps, func(d ID) bool { return d.Fold() == at.Fold() }) }
	if isDep(c.ID()) {
		return []ID{c.ID()}, nil
	}
	return c.box.waiters(c.ID(), isDep), nil
}

// childKey is the idempotency key of a claim's child: the same claim that says
// it again, after an error, means the same child.
func (c *Claim) childKey(i int) string {
	return fmt.Sprintf("%s%s/%d/%d", task.Delegated, c.ID(), c.Task.Mbox.Epoch, i)
}

// create submits one child. Its line rests on these locks as well.
func (c *Claim) create(ctx context.Context, under []durable.Held, d Delegation, i int, ids []ID) (ID, error) {
	b, parent := c.box, c.Task
	n := *d.Children[i].Task
	n.ID, n.Source = "", Source{Agent: c.agent, Session: parent.Source.Session, User: parent.Source.User}
	m := &n.Mbox
	m.IdempotencyKey = c.childKey(i)
	for _, before := range d.Children[i].After {
		m.DependsOn = append(slices.Clone(m.DependsOn), ids[before])
	}
	now := b.now()
	n.Complete(now, now, c.agent, b.o.MaxAttempts)
	if err := n.Validate(); err != nil {
		return "", err
	}
	m.ParentID, m.RootID, m.Depth = parent.ID, parent.Root(), d.depth(parent)
	m.Trigger = task.Delegated + strconv.FormatInt(parent.Mbox.Epoch, 10)
	m.Budget = parent.Mbox.Budget
	if m.Budget == nil {
		m.Budget = d.Budget
	}
	return b.submitNew(ctx, under, &n, Budget{SpentChildren: 1})
}

// await gives the task back until the children have ended.
func (c *Claim) await(ctx context.Context, d Delegation, ids []ID) error {
	content := struct {
		Children []ID   `json:"children"`
		Join     string `json:"join"`
	}{ids, d.Join}
	return c.verb(ctx, "delegate", content, func(f *home.File) (*change, error) {
		m := &f.Task.Mbox
		m.Attempt = max(0, m.Attempt-1)
		m.WaitsFor, m.Join, m.RootID = ids, d.Join, f.Task.Root()
		if m.Budget == nil {
			m.Budget = d.Budget
		}
		return &change{
			event: audit.TaskReleased, to: Pending, said: "handed work on, and waits for it:",
			reason: fmt.Sprintf("waits for %s of %s", d.Join, plural(len(ids), "child", "children")),
		}, nil
	})
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// tend cancels the children that nobody waits for any more: their parent has
// ended, or it was claimed anew, or given back, without them.
func (b *Box) tend(ctx context.Context) error {
	for {
		b.mu.Lock()
		var unwanted []ID
		for id := range b.index.tend {
			switch b.index.wanted(id) {
			case wantedNot:
				unwanted = append(unwanted, id)
			default:
				delete(b.index.tend, id) // the parent's next line asks again
			}
		}
		b.mu.Unlock()
		slices.Sort(unwanted)
		for _, id := range unwanted {
			if err := b.cancelUnwanted(ctx, id); err != nil {
				return err
			}
		}
		if len(unwanted) == 0 {
			return nil
		}
		if err := b.update(); err != nil { // their own children are next
			return err
		}
	}
}

const (
	wantedYes = iota
	wantedNot
)

// wanted tells whether somebody waits, or may come to wait, for a live child.
func (x *index) wanted(id ID) int {
	child := x.live[id]
	if child == nil || child.parent == "" {
		return wantedYes
	}
	parent := x.find(child.parent)
	switch {
	case parent == nil:
		return wantedNot
	case slices.Contains(parent.waitsFor, id):
		return wantedYes
	case parent.state == InProgress && parent.epoch == child.born:
		return wantedYes // it is just being handed on
	}
	return wantedNot
}

// cancelUnwanted cancels a child, under its shard, if it is still unwanted.
func (b *Box) cancelUnwanted(ctx context.Context, id ID) error {
	err := b.cancel(ctx, id, audit.MboxAgent, "its parent no longer waits for it", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return b.index.wanted(id) == wantedNot
	})
	b.mu.Lock()
	delete(b.index.tend, id)
	b.mu.Unlock()
	if errors.Is(err, ErrNotFound) || errors.Is(err, errForeign) || errors.Is(err, ErrConflict) {
		return nil // it has ended, or reconcile looks at it
	}
	if errors.Is(err, ErrBusy) {
		b.mu.Lock()
		b.index.tend[id] = true
		b.mu.Unlock()
	}
	return err
}
