package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/history"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// ScanReport counts what a scan did.
type ScanReport struct {
	Reclaimed int           // tasks of dead or hung workers
	Looked    int           // files in pending that were no known task
	Again     time.Duration // when to look again at files that were not ready; 0: no need
	Alarms    int
	Unsettled []error // news of shards that cannot be settled

	later seen          // which files those are
	stay  int           // files that cannot be moved
	list  time.Duration // when to list a folder again because not all of it was looked at; 0: no need
}

// Scan is the truth that watching only hurries: it settles what dead processes
// left, takes back tasks whose lease is over, admits drops, adopts what
// strangers moved, lets waiting tasks become ready, and raises alarms. Every
// process may scan at any time.
func (b *Box) Scan(ctx context.Context) (ScanReport, error) {
	return b.scan(ctx, []State{Pending, InProgress}, nil)
}

// Tidy is a Scan, unless a router is up and does it. Of a mailbox that is
// read-only, or whose ledger is damaged, it makes nothing: looking is allowed,
// and a verb that writes says so itself.
func (b *Box) Tidy(ctx context.Context) error {
	err := b.settleAll(ctx)
	switch {
	case err != nil:
	case b.Routed():
		err = b.queue.Update()
	default:
		_, err = b.Scan(ctx)
	}
	if errors.Is(err, ErrReadOnly) || errors.Is(err, audit.ErrDamaged) {
		return nil
	}
	return onTheWay(err)
}

// Routed tells whether a router is up for this mailbox, and gives signs of life.
func (b *Box) Routed() bool {
	up, alive := routerOf(b.home)
	return up && alive
}

// Halted tells whether a router is up and stands still, as behind Ctrl-Z or in a container
// that is paused: whoever works does without it then.
func Halted(b *Box) bool {
	up, alive := routerOf(b.home)
	return up && !alive
}

// A router touches its lock's file so often, and who has not for so long stands still.
const (
	routerBeats  = 3 * time.Second
	routerSilent = 15 * time.Second
)

func routerOf(dir string) (up, alive bool) {
	path := home.LockPath(dir, "routing")
	l, err := durable.TryLock(path)
	if err == nil {
		l.Unlock()
	}
	if !errors.Is(err, durable.ErrBusy) {
		return false, false
	}
	info, err := os.Lstat(path)
	return true, err == nil && time.Since(info.ModTime()).Abs() < routerSilent
}

// beat gives signs of life of a router, the first at once, until end is called.
func beat(dir string) (end func()) {
	sign := func() {
		_ = durable.Touch(home.LockPath(dir, "routing"), time.Now()) // else it counts as one that stands still
	}
	sign()
	return every(routerBeats, sign)
}

func (b *Box) scan(ctx context.Context, folders []State, q *quota) (r ScanReport, err error) {
	if err := b.settleAll(ctx); err != nil {
		return r, err
	}
	r.Unsettled = Unsettled(b)
	if err := b.judgeGone(ctx); err != nil {
		return r, err
	}
	if err := b.queue.Update(); err != nil {
		return r, err
	}
	if r.Reclaimed, err = b.reclaimer.reclaim(ctx); err != nil {
		return r, err
	}
	for _, f := range folders {
		if err := b.survey(ctx, f, q, &r); err != nil {
			return r, fmt.Errorf("scanning tasks/%s: %w", f, err)
		}
	}
	if err := b.reclaimer.dropStrayLeases(ctx); err != nil {
		return r, err
	}
	if err := b.sender.deliverOwed(ctx); err != nil {
		return r, err
	}
	if err := b.dependencies.resolve(ctx); err != nil {
		return r, err
	}
	r.Alarms, err = b.explainer.alarms(ctx)
	return r, err
}

// pace keeps the cost of looking at a folder in proportion: a folder that has
// not changed is not listed, and one that takes long to list is listed seldom.
type pace struct {
	mtime time.Time     // of the folder, before it was listed
	begun time.Time     // when the last listing began
	ended time.Time     // when the last listing was worked off
	took  time.Duration // how long the listing took, without what was done with it
}

// quiet is how old a folder's last change must be for its time to prove that
// nothing changed since: file systems keep coarse clocks.
const quiet = 100 * time.Millisecond

// holds tells whether the folder is as it was when all in it had been dealt with.
func (p pace) holds(folder os.FileInfo) bool {
	return folder.ModTime().Equal(p.mtime) && p.begun.Sub(p.mtime) > quiet
}

// paces are those of the folders. One-shot commands share that of a crowded one.
type paces struct {
	home  string
	crowd int // files
	mu    sync.Mutex
	last  map[State]pace
}

// of is how the folder was last looked at.
func (p *paces) of(folder State) pace {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last, known := p.last[folder]; known {
		return last
	}
	return p.shared(folder)
}

// set says that the folder was looked at, which has n files. That others are told only
// spares them a listing.
func (p *paces) set(folder State, last pace, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last[folder] = last
	if n <= p.crowd {
		return
	}
	line := fmt.Sprintf("%s %d %d\n", last.took, last.mtime.UnixNano(), last.begun.UnixNano())
	_ = durable.Replace(p.path(folder), []byte(line), durable.None)
}

// crowd is from how many files on a listing is so slow that one-shot commands
// share its pace: in a loop of claims one in ten of the time is spent on
// looking for drops, not all of it.
const crowd = 5000

func (p *paces) path(folder State) string { return home.Private(p.home, "pace-"+string(folder)) }

// shared is how another process left a crowded folder. A pace of the future
// or of another shape counts for nothing.
func (p *paces) shared(folder State) pace {
	data, err := durable.Read(p.path(folder), 128)
	if err != nil {
		return pace{}
	}
	info, err := os.Lstat(p.path(folder))
	if err != nil {
		return pace{}
	}
	var span string
	var mtime, begun int64
	if _, err := fmt.Sscanf(string(data), "%s %d %d\n", &span, &mtime, &begun); err != nil {
		return pace{}
	}
	took, err := time.ParseDuration(span)
	last := pace{mtime: time.Unix(0, mtime), begun: time.Unix(0, begun), ended: info.ModTime(), took: took}
	if err != nil || took < 0 || took > time.Minute || time.Until(last.ended) > 0 || last.begun.Sub(last.ended) > quiet {
		return pace{}
	}
	return last
}

// Unexpected lists the files in a folder that the ledger does not have there, drops
// that nobody has admitted above all. A folder that is as it was when all in it had been
// dealt with is not listed for it.
func Unexpected(b *Box, folder State) ([]string, error) {
	path := b.path("tasks", string(folder))
	info, err := os.Stat(path)
	if err != nil || b.paces.of(folder).holds(info) {
		return nil, err
	}
	names, err := durable.Names(path)
	if err != nil {
		return nil, err
	}
	unknown, _, err := b.differences(folder, names)
	return unknown, err
}

// survey compares one folder's listing with what the index expects, and looks
// into every difference. A listing only suggests; the verdict is given under
// the task's shard.
func (b *Box) survey(ctx context.Context, folder State, q *quota, r *ScanReport) error {
	path := b.path("tasks", string(folder))
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	p := b.paces.of(folder)
	begun := time.Now()
	if p.holds(info) {
		return nil
	}
	if rest := 10*p.took - begun.Sub(p.ended); rest > 0 {
		r.list = shorter(r.list, rest)
		r.Again = shorter(r.Again, rest)
		return nil
	}
	names, err := durable.Names(path)
	if err != nil {
		return err
	}
	unknown, missing, err := b.differences(folder, names)
	if err != nil {
		return err
	}
	took := time.Since(begun)
	again, err := b.lookAt(ctx, folder, unknown, missing, q, r)
	if err != nil {
		return err
	}
	if again > 0 {
		r.Again = shorter(r.Again, again)
		return nil // not worked off: list again next time
	}
	mtime := info.ModTime()
	if r.stay > 0 {
		mtime = time.Unix(0, 0) // what cannot be moved may be freed without a change of the folder
	}
	b.paces.set(folder, pace{mtime: mtime, begun: begun, ended: time.Now(), took: took}, len(names))
	return nil
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 {
		return b
	}
	return min(a, b)
}

func (b *Box) lookAt(ctx context.Context, folder State, unknown []string, missing []ID, q *quota, r *ScanReport) (again time.Duration, err error) {
	var bad []error
	note := func(name string, came bool, wait time.Duration, err error) {
		switch {
		case wait == stays:
			r.stay++
		case wait == goOn:
			r.list = goOn
		case wait > 0:
			r.later.put(folder, name, came)
		}
		if wait > 0 {
			again = shorter(again, wait)
		}
		bad = append(bad, err)
	}
	var nowhere []ID
	for _, id := range missing {
		wait, err := b.reconciler.lookInto(ctx, id)
		if errors.Is(err, errNowhere) {
			if nowhere = append(nowhere, id); len(nowhere) > byHandAtMost {
				break
			}
			continue
		}
		note(id.File(), false, wait, err)
	}
	if err := b.judgeMissing(ctx, nowhere); err != nil {
		return 0, err
	}
	if folder == Pending {
		q.keep(unknown)
	}
	for i, name := range unknown {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if folder != Pending {
			if !q.putAway(name) {
				note(name, true, goOn, nil)
				break
			}
			wait, err := b.reconciler.stray(ctx, folder, name)
			note(name, true, wait, err)
			continue
		}
		r.Looked++
		wait, err := b.admit(ctx, name, q)
		if err != nil {
			err = fmt.Errorf("%s: %w", schemas.Sentence(name, 80), err)
		}
		note(name, true, wait, err)
		if i%1000 == 999 {
			b.o.Progress("admitting", int64(i+1), int64(len(unknown)))
		}
	}
	return again, errors.Join(bad...) // one bad file does not keep the others out
}

// differences returns the names in a folder that the index does not expect
// there, and the ids that it expects and that are not there. Most of the time
// count and sum of the names' hashes say at once that there are none.
func (b *Box) differences(folder State, names []string) (unknown []string, missing []ID, err error) {
	if err := b.queue.Update(); err != nil {
		return nil, nil, err
	}
	var have queue.Set
	ids := names[:0]
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, ".json") && !task.Ignored(name):
			ids = append(ids, task.TrimJSON(name))
			have.Add(ID(ids[len(ids)-1]))
		case !task.Ignored(name):
			unknown = append(unknown, name)
		}
	}
	if have == b.queue.Holds(folder) {
		return unknown, nil, nil
	}
	known, err := b.expected(folder)
	if err != nil {
		return nil, nil, err
	}
	slices.Sort(ids)
	slices.Sort(known)
	more, missing := apart(ids, known)
	return append(unknown, more...), missing, nil
}

// apart walks two sorted lists of ids, and returns the files of those that only the
// first one has, and those that only the second one has.
func apart(ids []string, known []ID) (unknown []string, missing []ID) {
	i, j := 0, 0
	for i < len(ids) || j < len(known) {
		switch {
		case j == len(known) || i < len(ids) && ids[i] < string(known[j]):
			unknown = append(unknown, ids[i]+".json")
			i++
		case i == len(ids) || ids[i] > string(known[j]):
			missing = append(missing, known[j])
			j++
		default:
			i, j = i+1, j+1
		}
	}
	return unknown, missing
}

// expected lists the ids that the ledger has in a folder. For ended tasks, which
// the queue does not keep, it reads the ledger; Route asks for those seldom.
func (b *Box) expected(folder State) (ids []ID, err error) {
	if folder != Completed && folder != Failed {
		return b.queue.In(folder, func(*queue.Entry) bool { return true })
	}
	var ended history.Endings
	err = b.ledger.Ended(&ended)
	for id, t := range ended.Tasks {
		if t.State == folder {
			ids = append(ids, id)
		}
	}
	return ids, err
}
