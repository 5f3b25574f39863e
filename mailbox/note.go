package mailbox

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// oneLine makes a change that one line tells, with the shard's intent record
// around it. stage prepares the files and makes the line; undo takes back what it
// staged where not a byte of the line was written; finish brings the tree in line
// with it. Where nobody knows whether the line was written, or a file cannot be
// taken back, the record stays and settle decides. Without an intent the change
// runs inside another one, whose record makes settle come back to it.
func (b *Box) oneLine(ctx context.Context, s *shard, d home.Intent, stage func() (audit.Entry, error), undo func() error, finish func(context.Context, *audit.Entry) error) error {
	inside := d.TX == ""
	if !inside {
		d.At = b.ledger.End()
		if err := s.mark(d); err != nil {
			return err
		}
	}
	e, err := stage()
	if err == nil {
		if _, err = b.say(ctx, s.locks, e, audit.Payload{}); err != nil && !errors.Is(err, audit.ErrUnwritten) {
			return err
		}
	}
	if err != nil {
		if bad := undo(); inside || bad != nil {
			return errors.Join(err, bad)
		}
		return errors.Join(err, s.withdraw())
	}
	if err := finish(context.WithoutCancel(ctx), &e); err != nil {
		return fmt.Errorf("%w: %w", ErrCommitted, err)
	}
	if inside {
		return nil
	}
	return s.clean()
}

// Note appends a line that moves no task: a refusal, an agent's state, an
// error. The writer is added to its details, which must be an object.
func (b *Box) Note(ctx context.Context, e audit.Entry) error { return b.note(ctx, nil, e) }

// note is Note for who may hold a shard already: then that one's intent record is
// used. The record tells verify what a crash may leave of the line.
func (b *Box) note(ctx context.Context, s *shard, e audit.Entry) error {
	if e.Agent != audit.MboxAgent {
		if err := task.CheckActor(e.Agent); err != nil {
			return err
		}
	}
	tx := home.RandomHex(16)
	e, err := b.signed(e, tx)
	if err != nil {
		return err
	}
	if s == nil {
		if s, err = b.lockShard(ctx, e.Agent); err != nil {
			return err
		}
		defer s.unlock()
	}
	return b.oneLine(ctx, s, home.Intent{Kind: "note", Name: e.Agent, TX: tx},
		func() (audit.Entry, error) { return e, nil },
		func() error { return nil },
		func(context.Context, *audit.Entry) error { return nil })
}

// signed adds to the details of a line that moves nothing its transaction and who
// writes it.
func (b *Box) signed(e audit.Entry, tx string) (audit.Entry, error) {
	var details map[string]any
	if len(e.Details) > 0 {
		if err := e.Detail(&details); err != nil {
			return e, err
		}
	}
	if details == nil {
		details = map[string]any{}
	}
	delete(details, "to")
	delete(details, "from")
	maps.Copy(details, map[string]any{"tx": tx, "uid": b.writer.UID, "pid": b.writer.PID, "host": b.writer.Host})
	e.Details = audit.Details(details)
	return e, nil
}

// sayAlone appends a line of its own without an intent record: inside a change
// whose record stands, or under the recover lock.
func (b *Box) sayAlone(ctx context.Context, locks []durable.Held, e audit.Entry) error {
	e, err := b.signed(e, home.RandomHex(16))
	if err == nil {
		_, err = b.say(ctx, locks, e, audit.Payload{})
	}
	return err
}
