package verify

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"mbox/mailbox/task"
)

// TestLineages holds the table to a map while it grows.
func TestLineages(t *testing.T) {
	l, want, order := newLineages(), map[string]*lineage{}, []task.ID{}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 20000 {
		id := task.ID(fmt.Sprintf("task-%d", r.IntN(5000)))
		if i%3 == 0 {
			id = task.ID(fmt.Sprintf("Task-%d", r.IntN(5000)))
		}
		key := id.Fold()
		if got := l.of(key); got != want[key] {
			t.Fatalf("%s: %p, want %p", id, got, want[key])
		}
		if want[key] == nil {
			want[key] = l.add(id)
			order = append(order, id)
		}
	}
	for key, t2 := range want {
		if l.of(key) != t2 || t2.id.Fold() != key {
			t.Errorf("%s: %p, want %p (%s)", key, l.of(key), t2, t2.id)
		}
	}
	var all []task.ID
	for t2 := range l.all() {
		all = append(all, t2.id)
	}
	if !slices.Equal(all, order) || l.of("") != nil {
		t.Errorf("%d tasks, want %d in their order", len(all), len(order))
	}
	for range l.all() {
		break
	}
}
