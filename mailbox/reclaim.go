package mailbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/lease"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// reclaimer ends the attempts of workers that died or hang.
type reclaimer struct {
	*books
}

// reclaim takes back the tasks whose lease is over: those of dead workers at
// once, those of hung ones at the deadline. What still works on them is ended
// first. It returns how many came back.
//
// Without a lease file only the deadline ends a lease, and the index knows it:
// such a task is not read before. A claim made meanwhile waits for the next time.
func (b *reclaimer) reclaim(ctx context.Context) (int, error) {
	names, err := home.LeaseNames(b.home)
	if err != nil {
		return 0, err
	}
	leased := map[ID]bool{}
	for _, name := range names {
		id, _ := home.LeaseOf(name)
		leased[id] = true
	}
	now := b.now().UnixMilli()
	ids, err := b.queue.In(InProgress, func(e *queue.Entry) bool { return leased[e.ID] || now >= e.Until })
	if err != nil {
		return 0, err
	}
	return b.reclaimAll(ctx, ids)
}

// leaseNotes are the notes of the lease files that reclaimDead has read, and when it
// ran last. Which process a lease is of never changes.
type leaseNotes struct {
	last  time.Time
	notes map[string]*home.Note
}

// reclaimDead takes back tasks whose worker is not running any more. Where the
// process that a lease file names can be seen to live it looks no further; the
// verdict is reclaim's.
func (b *reclaimer) reclaimDead(ctx context.Context, l *leaseNotes) (int, error) {
	names, err := home.LeaseNames(b.home)
	if err != nil {
		return 0, err
	}
	known := l.notes
	l.last, l.notes = time.Now(), map[string]*home.Note{}
	var ids []ID
	for _, name := range names {
		id, ok := home.LeaseOf(name)
		note := known[name]
		if note == nil {
			f, info, err := durable.OpenRegular(home.LeasePath(b.home, name))
			if err != nil || !ok {
				continue // it has just ended
			}
			note = home.ReadNote(f, info.Size())
			f.Close()
		}
		l.notes[name] = note
		if !b.leases.Here(note) || home.StartTime(note.PID) != note.Start {
			ids = append(ids, id)
		}
	}
	return b.reclaimAll(ctx, ids)
}

// reclaimAll takes back those of the tasks whose lease is over. Where somebody
// holds the shard he is at work on the task.
func (b *reclaimer) reclaimAll(ctx context.Context, ids []ID) (back int, err error) {
	for _, id := range ids {
		_, err := b.ifFree(ctx, id, func(s *shard) error {
			took, err := b.reclaimHeld(ctx, s, id, b.leases.End)
			if took {
				back++
			}
			return err
		})
		if err != nil {
			return back, err
		}
	}
	return back, nil
}

// reclaimHeld takes a task back under its shard, if judge finds that its lease is over.
func (b *reclaimer) reclaimHeld(ctx context.Context, s *shard, id ID, judge func(*Task) (lease.Verdict, error)) (bool, error) {
	f, r, err := b.current(id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrByHand) || ofNewer(err) {
		return false, nil // reconcile sees to what is foreign, and a newer mbox to its own
	}
	if err != nil || r.State != InProgress {
		return false, err
	}
	v, err := judge(f.Task)
	if err != nil || v == lease.Held {
		return false, err
	}
	return true, task.About(id, b.commit(ctx, s, b.takeBack(f, v)))
}

// takeBack makes the change of a task whose lease is over.
func (b *reclaimer) takeBack(f *home.File, v lease.Verdict) *change {
	fail := Failure{TaskError: TaskError{Code: "worker_lost", Message: "the worker died"}}
	if v == lease.Hung {
		fail.TaskError = TaskError{Code: "lease_expired", Message: "no sign of life until the lease's deadline"}
	}
	t := f.Task
	c := b.failed(t, fail)
	c.id, c.by, c.from, c.task, c.before, c.token = t.ID, audit.MboxAgent, InProgress, t, f.Hash, t.Token()
	c.action = fmt.Sprintf("mbox %s %s (%s)", c.action, t.ID, fail.Code)
	return c
}

// dropStrayLeases removes lease files of tasks that are not in progress with
// their token, under each task's shard.
func (b *reclaimer) dropStrayLeases(ctx context.Context) error {
	names, err := home.LeaseNames(b.home)
	if err != nil {
		return err
	}
	for _, name := range names {
		if present, err := home.Leased(b.home, name); err != nil {
			return err
		} else if present || !home.IsLease(b.home, name) {
			continue
		}
		id, _ := home.LeaseOf(name)
		if _, err := b.ifFree(ctx, id, func(*shard) error { return b.leases.DropOthers(id) }); err != nil {
			return err
		}
	}
	return nil
}
