package mailbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"mbox/mailbox/home"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// lookup returns a copy of a live task's record; nil if the task is not live.
func (b *books) lookup(id ID) (*queue.Entry, error) {
	if err := b.queue.Update(); err != nil {
		return nil, err
	}
	return b.queue.Find(id), nil
}

// Index is what the ledger alone tells of tasks and agents: no task's file is read for it.
type Index struct {
	Count map[State]int // how many tasks each folder should hold
	Live  []Live        // those that have not ended, in no order
	// Lost are tasks that have ended and of which an alarm says that they are gone. Who
	// has put a file back need not have told the ledger.
	Lost []ID
	// Agents are those of whose states the ledger tells, by the names that they have now.
	// Any other one is healthy.
	Agents map[string]Agent
}

// Live is what the ledger tells of a task that has not ended. A time that it does not
// have is zero.
type Live struct {
	ID        ID
	State     State
	Priority  string
	Target    string
	Type      string
	Action    string      // its name, "" for a task that has to be thought about
	Claimant  string      // who has it
	Hash      task.Digest // of its file, since its last line
	Created   time.Time
	Since     time.Time // in this state
	NotBefore time.Time
	Until     time.Time // its lease as its last line has it; signs of life move it and write no line
	Blocked   bool      // it waits for another task, or for one that has its paths
	Alarmed   bool      // an alarm about it stands in the ledger
}

// Counts tells from the ledger how many tasks each folder should hold.
func Counts(b *Box) (map[State]int, error) {
	if err := b.queue.Update(); err != nil {
		return nil, err
	}
	count := map[State]int{}
	for _, s := range task.Folders {
		count[s] = int(b.queue.Holds(s).Count)
	}
	return count, nil
}

// Index counts the tasks, and lists those that have not ended.
func (b *Box) Index() (*Index, error) {
	var all []Live
	x, err := Overview(b, func(l *Live) { all = append(all, *l) })
	if err == nil {
		x.Live = all
	}
	return x, err
}

// Overview is an Index that has no Live: these are shown to look one by one, and what it
// keeps of one it copies. There may be very many.
func Overview(b *Box, look func(*Live)) (*Index, error) {
	count, err := Counts(b)
	if err != nil {
		return nil, err
	}
	var now Live
	var late []Live // with paths, which others may have: the queue tells when it has shown all
	for _, s := range []State{Pending, InProgress} {
		err := b.queue.Each(s, func(e *queue.Entry) {
			now = live(e)
			if len(e.Paths) > 0 && s == Pending {
				late = append(late, now)
				return
			}
			look(&now)
		})
		if err != nil {
			return nil, err
		}
	}
	for i := range late {
		late[i].Blocked = late[i].Blocked || b.queue.InTheWay(late[i].ID) != nil
		look(&late[i])
	}
	x := &Index{Count: count, Lost: b.queue.Lost(), Agents: b.queue.Agents()}
	maps.DeleteFunc(x.Agents, func(_ string, a Agent) bool { return a.State == lifecycle.Renamed })
	return x, nil
}

func live(e *queue.Entry) Live {
	at := func(ms int64) time.Time {
		if ms == 0 {
			return time.Time{}
		}
		return task.UnixMillis(ms)
	}
	return Live{
		ID: e.ID, State: e.State, Priority: task.Priorities[e.Priority], Target: e.Target, Type: e.Type, Action: e.Action,
		Claimant: e.Claimant, Hash: e.After, Created: at(e.Created), Since: at(e.Since), NotBefore: at(e.NotBefore),
		Until: at(e.Until), Blocked: e.Blocked, Alarmed: e.Alarmed,
	}
}

// seek looks for the task's file in every folder. A file that moves on while it
// is looked for is found in the second or third round.
func (b *books) seek(id ID) (*home.File, error) {
	for range 3 {
		for _, s := range task.Folders {
			f, err := home.Read(b.home, s, b.path("tasks", string(s), id.File()))
			if !errors.Is(err, fs.ErrNotExist) {
				return f, err
			}
		}
	}
	months, err := home.Months(b.home)
	if err != nil {
		return nil, err
	}
	for _, m := range months {
		f, err := home.Read(b.home, Archived, b.path("tasks", "archive", m, id.File()))
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
	}
	if gone := b.places.Check(); gone != nil {
		return nil, task.About(id, gone) // it may be among them
	}
	return nil, task.About(id, ErrNotFound)
}

// current reads a live task under its shard and checks its bytes against the
// id's last line. A task that is not live is ErrNotFound; bytes that differ, or
// a missing file, are ErrByHand with what was seen.
func (b *books) current(id ID) (*home.File, *queue.Entry, error) {
	r, err := b.lookup(id)
	if err != nil {
		return nil, nil, err
	}
	if r == nil {
		return nil, nil, task.About(id, ErrNotFound)
	}
	f, err := home.Read(b.home, r.State, b.path("tasks", string(r.State), id.File()))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, r, task.About(id, fmt.Errorf("%w: it is not in tasks/%s", ErrByHand, r.State))
	case errors.Is(err, fs.ErrPermission) && f != nil:
		return f, r, task.About(id, fmt.Errorf("%w: %w", ErrByHand, err))
	case f != nil && f.Task == nil && f.Hash != r.After.String():
		return f, r, task.About(id, fmt.Errorf("%w: %v", ErrByHand, err)) // not %w: it is no fault of who calls
	case f != nil && f.Hash != r.After.String():
		return f, r, task.About(id, fmt.Errorf("%w: its bytes are not those of its last ledger line", ErrByHand))
	case err != nil && f != nil:
		return f, r, &newerError{err}
	case err != nil:
		return nil, r, err
	}
	return f, r, nil
}

// newerError says of a file that is what the ledger names why it cannot be decoded: a newer
// mbox has written it.
type newerError struct{ error }

func (e *newerError) Unwrap() error { return e.error }

// ofNewer tells whether a task's file is a newer mbox's. No other task waits for that.
func ofNewer(err error) bool {
	_, is := errors.AsType[*newerError](err)
	return is
}

// ByHand is ErrByHand for a listed task that has not ended, whose file is not what the
// ledger names. Nothing is read for it, unless it looks so: then the verdict is given
// under the task's lock, and there is none where that cannot be had.
func ByHand(ctx context.Context, b *Box, it Item) error {
	if it.Task == nil || it.State.Terminal() {
		return nil
	}
	if e := b.queue.Find(it.Task.ID); e != nil && e.After.String() != it.Hash {
		return b.byHand(ctx, e.ID)
	}
	return nil
}

// byHand is ErrByHand for a live task whose file is not what the ledger names. It is nil
// where the task's lock cannot be had.
func (b *books) byHand(ctx context.Context, id ID) (found error) {
	if b.looks {
		return nil
	}
	_, _ = b.ifFree(ctx, id, func(*shard) error {
		if _, _, err := b.current(id); errors.Is(err, ErrByHand) {
			found = err
		}
		return nil
	})
	return found
}

// Heard tells whether an id has ever had a line, in any case of its letters.
func Heard(b *Box, id ID) (bool, error) { return b.known(id) }

// known tells whether an id has ever had a line, in any case of its letters.
// Most of the time the answer is no, and costs a look into a table.
func (b *books) known(id ID) (bool, error) {
	if err := b.queue.Hear(); err != nil || !b.queue.Knows(id.Fold()) {
		return false, err
	}
	for _, name := range slices.Compact([]ID{id, ID(id.Fold())}) {
		if r, err := b.lookup(name); err != nil || r != nil {
			return r != nil, err
		}
		if there, err := b.anywhere(name); err != nil || there {
			return there, err
		}
	}
	as, err := b.ledger.Spelling(id)
	return as != "", err
}

// anywhere tells whether a file of this id lies in a folder of ended tasks or
// in the archive.
func (b *books) anywhere(id ID) (bool, error) {
	months, err := home.Months(b.home)
	if err != nil {
		return false, err
	}
	paths := []string{b.path("tasks", string(Completed), id.File()), b.path("tasks", string(Failed), id.File())}
	for _, m := range months {
		paths = append(paths, b.path("tasks", "archive", m, id.File()))
	}
	for _, p := range paths {
		if _, err := os.Lstat(p); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}

// transition reads the task whose shard is held, lets decide make a change of it, and
// commits that. A nil change is nothing to do.
func (b *books) transition(ctx context.Context, s *shard, id ID, decide func(*home.File, *queue.Entry) (*change, error)) error {
	f, r, err := b.current(id)
	if err != nil {
		return err
	}
	c, err := decide(f, r)
	if err != nil || c == nil {
		return err
	}
	return task.About(id, b.commit(ctx, s, c))
}
