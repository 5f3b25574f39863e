package agents

import (
	"context"
	"errors"
	"sync"
	"time"

	"mbox/mailbox"
)

// reporter passes an attempt's signs of life on to the mailbox, so that neither
// a command nor its readers wait for locks: a sign of life renews the lease, a
// progress rewrites the task file, at most once a second. Of what comes faster
// the last is passed on when the second is over, or dropped when the command
// has ended. That a command runs is a sign of life; that a brain is asked is none.
type reporter struct {
	a      *attempt
	every  time.Duration // between two signs
	wake   chan struct{} // has one element when there is something to pass on
	silent *time.Timer   // runs out when the command has been silent for too long; nil: it may be

	mu     sync.Mutex
	latest *mailbox.Progress // not passed on yet; guarded by mu
}

func newReporter(a *attempt) *reporter {
	r := &reporter{a: a, every: min(progressEvery, a.Box.Options().Lease/3), wake: make(chan struct{}, 1)}
	if a.Silence > 0 {
		r.silent = time.NewTimer(a.Silence)
	}
	return r
}

// heard is called for all that the command writes.
func (r *reporter) heard() {
	if r.silent != nil {
		r.silent.Reset(r.a.Silence)
	}
}

// silence ends when the command has been silent for too long.
func (r *reporter) silence() <-chan time.Time {
	if r.silent == nil {
		return nil
	}
	return r.silent.C
}

const progressEvery = time.Second

// alive is a sign of life.
func (r *reporter) alive() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

func (r *reporter) progress(p mailbox.Progress) {
	r.mu.Lock()
	r.latest = &p
	r.mu.Unlock()
	r.alive()
}

// begin starts passing on; the returned function ends it. For a command the lease
// is renewed until then.
func (r *reporter) begin(command bool) (end func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.a.live))
	var renew <-chan time.Time
	stop := func() {}
	if command {
		t := time.NewTicker(r.a.Box.Options().Lease / 3)
		renew, stop = t.C, t.Stop
	}
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx, renew) })
	return func() { cancel(); running.Wait(); stop() }
}

func (r *reporter) run(ctx context.Context, renew <-chan time.Time) {
	var told time.Time // when a progress was passed on
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-renew:
		}
		if p := r.take(time.Since(told) >= progressEvery); p != nil {
			r.judge(r.a.claim.Progress(context.WithoutCancel(ctx), *p), p)
			told = time.Now()
		} else {
			r.judge(r.a.claim.Renew(), nil)
		}
		pause.Reset(r.every)
	}
}

// take returns the progress to pass on; nil if there is none, or if it is too
// early: then the reporter is woken again.
func (r *reporter) take(due bool) *mailbox.Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.latest
	if p == nil {
		return nil
	}
	if !due {
		r.alive()
		return nil
	}
	r.latest = nil
	return p
}

// judge looks at how passing on went.
func (r *reporter) judge(err error, p *mailbox.Progress) {
	switch {
	case err == nil, errors.Is(err, mailbox.ErrCommitted):
		return
	case errors.Is(err, mailbox.ErrStale), p == nil:
		// The watch tells how the claim ended; a lease file is gone for no other reason.
		r.a.log.Debug().Err(err).Msg("no longer renewed")
		return
	}
	r.a.log.Warn().Err(err).Msg("progress not passed on; will try again")
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.latest == nil {
		r.latest = p
	}
	r.alive()
}
