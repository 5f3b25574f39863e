package mailbox

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// watcher wakes whoever waits for the mailbox to change. It is a hint only:
// where it cannot be had (no inotify watches left), waiting is scanning.
type watcher struct {
	b  *Box
	fs *fsnotify.Watcher
}

// ledgerDir is where who waits for lines looks.
const ledgerDir = "audit/shared"

// newWatcher watches these folders: who waits is woken by nothing that he does not
// act on.
func (b *Box) newWatcher(dirs ...string) *watcher {
	w := &watcher{b: b}
	fs, err := fsnotify.NewBufferedWatcher(4096)
	if err != nil {
		return w // without a watcher every wait ends at the scan interval
	}
	w.fs = fs
	for _, dir := range dirs {
		w.add(dir)
	}
	return w
}

// add watches one more folder. Where that cannot be had, nothing is watched.
func (w *watcher) add(dir string) {
	if w.fs != nil && w.fs.Add(w.b.path(dir)) != nil {
		w.fs.Close()
		w.fs = nil
	}
}

func (w *watcher) close() {
	if w.fs != nil {
		w.fs.Close()
	}
}

// seen is what a watcher saw while somebody waited: names that came into or
// went from the folders of tasks. It only says where to look.
type seen struct {
	names map[State]map[string]bool // whether the last that was seen was that it came
	lost  bool                      // events were lost, or there is no watcher: scan
}

// wait returns when something has changed that is no half-written drop, or after
// at most so long. What came together is taken together.
func (w *watcher) wait(ctx context.Context, most time.Duration) (seen, error) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	if w.fs == nil {
		select {
		case <-ctx.Done():
			return seen{}, ctx.Err()
		case <-timer.C:
			return seen{lost: true}, nil
		}
	}
	var s seen
	for matters := false; !matters; {
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-timer.C:
			return s, nil
		case e := <-w.fs.Events:
			s.note(e)
			matters = !task.Ignored(filepath.Base(e.Name))
		case <-w.fs.Errors: // an overflow arrives as an error
			s.lost, matters = true, true
		}
	}
	w.drain(&s)
	return s, nil
}

// seenNow is what has been seen by now, without waiting.
func (w *watcher) seenNow() seen {
	s := seen{lost: w.fs == nil}
	if w.fs != nil {
		w.drain(&s)
	}
	return s
}

func (w *watcher) drain(s *seen) {
	for range perPass.looks {
		select {
		case e := <-w.fs.Events:
			s.note(e)
		case <-w.fs.Errors:
			s.lost = true
		default:
			return
		}
	}
}

// note keeps the name of a file that came into a folder of tasks, or left it, or
// is being written in pending, where only a dropper writes in place.
func (s *seen) note(e fsnotify.Event) {
	folder := State(filepath.Base(filepath.Dir(e.Name)))
	came := e.Has(fsnotify.Create) || e.Has(fsnotify.Write) && folder == Pending
	if task.FolderIndex(folder) >= 0 && (came || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)) {
		s.put(folder, filepath.Base(e.Name), came)
	}
}

func (s *seen) put(folder State, name string, came bool) {
	if s.names == nil {
		s.names = map[State]map[string]bool{}
	}
	if s.names[folder] == nil {
		s.names[folder] = map[string]bool{}
	}
	s.names[folder][name] = came
}

func (b *Box) attendTo(ctx context.Context, folder State, name string, came bool, q *quota) (time.Duration, error) {
	var state State
	if r := b.queue.Find(ID(task.TrimJSON(name))); r != nil {
		state = r.State
	}
	if came == (state == folder) {
		return 0, nil
	}
	_, err := os.Lstat(b.path("tasks", string(folder), name))
	there := err == nil
	switch {
	case there && folder == Pending && state == None:
		q.changed(name)
		return b.admit(ctx, name, q)
	case there != (state == folder) && state != None:
		return b.reconciler.lookInto(ctx, ID(task.TrimJSON(name)))
	case there && folder == InProgress && state == None:
		if !q.putAway(name) {
			return goOn, nil
		}
		return b.reconciler.stray(ctx, folder, name)
	}
	return 0, nil
}

// Follow yields the ledger's entries from p on, for ever, as they come.
func (b *Box) Follow(ctx context.Context, p audit.Position) iter.Seq2[audit.Entry, error] {
	return func(yield func(audit.Entry, error) bool) {
		w := b.newWatcher(ledgerDir)
		defer w.close()
		wait := func(ctx context.Context) error { _, err := w.wait(ctx, b.o.ScanInterval); return err }
		for e, err := range b.ledger.Tail(ctx, p, wait) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// Happens waits for a line about one of the tasks behind a place of the ledger, or until
// ctx ends, and tells whether there was one. Their files follow the line a moment later.
func Happens(ctx context.Context, b *Box, at audit.Position, tasks ...ID) (bool, error) {
	for e, err := range b.Follow(ctx, at) {
		switch {
		case ctx.Err() != nil:
			return false, nil
		case err != nil:
			return false, err
		case slices.ContainsFunc(tasks, func(id ID) bool { return id.Fold() == ID(e.Task()).Fold() }):
			return true, nil
		}
	}
	return false, nil
}

// RouterOptions of Route.
type RouterOptions struct {
	Ready   func()                  // called once, after the first scan
	Scanned func(ScanReport, error) // called after every scan
}

// ErrRouted says that another router is up for this mailbox.
var ErrRouted = errors.New("a router is up for this mailbox already")

// Route is the router's loop: it attends to what the watcher sees at once, lets
// waiting tasks become ready when their time comes, takes tasks of killed
// workers back, and scans everything at the scan interval, until the context
// ends, or another home lies in the place of this one ([home.ReplacedError]). One router at a time serves a mailbox (ErrRouted); nothing depends on
// it.
func (b *Box) Route(ctx context.Context, o RouterOptions) error {
	// Routed takes the lock for a moment: a command that just asks is waited out.
	lock, err := durable.AcquireLock(ctx, home.LockPath(b.home, "routing"), time.Second)
	if errors.Is(err, durable.ErrBusy) {
		return fmt.Errorf("%w: %w", ErrBusy, ErrRouted)
	}
	if err != nil {
		return home.LockError(err)
	}
	defer lock.Unlock()
	defer beat(b.home)()
	w := b.newWatcher("tasks/pending", "tasks/in-progress", "tasks/completed", "tasks/failed", ledgerDir)
	defer w.close()
	p := pass{b: b, folders: task.Folders, scanned: o.Scanned, quota: newQuota(perPass)}
	if err := p.scan(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, ErrBusy) {
		return err
	}
	if o.Ready != nil {
		o.Ready()
	}
	for ctx.Err() == nil {
		s, err := w.wait(ctx, p.next())
		if err != nil {
			break
		}
		if err := b.places.Same(); err != nil {
			return err
		}
		p.after(ctx, s)
		if err := b.dependencies.resolve(ctx); err != nil && ctx.Err() == nil {
			p.report(ScanReport{}, err)
		}
	}
	return nil
}

// pass is the rhythm of a process that looks after a mailbox: a router, or a
// waiting worker while there is no router.
type pass struct {
	b       *Box
	folders []State
	scanned func(ScanReport, error)
	quota   *quota
	last    time.Time // of the last whole scan
	again   time.Time // when the next one is due before its time; zero: it is not
	later   seen      // names to be looked at again
	look    time.Time // when
	leases  leaseNotes
}

// leaseCheck is how often the workers of tasks in progress are looked for.
const leaseCheck = 500 * time.Millisecond

func (p *pass) report(r ScanReport, err error) {
	if p.scanned != nil {
		p.scanned(r, err)
	}
}

func (p *pass) scan(ctx context.Context) error {
	p.last, p.again, p.later = time.Now(), time.Time{}, seen{}
	p.leases.last = p.last // it looks at all of them
	p.quota.renew()
	r, err := p.b.scan(ctx, p.folders, p.quota)
	if r.list > 0 {
		p.again = time.Now().Add(r.list)
	}
	p.later, p.look = r.later, time.Now().Add(r.Again)
	if ctx.Err() == nil {
		p.report(r, err)
	}
	return err
}

// idle is a turn of who has nothing to look after.
func (p *pass) idle() {
	p.again, p.later, p.leases.last = time.Time{}, seen{}, time.Now()
	if time.Since(p.last) >= p.b.o.ScanInterval {
		p.last = time.Now()
	}
}

// next is how long to wait at most.
func (p *pass) next() time.Duration {
	most := min(p.b.untilDue(), time.Until(p.last.Add(p.b.o.ScanInterval)))
	if !p.again.IsZero() {
		most = min(most, time.Until(p.again))
	}
	if len(p.later.names) > 0 {
		most = min(most, time.Until(p.look))
	}
	if p.b.queue.Holds(InProgress).Count > 0 { // whose workers may die
		most = min(most, time.Until(p.leases.last.Add(leaseCheck)))
	}
	return max(most, time.Millisecond)
}

// attend looks at the names that a watcher saw, and at those whose time has come to
// be looked at again. Most of them are the traces of transitions, which the ledger
// told before they showed; what is left are drops and what strangers moved.
func (p *pass) attend(ctx context.Context, s seen) error {
	if len(p.later.names) > 0 && !time.Now().Before(p.look) {
		for folder, names := range s.names {
			for name, came := range names {
				p.later.put(folder, name, came)
			}
		}
		s, p.later = p.later, seen{}
	}
	if len(s.names) == 0 {
		return nil
	}
	if err := p.b.queue.Update(); err != nil {
		return err
	}
	var bad []error
	for folder, names := range s.names {
		for name, came := range names {
			if !task.Ignored(name) && ctx.Err() == nil {
				wait, err := p.b.attendTo(ctx, folder, name, came, p.quota)
				bad = append(bad, p.put(folder, name, came, wait, err))
			}
		}
	}
	return errors.Join(bad...) // one bad file does not keep the others out
}

// put notes when to look again at a name.
func (p *pass) put(folder State, name string, came bool, wait time.Duration, err error) error {
	at := time.Now().Add(wait)
	switch {
	case errors.Is(err, errNowhere): // others may go with it, which only a scan sees
		p.again, err = at.Add(settleTime), nil
	case wait == goOn:
		p.again = at
	case wait > 0:
		if len(p.later.names) == 0 || at.Before(p.look) {
			p.look = at
		}
		p.later.put(folder, name, came)
	}
	return err
}

// after does what is to be done after a wait. Errors are reported, not
// returned: the next scan tries again.
func (p *pass) after(ctx context.Context, s seen) {
	p.quota.renew()
	due := time.Since(p.last) >= p.b.o.ScanInterval || !p.again.IsZero() && !time.Now().Before(p.again)
	err := p.attend(ctx, s) // what has just come goes before what lies about
	if s.lost || due {
		if err != nil && ctx.Err() == nil {
			p.report(ScanReport{}, err)
		}
		_ = p.scan(ctx) // it has been reported
		return
	}
	var r ScanReport
	if err == nil && time.Since(p.leases.last) >= leaseCheck {
		r.Reclaimed, err = p.b.reclaimer.reclaimDead(ctx, &p.leases)
	}
	if ctx.Err() == nil && (err != nil || r.Reclaimed > 0) {
		p.report(r, err)
	}
}
