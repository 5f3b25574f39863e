package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// States of a file that was dropped and not yet looked at, and of one that is no
// task.
const (
	goodDrop State = "good drop"
	badDrop  State = "bad drop"
	halfDrop State = "half a drop"
	junkDrop State = "junk"
	putAway  State = "in quarantine"
)

// memVerb is a verb of the model.
type memVerb func(m mem, now int64) (mem, error)

// heldBy makes a verb of one that a claim says.
func heldBy(epoch int64, verb func(m mem, now int64) mem) memVerb {
	return func(m mem, now int64) (mem, error) { return m.held(epoch, verb(m, now)) }
}

// scanned is a scan of the model, of a task or of a file.
func scanned(m mem, now int64) (mem, error) {
	switch {
	case m.state == goodDrop:
		return m.to(Pending, now), nil
	case m.state == badDrop:
		n := m.to(Failed, now)
		n.rejected = true
		return n, nil
	case m.state == junkDrop, m.state == halfDrop && now-m.last >= halfWritten.Milliseconds():
		return m.to(putAway, now), nil
	}
	return m.scan(now)
}

// GoString is how rapid prints a drawn task.
func (m *told) GoString() string { return fmt.Sprintf("%s %s %+v", m.title, m.id, m.may) }

// GoString is how rapid prints a drawn claim.
func (h *hold) GoString() string { return fmt.Sprintf("epoch %d of %s", h.epoch, h.t.title) }

// The world in which the model and a mailbox are compared.

// told is a task as its sender knows it. Titles are unique: by its title a task
// is found whose id was never answered.
type told struct {
	title  string
	id     ID
	task   *Task // as it was submitted; nil for a drop
	unsure bool  // nobody can tell when it was created
	// may is what it may be: more than one thing while nobody can tell whether an
	// operation has happened. What is seen later leaves one.
	may []mem
}

// name notes the id, once it is known.
func (m *told) name(id ID) {
	m.id = id
	for i := range m.may {
		m.may[i].id = id
	}
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
	kept  int // drops that are no tasks, and late results
	n     int // makes contents unique
	hit   bool
	death bool
	again func() // the last acknowledged verb of a claim, said again
}

func (w *world) options() Options {
	return Options{Now: w.clk.now, Lease: time.Duration(memLease) * time.Millisecond, MaxAttempts: memAttempts, RetryBase: time.Nanosecond}
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

// undone tells errors after which nothing has happened.
func undone(err error) bool {
	var bad *schemas.Error
	for _, e := range []error{ErrEmpty, ErrConflict, ErrStale, ErrNotFound, audit.ErrUnwritten} {
		if errors.Is(err, e) {
			return true
		}
	}
	return errors.As(err, &bad)
}

// tell brings the model up to what an operation on one task answered.
func (w *world) tell(op string, m *told, err error, v memVerb) {
	var next []mem
	for _, f := range m.may {
		g, said := v(f, w.now())
		switch {
		case err == nil || errors.Is(err, ErrCommitted):
			if said == nil {
				next = addGuess(next, g)
			}
		case w.hit && (undone(err) || said != nil):
			next = addGuess(next, f)
		case w.hit:
			next = addGuess(addGuess(next, f), g)
		case !undone(err):
			w.t.Fatalf("%s %s: %v, and no fault was injected", op, m.title, err)
		case said != nil && errors.Is(err, said):
			next = addGuess(next, f)
		}
	}
	if len(next) == 0 {
		w.t.Fatalf("%s %s answered %v, but the model has it as %+v", op, m.title, err, m.may)
	}
	m.may = next
	w.afterFault()
}

func addGuess(guesses []mem, f mem) []mem {
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
		w.all("recover", nil, mem.scan)
	}
	if w.death || readOnly {
		w.open()
	}
}

// close is the process's death: leases that it held are free.
func (w *world) close() {
	w.b.Close()
	for _, h := range w.holds {
		if h.claim.lease == nil {
			continue
		}
		h.claim.Close()
		for i, f := range h.t.may {
			if f.state == InProgress && f.epoch == h.epoch {
				h.t.may[i].until = 0
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

// look settles everything and compares all tasks with the model, which from then
// on knows what each task is.
func (w *world) look(t *rapid.T) {
	w.t = t
	w.future()
	if err := scanNow(w.b); err != nil {
		t.Fatalf("scan: %v", err)
	}
	w.all("scan", nil, scanned)
	seen := map[string]Item{}
	for it, err := range w.b.List(context.Background(), Filter{States: append(slices.Clone(task.Folders), Archived)}) {
		must(t, err)
		if it.Err == nil {
			seen[it.Task.Task.Title] = it
		}
	}
	for _, m := range w.tasks {
		it, there := seen[m.title]
		delete(seen, m.title)
		left := slices.DeleteFunc(slices.Clone(m.may), func(f mem) bool { return !f.shows(it, there) })
		if len(left) == 0 {
			t.Fatalf("%s is in %q, which the model excludes: %+v", m.title, it.State, m.may)
		}
		m.may = left
		if there && m.id != "" && it.Task.ID != m.id {
			t.Fatalf("%s has the id %s, its sender was told %s", m.title, it.Task.ID, m.id)
		} else if there {
			m.name(it.Task.ID)
		}
	}
	for title := range seen {
		t.Fatalf("there is a task that nobody sent: %s", title)
	}
}

// shows tells whether a listed task can be this one.
func (f mem) shows(it Item, there bool) bool {
	if !there || unborn(f) {
		return !there == (f.state == None || f.state == putAway || f.state == halfDrop)
	}
	m := it.Task.Mbox
	return it.State == f.state && m.Attempt == f.attempt && m.Epoch == f.epoch
}

// finish ends a run: reopened and scanned, everything acknowledged is visible,
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
	names, err := durable.Names(w.b.path("tasks", "quarantine"))
	must(w.t, err)
	entries := 0
	for _, name := range names {
		if strings.HasSuffix(name, home.ReasonSuffix) {
			continue
		}
		if entries++; !slices.Contains(names, name+home.ReasonSuffix) {
			w.t.Fatalf("quarantine/%s has no reason", name)
		}
	}
	if entries < w.kept {
		w.t.Fatalf("%d entries in quarantine, %d drops were no tasks or results came late", entries, w.kept)
	}
	staged, err := home.StagedNames(w.dir)
	must(w.t, err)
	if len(staged) > 0 {
		w.t.Fatalf("staged files are left: %v", staged)
	}
	leases, err := home.LeaseNames(w.b.home)
	must(w.t, err)
	for _, name := range leases {
		id, _ := home.LeaseOf(name)
		if task, state, err := w.b.Task(context.Background(), id); err != nil || state != InProgress || home.LeaseName(id, task.Mbox.Lease.Token) != name {
			w.t.Fatalf("lease %s is left, its task is %s: %v", name, state, err)
		}
	}
}

// snapshotOf is the names and hashes of what a mailbox keeps.
func snapshotOf(t *rapid.T, dir string) (text string) {
	for _, top := range []string{"tasks", "audit", ".mbox/tmp", ".mbox/leases"} {
		must(t, filepath.WalkDir(filepath.Join(dir, top), func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				var s home.Sight
				s, err = home.Look(path)
				text += path[len(dir):] + " " + s.Hash + "\n"
			}
			return err
		}))
	}
	return text
}
