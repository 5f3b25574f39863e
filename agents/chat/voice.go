package chat

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// careful is a channel whose panics are errors, and whose errors have no secrets.
type careful struct {
	Channel
	secrets secrets
}

// searching is careful with a channel that is a Searcher.
type searching struct {
	careful
	searcher Searcher
}

func newCareful(c Channel, hidden secrets) Channel {
	if s, can := c.(Searcher); can {
		return searching{careful{c, hidden}, s}
	}
	return careful{c, hidden}
}

func (c careful) Receive(ctx context.Context, kept string, in Inbox) error {
	return c.secrets.scrubbed(caught(func() error { return c.Channel.Receive(ctx, kept, in) }))
}

func (c careful) Send(ctx context.Context, n Notice) (id string, err error) {
	err = caught(func() (err error) { id, err = c.Channel.Send(ctx, n); return err })
	return id, c.secrets.scrubbed(err)
}

func (c careful) Check(ctx context.Context) (says string, err error) {
	err = caught(func() (err error) { says, err = c.Channel.Check(ctx); return err })
	return says, c.secrets.scrubbed(err)
}

func (s searching) Sent(ctx context.Context, n Notice) (id string, err error) {
	err = caught(func() (err error) { id, err = s.searcher.Sent(ctx, n); return err })
	return id, s.secrets.scrubbed(err)
}

func caught(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return do()
}

// answers are sent in their order, each at most once: whoever asked and gets none
// asks again.
type answers struct {
	send  func(context.Context, Notice) (string, error)
	queue chan Notice
	log   func(format string, a ...any)
}

const (
	mostAnswers = 64          // that wait
	longestWait = time.Minute // that a server may make an answer wait
)

// say has an answer sent, unless many wait already.
func (a *answers) say(n Notice) {
	select {
	case a.queue <- n:
	default:
		a.log("too many answers wait: one is left out")
	}
}

// run sends answers until the context ends, or the queue is closed.
func (a *answers) run(ctx context.Context) {
	for {
		select {
		case n, more := <-a.queue:
			if !more {
				return
			}
			if err := a.try(ctx, n); err != nil && ctx.Err() == nil {
				a.log("an answer could not be sent: %v", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

func (a *answers) try(ctx context.Context, n Notice) error {
	_, err := a.send(ctx, n)
	var wait *WaitError
	if errors.As(err, &wait) && wait.For <= longestWait && Sleep(ctx, wait.For) {
		_, err = a.send(ctx, n)
	}
	return err
}

// Sleep tells whether it waited so long.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
