// Package chattest has what the tests of all channels need.
package chattest

import (
	"context"
	"errors"
	"testing"

	"mbox/agents/chat"
)

// Inbox records what a channel hands over. Its channels are read by the test; a
// channel waits until that has happened, as it waits for the disk in earnest.
type Inbox struct {
	Took chan chat.Message
	Kept chan string
	Read chan string              // ids of messages that were seen
	Fail func(chat.Message) error // what Take answers; nil for nil
}

// NewInbox makes an Inbox that holds what a test does not look at.
func NewInbox() *Inbox {
	return &Inbox{Took: make(chan chat.Message, 10_000), Kept: make(chan string, 10_000), Read: make(chan string, 10_000)}
}

func (i *Inbox) Take(ctx context.Context, m chat.Message) error {
	if i.Fail != nil {
		if err := i.Fail(m); err != nil {
			return err
		}
	}
	return put(ctx, i.Took, m)
}

func (i *Inbox) Keep(ctx context.Context, place string) error { return put(ctx, i.Kept, place) }
func (i *Inbox) Seen(ctx context.Context, id string) error    { return put(ctx, i.Read, id) }

func put[T any](ctx context.Context, c chan T, v T) error {
	select {
	case c <- v:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Next waits for the next of what an Inbox records, as long as ctx lasts.
func Next[T any](ctx context.Context, t testing.TB, c chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-ctx.Done():
		t.Fatalf("nothing came: %v", context.Cause(ctx))
	}
	return v
}

// Receiving runs a channel's Receive until the test ends, and fails the test where
// it ends by itself.
func Receiving(ctx context.Context, t testing.TB, c chat.Channel, kept string, in chat.Inbox) {
	t.Helper()
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Receive(ctx, kept, in) }()
	t.Cleanup(func() {
		early := ctx.Err() == nil && len(ended) > 0
		stop()
		if err := <-ended; early || err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Receive ended: %v", err)
		}
	})
}
