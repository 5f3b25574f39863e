package verify

import (
	"hash/maphash"
	"iter"

	"mbox/mailbox/task"
)

// lineage is what the ledger says of one task in the end.
type lineage struct {
	id        task.ID
	state     task.State // the folder; None or pruned where no file is left
	after     task.Digest
	tx        [16]byte
	seq       int64   // of its last move
	epoch     int64   // the highest
	month     [7]byte // of its last move: the folder of an archived task
	completed bool    // it has a task_completed line
	seen      bool    // its file is as it should be
}

// dir is the folder in which the file should lie; "" if there should be none.
func (t *lineage) dir() string {
	switch t.state {
	case task.None, task.Pruned:
		return ""
	case task.Archived:
		return "tasks/archive/" + string(t.month[:])
	}
	return "tasks/" + string(t.state)
}

// lineages are the tasks of a ledger by folded id. Each line asks for one, and
// in a large mailbox most of that is waiting for memory: this table touches two
// places for it, one with eight bytes a task and the task itself, where a map
// touches five.
type lineages struct {
	seed  maphash.Seed
	slots []lineageSlot // a power of two, at most half of them taken
	tasks [][]lineage   // in pieces, so that none moves
	n     int
}

type lineageSlot struct {
	hash uint32
	task uint32 // its number from 1, 0 where the slot is free
}

const lineagePiece = 256

func newLineages() lineages {
	return lineages{seed: maphash.MakeSeed(), slots: make([]lineageSlot, 64)}
}

func (l *lineages) at(number uint32) *lineage {
	return &l.tasks[(number-1)/lineagePiece][(number-1)%lineagePiece]
}

// of finds the task with this folded id, nil if there is none.
func (l *lineages) of(key string) *lineage {
	i, _ := l.find(key)
	if l.slots[i].task == 0 {
		return nil
	}
	return l.at(l.slots[i].task)
}

// find finds the slot that has the task with this folded id, or is free for it.
func (l *lineages) find(key string) (slot, hash uint32) {
	hash = uint32(maphash.String(l.seed, key))
	mask := uint32(len(l.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := l.slots[i]
		if s.task == 0 {
			return i, hash
		}
		if s.hash == hash {
			if t := l.at(s.task); string(t.id) == key || t.id.Fold() == key {
				return i, hash
			}
		}
	}
}

// add makes a task whose folded id is not known yet.
func (l *lineages) add(id task.ID) *lineage {
	if l.n%lineagePiece == 0 {
		l.tasks = append(l.tasks, make([]lineage, lineagePiece))
	}
	if 2*l.n == len(l.slots) {
		l.grow()
	}
	i, hash := l.find(id.Fold())
	l.n++
	l.slots[i] = lineageSlot{hash, uint32(l.n)}
	t := l.at(uint32(l.n))
	t.id = id
	return t
}

func (l *lineages) grow() {
	old := l.slots
	l.slots = make([]lineageSlot, 2*len(old))
	mask := uint32(len(l.slots) - 1)
	for _, s := range old {
		if s.task == 0 {
			continue
		}
		i := s.hash & mask
		for l.slots[i].task != 0 {
			i = (i + 1) & mask
		}
		l.slots[i] = s
	}
}

// all yields the tasks in the order in which they came.
func (l *lineages) all() iter.Seq[*lineage] {
	return func(yield func(*lineage) bool) {
		for i := range l.n {
			if !yield(l.at(uint32(i + 1))) {
				return
			}
		}
	}
}
