package agents

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox"
)

// A worker that loses its lease all the same, here because its clock stands still,
// has its command killed for it, even though it is full and no router is up.
func TestLostLease(t *testing.T) {
	t.Parallel()
	var at atomic.Int64
	at.Store(time.Now().UnixNano())
	stands := func() time.Time { return time.Unix(0, at.Load()) }
	s := newScene(t, mailbox.Options{Lease: time.Minute, MaxAttempts: 2, Now: stands})
	id := s.submit("x")
	s.run(s.worker(`echo $$ >$OUT/pid$MBOX_ATTEMPT; sleep 1000 & wait`))
	for _, name := range []string{"pid1", "pid2"} {
		pid := s.pid(name)
		at.Add(int64(time.Hour))
		until(t, name+" is dead", func() bool { return dead(pid) })
		until(t, name+" is forgotten", func() bool { _, state := s.task(id); return state != mailbox.InProgress })
		at.Add(int64(time.Second)) // the retry waits that long at most
	}
	s.untilState(id, mailbox.Failed)
	s.wantFailed(id, "lease_expired", "")
	// Who took the task back has killed the command, unless the worker was first.
	until(t, "both attempts forgotten", func() bool { return strings.Count(s.log.String(), "the claim is over") == 2 })
	if got := s.events(id); slices.Contains(got, audit.TaskLateResult) {
		t.Errorf("what the mailbox had ended was called late: %v", got)
	}
}

// A task that is taken away from its agent ends the attempt at it, though that is a line of
// the agent's own.
func TestTakenAway(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	s.run(s.worker(`test -e $OUT/pid && exit; trap '' TERM; echo $$ >$OUT/pid; while :; do sleep 0.01; done`))
	pid := s.pid("pid")
	other := s.another()
	held, _, err := other.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	claim, err := other.Held(t.Context(), id, held.Mbox.Lease.Token)
	if err != nil {
		t.Fatal(err)
	}
	if err := claim.Release(t.Context(), TakenAway, 0); err != nil {
		t.Fatal(err)
	}
	until(t, "killed", func() bool { return dead(pid) })
	s.untilState(id, mailbox.Completed)
}

// A stranger's mv ends a claim too, and nobody but the worker kills then.
func TestMovedByHand(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	s.run(s.worker(`trap '' TERM; echo $$ >$OUT/pid; while :; do sleep 0.01; done`))
	pid := s.pid("pid")
	at := func(state mailbox.State) string {
		return filepath.Join(s.box.Home(), "tasks", string(state), string(id)+".json")
	}
	if err := os.Rename(at(mailbox.InProgress), at(mailbox.Failed)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.another().Scan(context.Background()); err != nil {
		t.Fatal(err)
	}
	until(t, "killed", func() bool { return dead(pid) })
	s.untilState(id, mailbox.Failed)
	until(t, "forgotten", func() bool { return strings.Contains(s.log.String(), "reconcile by mbox") })
}

// A result that comes when the claim has ended is handed in all the same, and
// the mailbox keeps it as evidence; one that is empty is not.
func TestLateResult(t *testing.T) {
	t.Parallel()
	for output, want := range map[string]bool{"a result": true, "": false} {
		t.Run(output, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{})
			id := s.submit("x")
			a := s.attempt("unused")
			fmt.Fprint(a.stdout, output)
			if err := s.another().Cancel(t.Context(), id, "human", "no longer needed"); err != nil {
				t.Fatal(err)
			}
			a.conclude(t.Context(), ending{})
			if got := slices.Contains(s.events(id), audit.TaskLateResult); got != want {
				t.Errorf("kept as late: %v", got)
			}
			s.wantFailed(id, "cancelled", "no longer needed")
		})
	}
}

// Which lines of the ledger end an attempt's claim.
func TestLinesThatEndAClaim(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	w := s.begun("unused")
	id := s.submit("x")
	claim, err := s.box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		event   audit.Event
		agent   string
		task    mailbox.ID
		details string
		want    bool
	}{
		"cancelled":           {audit.TaskCancelled, "human", id, `{"to":"failed","epoch":1}`, true},
		"cancelled by itself": {audit.TaskCancelled, "coder", id, `{"to":"failed","epoch":1}`, true},
		"reclaimed":           {audit.TaskRetried, "mbox", id, `{"to":"pending","epoch":1}`, true},
		"moved by hand":       {audit.Reconcile, "mbox", id, `{"to":"completed","epoch":1}`, true},
		"of a claim before":   {audit.TaskRetried, "mbox", id, `{"to":"pending","epoch":0}`, false},
		"of the next claim":   {audit.TaskRetried, "mbox", id, `{"to":"pending","epoch":2}`, false},
		"of another task":     {audit.TaskCancelled, "human", "other", `{"to":"failed","epoch":1}`, false},
		"progress":            {audit.TaskProgress, "coder", id, `{"to":"in-progress","epoch":1}`, false},
		"with its token":      {audit.TaskCompleted, "coder", id, `{"to":"completed","epoch":1}`, false},
		"moves nothing":       {audit.ErrorEvent, "mbox", id, `{"alarm":"edited"}`, false},
	} {
		a := newAttempt(t.Context(), w, claim)
		w.running = map[*attempt]bool{a: true}
		task := string(c.task)
		w.read(&audit.Entry{Agent: c.agent, Event: c.event, TaskID: &task, Details: []byte(c.details)})
		if got := a.live.Err() != nil; got != c.want {
			t.Errorf("%s: ends the claim: %v", name, got)
		}
		if want := string(c.event) + " by " + c.agent; c.want && a.lapsed() != want {
			t.Errorf("%s: got %q, want %q", name, a.lapsed(), want)
		}
	}
	if err := claim.Complete(t.Context(), mailbox.Result{}); err != nil {
		t.Fatal(err)
	}
}

// The next attempt at a task may run before the one before has seen its end.
func TestTwoAttemptsAtOneTask(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	first := s.attempt("unused")
	if err := first.claim.Release(t.Context(), "a test", 0); err != nil {
		t.Fatal(err)
	}
	second := s.attempt("unused")
	first.running = map[*attempt]bool{first: true, second: true}
	task := string(id)
	first.read(&audit.Entry{Agent: "mbox", Event: audit.TaskRetried, TaskID: &task, Details: []byte(`{"to":"pending","epoch":1}`)})
	if first.live.Err() == nil || second.live.Err() != nil {
		t.Errorf("first %q, second %q", first.lapsed(), second.lapsed())
	}
	if err := second.claim.Complete(t.Context(), mailbox.Result{}); err != nil {
		t.Fatal(err)
	}
}

// A claim that comes in the moment of the stop is given back, unworked.
func TestClaimAtTheStop(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	a := s.attempt(`echo ran >$OUT/ran`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a.run(ctx, t.Context())
	if task, state := s.task(id); state != mailbox.Pending || task.Mbox.Attempt != 0 || s.written("ran") != "" {
		t.Errorf("%s, attempt %d, ran %q", state, task.Mbox.Attempt, s.written("ran"))
	}
}

// begun is a worker that has begun, and claims nothing.
func (s *scene) begun(line string) *shift {
	s.Helper()
	w, err := s.worker(line).begin(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(w.journal.close)
	return w
}

// attempt claims a task and makes the attempt that a worker would make.
func (s *scene) attempt(line string) *attempt {
	s.Helper()
	w := s.begun(line)
	claim, err := s.box.Claim(s.Context(), mailbox.ClaimRequest{Agent: "coder", Process: true})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { claim.Close() })
	return newAttempt(context.WithoutCancel(s.Context()), w, claim)
}

// A command that ended by itself has ended by itself, whatever came in the same
// moment: its result is not thrown away.
func TestEndedInTheSameMoment(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	s.submit("x")
	a := s.attempt(`exit 0`)
	defer a.takeAway()
	if err := a.lay(); err != nil {
		t.Fatal(err)
	}
	c, err := a.spawn()
	if err != nil {
		t.Fatal(err)
	}
	<-c.Ended()
	c.drain()
	a.Timeout = time.Nanosecond
	a.cut(nil) // as a stop does
	for range 50 {
		if e := a.await(c); e.stopped || e.timedOut != 0 || e.lapsed != "" {
			t.Fatalf("%+v", e)
		}
	}
	if err := a.claim.Complete(t.Context(), mailbox.Result{}); err != nil {
		t.Fatal(err)
	}
}

// While a result cannot be handed in, the lease is renewed.
func TestResultInHandIsASignOfLife(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	s.submit("x")
	a := s.attempt(`unused`)
	long := time.Now().Add(-time.Hour)
	tries := 0
	err := a.say(t.Context(), "completed", func() error {
		if tries++; tries == 1 {
			if err := os.Chtimes(s.leaseFile(), long, long); err != nil {
				t.Fatal(err)
			}
			return mailbox.ErrBusy
		}
		info, err := os.Stat(s.leaseFile())
		if err != nil || time.Since(info.ModTime()) > time.Minute {
			t.Errorf("the lease is of %v: %v", info.ModTime(), err)
		}
		return a.claim.Complete(t.Context(), mailbox.Result{})
	})
	if err != nil || tries != 2 {
		t.Errorf("%d tries: %v", tries, err)
	}
}
