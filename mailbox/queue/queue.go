// Package queue tells who may be handed out next. A [Queue] is folded from the
// ledger, and kept in a snapshot so that opening a mailbox need not fold it all. It
// is derived and only suggests: each claim is decided by the file and the ledger
// under the task's shard.
//
// A line of the ledger comes in by fold.go, which knows what waits for what
// (dependencies, children, times, approvals); skim.go says what a line means,
// snapshot.go what .mbox/index holds, follow.go keeps up with both, and queue.go is
// what a mailbox asks.
package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/mailbox/tree"
)

// Options say whose queue it is.
type Options struct {
	Home     string
	Mailbox  string // its id
	Boot     string // of the machine
	Ledger   *audit.Ledger
	Looks    bool // nothing is written
	Now      func() time.Time
	Progress func(what string, done, total int64)
}

// Queue is for use by many goroutines. What it returns is the caller's own.
type Queue struct {
	o  Options
	mu sync.Mutex
	state
	asked  bool // somebody has asked for the queue
	saving bool // somebody writes a snapshot
	unfit  bool // the snapshot that there is was found to be broken
	out    int  // entries that are taken
}

// New is a queue that has read nothing yet.
func New(o Options) *Queue { return &Queue{o: o, state: newState()} }

// SnapshotLines is how many lines may have to be folded before a new snapshot is
// written, and a quarter of it by who has just begun, as commands do one after another;
// with many live tasks a fiftieth of their number. Tests make it small.
var SnapshotLines = 2000

// Approves stands before the SHA-256 of what was approved, where Knows is asked for
// that.
const Approves = "approves "

// Waits tells whether a task has ever waited for somebody else's line.
func (q *Queue) Waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waits
}

// Find is the entry of a live task; nil if the task is not live.
func (q *Queue) Find(id task.ID) (found *Entry) {
	_ = q.ask(func() {
		if found = q.find(id, false); found != nil {
			found = found.copy()
		}
	})
	return found
}

// Knows tells whether the ledger may ever have told of a case-folded id, the hash
// of an idempotency key, or, behind Approves, of what was approved.
func (q *Queue) Knows(text string) (known bool) {
	err := q.ask(func() { known = q.has(hash64(text)) })
	return known || err != nil
}

// Owed are the files of the messages for which inbox items are still to be made, from
// the home.
func (q *Queue) Owed() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Compact(slices.Sorted(maps.Values(q.owed)))
}

// Lost are the ended tasks of which an alarm says that their files, or what these held,
// are gone.
func (q *Queue) Lost() []task.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.lost))
}

// Agent is what the ledger tells of an agent, as it is now.
func (q *Queue) Agent(name string) lifecycle.Agent {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.agents[name].At(q.o.Now())
}

// Agents are those of which the ledger tells, as they are now, by name.
func (q *Queue) Agents() map[string]lifecycle.Agent {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make(map[string]lifecycle.Agent, len(q.agents))
	for name, a := range q.agents {
		all[name] = a.At(q.o.Now())
	}
	return all
}

// Called is what the agent is called now that has a name, or had it.
func (q *Queue) Called(name string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return lifecycle.Called(q.agents, name)
}

// Holds is the set of the tasks that should be in a folder.
func (q *Queue) Holds(folder task.State) Set {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sets[task.FolderIndex(folder)]
}

// In lists the live tasks of a folder that fit.
func (q *Queue) In(folder task.State, fits func(*Entry) bool) (ids []task.ID, err error) {
	err = q.Each(folder, func(e *Entry) {
		if fits(e) {
			ids = append(ids, e.ID)
		}
	})
	slices.Sort(ids)
	return ids, err
}

// Each looks at the tasks of a folder, in no order. Who keeps an entry copies it. ErrBusy:
// the snapshot was damaged, and is made anew by who asks again.
func (q *Queue) Each(folder task.State, look func(*Entry)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range q.live {
		if e.State == folder {
			look(e)
		}
	}
	if folder != task.Pending || q.base == nil { // those in progress all lie in memory
		return nil
	}
	err := q.base.each(0, q.base.head.Ready, look)
	if q.broken() { // what was looked at already would come twice
		q.discard()
		err = fmt.Errorf("%s was damaged, and is made anew: %w", File(q.o.Home), durable.ErrBusy)
	}
	return err
}

// Overdue lists pending tasks that have been so since before limit and have no
// alarm.
func (q *Queue) Overdue(limit int64, most int) (out []*Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	add := func(e *Entry) (more bool) {
		if e.State == task.Pending && !e.Alarmed && max(e.Since, e.NotBefore) < limit {
			out = append(out, e.copy())
		}
		return len(out) < most
	}
	for _, e := range q.live {
		if !add(e) {
			return out
		}
	}
	if q.base == nil {
		return out
	}
	e := new(Entry)
	for i, r := range q.base.head.Runs {
		for n := max(q.base.next[i], r.Told); n < r.End; n++ {
			if q.base.gone[n] {
				continue
			}
			if !q.base.read(n, e) || e.Created >= limit && e.Since >= limit {
				break
			}
			if !add(e) {
				return out
			}
		}
	}
	return out
}

// Taken is a task that somebody tries to claim.
type Taken struct {
	ID task.ID
	Class
	entry *Entry
}

// Take takes tasks out of the queue: the one whose turn it is, and where the caller
// asks for more some that stand like it, in any order. others tells whether more
// are out than those and the caller's own. The caller gives all back with PutBack.
func (q *Queue) Take(fits func(Class) bool, most, own int) (taken []Taken, others bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if taken = q.take(fits, most, q.o.Now()); q.broken() && len(taken) == 0 {
		if q.again(true) == nil {
			taken = q.take(fits, most, q.o.Now())
		}
	}
	q.out += len(taken)
	rand.Shuffle(len(taken), func(i, j int) { taken[i], taken[j] = taken[j], taken[i] })
	return taken, q.out > own+len(taken)
}

func (x *state) take(fits func(Class) bool, most int, now time.Time) (taken []Taken) {
	least := 0
	for len(taken) < most {
		e, n := x.best(fits, now)
		if e == nil || e.standing(now) < least {
			break
		}
		if e.place[byTurn] > 0 {
			x.queues[e.Class][e.Priority].drop(e)
		} else {
			x.takeOver(n, e)
		}
		if x.bar(e) {
			continue
		}
		e.taken = true
		taken, least = append(taken, Taken{e.ID, e.Class, e}), e.standing(now)
	}
	return taken
}

// PutBack returns to the queue what is still to be had of what was taken.
func (q *Queue) PutBack(taken []Taken) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, t := range taken {
		t.entry.taken = false
		q.putBack(t.entry, q.o.Now())
	}
	q.out -= len(taken)
}

// Hold keeps a task out of the queue until a line about it comes, or lets it go.
func (q *Queue) Hold(id task.ID, held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.find(id, true); e != nil {
		e.Held = held
		q.waits = q.waits || held
		q.putBack(e, q.o.Now())
	}
}

// Due makes those ready whose time has come. It returns the tasks whose deadline
// has passed, and those that wait for others of whom one may have ended.
func (q *Queue) Due() (late []task.ID, blocked []*Entry) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.o.Now()
	for e := q.waiting.head(); e != nil && e.wake <= now.UnixMilli(); e = q.waiting.head() {
		q.waiting.drop(e)
		switch {
		case q.live[e.ID] != e || e.State != task.Pending:
		case e.Expires() > 0 && e.Expires() <= now.UnixMilli():
			late = append(late, e.ID)
		default:
			q.putBack(e, now)
		}
	}
	for id := range q.checks {
		if e := q.live[id]; e != nil {
			blocked = append(blocked, e.copy())
		}
	}
	return late, blocked
}

// NextDue is when the next time of a task comes; zero if none waits.
func (q *Queue) NextDue() time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.waiting.head(); e != nil {
		return time.UnixMilli(e.wake)
	}
	return time.Time{}
}

// Again has a late task, which could not be looked at, come once more.
func (q *Queue) Again(id task.ID, at time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if e := q.live[id]; e != nil && e.place[byTime] == 0 {
		q.await(e, at.UnixMilli())
	}
}

// Settle notes what a look at a blocked task has found: it waits for nothing any
// more, or nothing changes until one of those it waits for has another ledger line.
// seen is its entry as it was when the look began: where a line has come since, the
// look saw only a part of what is there, and the question stays open.
func (q *Queue) Settle(seen *Entry, ready bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch e := q.live[seen.ID]; {
	case e == nil || !e.Blocked:
	case ready:
		q.unqueue(e)
		e.Blocked, e.check = false, false
		q.enqueue(e, q.o.Now())
	case e.calls == seen.calls:
		e.check = false
		delete(q.checks, e.ID)
	}
}

// Waiters is the way on which tasks wait, over dependencies and children, for one
// with the id: from a task that is there to that one; nil if there is none.
func (q *Queue) Waiters(id task.ID, there func(task.ID) bool) []task.ID {
	q.mu.Lock()
	defer q.mu.Unlock()
	way := tree.Way(id, there, q.needs.of)
	slices.Reverse(way)
	return way
}

// Unwanted lists the children for which nobody waits any more: their parent has
// ended, or it was claimed anew, or given back, without them. Each is named until
// Tended is told of it.
func (q *Queue) Unwanted() (ids []task.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for id := range q.tend {
		if q.wanted(id) {
			delete(q.tend, id) // the parent's next line asks again
		} else {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// Wanted tells whether somebody waits, or may come to wait, for a child.
func (q *Queue) Wanted(id task.ID) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.wanted(id)
}

// Tended says that an unwanted child has been looked at.
func (q *Queue) Tended(id task.ID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.tend, id)
}
