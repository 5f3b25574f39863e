package mailbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/fsnotify/fsnotify"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// watcher wakes whoever waits for the mailbox to change. It is a hint only:
// where it cannot be had (no inotify watches left), waiting is scanning.
type watcher struct {
	b  *Box
	fs *fsnotify.Watcher
}

// watched are the folders in which something happens that somebody waits for.
var watched = []string{"tasks/pending", "tasks/in-progress", "tasks/completed", "tasks/failed", "audit/shared"}

func (b *Box) newWatcher() (*watcher, error) {
	w := &watcher{b: b}
	fs, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		return w, nil //nolint:nilerr // without a watcher every wait ends at the scan interval
	}
	for _, dir := range watched {
		if err := fs.Add(b.path(dir)); err != nil {
			fs.Close()
			return w, nil
		}
	}
	w.fs = fs
	return w, nil
}

func (w *watcher) close() {
	if w.fs != nil {
		w.fs.Close()
	}
}

// wait returns when something has changed, or after at most so long. What came
// together is taken together.
func (w *watcher) wait(ctx context.Context, most time.Duration) error {
	timer := time.NewTimer(most)
	defer timer.Stop()
	if w.fs == nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
			return nil
		}
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	case <-w.fs.Events:
	case <-w.fs.Errors: // an overflow: events were lost, so something has changed
	}
	w.drain()
	return nil
}

func (w *watcher) drain() {
	for {
		select {
		case <-w.fs.Events:
		case <-w.fs.Errors:
		default:
			return
		}
	}
}

// WaitChange blocks until the mailbox or its ledger may have changed, at most
// for the scan interval. Each call watches anew; Watch and Wait keep a watcher.
func (b *Box) WaitChange(ctx context.Context) error {
	w, err := b.newWatcher()
	if err != nil {
		return err
	}
	defer w.close()
	return w.wait(ctx, b.o.ScanInterval)
}

// Follow yields the ledger's entries from p on, for ever, as they come.
func (b *Box) Follow(ctx context.Context, p audit.Position) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		w, err := b.newWatcher()
		if err != nil {
			yield(audit.Entry{}, err)
			return
		}
		defer w.close()
		wait := func(ctx context.Context) error { return w.wait(ctx, b.o.ScanInterval) }
		for e, err := range b.ledger.Tail(ctx, p, wait) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Event is a change of a task's state, as Watch yields it.
type Event struct {
	Task ID
	From State
	To   State
	Line audit.Entry
}

// Watch yields every move of a task from now on. It is the one call of this
// package that starts goroutines (fsnotify's); they end with it.
func (b *Box) Watch(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if err := b.update(); err != nil {
			yield(Event{}, err)
			return
		}
		b.mu.Lock()
		from := b.index.at
		b.mu.Unlock()
		for e, err := range b.Follow(ctx, from) {
			if err != nil {
				yield(Event{}, err)
				return
			}
			if m, ok := moveOf(&e); ok && !yield(Event{ID(e.Task()), m.from(), m.to(), e}, nil) {
				return
			}
		}
	}
}

// RouterOptions of Route.
type RouterOptions struct {
	Ready   func()                  // called once, after the first scan
	Scanned func(ScanReport, error) // called after every scan
}

// ErrRouted says that another router is up for this mailbox.
var ErrRouted = errors.New("a router is up for this mailbox already")

// Route is the router's loop: it scans when something has changed, when a
// waiting task's time comes, and at the scan interval, until the context ends.
// One router at a time serves a mailbox (ErrRouted); nothing depends on it.
func (b *Box) Route(ctx context.Context, o RouterOptions) error {
	lock, err := durable.TryLock(privatePath(b.home, "locks", "router"))
	if errors.Is(err, durable.ErrBusy) {
		return fmt.Errorf("%w: %w", ErrBusy, ErrRouted)
	}
	if err != nil {
		return lockError(err)
	}
	defer lock.Unlock()
	w, err := b.newWatcher()
	if err != nil {
		return err
	}
	defer w.close()
	first := true
	for {
		r, err := b.scan(ctx, Folders)
		if ctx.Err() != nil {
			return nil
		}
		if o.Scanned != nil {
			o.Scanned(r, err)
		}
		if first && err != nil && !errors.Is(err, ErrBusy) {
			return err
		}
		if first && o.Ready != nil {
			o.Ready()
		}
		first = false
		most := b.untilDue()
		if r.Again > 0 {
			most = min(most, r.Again)
		}
		if err := w.wait(ctx, most); err != nil {
			return nil
		}
	}
}
