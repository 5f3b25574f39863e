package mailbox

import (
	"context"
	"fmt"
	"sync"
	"time"

	"mbox/audit"
	"mbox/schemas"
)

// How long the check of a drop's action may take: a scan goes on to the next drop
// after a moment, and the drop is refused in the end. A check that is still
// running cannot be stopped, so only a few are begun.
const (
	moment    = 100 * time.Millisecond
	checkTime = 10 * time.Second
	maxChecks = 4
)

// checks are the runs of Options.Review for drops, by name and hash, until they
// have ended and nobody has asked for them for a while.
type checks struct {
	mu   sync.Mutex
	runs map[[2]string]*check
}

type check struct {
	begun   time.Time
	done    chan struct{} // closed at its end, when what follows is set
	notes   []audit.Entry
	refused error
}

// run finds the check of a drop, or begins it; nil if as many as may are running.
func (c *checks) run(key [2]string, now time.Time, review func() ([]audit.Entry, error)) *check {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.runs[key]; r != nil {
		return r
	}
	running := 0
	for key, r := range c.runs {
		switch {
		case !r.ended():
			running++
		case now.Sub(r.begun) > 2*checkTime: // its drop is no longer there
			delete(c.runs, key)
		}
	}
	if running >= maxChecks {
		return nil
	}
	r := &check{begun: now, done: make(chan struct{})}
	if c.runs == nil {
		c.runs = map[[2]string]*check{}
	}
	c.runs[key] = r
	go func() {
		defer close(r.done)
		r.notes, r.refused = review()
	}()
	return r
}

func (c *checks) forget(key [2]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.runs, key)
}

func (r *check) ended() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// errNotYet says that a drop's check has not ended.
var errNotYet = fmt.Errorf("its check has not ended: %w", ErrBusy)

// reviewed asks Options.Review about the drop, and does not wait long for the
// answer: the error is errNotYet then, and the next look finds it.
func (d *drop) reviewed(ctx context.Context, s *shard, t *Task) ([]audit.Entry, error) {
	b := d.b
	if b.o.Review == nil || t.Mbox.Action == nil {
		return b.approvals.review(ctx, s, t) // nothing in it takes long
	}
	key := [2]string{d.name, d.hash}
	r := b.checks.run(key, b.now(), func() ([]audit.Entry, error) { return b.o.Review(t) })
	if r == nil {
		return nil, errNotYet
	}
	select {
	case <-r.done:
		b.checks.forget(key)
		return b.approvals.verdict(ctx, s, t, r.notes, r.refused)
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(moment):
	}
	if b.now().Sub(r.begun) < checkTime {
		return nil, errNotYet
	}
	return nil, &schemas.Error{
		Path: "mbox.action", Code: "check_timeout", Problem: "checking it takes longer than " + checkTime.String(), Want: "something simpler",
	}
}
