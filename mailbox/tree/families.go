package tree

import (
	"cmp"
	"context"
	"sync"

	"mbox/audit"
	"mbox/mailbox/task"
)

// Families tells of every tree which tasks it has, and no more of them. Who asks for
// many trees has the ledger read once, and the next one only what it has got since.
type Families struct {
	ledger *audit.Ledger
	mu     sync.Mutex
	of     map[task.ID][]task.ID // by root: who was handed on, in the order of creation
	at     audit.Position        // up to which the ledger is folded
}

// NewFamilies knows no tree yet.
func NewFamilies(ledger *audit.Ledger) *Families { return &Families{ledger: ledger} }

// Of are the tasks of the tree with the root, in the order of their creation, the root
// first.
func (f *Families) Of(ctx context.Context, root task.ID) ([]task.ID, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if end, seen := f.ledger.Seen(); !seen || end != f.at {
		if err := f.grow(ctx); err != nil {
			return nil, err
		}
	}
	return append([]task.ID{root}, f.of[root]...), nil
}

// grow folds what the ledger has that is not folded yet.
func (f *Families) grow(ctx context.Context) error {
	if f.of == nil || f.ledger.Check(f.at) != nil {
		f.of, f.at = map[task.ID][]task.ID{}, audit.Position{}
	}
	for line, err := range f.ledger.Read(f.at).Lines() {
		if err = cmp.Or(err, line.Damaged(), ctx.Err()); err != nil {
			return err
		}
		if root := task.ID(line.Text("root")); root != "" && task.Creates(line) {
			f.of[root] = append(f.of[root], task.ID(line.Task()))
		}
		f.at = line.End
	}
	return nil
}
