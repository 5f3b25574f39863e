package mailbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/task"
)

// InboxItem is a message in an agent's inbox: what its task says of it.
type InboxItem struct {
	ID      ID     `json:"id"` // of the item: Acknowledge takes it
	State   State  `json:"state"`
	Trigger string `json:"trigger" jsonschema:"enum=mention,enum=watch,enum=broadcast"`
	Message string `json:"message" jsonschema:"description=its id"`
	Channel string `json:"channel"`
	From    string `json:"from"`
	Text    string `json:"text"`
	Created Time   `json:"created_at"`
}

// Inbox are the items of an agent that wait, and those that are worked at, each in the
// order of the ids.
func Inbox(ctx context.Context, b *Box, agent string) ([]InboxItem, error) {
	items := []InboxItem{}
	for it, err := range b.List(ctx, Filter{States: []State{Pending, InProgress}, Target: agent}) {
		if err != nil {
			return nil, err
		}
		if it.Task == nil || it.Task.Message() == "" {
			continue
		}
		t := it.Task
		trigger, message, _ := strings.Cut(t.Mbox.Trigger, ":")
		items = append(items, InboxItem{t.ID, it.State, trigger, message, t.Channel(), t.Source.Agent, t.Task.Description, t.Created})
	}
	return items, nil
}

// Acknowledge completes an item of the agent's inbox; one that is acknowledged stays so,
// without a line. An item that somebody works at needs the token of its claim.
// ErrConflict: it is no item of this agent's, or it is in another state.
//
// Who is killed between the claim and the end leaves a lease without a process, and the
// item waits again, after a short rest.
func Acknowledge(ctx context.Context, b *Box, id ID, agent, token string) error {
	t, state, err := b.Task(ctx, id)
	switch {
	case err != nil:
		return err
	case t.Message() == "":
		return task.About(t.ID, fmt.Errorf("%w: it is no inbox item", ErrConflict))
	case t.Assignment.TargetAgent != agent:
		return task.About(t.ID, fmt.Errorf("%w: it is an item of %s, not of %s", ErrConflict, t.Assignment.TargetAgent, agent))
	case state == Completed, state == Archived:
		return nil
	case state == Failed:
		return task.About(t.ID, fmt.Errorf("%w: it has failed", ErrConflict))
	case state == InProgress && token == "":
		return task.About(t.ID, fmt.Errorf("%w: it is being worked at, and its end acknowledges it", ErrConflict))
	}
	c, err := claimItem(ctx, b, t.ID, agent, token, state)
	if err != nil || c == nil {
		return err
	}
	return errors.Join(c.Complete(ctx, Result{Output: jsontext.Value(`"acknowledged"`)}), c.Close())
}

// maxRest is how long an acknowledgement waits for an item that a worker has lost, and
// that rests before it is tried again.
const maxRest = 10 * time.Second

// claimItem is the claim with the token, or a new one of an item that waits; nil if
// somebody else has acknowledged it meanwhile.
func claimItem(ctx context.Context, b *Box, id ID, agent, token string, state State) (*Claim, error) {
	if state == InProgress {
		return b.Held(ctx, id, token)
	}
	for rested := false; ; rested = true {
		c, err := b.Claim(ctx, ClaimRequest{Agent: agent, ID: id, Process: true})
		if err == nil {
			return c, nil
		}
		t, now, look := b.Task(ctx, id)
		switch {
		case look == nil && now == Completed:
			return nil, nil
		case rested || look != nil || now != Pending || t.Mbox.NotBefore == nil:
			return nil, err
		}
		rest := t.Mbox.NotBefore.Sub(b.now())
		if rest > maxRest {
			return nil, err
		}
		select {
		case <-time.After(rest):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
