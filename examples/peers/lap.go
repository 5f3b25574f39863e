package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	bodySize   = 1536 // of every task
	serialSize = 24   // what a body begins with
	pause      = 200 * time.Microsecond
)

// A lap is one peer at work. Goroutines: every worker submits a task, claims one
// (its own or another's) and completes it, over and over. Processes: half of
// them submit, the others claim and complete.
type lap struct {
	peer    *peer
	dir     string        // an empty folder, or
	filled  []string      // the serials of the tasks in it, which a worker drains as long as there is time
	workers int           // in all
	first   int           // the number of this process's first worker
	time    time.Duration // how long, or
	tasks   int64         // how many tasks in all where that is not 0
	trace   string        // where strace counts the calls of the processes; "" without it
}

// A score is what a lap has done.
type score struct {
	Sent    []string      // the serials that were acknowledged
	Done    []string      // the serials whose completion was acknowledged
	Took    time.Duration // from the first submit to the last completion
	used                  // by all processes that took part, servers included
	Empties int64         // claims that found nothing
	Apart   used          // what opening in processes and checking took, which is not counted
}

func (s *score) rate() float64 { return float64(len(s.Done)) / s.Took.Seconds() }

func (s *score) cpu() float64 { return float64(s.CPU.Microseconds()) / float64(len(s.Done)) }

// patience is how long a lap may go on after its time. A queue that has lost a
// task leaves a worker waiting for it.
const patience = 2 * time.Minute

var errStuck = fmt.Errorf("still at work %v after the end: a task is lost", patience)

// run runs the lap and checks its end: whatever was acknowledged as sent was
// completed exactly once, and the peer says the same of itself.
func (l *lap) run(ctx context.Context) (*score, error) {
	begun := usage()
	if l.filled == nil {
		if err := l.peer.create(l.dir); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, l.time+patience, errStuck)
	defer cancel()
	race := l.goroutines
	if l.peer.processes {
		race = l.children
	}
	s, t, err := race(ctx)
	if err == nil && l.filled != nil {
		s.leave(&t)
	}
	if err == nil {
		err = s.check(t)
	}
	if err != nil {
		return nil, err
	}
	s.used = usage().without(begun).without(s.Apart)
	return s, nil
}

// used is what work has taken of the machine.
type used struct {
	CPU      time.Duration
	Switches int64 // voluntary context switches
}

func (u used) without(o used) used { return used{u.CPU - o.CPU, u.Switches - o.Switches} }

func (u used) with(o used) used { return used{u.CPU + o.CPU, u.Switches + o.Switches} }

// usage is what this process and its ended children have used.
func usage() (u used) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var r syscall.Rusage
		if syscall.Getrusage(who, &r) == nil {
			u.CPU += time.Duration(r.Utime.Nano() + r.Stime.Nano())
			u.Switches += int64(r.Nvcsw)
		}
	}
	return u
}

func (l *lap) goroutines(ctx context.Context) (s *score, t tally, err error) {
	q, err := l.peer.open(ctx, l.dir, l.workers)
	if err != nil {
		return nil, t, err
	}
	defer func() { err = errors.Join(err, q.close()) }()
	if s, err = l.race(ctx, q, l.workers); err != nil {
		return nil, t, err
	}
	err = s.apart(func() error {
		t, err = q.tally(ctx)
		return err
	})
	return s, t, err
}

// apart does what is not counted.
func (s *score) apart(f func() error) error {
	begun := usage()
	err := f()
	s.Apart = s.Apart.with(usage().without(begun))
	return err
}

// race lets the workers of this process run.
func (l *lap) race(ctx context.Context, q queue, workers int) (*score, error) {
	r := &runner{lap: l, scores: make([]score, workers)}
	ws, err := r.hire(ctx, q, workers)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	begun := time.Now()
	r.deadline = begun.Add(l.time)
	var wg sync.WaitGroup
	for i, w := range ws {
		wg.Go(func() {
			if err := r.work(ctx, w, i); err != nil {
				cancel(err) // the others would wait for its task
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := q.drain(ctx); err != nil {
		return nil, err
	}
	s := r.sum()
	s.Took = time.Since(begun)
	for _, w := range ws {
		err = errors.Join(err, w.close())
	}
	return s, err
}

type runner struct {
	*lap
	deadline time.Time
	drawn    atomic.Int64
	scores   []score // one for each worker
}

func (r *runner) hire(ctx context.Context, q queue, workers int) ([]worker, error) {
	var ws []worker
	for i := range workers {
		w, err := q.worker(ctx, r.first+i)
		if err != nil {
			return nil, fmt.Errorf("worker %d: %w", i, err)
		}
		ws = append(ws, w)
	}
	return ws, nil
}

// more tells whether another task is to be sent.
func (r *runner) more() bool {
	if r.tasks > 0 {
		return r.drawn.Add(1) <= r.tasks
	}
	return time.Now().Before(r.deadline)
}

func (r *runner) work(ctx context.Context, w worker, i int) error {
	s := &r.scores[i]
	for n := 0; r.more(); n++ {
		body := newBody(r.first+i, n)
		if err := w.submit(ctx, body); err != nil {
			return fmt.Errorf("submit: %w", err)
		}
		s.Sent = append(s.Sent, serialOf(body))
		j, err := claim(ctx, w, s)
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		if len(j.body) != bodySize {
			return fmt.Errorf("claim: %d bytes came back, %d were sent", len(j.body), bodySize)
		}
		if err := w.complete(ctx, j); err != nil {
			return fmt.Errorf("complete: %w", err)
		}
		s.Done = append(s.Done, serialOf(j.body))
	}
	return nil
}

// claim waits until there is a task. There always is one: a worker claims only
// after it has sent one.
func claim(ctx context.Context, w worker, s *score) (job, error) {
	for {
		j, err := w.claim(ctx)
		if !errors.Is(err, errEmpty) {
			return j, err
		}
		s.Empties++
		select {
		case <-ctx.Done():
			return job{}, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

func newBody(worker, n int) []byte {
	serial := fmt.Sprintf("%-*s", serialSize, fmt.Sprintf("task %d of worker %d", n, worker))
	return []byte(strings.ReplaceAll(serial, " ", ".") + strings.Repeat("x", bodySize-serialSize))
}

func serialOf(body []byte) string { return string(body[:serialSize]) }

func (r *runner) sum() *score {
	s := new(score)
	for _, one := range r.scores {
		s.add(&one)
	}
	return s
}

func (s *score) add(o *score) {
	s.Sent = append(s.Sent, o.Sent...)
	s.Done = append(s.Done, o.Done...)
	s.Took = max(s.Took, o.Took)
	s.Empties += o.Empties
	s.Apart = s.Apart.with(o.Apart)
}

// leave takes what was not done in its time from what was sent and from what the
// queue says is left.
func (s *score) leave(t *tally) {
	done := map[string]bool{}
	for _, serial := range s.Done {
		done[serial] = true
	}
	all := len(s.Sent)
	s.Sent = slices.DeleteFunc(s.Sent, func(serial string) bool { return !done[serial] })
	t.left -= int64(all - len(s.Sent))
}

// check fails for a queue that lost or doubled a task, or disagrees with us.
func (s *score) check(t tally) error {
	sent, done := slices.Sorted(slices.Values(s.Sent)), slices.Sorted(slices.Values(s.Done))
	if len(sent) == 0 {
		return errors.New("not one task was done")
	}
	if !slices.Equal(sent, done) {
		return fmt.Errorf("%d tasks were sent and %d done, or not the same ones", len(sent), len(done))
	}
	if n := len(slices.Compact(done)); n != len(sent) {
		return fmt.Errorf("%d tasks were done more than once", len(sent)-n)
	}
	if t.left != 0 || t.done != -1 && t.done != int64(len(sent)) {
		return fmt.Errorf("%d tasks were done, but the queue says %d left and %d done", len(sent), t.left, t.done)
	}
	return nil
}

// emptyDir makes a folder for a lap.
func emptyDir(root string) (string, error) { return os.MkdirTemp(root, "lap-") }
