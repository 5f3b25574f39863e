package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/mailbox/tree"
	"mbox/schemas"
)

// A task may hand work on: its children are tasks of their own, in the same
// mailbox, and it waits in pending until they have ended. The order is: the
// children are created, one by one; then the parent goes back to pending with
// their ids in mbox.waits_for. A worker that dies in between leaves children
// that nobody waits for: their parent's next claim, or its way back to pending,
// cancels them (tend). The same rule takes a cancelled parent's children away,
// however the one who cancelled it ended.

// Tree folds the tree with the root. A task that has handed nothing on is a tree of
// one. What it returns is the caller's own.
func (b *Box) Tree(ctx context.Context, root ID) (t *Tree, err error) {
	err = b.forest.In(ctx, root, func(grown *Tree) error { t = grown.Copy(); return nil })
	return t, err
}

// Family are the ids of the tasks of a tree, the root first. Who looks at many trees has
// the ledger read once, where [Box.Tree] reads it for each.
func Family(ctx context.Context, b *Box, root ID) ([]ID, error) { return b.families.Of(ctx, root) }

// Delegate creates the children, and gives the task back to wait for them,
// without burning an attempt: the claim is over then. It is checked first: the
// depth, the tree's budget, and that nobody comes to wait for itself, neither a
// task nor an agent; the error is a *Refusal. It returns the children's ids.
//
// After an error some children may have been created. The same Delegate again,
// by the same claim, goes on with them.
func (c *Claim) Delegate(ctx context.Context, d Delegation) ([]ID, error) {
	d.Join = cmp.Or(d.Join, JoinAll)
	order, err := d.Order()
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
			return nil, onTheWay(err)
		}
	}
	return ids, nil
}

// mayDelegate holds a delegation against the depth, the budget and the graph.
func (c *Claim) mayDelegate(ctx context.Context, d Delegation) error {
	b, limit, keys := c.box, c.Task.Mbox.Budget, make([]string, len(d.Children))
	if depth := d.Depth(c.Task); depth >= int64(b.o.MaxDepth) {
		return tree.Refuse("depth", "delegation depth limit reached (%d/%d)", depth, b.o.MaxDepth)
	}
	if limit == nil {
		limit = d.Budget
	}
	for i := range keys {
		keys[i] = b.sender.childHash(c.childKey(i))
	}
	if err := b.forest.In(ctx, c.Task.Root(), func(t *Tree) error { return t.Allows(&d, c.agent, limit, keys) }); err != nil {
		return err
	}
	if err := b.queue.Update(); err != nil {
		return err
	}
	for _, child := range d.Children {
		if err := mayGet(b.books, child.Task.Assignment.TargetAgent); err != nil {
			return tree.Refuse("parameters", "%v: name another agent", err)
		}
		if way := waitingFor(b.books, c.ID(), child.Task.Mbox.DependsOn); way != nil {
			return tree.Refuse("cycle", "the tasks would wait for one another: %s → its child → %s", c.ID(), tree.Join(way))
		}
	}
	return nil
}

// waitingFor is the way on which one of the dependencies waits for a task that would
// wait for them; nil if there is none.
func waitingFor(b *books, id ID, deps []ID) []ID {
	isDep := func(at ID) bool { return slices.ContainsFunc(deps, func(d ID) bool { return d.Fold() == at.Fold() }) }
	if isDep(id) {
		return []ID{id}
	}
	return b.queue.Waiters(id, isDep)
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
	m.IdempotencyKey, m.Attachments = c.childKey(i), nil
	for _, before := range d.Children[i].After {
		m.DependsOn = append(slices.Clone(m.DependsOn), ids[before])
	}
	now := b.now()
	n.Complete(now, now, c.agent, b.o.MaxAttempts)
	if err := n.Validate(); err != nil {
		return "", err
	}
	m.ParentID, m.RootID, m.Depth = parent.ID, parent.Root(), d.Depth(parent)
	m.Trigger = task.Delegated + strconv.FormatInt(parent.Mbox.Epoch, 10)
	m.Budget = parent.Mbox.Budget
	if m.Budget == nil {
		m.Budget = d.Budget
	}
	return b.sender.submitNew(ctx, under, &n, nil, Budget{SpentChildren: 1})
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
			event: audit.TaskReleased, to: Pending, action: "handed work on, and waits for it:",
			reason: fmt.Sprintf("waits for %s of %s", d.Join, schemas.Count(len(ids), "child", "children")),
		}, nil
	})
}

// tend cancels the children that nobody waits for any more.
func (b *dependencies) tend(ctx context.Context) error {
	for {
		unwanted := b.queue.Unwanted()
		for _, id := range unwanted {
			if err := b.cancelUnwanted(ctx, id); err != nil {
				return err
			}
		}
		if len(unwanted) == 0 {
			return nil
		}
		if err := b.queue.Update(); err != nil { // their own children are next
			return err
		}
	}
}

// cancelUnwanted cancels a child, under its shard, if it is still unwanted.
func (b *dependencies) cancelUnwanted(ctx context.Context, id ID) error {
	err := b.cancel(ctx, id, audit.MboxAgent, "its parent no longer waits for it", func(*home.File) (bool, error) { return !b.queue.Wanted(id), nil })
	if errors.Is(err, ErrBusy) {
		return err
	}
	b.queue.Tended(id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrByHand) || errors.Is(err, ErrConflict) {
		return nil // it has ended, or reconcile looks at it
	}
	return err
}
