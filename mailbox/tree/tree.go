// Package tree is one delegation tree, its budget and its circles: a root task with
// its children and theirs, and what all of them have spent, folded from the ledger
// alone; and what a claim may hand on in it.
package tree

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"

	"mbox/audit"
	"mbox/mailbox/task"
)

// Tree is a root task with its children, their children, and what all of them
// have spent.
type Tree struct {
	Root  task.ID     `json:"root"`
	Nodes []*Node     `json:"nodes"` // in the order of their creation, the root first
	Spent task.Budget `json:"spent"`

	byID  map[string]*Node
	keys  map[string]bool     // hashes of the children's idempotency keys
	graph map[string][]string // agent → to whom it has handed work
	at    audit.Position      // up to which the ledger is folded
}

// Node is a task of a tree.
type Node struct {
	ID     task.ID    `json:"id"`
	Parent task.ID    `json:"parent,omitzero"`
	Agent  string     `json:"agent"` // whom it is for
	Action string     `json:"action,omitzero"`
	State  task.State `json:"state"`
	Reason string     `json:"reason,omitzero"` // of the last line

	asker string // who handed it on
}

// Forest keeps the trees that were asked for last, each with the place of the
// ledger up to which it is folded: a claim in a tree asks for it, and must not
// read the ledger from the tree's root on each time.
type Forest struct {
	ledger *audit.Ledger
	mu     sync.Mutex
	trees  map[task.ID]*Tree
}

// maxTrees bounds the forest. The next tree takes the place of any other.
const maxTrees = 64

// New is a forest that knows no tree yet.
func New(ledger *audit.Ledger) *Forest { return &Forest{ledger: ledger, trees: map[task.ID]*Tree{}} }

// In folds the tree with the root, and shows it. A task that has handed nothing on
// is a tree of one.
func (f *Forest) In(ctx context.Context, root task.ID, look func(*Tree) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.trees[root]
	delete(f.trees, root) // half-way it counts for nothing
	if t == nil || f.ledger.Check(t.at) != nil {
		from, err := f.beginning(ctx, root)
		if err != nil {
			return err
		}
		t = &Tree{Root: root, Spent: task.Budget{}, byID: map[string]*Node{}, keys: map[string]bool{}, graph: map[string][]string{}, at: from}
	}
	if err := f.grow(ctx, t); err != nil {
		return err
	}
	for other := range f.trees {
		if len(f.trees) < maxTrees {
			break
		}
		delete(f.trees, other)
	}
	f.trees[root] = t
	return look(t)
}

// beginning is the place of the line that created the task.
func (f *Forest) beginning(ctx context.Context, id task.ID) (audit.Position, error) {
	for line, err := range f.ledger.LinesOf(string(id)) {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return audit.Position{}, err
		}
		if task.Creates(line) {
			return line.At, nil
		}
	}
	return audit.Position{}, task.About(id, task.ErrNotFound)
}

// grow folds what the ledger has of the tree that is not folded yet.
func (f *Forest) grow(ctx context.Context, t *Tree) error {
	r := f.ledger.Read(t.at)
	for line, err := range r.Lines() {
		if err = cmp.Or(err, line.Damaged()); err != nil {
			return err
		}
		if !line.Of(string(t.Root)) && line.Text("root") != string(t.Root) {
			continue
		}
		e, err := line.Decode()
		if err != nil {
			return err
		}
		t.fold(&e)
	}
	t.at = r.Position()
	return ctx.Err()
}

func (t *Tree) fold(e *audit.Entry) {
	var d struct {
		Spent task.Budget `json:"spent"`
	}
	if e.Detail(&d) == nil {
		t.Spent.Add(d.Spent)
	}
	m, ok := task.MoveOf(e)
	if !ok {
		return
	}
	id := task.ID(e.Task())
	n := t.byID[id.Fold()]
	if n == nil {
		n = &Node{ID: id, asker: e.Agent}
		t.Nodes = append(t.Nodes, n)
		t.byID[id.Fold()], t.keys[m.Key] = n, true
	}
	n.State, n.Reason = m.Enters(), m.Reason
	if q := m.Queue; q != nil {
		n.Agent, n.Action = q.Target, q.Action
		n.Parent = cmp.Or(q.Parent, n.Parent)
		if q.Parent != "" && !slices.Contains(t.graph[n.asker], q.Target) { // a new one, or edited: its target is another
			t.graph[n.asker] = append(t.graph[n.asker], q.Target)
		}
	}
}

// Copy is one that stays as it is.
func (t *Tree) Copy() *Tree {
	c := &Tree{Root: t.Root, Spent: maps.Clone(t.Spent), keys: maps.Clone(t.keys), graph: maps.Clone(t.graph), at: t.at}
	for _, n := range t.Nodes {
		own := *n
		c.Nodes = append(c.Nodes, &own)
	}
	return c
}

// Children are those of one task, in the order of their creation.
func (t *Tree) Children(id task.ID) (children []*Node) {
	for _, n := range t.Nodes {
		if n.Parent.Fold() == id.Fold() && n.Parent != "" {
			children = append(children, n)
		}
	}
	return children
}
