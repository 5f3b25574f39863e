package mailbox

import (
	"context"
	"maps"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Note appends a line that moves no task: a refusal, an agent's state, an
// error. The writer is added to its details, which must be an object.
func (b *Box) Note(ctx context.Context, e audit.Entry) error { return b.note(ctx, nil, e) }

// note is Note for who may hold a shard already: then that one's intent record is
// used. The record tells verify what a crash may leave of the line.
func (b *books) note(ctx context.Context, s *shard, e audit.Entry) error {
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
	return b.transact(ctx, s, home.Intent{Kind: "note", Name: e.Agent, TX: tx},
		func() (audit.Entry, audit.Payload, error) { return e, audit.Payload{}, nil },
		func() error { return nil },
		func(context.Context, audit.Line) error { return nil })
}

// signed adds to the details of a line that moves nothing its transaction and who
// writes it.
func (b *books) signed(e audit.Entry, tx string) (audit.Entry, error) {
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
func (b *books) sayAlone(ctx context.Context, locks []durable.Held, e audit.Entry) error {
	e, err := b.signed(e, home.RandomHex(16))
	if err == nil {
		_, err = b.say(ctx, locks, e, audit.Payload{})
	}
	return err
}
