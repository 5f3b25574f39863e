package chat

import (
	"context"
	"errors"
	"fmt"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

// receive writes a receipt of a result into the ledger, and with it on the disk all
// that stands before it.
func receive(ctx context.Context, box *mailbox.Box, r *Result, by string, receipt task.Receipt, action string) error {
	receipt.End, receipt.Epoch = r.End, r.Epoch
	return box.Note(ctx, audit.Entry{
		Agent: by, Event: audit.ResultDelivered, TaskID: (*string)(&r.ID), Session: r.Session,
		Action: action, Details: audit.Details(receipt),
	})
}

// giveUp makes a dead letter of a result: an alarm, which mbox why and mbox doctor
// tell until it was sent again or acknowledged.
func giveUp(ctx context.Context, box *mailbox.Box, r *Result, by, channel string, why error) error {
	return box.Note(ctx, audit.Entry{
		Agent: by, Event: audit.ErrorEvent, TaskID: (*string)(&r.ID), Session: r.Session,
		Action: fmt.Sprintf("%s gave up the result of %s; mbox deliver --retry %s sends it again", by, r.ID, r.ID),
		Details: audit.Details(map[string]any{
			"alarm": task.Undelivered, "reason": reason(why), "leg": r.Leg, "end": r.End, "epoch": r.Epoch, "channel": channel,
		}),
	})
}

// reason is an error as it may stand in the ledger: without a program's words.
func reason(why error) string {
	var words *WordsError
	if errors.As(why, &words) {
		why = words.Err
	}
	return task.OneLine(why.Error())
}

// Acknowledge writes down that a result has come to who asked for it, by whoever
// says so; said again it writes nothing. A task of which nobody awaits a result is
// mailbox.ErrConflict.
func Acknowledge(ctx context.Context, box *mailbox.Box, id mailbox.ID, by string) error {
	r, err := resultOf(box, id)
	if err != nil || r.Leg == task.Acknowledged {
		return err
	}
	return receive(ctx, box, r, by, task.Receipt{Leg: task.Acknowledged}, fmt.Sprintf("%s acknowledged the result of %s", by, id))
}

// Again has the bridge send a result that was given up. One that was not is
// mailbox.ErrConflict.
func Again(ctx context.Context, box *mailbox.Box, id mailbox.ID, by string) error {
	r, err := resultOf(box, id)
	switch {
	case err != nil:
		return err
	case r.Delivered:
		return task.About(id, fmt.Errorf("%w: its result was delivered", mailbox.ErrConflict))
	case r.Dead == "":
		return task.About(id, fmt.Errorf("%w: its result is not given up, it is on its way", mailbox.ErrConflict))
	}
	return receive(ctx, box, r, by, task.Receipt{Leg: task.Stored}, fmt.Sprintf("%s wants the result of %s sent again", by, id))
}

// resultOf is the result of a task that a bridge has sent.
func resultOf(box *mailbox.Box, id mailbox.ID) (*Result, error) {
	if err := task.CheckID(id); err != nil {
		return nil, err
	}
	lines, err := linesOf(box, id)
	if err != nil {
		return nil, err
	}
	o := newOutbox(box, "")
	o.keeps = true
	for i := range lines {
		if err := o.take(&lines[i]); err != nil {
			return nil, err
		}
	}
	r := o.open[id]
	switch {
	case len(lines) == 0:
		return nil, task.About(id, mailbox.ErrNotFound)
	case r == nil:
		return nil, task.About(id, fmt.Errorf("%w: no bridge waits for its result", mailbox.ErrConflict))
	case !r.ended():
		return nil, task.About(id, fmt.Errorf("%w: it has not ended", mailbox.ErrConflict))
	}
	return r, nil
}
