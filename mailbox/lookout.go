package mailbox

import (
	"context"
	"errors"
	"time"
)

// lookout is what a waiting worker sees with: a watcher, and the rhythm of its
// scans. A Box keeps one from one Wait to the next, because closing a watcher
// takes the kernel 5 to 15 ms (inotify waits for every reader of its marks),
// which each claim would pay; and because what it has seen in between saves the
// next Wait a whole scan. fsnotify's goroutine lives as long, until Close.
//
// It watches pending. What strangers do in the other folders is seen by its scans,
// or at once by a router.
type lookout struct {
	w      *watcher
	p      pass
	lines  bool      // it watches the ledger as well, and where tasks end
	routed bool      // a router was up
	asked  time.Time // when
}

// borrowLookout takes the kept lookout, or makes one: fresh.
func (b *Box) borrowLookout() (l *lookout, fresh bool) {
	b.mu.Lock()
	l, b.lookout = b.lookout, nil
	b.mu.Unlock()
	if l != nil {
		return l, false
	}
	p := pass{b: b, folders: []State{Pending, InProgress}, last: time.Now(), quota: newQuota(perPass)}
	return &lookout{w: b.newWatcher("tasks/pending"), p: p}, true
}

// returnLookout keeps l, unless there is one already or the box is closed.
func (b *Box) returnLookout(l *lookout) {
	b.mu.Lock()
	keep := b.lookout == nil && !b.closed
	if keep {
		b.lookout = l
	}
	b.mu.Unlock()
	if !keep {
		l.w.close()
	}
}

// first brings the view up to date before the first claim of a Wait: a scan
// where nothing is known, else what was seen since the last Wait.
func (l *lookout) first(ctx context.Context, fresh bool) error {
	if !fresh {
		l.heed(ctx, l.w.seenNow())
		return ctx.Err()
	}
	if l.isRouted() {
		return nil
	}
	if err := l.p.scan(ctx); err != nil && !errors.Is(err, ErrBusy) {
		return err
	}
	return nil
}

// isRouted tells whether a router was up a moment ago.
func (l *lookout) isRouted() bool {
	if now := time.Now(); now.Sub(l.asked) >= leaseCheck {
		l.routed, l.asked = l.p.b.Routed(), now
	}
	return l.routed
}

// listen begins to watch what else a task may wait for, once one does, or the agent is
// paused: a line that approves it, or lets the agent claim, and the file of what it
// depends on, which ends behind its line. True if it has just begun.
func (l *lookout) listen(paused bool) bool {
	begins := !l.lines && (paused || l.p.b.queue.Waits())
	if begins {
		l.lines = true
		for _, dir := range []string{ledgerDir, "tasks/completed", "tasks/failed"} {
			l.w.add(dir)
		}
	}
	return begins
}

// heed acts on what was seen. With a router up that is the router's work.
func (l *lookout) heed(ctx context.Context, s seen) {
	if l.isRouted() {
		l.p.idle()
		return
	}
	l.p.after(ctx, s)
}
