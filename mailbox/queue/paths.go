package queue

import "mbox/mailbox/task"

// Tasks that work on the same files are not in progress at once (mbox.paths). Who
// decides that holds the lock of delegations and has folded the ledger to its end.

// occupy notes whose paths nobody else may have now.
func (x *state) occupy(e *Entry) {
	delete(x.works, e.ID)
	if e.State == task.InProgress && len(e.Paths) > 0 {
		x.works[e.ID] = e
	}
}

// inTheWay is a task in progress that has a path of an entry's; nil if there is none.
// A task is not in the way of what it has handed on, nor of what it was made for: they
// wait for one another already.
func (x *state) inTheWay(e *Entry) *Entry {
	for _, w := range x.works {
		if w.ID != e.ID && task.Overlap(e.Paths, w.Paths) != "" && !x.descends(e, w.ID) && !x.descends(w, e.ID) {
			return w
		}
	}
	return nil
}

// descends tells whether an entry was handed on by a task, or by one that this one
// has handed on.
func (x *state) descends(e *Entry, from task.ID) bool {
	for e != nil && e.Parent != "" {
		if e.Parent.Fold() == from.Fold() {
			return true
		}
		e = x.find(e.Parent, false)
	}
	return false
}

// bar keeps an entry that nobody may claim now out of the queue until the task that is
// in its way is no longer in progress. The entry is in no heap.
func (x *state) bar(e *Entry) bool {
	if len(e.Paths) == 0 {
		return false
	}
	w := x.inTheWay(e)
	if w == nil {
		return false
	}
	e.bars, x.waits = w.ID, true
	x.barred.add(w.ID, e.ID)
	return true
}

// unbar returns to the queue whom a task has kept from it that has moved.
func (x *state) unbar(s *skimmed) {
	if s.State == task.InProgress {
		return
	}
	delete(x.works, s.ID)
	for _, id := range append([]task.ID(nil), x.barred.of(s.ID)...) {
		if e := x.live[id]; e != nil {
			x.unqueue(e)
			x.putBack(e, s.at)
		}
	}
}

// InTheWay is what is in progress and has a path of a live task's; nil if nothing is.
func (q *Queue) InTheWay(id task.ID) *Entry {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.find(id, false); e != nil && len(e.Paths) > 0 {
		if w := q.inTheWay(e); w != nil {
			return w.copy()
		}
	}
	return nil
}
