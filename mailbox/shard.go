package mailbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

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
	slot   []byte        // of the intent record that stands in it
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
func (b *books) say(ctx context.Context, locks []durable.Held, e audit.Entry, p audit.Payload) (audit.Line, error) {
	line, err := b.ledger.AppendWith(ctx, e, p, locks...)
	if errors.Is(err, durable.ErrReplaced) {
		b.intents.Doubt()
	}
	return line, home.LockError(err)
}

// lockShard takes the lock of the task id or file name and settles what a dead
// holder left, so that what the caller then reads is consistent.
func (b *books) lockShard(ctx context.Context, name string) (*shard, error) {
	return b.lockShardNumber(ctx, home.Shard(name))
}

func (b *books) lockShardNumber(ctx context.Context, number int) (*shard, error) {
	return b.settled(ctx, number, b.awaitShard(ctx, number))
}

// holdShard takes the lock alone: for recovery, which settles by itself.
func (b *books) holdShard(ctx context.Context, number int) (*shard, error) {
	return b.held(number, b.awaitShard(ctx, number), b.intents.Open)
}

// tryShard is lockShard without waiting: ErrBusy if somebody holds the lock.
func (b *books) tryShard(ctx context.Context, number int) (*shard, error) {
	return b.settled(ctx, number, b.shards[number].Try())
}

func (b *books) awaitShard(ctx context.Context, number int) error {
	err := b.shards[number].Acquire(ctx, b.o.LockWait)
	if errors.Is(err, durable.ErrBusy) {
		err = fmt.Errorf("%w%s", err, b.intents.Holder(number))
	}
	return err
}

// ifFree calls do with the task's shard, unless somebody holds that: he is at work, and
// again is how long to wait before asking again.
func (b *books) ifFree(ctx context.Context, id ID, do func(*shard) error) (again time.Duration, err error) {
	s, err := b.tryShard(ctx, home.Shard(string(id)))
	if errors.Is(err, ErrBusy) {
		return settleTime, nil
	}
	if err != nil {
		return 0, err
	}
	defer s.unlock()
	return 0, do(s)
}

// held is a shard whose lock was just taken, unless there was this error.
func (b *books) held(number int, err error, intents func() (*durable.File, error)) (*shard, error) {
	if err != nil {
		return nil, home.LockError(err)
	}
	lock := b.shards[number]
	slots, err := intents()
	if err != nil {
		lock.Unlock()
		return nil, home.LockError(err)
	}
	return &shard{number: number, lock: lock, slots: slots, pid: b.writer.PID, locks: []durable.Held{lock, slots}}, nil
}

// settled is held, with what a dead holder left brought to its end.
func (b *books) settled(ctx context.Context, number int, err error) (*shard, error) {
	s, err := b.held(number, err, b.intentsInPlace)
	if err != nil {
		return nil, err
	}
	d, set, err := home.ReadIntent(s.slots, number)
	if err == nil && set {
		s.slot, s.marked = d.Encode(), true
		if err = b.settle(ctx, s, d); err == nil {
			err = s.clean()
		}
	}
	if err != nil {
		s.unlock()
		return nil, unsettled(b, number, err)
	}
	return s, nil
}

// intentsInPlace is the file of slots, in a home where nothing is gone. Only a
// recovery makes another one, and Places.Check sees its mark in the boot record before
// it lets go of a shard. Where it marks nothing, because the record told of doubts
// already, a line finds that its file is another one.
func (b *books) intentsInPlace() (*durable.File, error) {
	if err := b.places.Check(); err != nil {
		return nil, err
	}
	return b.intents.Last()
}

// mark writes the intent record: from here on a crash is settled.
func (s *shard) mark(d home.Intent) error {
	d.PID = s.pid
	d.Name = d.Name[:min(len(d.Name), 255)] // no name is longer
	s.slot, s.marked = d.Encode(), true
	return home.WriteSlot(s.slots, s.number, s.slot)
}

// clean blanks the slot: what its record announced is done, or never happened. It
// looks before, for the lock may be lost: then somebody else's record may stand in
// the slot by now.
func (s *shard) clean() error {
	slot, err := home.ReadSlot(s.slots, s.number)
	if err == nil && bytes.Equal(slot, s.slot) {
		err = home.WriteSlot(s.slots, s.number, home.BlankSlot)
	}
	s.marked = s.marked && err != nil
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
