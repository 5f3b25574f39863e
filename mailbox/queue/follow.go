package queue

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// Update folds what the ledger has that the queue has not, and writes a snapshot
// where one is due. Who asks for anything calls it before.
func (q *Queue) Update() error { return q.follow(true) }

// Hear is Update for who only asks Knows and Agents: before anything else was asked, the
// queue itself is not kept, which most senders never need.
func (q *Queue) Hear() error { return q.follow(false) }

// One goroutine at a time folds the queue for the sake of a snapshot, writes it and
// begins anew: a snapshot of names alone would hide tasks from all who begin with it.
func (q *Queue) follow(queue bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = q.asked || queue
	if q.broken() {
		q.discard()
	}
	first, most := q.reader == nil, SnapshotLines
	if first {
		most /= 4
	}
	due, err := q.refresh(q.asked, most)
	if due && q.names && !q.saving {
		due, err = q.refresh(true, most) // from the newest snapshot, which somebody else may have written
	}
	if err != nil || q.o.Looks || q.saving {
		return err
	}
	// After the first fold of a long ledger go on from the file, not from memory; and
	// without the queue, if it was folded for the sake of the snapshot.
	anew := first && due || !q.names && !q.asked
	if due {
		err := q.save()
		if errors.Is(err, errUnwritten) {
			q.asked = true // go on from memory, and try again so many lines later
			return nil
		}
		if err != nil && !errors.Is(err, fs.ErrClosed) { // somebody has begun anew meanwhile
			return err
		}
	}
	if !anew {
		return nil
	}
	q.reset()
	_, err = q.refresh(q.asked, most)
	return err
}

// broken tells whether something that the snapshot has could not be read.
func (q *Queue) broken() bool { return q.base != nil && q.base.err != nil }

// discard begins anew, without a snapshot that is broken, whether that can be removed or
// not.
func (q *Queue) discard() {
	if !q.o.Looks {
		_ = durable.RemoveIfThere(File(q.o.Home))
	}
	q.reset()
	q.unfit = true
}

// again folds the ledger anew, without the snapshot, which is broken.
func (q *Queue) again(queue bool) error {
	q.discard()
	_, err := q.refresh(queue, SnapshotLines)
	return err
}

// ask puts a question that the snapshot may have to answer, and puts it again if that
// was broken.
func (q *Queue) ask(question func()) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	question()
	if !q.broken() {
		return nil
	}
	if err := q.again(q.asked); err != nil {
		return err
	}
	question()
	return nil
}

// Save is Update, and a snapshot whether one is due or not.
func (q *Queue) Save() error {
	if err := q.Update(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.save()
}

// save writes a snapshot of what is folded, while others go on. Where the one before is
// broken, which it rests on, all is folded again.
func (q *Queue) save() error {
	d := q.draft()
	d.anew, q.saving = q.unfit, true
	q.mu.Unlock()
	err := d.save(&q.o)
	q.mu.Lock()
	q.saving = false
	q.unfit = q.unfit && err != nil
	if q.base == nil || !errors.Is(err, errNoSnapshot) {
		return err
	}
	if err := q.again(!q.names); err != nil {
		return err
	}
	return q.save()
}

// refresh reads the ledger on, for who needs the queue or not, and tells whether a
// new snapshot is due, which it is from so many lines on.
func (q *Queue) refresh(queue bool, most int) (due bool, err error) {
	if q.reader == nil || queue && q.names {
		if err := q.load(queue); err != nil {
			return false, err
		}
	}
	end, seen := q.o.Ledger.Seen()
	for stepped := false; !seen || !q.reader.Reached(end, stepped); stepped = true {
		line, err := q.reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, audit.ErrMoved) {
			q.reset()
			return q.refresh(queue, most)
		}
		if err = cmp.Or(err, line.Damaged()); errors.Is(err, audit.ErrDamaged) {
			return false, q.o.Ledger.Stop(err)
		}
		if err != nil {
			return false, err
		}
		q.fold(line)
		q.at = line.End
		if q.folded++; q.folded%4096 == 0 {
			q.o.Progress("reading the ledger", line.Seq, 0)
		}
	}
	if q.broken() {
		q.discard()
		return q.refresh(queue, most)
	}
	size := len(q.live)
	if q.base != nil {
		size += int(q.base.head.Ready) - len(q.base.gone) + int(q.base.head.Specials)/8
	}
	if due = q.folded >= max(most, size/50); due && !q.names {
		q.folded = 0
	}
	return due, nil
}

// load begins with the snapshot, or with nothing.
func (q *Queue) load(queue bool) error {
	if !q.o.Looks {
		if err := q.o.Ledger.CheckJournal(); err != nil {
			return err
		}
	}
	q.reset()
	q.names = !queue
	if s, err := q.o.open(); err == nil && !q.unfit {
		q.begin(s)
	} else if err == nil {
		s.file.Close()
	}
	q.reader = q.o.Ledger.Read(q.at)
	return nil
}

// begin takes the snapshot as the base, unless it cannot be read.
func (q *Queue) begin(s *snapshot) {
	var others []*Entry
	err := s.each(s.head.Ready, s.head.Entries, func(e *Entry) { others = append(others, e.copy()) })
	if err != nil {
		s.file.Close()
		return
	}
	q.base, q.at = s, s.head.At
	maps.Copy(q.agents, s.head.Agents)
	if q.names {
		return
	}
	q.sets = s.head.Sets
	maps.Copy(q.owed, s.head.Owed)
	for _, id := range s.head.Lost {
		q.lost[id] = true
	}
	for _, e := range others {
		e.calls = int(q.at.Seq) // no look of before it was loaded settles it
		q.live[e.ID] = e
		q.adopt(e)
		q.occupy(e)
		if e.State == task.Pending {
			q.enqueue(e, q.o.Now())
		}
	}
}

func (q *Queue) reset() {
	q.close()
	q.state = newState()
}

// Forget gives up what is folded and the files that are held open.
func (q *Queue) Forget() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reset()
}
