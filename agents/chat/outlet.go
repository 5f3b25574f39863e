package chat

import (
	"context"
	"errors"
	"time"
)

// outlet is the way out of a channel: one message at a time, at the channel's pace,
// and none while its server wants a pause. Answers and results share it.
type outlet struct {
	channel Channel
	every   time.Duration
	turn    chan struct{} // full while somebody has the turn, who guards what follows
	next    time.Time     // nothing is sent before, because of the pace
	until   time.Time     // the end of the pause that the server wants
	asked   error         // how it said so
}

// maxWait bounds the pause that a server may ask for.
const maxWait = time.Hour

func newOutlet(c Channel, every time.Duration) *outlet {
	return &outlet{channel: c, every: every, turn: make(chan struct{}, 1)}
}

// ready waits until a message may be sent; while the server wants a pause it returns
// a *WaitError.
func (o *outlet) ready(ctx context.Context) error {
	if err := o.enter(ctx); err != nil {
		return err
	}
	<-o.turn
	return nil
}

// enter is ready for who then has the turn, unless there was an error.
func (o *outlet) enter(ctx context.Context) (err error) {
	select {
	case o.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if left := time.Until(o.until); left > 0 {
		err = &WaitError{left, o.asked}
	} else if left := time.Until(o.next); left > 0 && !Sleep(ctx, left) {
		err = ctx.Err()
	}
	if err != nil {
		<-o.turn
	}
	return err
}

// send sends a notice. An error that is *unsent says that the server does not have it.
func (o *outlet) send(ctx context.Context, n Notice) (id string, err error) {
	if err := o.enter(ctx); err != nil {
		return "", &unsent{err}
	}
	defer func() { <-o.turn }()
	id, err = o.channel.Send(ctx, n)
	o.next = time.Now().Add(o.every)
	var wait *WaitError
	if errors.As(err, &wait) {
		o.until, o.asked = time.Now().Add(min(max(wait.For, time.Millisecond), maxWait)), wait.Err
	}
	if wait != nil || errors.Is(err, ErrRefused) {
		err = &unsent{err}
	}
	return id, err
}

// unsent is the error of a message that the server surely does not have.
type unsent struct{ error }

func (e *unsent) Unwrap() error { return e.error }
