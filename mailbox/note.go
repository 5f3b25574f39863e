package mailbox

import (
	"context"
	"errors"
	"maps"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Note appends a line that moves no task: a refusal, an agent's state, an
// error. The writer is added to its details, which must be an object.
func (b *Box) Note(ctx context.Context, e audit.Entry) error { return b.noteUnder(ctx, nil, e) }

// noteUnder is Note for who may hold a shard already: then that one's intent
// record is used.
func (b *Box) noteUnder(ctx context.Context, s *shard, e audit.Entry) error {
	if e.Agent != audit.MboxAgent {
		if err := task.CheckActor(e.Agent); err != nil {
			return err
		}
	}
	tx := home.RandomHex(16)
	var details map[string]any
	if len(e.Details) > 0 {
		if err := e.Detail(&details); err != nil {
			return err
		}
	}
	if details == nil {
		details = map[string]any{}
	}
	maps.Copy(details, map[string]any{"tx": tx, "uid": b.writer.UID, "pid": b.writer.PID, "host": b.writer.Host})
	delete(details, "to")
	delete(details, "from")
	e.Details = audit.Details(details)
	if s == nil {
		var err error
		if s, err = b.lockShard(ctx, e.Agent); err != nil {
			return err
		}
		defer s.unlock()
	}
	return b.note(ctx, s, tx, e)
}

// note appends a line without a move, with an intent record around it, which tells
// verify what a crash may leave of it.
func (b *Box) note(ctx context.Context, s *shard, tx string, e audit.Entry) error {
	if err := s.mark(home.Intent{Kind: "note", Name: e.Agent, TX: tx, At: b.ledger.End()}); err != nil {
		return err
	}
	if _, err := b.say(ctx, s.locks, e, audit.Payload{}); errors.Is(err, audit.ErrUnwritten) {
		return errors.Join(err, s.withdraw())
	} else if err != nil {
		return err
	}
	return s.clean()
}
