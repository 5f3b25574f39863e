package mailbox

import (
	"context"
	"errors"
	"fmt"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// shard is a held task lock.
type shard struct {
	number int
	pid    int
	lock   *durable.Lock
	slots  *durable.File // .mbox/intents
	tx     string        // of the intent record in its slot
	marked bool          // one stands there: what is put aside now needs none of its own

	locks []durable.Held // what a line rests on: lock and slots, and others that were taken with it
}

// say appends a line. Every line of the mailbox is appended here, and names the
// locks under which it is true, so that nobody speaks whose lock files are not
// those any more that he holds:
//
//   - a task's line, an alarm, and what is put aside on the way: the task's shard;
//     a drop's and a key's, where it comes of one; that of delegations for a child
//   - a record's, a note's: the shard of its file's or agent's name
//   - recovery's: that of recoveries as well, and where it is about no task, alone
//
// Serial numbers are hints, so no line rests on their lock.
func (b *Box) say(ctx context.Context, locks []durable.Held, e audit.Entry, p audit.Payload) (audit.Line, error) {
	line, err := b.ledger.AppendWith(ctx, e, p, locks...)
	return line, home.LockError(err)
}

// lockShard takes the lock of the task id or file name and settles what a dead
// holder left, so that what the caller then reads is consistent.
func (b *Box) lockShard(ctx context.Context, name string) (*shard, error) {
	return b.lockShardNumber(ctx, home.Shard(name))
}

func (b *Box) lockShardNumber(ctx context.Context, number int) (*shard, error) {
	s, err := b.holdShard(ctx, number)
	if err != nil {
		return nil, err
	}
	return b.settled(ctx, s)
}

// holdShard takes the lock alone: for recovery, which settles by itself.
func (b *Box) holdShard(ctx context.Context, number int) (*shard, error) {
	lock := b.shards[number]
	err := lock.Acquire(ctx, b.o.LockWait)
	if errors.Is(err, durable.ErrBusy) {
		return nil, fmt.Errorf("%w%s", err, b.holderOf(number))
	}
	return b.held(number, lock, err)
}

// tryShard is lockShard without waiting: ErrBusy if somebody holds the lock.
func (b *Box) tryShard(ctx context.Context, number int) (*shard, error) {
	lock := b.shards[number]
	s, err := b.held(number, lock, lock.Try())
	if err != nil {
		return nil, err
	}
	return b.settled(ctx, s)
}

// held is a shard whose lock was just taken.
func (b *Box) held(number int, lock *durable.Lock, err error) (*shard, error) {
	if err != nil {
		return nil, home.LockError(err)
	}
	slots, err := b.intents.Open()
	if err != nil {
		lock.Unlock()
		return nil, home.LockError(err)
	}
	return &shard{number: number, lock: lock, slots: slots, pid: b.writer.PID, locks: []durable.Held{lock, slots}}, nil
}

// holderOf names the process in a busy lock's intent record, for the message.
func (b *Box) holderOf(number int) string {
	d, set, err := b.intents.Read(number)
	if err != nil || !set {
		return ""
	}
	return fmt.Sprintf(", held by process %d for %s", d.PID, d.Name)
}

func (b *Box) settled(ctx context.Context, s *shard) (*shard, error) {
	if err := b.InPlace(); err != nil {
		s.unlock()
		return nil, err
	}
	d, set, err := home.ReadIntent(s.slots, s.number)
	if err == nil && set {
		s.tx, s.marked = d.TX, true
		if err = b.settle(ctx, s, d); err == nil {
			err = s.clean()
		}
	}
	if err != nil {
		s.unlock()
		return nil, fmt.Errorf("settling what a process left in %s: %w", home.ShardName(s.number), err)
	}
	return s, nil
}

// mark writes the intent record: from here on a crash is settled.
func (s *shard) mark(d home.Intent) error {
	d.PID = s.pid
	d.Name = d.Name[:min(len(d.Name), 255)] // no name is longer
	s.tx, s.marked = d.TX, true
	return home.WriteSlot(s.slots, s.number, d.Encode())
}

// clean blanks the slot: what its record announced is done, or never happened. It
// looks before, for the lock may be lost: then somebody else's record may stand in
// the slot by now.
func (s *shard) clean() error {
	d, _, err := home.ReadIntent(s.slots, s.number)
	if err == nil && d.TX == s.tx {
		err = home.WriteSlot(s.slots, s.number, home.BlankSlot)
	}
	if err == nil || errors.Is(err, home.ErrDamagedIntent) {
		s.marked = false
		return nil
	}
	return err
}

// withdraw is clean after a line that was not written. If that was because the lock
// is lost, the record may have taken the place of one that counts: then nothing but
// a full recovery tells.
func (s *shard) withdraw() error {
	if s.stillHeld() != nil {
		return home.WriteSlot(s.slots, s.number, home.DoubtedSlot)
	}
	return s.clean()
}

// stillHeld tells whether the files are still those that are held. say asks that
// as well, at the right moment for a line.
func (s *shard) stillHeld() error {
	return home.LockError(durable.StillHeld(s.locks...))
}

func (s *shard) unlock() { s.lock.Unlock() }
