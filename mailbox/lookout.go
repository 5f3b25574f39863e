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
type lookout struct {
	w *watcher
	p pass
}

// borrowLookout takes the kept lookout, or makes one: fresh.
func (b *Box) borrowLookout() (l *lookout, fresh bool, err error) {
	b.mu.Lock()
	l, b.lookout = b.lookout, nil
	b.mu.Unlock()
	if l != nil {
		return l, false, nil
	}
	w, err := b.newWatcher()
	if err != nil {
		return nil, true, err
	}
	return &lookout{w: w, p: pass{b: b, folders: []State{Pending, InProgress}, last: time.Now(), quota: newQuota(perPass)}}, true, nil
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
	if l.p.b.Routed() {
		return nil
	}
	if err := l.p.scan(ctx); err != nil && !errors.Is(err, ErrBusy) {
		return err
	}
	return nil
}

// heed acts on what was seen. With a router up that is the router's work.
func (l *lookout) heed(ctx context.Context, s seen) {
	if !l.p.b.Routed() {
		l.p.after(ctx, s)
	} else if time.Since(l.p.last) >= l.p.b.o.ScanInterval {
		l.p.last = time.Now()
	}
}
