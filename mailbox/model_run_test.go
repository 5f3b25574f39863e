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
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// TestModel runs random sequences of operations, with faults, against the model.
func TestModel(t *testing.T) {
	place, n := t.TempDir(), 0
	all := map[string]string{}
	rapidFlags(t, amount(120, 120, 3000))
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

// rapidFlags sets the number of runs and the seed, unless the command line does.
func rapidFlags(t *testing.T, checks int) {
	t.Helper()
	set := map[string]string{"rapid.checks": fmt.Sprint(checks), "rapid.seed": fmt.Sprint(seedOf(t)), "rapid.nofailfile": "true"} // the seed draws it again
	for _, name := range commanded() {
		delete(set, name)
	}
	for name, value := range set {
		must(t, flag.Set(name, value))
	}
}

// commanded are the flags of the command line: what rapidFlags sets for one test
// may not count as such for the next.
var commanded = sync.OnceValue(func() (names []string) {
	flag.Visit(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
})

// The operations.

func (w *world) submit(t *rapid.T) {
	rank := rapid.IntRange(0, 3).Draw(t, "priority")
	m := &told{title: w.fresh("submit "), may: []mem{{rank: int64(rank)}}}
	m.task = request(m.title)
	m.task.Task.Priority = task.Priorities[rank]
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		m.task.ID = ID(w.fresh("s"))
		m.name(m.task.ID)
	case 1:
		m.task.Mbox.IdempotencyKey = w.fresh("key")
	}
	w.tasks = append(w.tasks, m)
	w.send(t, m)
}

// resend says a submit again: it creates the task if the first did not.
func (w *world) resend(t *rapid.T) {
	m := w.pick(t, func(m *told) bool { return m.task != nil && (m.task.ID != "" || m.task.Mbox.IdempotencyKey != "") })
	w.send(t, m)
}

func (w *world) send(t *rapid.T, m *told) {
	var id ID
	task := *m.task
	err := w.run(t, func() (err error) { id, err = w.b.Submit(context.Background(), &task); return err })
	if err == nil && m.id != "" && id != m.id {
		t.Fatalf("%s was answered with id %s, it has %s", m.title, id, m.id)
	} else if err == nil {
		m.name(id)
	}
	w.tell("submit", m, err, mem.submit)
}

// other submits something else under an id that is taken.
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

func unborn(f mem) bool {
	return slices.Contains([]State{None, goodDrop, badDrop, halfDrop, junkDrop, putAway}, f.state)
}

func (w *world) drop(t *rapid.T) {
	state := rapid.SampledFrom([]State{goodDrop, badDrop, halfDrop, junkDrop}).Draw(t, "kind")
	id := ID(w.fresh("d"))
	m := &told{title: "drop " + string(id), id: id}
	text := fmt.Sprintf(`{"task":{"title":%q`, m.title)
	switch state {
	case goodDrop:
		text += `}}`
	case badDrop:
		text += `,"priority":"hihg"}}`
	case junkDrop:
		text = fmt.Sprintf(`[%q]`, m.title)
	}
	m.may = []mem{{id: id, state: state, rank: 1, created: w.now(), last: w.now()}}
	if state == junkDrop || state == halfDrop {
		w.kept++
	}
	w.tasks = append(w.tasks, m)
	w.write(t, m, text)
}

func (w *world) write(t *rapid.T, m *told, text string) {
	must(t, put(w.b.pending(m.id.File()+".part"), text))
	w.clk.stamp(w.b.pending(m.id.File() + ".part"))
	must(t, os.Rename(w.b.pending(m.id.File()+".part"), w.b.pending(m.id.File())))
}

// finishDrop writes the rest of a file that was half-written.
func (w *world) finishDrop(t *rapid.T) {
	m := w.pick(t, func(m *told) bool { return len(m.may) == 1 && m.may[0].state == halfDrop })
	m.may[0].state, m.may[0].created, m.may[0].last = goodDrop, w.now(), w.now()
	w.kept--
	w.write(t, m, fmt.Sprintf(`{"task":{"title":%q}}`, m.title))
}

func (w *world) claim(t *rapid.T) {
	r := ClaimRequest{Agent: "coder", Process: rapid.Bool().Draw(t, "process")}
	var c *Claim
	err := w.run(t, func() (err error) { c, err = w.b.Claim(context.Background(), r); return err })
	switch {
	case err == nil:
		m := w.tasks[slices.IndexFunc(w.tasks, func(m *told) bool { return m.title == c.Task.Task.Title })]
		m.name(c.ID())
		w.best(m)
		w.holds = append(w.holds, &hold{c, m, c.Task.Mbox.Epoch})
		w.tell("claim", m, nil, func(f mem, now int64) (mem, error) {
			g, err := f.claim(now)
			if err == nil && (g.epoch != c.Task.Mbox.Epoch || g.attempt != c.Task.Mbox.Attempt) {
				err = errOther
			}
			return g, err
		})
		return
	case errors.Is(err, ErrEmpty) && !w.hit:
		for _, m := range w.tasks {
			w.tell("claim", m, err, mem.claim)
		}
	case !w.hit:
		t.Fatalf("claim: %v", err)
	case !undone(err):
		for _, m := range w.tasks { // whichever it was; its worker lives or is dead already
			for _, f := range m.may {
				if g, err := f.claim(w.now()); err == nil {
					dead := g
					dead.until = 0
					m.may = addGuess(addGuess(m.may, g), dead)
				}
			}
		}
	}
	w.afterFault()
}

var errOther = errors.New("another attempt or epoch")

// best fails if a task that was certainly to be had goes before the claimed one.
func (w *world) best(m *told) {
	now := w.now()
	for _, o := range w.tasks {
		if o == m || o.id == "" || o.unsure || m.unsure {
			continue
		}
		sooner := func(f mem) bool {
			_, err := f.claim(now)
			return err == nil && !slices.ContainsFunc(m.may, func(g mem) bool { return !f.before(g, now) })
		}
		if !slices.ContainsFunc(o.may, func(f mem) bool { return !sooner(f) }) {
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
	var step func(mem, int64) mem
	switch name {
	case "progress":
		do, step = func(c *Claim) error { return c.Progress(ctx, Progress{Message: what}) }, mem.report
	case "complete":
		text, err := jsontext.AppendQuote(nil, what)
		must(t, err)
		do, step = func(c *Claim) error { return c.Complete(ctx, Result{Output: text}) }, memTo(Completed)
	case "fail":
		do, step = func(c *Claim) error { return c.Fail(ctx, Failure{TaskError: TaskError{Code: "no", Message: what}}) }, mem.fail
	case "fail for good":
		do, step = func(c *Claim) error { return c.Fail(ctx, Failure{TaskError: TaskError{Message: what}, Final: true}) }, memTo(Failed)
	case "release":
		delay := time.Duration(rapid.IntRange(0, 2).Draw(t, "delay")) * 5 * time.Minute
		do = func(c *Claim) error { return c.Release(ctx, what, delay) }
		step = func(m mem, now int64) mem {
			if delay > 0 {
				return m.release(now, now+delay.Milliseconds())
			}
			return m.release(now, 0)
		}
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
	if errors.Is(err, ErrStale) && !w.hit && (name == "complete" || strings.HasPrefix(name, "fail")) {
		w.kept++ // a late result
	}
	w.tell(name, h.t, err, heldBy(h.epoch, step))
}

func memTo(s State) func(mem, int64) mem {
	return func(m mem, now int64) mem { return m.to(s, now) }
}

// repeat says an acknowledged verb again, as a script does whose answer was lost.
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
	w.tell("cancel", m, w.run(t, func() error { return w.b.Cancel(context.Background(), m.id, "human", "why") }), mem.cancel)
}

func (w *world) retry(t *rapid.T) {
	m := w.known(t)
	w.tell("retry", m, w.run(t, func() error { return w.b.Retry(context.Background(), m.id, "human", "why") }), mem.retry)
}

func (w *world) archive(t *rapid.T) {
	w.all("archive", w.run(t, func() error {
		w.b.forgetPaces()
		if err := w.b.settleAll(context.Background()); err != nil { // as mbox archive does
			return err
		}
		_, err := w.b.Archive(context.Background(), 0, "human")
		return err
	}), mem.archive)
}

func (w *world) scan(t *rapid.T) {
	w.future()
	w.all("scan", w.run(t, func() error { return scanNow(w.b) }), scanned)
}

// future notes drops whose times lie before them still, since the clock was
// turned back.
func (w *world) future() {
	for _, m := range w.tasks {
		if slices.ContainsFunc(m.may, func(f mem) bool { return f.state == goodDrop && f.last > w.now() }) {
			m.unsure = true
		}
	}
}

// all tells of an operation that goes over all tasks and may have come half way.
func (w *world) all(op string, err error, v memVerb) {
	if err != nil && !w.hit {
		w.t.Fatalf("%s: %v", op, err)
	}
	for _, m := range w.tasks {
		var next []mem
		for _, f := range m.may {
			if err != nil {
				next = addGuess(next, f)
			}
			g, _ := v(f, w.now())
			next = addGuess(next, g)
		}
		m.may = next
	}
	w.afterFault()
}

func (w *world) turn(t *rapid.T) {
	w.clk.turn(time.Duration(rapid.IntRange(-120, 1800).Draw(t, "seconds")) * time.Second)
}
