package gateway

import (
	"errors"
	"fmt"
	"net/http"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// leave leaves a task that is in order, in the caller's name.
func (c *call) leave(t *mailbox.Task) (sent Sent, err error) {
	if err := c.key(t); err != nil {
		return sent, err
	}
	if err := c.signed(t); err != nil {
		return sent, err
	}
	if err := c.known(t.Assignment.TargetAgent); err != nil {
		return sent, err
	}
	if err := c.waitsForSeen(t); err != nil {
		return sent, err
	}
	sent.ID, err = c.Box.Submit(c.ctx, t)
	if errors.Is(err, mailbox.ErrCommitted) && sent.ID != "" {
		_, sent.Note = c.door.o.Judge(err)
		err = nil
	}
	if err == nil && t.Mbox.IdempotencyKey != "" {
		err = c.same(sent.ID, t)
	}
	if err != nil {
		return Sent{}, err
	}
	return sent, nil
}

// waitsForSeen refuses a task that waits for one that the caller may not see: it would tell
// how that stands, and whoever takes it is given the files that came of that.
func (c *call) waitsForSeen(t *mailbox.Task) error {
	if c.all() {
		return nil
	}
	mine := c.sight()
	for i, id := range t.Mbox.DependsOn {
		_, _, err := mine.Task(c.ctx, id)
		if errors.Is(err, mailbox.ErrNotFound) {
			return task.Fault(fmt.Sprintf("mbox.depends_on[%d]", i), "there is no task "+schemas.Sentence(string(id), 128), "a task that you may see")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// same refuses a key that was another request's: the caller would take somebody's task for
// his own, and his request would be lost.
func (c *call) same(id mailbox.ID, t *mailbox.Task) error {
	made, _, err := c.Box.Task(c.ctx, id)
	if err != nil {
		return nil //nolint:nilerr // it is sent all the same
	}
	if !t.Repeats(made) {
		return &refusal{http.StatusConflict, "the idempotency key was another request's", "send it with a key that was not used before"}
	}
	return nil
}
