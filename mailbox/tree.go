package mailbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mbox/audit"
	"mbox/mailbox/task"
)

// Tree is a root task with its children, their children, and what all of them
// have spent. It is folded from the ledger alone.
type Tree struct {
	Root  ID      `json:"root"`
	Nodes []*Node `json:"nodes"` // in the order of their creation, the root first
	Spent Budget  `json:"spent"`

	byID  map[string]*Node
	keys  map[string]ID // hash of a child's key → the child
	graph map[string][]string
	at    audit.Position // up to which the ledger is folded
}

// Node is a task of a tree.
type Node struct {
	ID     ID     `json:"id"`
	Parent ID     `json:"parent,omitzero"`
	Agent  string `json:"agent"` // whom it is for
	Action string `json:"action,omitzero"`
	State  State  `json:"state"`
	Reason string `json:"reason,omitzero"` // of the last line
}

// Tree folds the tree with the root. A task that has handed nothing on is a
// tree of one. What it returns is the caller's own.
func (b *Box) Tree(ctx context.Context, root ID) (*Tree, error) {
	b.forest.mu.Lock()
	defer b.forest.mu.Unlock()
	t, err := b.grow(ctx, root)
	if err != nil {
		return nil, err
	}
	return t.clone(), nil
}

// forest keeps the trees that were asked for last, each with the place of the
// ledger up to which it is folded: a claim in a tree asks for it, and must not
// read the ledger from the tree's root on each time.
type forest struct {
	mu    sync.Mutex
	trees map[ID]*Tree
}

// maxTrees bounds the forest. The next tree takes the place of any other.
const maxTrees = 64

// grow folds what the ledger has of the tree that the forest has not. With
// forest.mu held.
func (b *Box) grow(ctx context.Context, root ID) (*Tree, error) {
	t := b.forest.trees[root]
	if t == nil || b.ledger.Check(t.at) != nil {
		from, err := b.beginning(ctx, root)
		if err != nil {
			return nil, err
		}
		t = &Tree{
			Root: root, Spent: Budget{}, byID: map[string]*Node{}, keys: map[string]ID{}, graph: map[string][]string{}, at: from,
		}
	}
	delete(b.forest.trees, root) // half-way it counts for nothing
	if err := b.foldTree(ctx, t); err != nil {
		return nil, err
	}
	for other := range b.forest.trees {
		if len(b.forest.trees) < maxTrees {
			break
		}
		delete(b.forest.trees, other)
	}
	if b.forest.trees == nil {
		b.forest.trees = map[ID]*Tree{}
	}
	b.forest.trees[root] = t
	return t, nil
}

func (b *Box) foldTree(ctx context.Context, t *Tree) error {
	r := b.ledger.Read(t.at)
	for line, err := range r.Lines() {
		if err == nil {
			err = damagedAt(line)
		}
		if err != nil {
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

// clone is a copy that shares nothing with t.
func (t *Tree) clone() *Tree {
	c := &Tree{
		Root: t.Root, Spent: maps.Clone(t.Spent), byID: map[string]*Node{}, keys: maps.Clone(t.keys), graph: map[string][]string{}, at: t.at,
	}
	for _, n := range t.Nodes {
		own := *n
		c.Nodes = append(c.Nodes, &own)
		c.byID[n.ID.Fold()] = &own
	}
	for agent, to := range t.graph {
		c.graph[agent] = slices.Clone(to)
	}
	return c
}

// spentIn is what a tree has spent.
func (b *Box) spentIn(ctx context.Context, root ID) (Budget, error) {
	b.forest.mu.Lock()
	defer b.forest.mu.Unlock()
	t, err := b.grow(ctx, root)
	if err != nil {
		return nil, err
	}
	return maps.Clone(t.Spent), nil
}

// beginning is the place of the line that created the task.
func (b *Box) beginning(ctx context.Context, id ID) (audit.Position, error) {
	for line, err := range b.ledger.LinesOf(string(id)) {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return audit.Position{}, err
		}
		if task.Creates(line) {
			return line.At, nil
		}
	}
	return audit.Position{}, task.About(id, ErrNotFound)
}

func (t *Tree) fold(e *audit.Entry) {
	var d struct {
		Spent Budget `json:"spent"`
	}
	if e.Detail(&d) == nil {
		t.Spent.Add(d.Spent)
	}
	m, ok := task.MoveOf(e)
	if !ok {
		return
	}
	id := ID(e.Task())
	n := t.byID[id.Fold()]
	if n == nil {
		n = &Node{ID: id}
		t.byID[id.Fold()] = n
		t.Nodes = append(t.Nodes, n)
		if m.Key != "" {
			t.keys[m.Key] = id
		}
	}
	n.State, n.Reason = m.Enters(), m.Reason
	if q := m.Queue; q != nil {
		n.Agent, n.Action = q.Target, q.Action
		if q.Parent != "" {
			n.Parent = q.Parent
		}
		if m.Leaves() == None && q.Parent != "" {
			t.edge(e.Agent, q.Target)
		}
	}
}

// edge notes that an agent has handed work to another.
func (t *Tree) edge(from, to string) {
	if !slices.Contains(t.graph[from], to) {
		t.graph[from] = append(t.graph[from], to)
	}
}

// circle is the way from an agent back to itself that a delegation to another
// would close, over every delegation of the tree; nil if there is none.
func (t *Tree) circle(from, to string) []string {
	return wayTo(from, func(at string) bool { return at == from }, func(at string) []string {
		if at == from {
			return []string{to}
		}
		return t.graph[at]
	})
}

// waiters is the way on which tasks wait, over dependencies and children, for
// one with the id: from a task that is there to that one; nil if there is none.
func (b *Box) waiters(id ID, there func(ID) bool) []ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	way := wayTo(id, there, func(at ID) []ID { return b.index.needs[at.Fold()] })
	slices.Reverse(way)
	return way
}

// wayTo finds a way, over the steps that next names, to a place that is there;
// nil if there is none. A way has one step at least.
func wayTo[P comparable](from P, there func(P) bool, next func(P) []P) []P {
	seen := map[P]bool{from: true}
	var walk func(way []P) []P
	walk = func(way []P) []P {
		for _, n := range next(way[len(way)-1]) {
			way := append(way, n)
			if there(n) {
				return way
			}
			if seen[n] {
				continue
			}
			seen[n] = true
			if found := walk(way); found != nil {
				return found
			}
		}
		return nil
	}
	return walk([]P{from})
}

func joinWay[P any](way []P) string {
	text := make([]string, len(way))
	for i, at := range way {
		text[i] = fmt.Sprint(at)
	}
	return strings.Join(text, " → ")
}

// Children are those of one task, in the order of their creation.
func (t *Tree) Children(id ID) (children []*Node) {
	for _, n := range t.Nodes {
		if n.Parent.Fold() == id.Fold() && n.Parent != "" {
			children = append(children, n)
		}
	}
	return children
}
