package tree

import (
	"fmt"
	"slices"
	"strings"

	"mbox/mailbox/task"
	"mbox/schemas"
)

// Child is a task that a claim hands on.
type Child struct {
	Task  *task.Task // target, request, action, depends_on and labels; mbox fills in the rest
	After []int      // positions, in the list, of those that have to be completed first
}

// Delegation is what a claim hands on.
type Delegation struct {
	Children []Child
	Join     string      // one of task.Joins; "" is all
	Budget   task.Budget // of the whole tree; counts for the first delegation of a tree only
	// Own is what the claim's agent will do itself, once somebody has approved it:
	// each child is for the agent and carries an action. Nothing is handed to anybody,
	// so neither depth nor circles of agents count it.
	Own bool
}

// Refusal says why work may not be handed on, or a task not be worked at.
type Refusal struct {
	Step   string // depth, cycle, budget, join, parameters
	Reason string
}

func (r *Refusal) Error() string { return r.Reason }

// Refuse makes a refusal.
func Refuse(step, format string, a ...any) error {
	return &Refusal{step, fmt.Sprintf(format, a...)}
}

// Depth is that of the children.
func (d *Delegation) Depth(parent *task.Task) int64 {
	if d.Own {
		return parent.Mbox.Depth
	}
	return parent.Mbox.Depth + 1
}

// Order is the order in which the children can be created: each behind those that
// it comes after.
func (d *Delegation) Order() (order []int, err error) {
	switch n := len(d.Children); {
	case n == 0:
		return nil, Refuse("parameters", "there is nobody to hand work to")
	case n > task.MaxChildren:
		return nil, Refuse("parameters", "%d children at once, at most %d are allowed", n, task.MaxChildren)
	case !slices.Contains(task.Joins, d.Join):
		return nil, Refuse("join", "%q is no join rule: want one of %s", schemas.Sentence(d.Join, 40), strings.Join(task.Joins, ", "))
	}
	for i, c := range d.Children {
		for _, before := range c.After {
			if before < 0 || before >= len(d.Children) {
				return nil, Refuse("parameters", "child %d is to come after child %d, which is none", i+1, before+1)
			}
		}
	}
	for i := range d.Children {
		way := Way(i, func(at int) bool { return at == i }, func(at int) []int { return d.Children[at].After })
		if way != nil {
			for i := range way {
				way[i]++ // people count from one
			}
			return nil, Refuse("cycle", "the children would wait for one another: %s", Join(way))
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

// Allows holds a delegation by the agent against the tree: against the limit of its
// budget, of which children count whose key it has not had, and against the circles
// of agents.
func (t *Tree) Allows(d *Delegation, by string, limit task.Budget, keys []string) error {
	missing := 0
	for _, key := range keys {
		if !t.keys[key] {
			missing++
		}
	}
	if most, ok := limit[task.SpentChildren]; ok && t.Spent[task.SpentChildren]+int64(missing) > most {
		return Refuse("budget", "the tree may have %d children, it has %d and would get %d more", most, t.Spent[task.SpentChildren], missing)
	}
	for _, child := range d.Children {
		to := child.Task.Assignment.TargetAgent
		if d.Own && (to != by || child.Task.Mbox.Action == nil) {
			return Refuse("parameters", "%s would do it itself: it has to be for %s and to carry an action", by, by)
		}
		if d.Own {
			continue
		}
		if err := t.MayAsk(by, to); err != nil {
			return err
		}
	}
	return nil
}

// MayAsk refuses work that one agent would hand to another of the tree who waits for it.
func (t *Tree) MayAsk(by, to string) error {
	if way := t.circle(by, to); way != nil {
		return Refuse("cycle", "the agents would wait for one another: %s", Join(way))
	}
	return nil
}

// circle is the way from an agent back to itself that a delegation to another
// would close, over every delegation of the tree; nil if there is none.
func (t *Tree) circle(from, to string) []string {
	return Way(from, func(at string) bool { return at == from }, func(at string) []string {
		if at == from {
			return []string{to}
		}
		return t.graph[at]
	})
}

// Way finds a way, over the steps that next names, to a place that is there; nil
// if there is none. A way has one step at least.
func Way[P comparable](from P, there func(P) bool, next func(P) []P) []P {
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

// Join writes a way down.
func Join[P any](way []P) string {
	text := make([]string, len(way))
	for i, at := range way {
		text[i] = fmt.Sprint(at)
	}
	return strings.Join(text, " → ")
}
