package mailbox

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// The model. A task has several guesses while nobody can tell whether an operation
// happened; what is seen later leaves one.

// guess is where a task is, and what decides where it goes from there. Times are
// Unix milliseconds.
type guess struct {
	state          State
	attempt, epoch int64
	until          int64 // the lease's deadline
	ready          int64 // not_before
	progress, last int64 // of its last progress and of its last move
	cancelled      bool
	retried        bool // its last move was a retry out of failed
}

// States of a file that was dropped and not yet looked at.
const (
	goodDrop State = "good drop"
	badDrop  State = "bad drop"
	halfDrop State = "half a drop"
	junkDrop State = "junk"
	putAway  State = "in quarantine"
)

const modelLease, modelAttempts = 10 * time.Minute, 3

// A step is one operation: where it leads, and whether it applies at all.
type stepOf func(f guess, now int64) (guess, bool)

func (f guess) to(s State, now int64) guess {
	f.state, f.last, f.cancelled, f.retried = s, now, false, false
	if s == Pending {
		f.until, f.progress = 0, 0
	}
	return f
}

func stepCreate(f guess, now int64) (guess, bool) { return f.to(Pending, now), f.state == None }

func stepClaim(f guess, now int64) (guess, bool) {
	g := f.to(InProgress, now)
	g.attempt, g.epoch, g.ready, g.until = f.attempt+1, f.epoch+1, 0, now+modelLease.Milliseconds()
	return g, f.state == Pending && f.ready <= now
}

// stepLost is a claim whose worker is dead already.
func stepLost(f guess, now int64) (guess, bool) {
	g, ok := stepClaim(f, now)
	g.until = -1
	return g, ok
}

func stepHeld(epoch int64, s stepOf) stepOf {
	return func(f guess, now int64) (guess, bool) {
		g, _ := s(f, now)
		return g, f.state == InProgress && f.epoch == epoch
	}
}

func stepProgress(f guess, now int64) (guess, bool) {
	if f.progress == 0 || now-f.progress >= 1000 {
		if f.progress = now; f.until >= 0 { // a dead worker's lease is over, whoever speaks for it
			f.until = now + modelLease.Milliseconds()
		}
	}
	return f, true
}

func stepComplete(f guess, now int64) (guess, bool) { return f.to(Completed, now), true }
func stepFail(f guess, now int64) (guess, bool)     { return f.to(Failed, now), true }

func stepTryAgain(f guess, now int64) (guess, bool) {
	if f.attempt >= modelAttempts {
		return f.to(Failed, now), true
	}
	g := f.to(Pending, now)
	g.ready = now
	return g, true
}

func stepRelease(delay int64) stepOf {
	return func(f guess, now int64) (guess, bool) {
		g := f.to(Pending, now)
		if g.attempt--; delay > 0 {
			g.ready = now + delay
		}
		return g, true
	}
}

func stepCancel(f guess, now int64) (guess, bool) {
	g := f.to(Failed, now)
	g.cancelled = true
	if f.state == Failed && f.cancelled {
		return f, true
	}
	return g, f.state == Pending || f.state == InProgress
}

func stepRetry(f guess, now int64) (guess, bool) {
	if f.state == Pending && f.retried {
		return f, true
	}
	g := f.to(Pending, now)
	g.attempt, g.ready, g.retried = 0, 0, true
	return g, f.state == Failed
}

func stepArchive(f guess, now int64) (guess, bool) {
	if (f.state == Completed || f.state == Failed) && f.last <= now {
		return f.to(Archived, now), true
	}
	return f, true
}

// stepScan is what a scan makes of a task or a drop; last is a drop's time.
func stepScan(f guess, now int64) (guess, bool) {
	switch {
	case f.state == goodDrop:
		return f.to(Pending, now), true
	case f.state == badDrop:
		return f.to(Failed, now), true
	case f.state == junkDrop, f.state == halfDrop && now-f.last >= halfWritten.Milliseconds():
		return f.to(putAway, now), true
	}
	return stepReclaim(f, now)
}

func stepReclaim(f guess, now int64) (guess, bool) {
	if f.state == InProgress && now > f.until {
		return stepTryAgain(f, now)
	}
	return f, true
}

// GoString is how rapid prints a drawn task.
func (m *told) GoString() string { return fmt.Sprintf("%s %s %+v", m.title, m.id, m.may) }

// GoString is how rapid prints a drawn claim.
func (h *hold) GoString() string { return fmt.Sprintf("epoch %d of %s", h.epoch, h.t.title) }

// The world in which the model and a mailbox are compared.

// told is a task as its sender knows it. Titles are unique: by its title a task
// is found whose id was never answered.
type told struct {
	title   string
	id      ID
	task    *Task // as it was submitted; nil for a drop
	rank    int
	created int64
	unsure  bool // nobody can tell when it was created
	may     []guess
}

type hold struct {
	claim *Claim
	t     *told
	epoch int64
}

type world struct {
	t     *rapid.T
	b     *Box
	clk   *clock
	dir   string
	tasks []*told
	holds []*hold
	junk  int
	n     int // makes contents unique
	hit   bool
	death bool
	again func() // the last acknowledged verb of a claim, said again
}

func (w *world) options() Options {
	return Options{Now: w.clk.now, Lease: modelLease, MaxAttempts: modelAttempts, RetryBase: time.Nanosecond}
}

func (w *world) now() int64 { return w.clk.now().UnixMilli() }

// run carries out one operation, with a fault injected now and then: a write
// that is not applied, or applied and reported as failed, alone or as the last
// that the process made.
func (w *world) run(t *rapid.T, op func() error) error {
	w.t = t
	w.clk.turn(time.Second)
	at, applied := 0, false
	w.hit, w.death = false, false
	if rapid.IntRange(0, 2).Draw(t, "faulty") == 0 {
		at = rapid.IntRange(1, 16).Draw(t, "write")
		applied, w.death = rapid.Bool().Draw(t, "applied"), rapid.Bool().Draw(t, "death")
	}
	if at == 0 {
		w.death = false
		return op()
	}
	n := 0
	remove := durable.SetFault(func(durable.Op, string) (bool, error) {
		switch n++; {
		case n < at || n > at && !w.death:
			return true, nil
		case n > at:
			return false, errInjected
		}
		w.hit = true
		return applied, errInjected
	})
	err := op()
	remove()
	t.Logf("hit %v at write %d of %d, answer: %v", w.hit, at, n, err)
	w.death = w.death && w.hit
	return err
}

// refused tells errors after which nothing has happened.
func undone(err error) bool {
	var bad *schemas.Error
	for _, e := range []error{ErrConflict, ErrStale, ErrNotFound, audit.ErrUnwritten} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, &bad)
}

// tell brings the model up to what an operation on one task answered.
func (w *world) tell(op string, m *told, err error, steps ...stepOf) {
	var next []guess
	for _, f := range m.may {
		switch {
		case err == nil || errors.Is(err, ErrCommitted):
			next = w.apply(next, f, steps)
		case undone(err) && !errors.Is(err, audit.ErrUnwritten):
			if len(w.apply(nil, f, steps)) == 0 || w.hit {
				next = addGuess(next, f)
			}
		case w.hit && errors.Is(err, audit.ErrUnwritten):
			next = addGuess(next, f)
		case w.hit:
			next = w.apply(addGuess(next, f), f, steps)
		default:
			w.t.Fatalf("%s %s: %v, and no fault was injected", op, m.title, err)
		}
	}
	if len(next) == 0 {
		w.t.Fatalf("%s %s answered %v, but the model has it as %+v", op, m.title, err, m.may)
	}
	m.may = next
	w.afterFault()
}

func (w *world) apply(to []guess, f guess, steps []stepOf) []guess {
	for _, s := range steps {
		if g, ok := s(f, w.now()); ok {
			to = addGuess(to, g)
		}
	}
	return to
}

func addGuess(guesses []guess, f guess) []guess {
	if slices.Contains(guesses, f) {
		return guesses
	}
	return append(guesses, f)
}

// afterFault does what comes after a fault: a process that died is begun anew,
// and a mailbox that became read-only is recovered.
func (w *world) afterFault() {
	if !w.hit {
		return
	}
	readOnly := audit.CheckWritable(w.dir) != nil
	if w.death || readOnly {
		w.close()
	}
	if readOnly {
		if _, err := Recover(context.Background(), w.dir, w.options(), RecoverOptions{AfterIOError: true}); err != nil {
			w.t.Fatalf("recovering after an I/O error: %v", err)
		}
		w.hit = false
		w.all("recover", nil, stepReclaim)
	}
	if w.death || readOnly {
		w.open()
	}
}

// close is the process's death: leases that it held are free.
func (w *world) close() {
	w.b.Close()
	for _, h := range w.holds {
		if h.claim.LeaseFile() == nil {
			continue
		}
		h.claim.Close()
		for i, f := range h.t.may {
			if f.state == InProgress && f.epoch == h.epoch {
				h.t.may[i].until = -1
			}
		}
	}
}

func (w *world) open() {
	b, err := Open(context.Background(), w.dir, w.options())
	if err != nil {
		w.t.Fatalf("opening again: %v", err)
	}
	w.b, w.hit = b, false
}

func (w *world) reopen() { w.close(); w.open() }

func (w *world) fresh(prefix string) string {
	w.n++
	return fmt.Sprintf("%s%d", prefix, w.n)
}

func (w *world) pick(t *rapid.T, fits func(*told) bool) *told {
	var some []*told
	for _, m := range w.tasks {
		if fits(m) {
			some = append(some, m)
		}
	}
	if len(some) == 0 {
		t.Skip("there is none")
	}
	return rapid.SampledFrom(some).Draw(t, "task")
}

// The operations.

func (w *world) submit(t *rapid.T) {
	m := &told{title: w.fresh("submit "), rank: rapid.IntRange(0, 3).Draw(t, "priority"), may: []guess{{}}}
	m.task = request(m.title)
	m.task.Task.Priority = Priorities[m.rank]
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		m.task.ID = ID(w.fresh("s"))
		m.id = m.task.ID
	case 1:
		m.task.Mbox.IdempotencyKey = w.fresh("key")
	}
	w.tasks = append(w.tasks, m)
	m.created = w.now() + 1000
	w.send(t, m, stepCreate)
}

// resend says a submit again: it creates the task if the first did not.
func (w *world) resend(t *rapid.T) {
	m := w.pick(t, func(m *told) bool { return m.task != nil && (m.task.ID != "" || m.task.Mbox.IdempotencyKey != "") })
	if slices.ContainsFunc(m.may, func(f guess) bool { return f.state == None }) {
		m.created, m.unsure = w.now()+1000, len(m.may) > 1
	}
	w.send(t, m, stepCreate, func(f guess, _ int64) (guess, bool) { return f, f.state != None })
}

func (w *world) send(t *rapid.T, m *told, steps ...stepOf) {
	var id ID
	task := *m.task
	err := w.run(t, func() (err error) { id, err = w.b.Submit(context.Background(), &task); return err })
	if err == nil && m.id != "" && id != m.id {
		t.Fatalf("%s was answered with id %s, it has %s", m.title, id, m.id)
	} else if err == nil {
		m.id = id
	}
	w.tell("submit", m, err, steps...)
}

// other submits something else under an id that is stepClaim.
func (w *world) other(t *rapid.T) {
	m := w.pick(t, func(m *told) bool { return m.id != "" && !slices.ContainsFunc(m.may, unborn) })
	task := request(w.fresh("other "))
	task.ID = ID(m.id.Fold())
	if err := w.run(t, func() error { _, err := w.b.Submit(context.Background(), task); return err }); err == nil {
		t.Fatalf("the id of %s was given out again", m.title)
	} else if !errors.Is(err, ErrConflict) && !w.hit {
		t.Fatalf("another task with the id of %s: %v", m.title, err)
	}
	w.afterFault()
}

func unborn(f guess) bool {
	return slices.Contains([]State{None, goodDrop, badDrop, halfDrop, junkDrop, putAway}, f.state)
}

func (w *world) drop(t *rapid.T) {
	state := rapid.SampledFrom([]State{goodDrop, badDrop, halfDrop, junkDrop}).Draw(t, "kind")
	id := ID(w.fresh("d"))
	m := &told{title: "drop " + string(id), id: id, rank: 1}
	text := fmt.Sprintf(`{"task":{"title":%q`, m.title)
	switch state {
	case goodDrop:
		text += `}}`
	case badDrop:
		text += `,"priority":"hihg"}}`
	case junkDrop:
		text = fmt.Sprintf(`[%q]`, m.title)
	}
	m.created, m.may = w.now(), []guess{{state: state, last: w.now()}}
	if state == junkDrop || state == halfDrop {
		w.junk++
	}
	w.tasks = append(w.tasks, m)
	w.write(t, m, text)
}

func (w *world) write(t *rapid.T, m *told, text string) {
	must(t, put(w.b.pending(m.id.file()+".part"), text))
	w.clk.stamp(w.b.pending(m.id.file() + ".part"))
	must(t, os.Rename(w.b.pending(m.id.file()+".part"), w.b.pending(m.id.file())))
}

// finishDrop writes the rest of a file that was half-written.
func (w *world) finishDrop(t *rapid.T) {
	m := w.pick(t, func(m *told) bool { return len(m.may) == 1 && m.may[0].state == halfDrop })
	m.created, m.may[0].state, m.may[0].last = w.now(), goodDrop, w.now()
	w.junk--
	w.write(t, m, fmt.Sprintf(`{"task":{"title":%q}}`, m.title))
}

func (w *world) claim(t *rapid.T) {
	r := ClaimRequest{Agent: "coder", Process: rapid.Bool().Draw(t, "process")}
	var c *Claim
	err := w.run(t, func() (err error) { c, err = w.b.Claim(context.Background(), r); return err })
	switch {
	case err == nil:
		m := w.tasks[slices.IndexFunc(w.tasks, func(m *told) bool { return m.title == c.Task.Task.Title })]
		m.id = c.ID()
		w.best(m)
		w.holds = append(w.holds, &hold{c, m, c.Task.Mbox.Epoch})
		w.tell("claim", m, nil, func(f guess, now int64) (guess, bool) {
			g, ok := stepClaim(f, now)
			return g, ok && g.epoch == c.Task.Mbox.Epoch && g.attempt == c.Task.Mbox.Attempt
		})
		return
	case errors.Is(err, ErrEmpty) && !w.hit:
		for _, m := range w.tasks {
			w.tell("claim", m, fmt.Errorf("%w: %w", ErrConflict, err), stepClaim)
		}
	case !w.hit:
		t.Fatalf("claim: %v", err)
	case !errors.Is(err, audit.ErrUnwritten) && !errors.Is(err, ErrEmpty):
		for _, m := range w.tasks { // whichever it was
			for _, f := range m.may {
				m.may = w.apply(m.may, f, []stepOf{stepClaim, stepLost})
			}
		}
	}
	w.afterFault()
}

// best fails if a task that was certainly to be had goes before the claimed one.
func (w *world) best(m *told) {
	standing := func(m *told) int64 { return min(int64(m.rank)+(w.now()-m.created)/(15*60*1000), 3) }
	for _, o := range w.tasks {
		if o == m || o.id == "" || o.unsure || m.unsure || slices.ContainsFunc(o.may, func(f guess) bool { _, ok := stepClaim(f, w.now()); return !ok }) {
			continue
		}
		a, b := standing(o), standing(m)
		if a > b || a == b && (o.created < m.created || o.created == m.created && o.id < m.id) {
			w.t.Fatalf("%s was claimed before %s", m.title, o.title)
		}
	}
}

func (w *world) verb(t *rapid.T) {
	if len(w.holds) == 0 {
		t.Skip("no claim")
	}
	h := rapid.SampledFrom(w.holds).Draw(t, "claim")
	c, err := w.b.Held(context.Background(), h.claim.ID(), h.claim.Token())
	must(t, err)
	ctx, what := context.Background(), w.fresh("by verb ")
	name := rapid.SampledFrom([]string{"progress", "complete", "complete", "fail", "fail for good", "release"}).Draw(t, "verb")
	var do func(*Claim) error
	var step stepOf
	switch name {
	case "progress":
		do, step = func(c *Claim) error { return c.Progress(ctx, Progress{Message: what}) }, stepProgress
	case "complete":
		text, err := jsontext.AppendQuote(nil, what)
		must(t, err)
		do, step = func(c *Claim) error { return c.Complete(ctx, Result{Output: text}) }, stepComplete
	case "fail":
		do, step = func(c *Claim) error { return c.Fail(ctx, Failure{TaskError: TaskError{Code: "no", Message: what}}) }, stepTryAgain
	case "fail for good":
		do, step = func(c *Claim) error { return c.Fail(ctx, Failure{TaskError: TaskError{Message: what}, Final: true}) }, stepFail
	case "release":
		delay := time.Duration(rapid.IntRange(0, 2).Draw(t, "delay")) * 5 * time.Minute
		do, step = func(c *Claim) error { return c.Release(ctx, what, delay) }, stepRelease(delay.Milliseconds())
	}
	err = w.run(t, func() error { return do(c) })
	if err == nil && name != "progress" {
		w.again = func() {
			c, err := w.b.Held(ctx, h.claim.ID(), h.claim.Token())
			must(w.t, err)
			if err := do(c); err != nil {
				w.t.Fatalf("%s of %s said again: %v", name, h.t.title, err)
			}
		}
	}
	w.tell(name, h.t, err, stepHeld(h.epoch, step))
}

// repeat says an acknowledged verb again, as a script does whose answer was stepLost.
func (w *world) repeat(t *rapid.T) {
	if w.again == nil {
		t.Skip("nothing was said")
	}
	w.t = t
	w.again()
}

func (w *world) known(t *rapid.T) *told {
	return w.pick(t, func(m *told) bool { return m.id != "" && !slices.ContainsFunc(m.may, unborn) })
}

func (w *world) cancel(t *rapid.T) {
	m := w.known(t)
	w.tell("cancel", m, w.run(t, func() error { return w.b.Cancel(context.Background(), m.id, "human", "why") }), stepCancel)
}

func (w *world) retry(t *rapid.T) {
	m := w.known(t)
	w.tell("retry", m, w.run(t, func() error { return w.b.Retry(context.Background(), m.id, "human", "why") }), stepRetry)
}

func (w *world) archive(t *rapid.T) {
	w.all("archive", w.run(t, func() error {
		w.b.forgetPaces()
		if err := w.b.settleAll(context.Background()); err != nil { // as mbox archive does
			return err
		}
		_, err := w.b.Archive(context.Background(), 0, "human")
		return err
	}), stepArchive)
}

func (w *world) scan(t *rapid.T) {
	w.future()
	w.all("scan", w.run(t, func() error { return scanNow(w.b) }), stepScan)
}

// future notes drops whose times lie before them still, since the clock was
// turned back.
func (w *world) future() {
	for _, m := range w.tasks {
		if slices.ContainsFunc(m.may, func(f guess) bool { return f.state == goodDrop && f.last > w.now() }) {
			m.unsure = true
		}
	}
}

// all tells of an operation that goes over all tasks and may have come half way.
func (w *world) all(op string, err error, s stepOf) {
	if err != nil && !w.hit {
		w.t.Fatalf("%s: %v", op, err)
	}
	for _, m := range w.tasks {
		var next []guess
		for _, f := range m.may {
			if err != nil {
				next = addGuess(next, f)
			}
			next = w.apply(next, f, []stepOf{s})
		}
		m.may = next
	}
	w.afterFault()
}

func (w *world) turn(t *rapid.T) {
	w.clk.turn(time.Duration(rapid.IntRange(-120, 1800).Draw(t, "seconds")) * time.Second)
}

// look settles everything and compares all tasks with the model, which from then
// on knows each task's guess.
func (w *world) look(t *rapid.T) {
	w.t = t
	w.future()
	if err := scanNow(w.b); err != nil {
		t.Fatalf("scan: %v", err)
	}
	w.all("scan", nil, stepScan)
	seen := map[string]Item{}
	for it, err := range w.b.List(context.Background(), Filter{States: append(slices.Clone(Folders), Archived)}) {
		must(t, err)
		if it.Err == nil {
			seen[it.Task.Task.Title] = it
		}
	}
	for _, m := range w.tasks {
		it, there := seen[m.title]
		delete(seen, m.title)
		left := slices.DeleteFunc(slices.Clone(m.may), func(f guess) bool { return !f.shows(it, there) })
		if len(left) == 0 {
			t.Fatalf("%s is in %q, which the model excludes: %+v", m.title, it.State, m.may)
		}
		m.may = left
		if there && m.id != "" && it.Task.ID != m.id {
			t.Fatalf("%s has the id %s, its sender was told %s", m.title, it.Task.ID, m.id)
		} else if there {
			m.id = it.Task.ID
		}
	}
	for title := range seen {
		t.Fatalf("there is a task that nobody sent: %s", title)
	}
}

// shows tells whether a listed task can be one of this guess.
func (f guess) shows(it Item, there bool) bool {
	if !there || unborn(f) {
		return !there == (f.state == None || f.state == putAway || f.state == halfDrop)
	}
	m := it.Task.Mbox
	return it.State == f.state && m.Attempt == f.attempt && m.Epoch == f.epoch
}

// finish ends a run: reopened and stepScan, everything acknowledged is visible,
// nothing is left to do, and recovery changes no byte.
func (w *world) finish(t *rapid.T) {
	w.t = t
	w.reopen()
	w.turn(t)
	w.clk.turn(3 * time.Minute) // whatever was half-written, and a clock that was turned back
	w.look(t)
	w.clean()
	w.b.Close()
	before := snapshotOf(t, w.dir)
	if _, err := Recover(context.Background(), w.dir, w.options(), RecoverOptions{}); err != nil {
		t.Fatalf("recover: %v", err)
	}
	if after := snapshotOf(t, w.dir); before != after {
		t.Fatalf("recovering a settled mailbox changed it:\n%s\n%s", before, after)
	}
	whole(t, w.dir)
	for _, h := range w.holds {
		h.claim.Close()
	}
}

// clean fails if something is left that belongs to nothing. The checker says so
// too, but only here does rapid shrink the run that led to it.
func (w *world) clean() {
	names, err := listNames(w.b.path("tasks", "quarantine"))
	must(w.t, err)
	entries := 0
	for _, name := range names {
		if strings.HasSuffix(name, reasonSuffix) {
			continue
		}
		if entries++; !slices.Contains(names, name+reasonSuffix) {
			w.t.Fatalf("quarantine/%s has no reason", name)
		}
	}
	if entries < w.junk {
		w.t.Fatalf("%d entries in quarantine, %d drops were no tasks", entries, w.junk)
	}
	staged, err := stagedNames(w.dir)
	must(w.t, err)
	if len(staged) > 0 {
		w.t.Fatalf("staged files are left: %v", staged)
	}
	leases, err := w.b.leases()
	must(w.t, err)
	for _, name := range leases {
		id, token, _ := leaseOf(name)
		if task, state, err := w.b.Task(context.Background(), id); err != nil || state != InProgress || task.Mbox.Lease.Token != token {
			w.t.Fatalf("lease %s is left, its task is %s: %v", name, state, err)
		}
	}
}

// snapshotOf is the names and hashes of what a mailbox keeps.
func snapshotOf(t *rapid.T, dir string) (text string) {
	for _, top := range []string{"tasks", "audit", ".mbox/tmp", ".mbox/leases"} {
		must(t, filepath.WalkDir(filepath.Join(dir, top), func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				var s sight
				s, err = look(path)
				text += path[len(dir):] + " " + s.hash + "\n"
			}
			return err
		}))
	}
	return text
}

// TestModel runs random sequences of operations, with faults, against the model.
func TestModel(t *testing.T) {
	place, n := t.TempDir(), 0
	all := map[string]string{}
	rapidChecks(t, 60, 1500)
	rapid.Check(t, func(rt *rapid.T) {
		n++
		w := &world{t: rt, clk: newClock(), dir: filepath.Join(place, fmt.Sprint(n))}
		w.clk.turn(time.Hour) // ahead of the files' times, which are real
		must(rt, Create(w.dir, Options{Sync: durable.None}))
		b, err := Open(context.Background(), w.dir, w.options())
		must(rt, err)
		w.b = b
		defer func() { w.b.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"submit": w.submit, "resend": w.resend, "other": w.other,
			"drop": w.drop, "finish drop": w.finishDrop,
			"claim": w.claim, "claim too": w.claim, "verb": w.verb, "verb too": w.verb, "again": w.repeat,
			"cancel": w.cancel, "retry": w.retry, "archive": w.archive,
			"scan": w.scan, "look": w.look, "clock": w.turn,
			"reopen": func(t *rapid.T) { w.t = t; w.reopen() },
		})
		w.finish(rt)
		all[w.dir] = fmt.Sprint("run ", n)
	})
	if !t.Failed() {
		lintAll(t, all)
	}
}

// rapidChecks sets the number of runs, unless the command line does.
func rapidChecks(t *testing.T, normal, long int) {
	t.Helper()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if given {
		return
	}
	if os.Getenv("MBOX_LONG") != "" {
		normal = long
	}
	must(t, flag.Set("rapid.checks", fmt.Sprint(normal)))
}

// TestRecoverAtEveryWrite is the crash test with full recovery in place of the
// settling that opening does: a restart of the machine, or mbox recover.
func TestRecoverAtEveryWrite(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: takes some seconds")
	}
	ctx := context.Background()
	for _, sc := range scenes {
		t.Run(sc.name, func(t *testing.T) {
			all := map[string]string{}
			for _, applied := range []bool{false, true} {
				for k := 1; !applied || os.Getenv("MBOX_LONG") != ""; k++ {
					o := Options{RetryBase: time.Nanosecond}
					dir := filepath.Join(t.TempDir(), "home")
					must(t, Create(dir, Options{Sync: durable.None}))
					b, err := Open(ctx, dir, o)
					must(t, err)
					prior := sc.before(t, b)
					n, hit := 0, ""
					remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
						switch n++; {
						case n < k:
							return true, nil
						case n > k:
							return false, errInjected
						}
						hit = fmt.Sprintf("death at write %d (%s %s), applied %v", k, op, filepath.Base(path), applied)
						return applied, errInjected
					})
					said := sc.verb(ctx, b, prior)
					remove()
					b.Close()
					if hit == "" {
						break
					}
					_, err = Recover(ctx, dir, o, RecoverOptions{AfterIOError: audit.CheckWritable(dir) != nil})
					if err != nil {
						t.Fatalf("%s: recover: %v", hit, err)
					}
					if b, err = Open(ctx, dir, o); err != nil {
						t.Fatalf("%s: opening: %v", hit, err)
					}
					if err := scanNow(b); err != nil {
						t.Errorf("%s: scan: %v", hit, err)
					}
					if (said == nil || errors.Is(said, ErrCommitted)) && !sc.holds(t, b, prior) {
						t.Errorf("%s: the verb said %v, and its effect is not there", hit, said)
					}
					b.Close()
					whole(t, dir)
					all[dir] = fmt.Sprintf("%s; verb said: %v", hit, said)
				}
			}
			lintAll(t, all)
		})
	}
}

// TestLeaseOfAFailedClaim: the lease file of a claim that came to nothing does
// not outlive the next claim.
func TestLeaseOfAFailedClaim(t *testing.T) {
	all := homes{}
	for k := 1; k < 12; k++ {
		b := all.open(t, Options{})
		all[b.Home()] = fmt.Sprint("write ", k)
		submitted(t, b)
		n := 0
		remove := durable.SetFault(func(durable.Op, string) (bool, error) {
			if n++; n == k {
				return false, errInjected
			}
			return true, nil
		})
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
		remove()
		if err == nil {
			c.Close()
		}
		if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); err != nil && !errors.Is(err, ErrEmpty) {
			t.Errorf("after a fault at write %d: %v", k, err)
		}
		mustScan(t, b)
	}
	lintAll(t, all)
}
