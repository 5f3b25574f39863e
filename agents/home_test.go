package agents

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
)

// keeper is a home of tests.
type keeper struct {
	inside  sync.Mutex
	pulses  atomic.Int64
	tried   atomic.Int64
	beats   atomic.Int64
	refused error

	mu    sync.Mutex
	ended []string // titles, those of failed ones with a mark; guarded by mu
}

func (k *keeper) Enter(ctx context.Context, wait time.Duration) (func() error, error) {
	k.tried.Add(1)
	for end := time.Now().Add(wait); !k.inside.TryLock(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil || !time.Now().Before(end) {
			return nil, mailbox.ErrBusy
		}
	}
	return func() error { k.inside.Unlock(); return nil }, nil
}

func (k *keeper) Pulse(_ context.Context, begins bool) error {
	k.pulses.Add(1)
	return k.refused
}

func (k *keeper) Beat(context.Context) error { k.beats.Add(1); return k.refused }

func (k *keeper) Ended(_ context.Context, t *mailbox.Task, failed bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	mark := ""
	if failed {
		mark = " failed"
	}
	k.ended = append(k.ended, t.Task.Title+mark)
	return nil
}

func (k *keeper) list() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Join(k.ended, ", ")
}

// settle gives the agent of a worker a home.
func settle(t *testing.T, w *Worker, k Home) {
	t.Helper()
	if err := os.MkdirAll(w.Box.AgentDir(w.Agent), 0o700); err != nil {
		t.Fatal(err)
	}
	w.Home = k
}

// While something else is in the home nothing is claimed and no attempt is burnt; and two
// workers of one agent take turns.
func TestHomeIsEnteredAlone(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	k := &keeper{}
	line := `mkdir $OUT/inside || exit 1; sleep 0.05; rmdir $OUT/inside; echo ok`
	k.inside.Lock() // a dream
	id := s.submit("first")
	w := s.worker(line)
	settle(t, w, k)
	s.run(w)
	until(t, "the home is tried", func() bool { return k.tried.Load() > 3 })
	if task, state := s.task(id); state != mailbox.Pending || task.Mbox.Epoch != 0 {
		t.Fatalf("it is %s, of epoch %d, during a dream", state, task.Mbox.Epoch)
	}
	other := s.worker(line)
	other.Box = s.another()
	settle(t, other, k)
	s.run(other)
	ids := []mailbox.ID{id}
	for range 9 {
		ids = append(ids, s.submit("more"))
	}
	k.inside.Unlock()
	for _, id := range ids {
		if task := s.untilState(id, mailbox.Completed); task.Mbox.Attempt != 1 {
			t.Errorf("%s needed %d attempts", id, task.Mbox.Attempt)
		}
	}
	until(t, "all is kept", func() bool { return strings.Count(k.list(), ",") == 9 })
	if strings.Contains(k.list(), "failed") {
		t.Error(k.list())
	}
	until(t, "the home is left", func() bool {
		free := k.inside.TryLock()
		if free {
			k.inside.Unlock()
		}
		return free
	})
}

// goneHome is a home that was deleted; a third try in one claim ends it.
type goneHome struct {
	keeper
	stop context.CancelFunc
}

func (k *goneHome) Enter(context.Context, time.Duration) (func() error, error) {
	if k.tried.Add(1) == 3 {
		k.stop()
	}
	return nil, os.ErrNotExist
}

// A worker whose home is gone ends its claim, and pauses before the next as after any other
// failure.
func TestHomeIsGone(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	s.submit("first")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	k := &goneHome{stop: stop}
	w := &shift{Worker: *s.worker("true")}
	w.Home = k
	if _, err := w.claim(ctx); !errors.Is(err, os.ErrNotExist) || !w.passes(err) || k.tried.Load() != 1 {
		t.Errorf("%v, after %d tries", err, k.tried.Load())
	}
}

// A worker of an agent that was put away makes no home for it, and has nothing to do.
func TestHomeIsAway(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	w := s.worker("true")
	w.Home = &keeper{}
	home := s.box.AgentDir(w.Agent)
	if err := os.RemoveAll(home); err != nil {
		t.Fatal(err)
	}
	if err := w.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(home); err == nil {
		t.Error("it has made a home")
	}
}

// A worker that is to end by itself waits for the home, and leaves it.
func TestHomeOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	k := &keeper{}
	id, bad := s.submit("good"), s.submit("bad")
	w := s.worker(`grep -q good "$MBOX_TASK_FILE" && echo done`)
	settle(t, w, k)
	k.inside.Lock()
	go func() {
		for k.tried.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		k.inside.Unlock()
	}()
	s.once(w)
	s.wantOutput(id, `"done"`)
	s.wantFailed(bad, "exit", "")
	if got := k.list(); got != "good, bad failed" {
		t.Errorf("kept: %s", got)
	}
	if !k.inside.TryLock() {
		t.Error("it has not left")
	}
}

// A worker says again and again that it is there, whatever comes of it.
func TestPulses(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	k := &keeper{refused: errors.New("spoilt")}
	w := s.worker(`echo $$ >$OUT/pid; while ! test -e $OUT/go; do sleep 0.01; done`)
	w.Idle = 5 * time.Millisecond
	settle(t, w, k)
	s.run(w)
	until(t, "pulses while it is idle", func() bool { return k.pulses.Load() > 3 && k.beats.Load() > 3 })
	id := s.submit("x")
	s.pid("pid")
	n := k.pulses.Load()
	until(t, "pulses while it works", func() bool { return k.pulses.Load() > n+3 })
	s.must(os.WriteFile(filepath.Join(s.dir, "go"), nil, 0o600))
	s.untilState(id, mailbox.Completed)
}

// From one tick to the next a worker claims no more than it may, and then goes on.
func TestCycles(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	w := s.worker("echo ok")
	w.Idle, w.Cycle = time.Hour, 3
	settle(t, w, &keeper{})
	var ids []mailbox.ID
	for range 7 {
		ids = append(ids, s.submit("x"))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shift, err := w.begin(ctx)
	s.must(err)
	defer shift.journal.close()
	ended := make(chan error, 1)
	go func() { ended <- shift.work(ctx, ctx) }()
	begun := func() (n int) {
		for _, id := range ids {
			if _, state := s.task(id); state != mailbox.Pending {
				n++
			}
		}
		return n
	}
	for _, want := range []int{3, 6} {
		until(t, "what is of this cycle is done", func() bool { return begun() >= want && shift.busy() == 0 })
		ids = append(ids, s.submit("later")) // what comes now waits as well
		for range 3 {                        // it looks up, and rests again
			shift.ended <- struct{}{}
			until(t, "it rests", func() bool { return len(shift.ended) == 0 })
		}
		if n := begun(); n != want {
			t.Errorf("%d tasks were begun, want %d", n, want)
		}
		shift.ticks <- struct{}{}
	}
	until(t, "the rest is done", func() bool { return begun() == 9 && shift.busy() == 0 })
	cancel()
	s.must(<-ended)
	shift.attempts.Wait()
	shift.watching.Wait()
}

// A home has room for one.
func TestHomeOfTwo(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	w := s.worker("true")
	w.Home, w.Concurrency = &keeper{}, 2
	if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "one task at a time") {
		t.Error(err)
	}
}

// panicking is what a script's brain panics with.
type panicking string

// A brain that panics fails its attempt, and the worker goes on.
func TestPanic(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{panicking("index out of range"), `{"answer":"well","actions":[]}`}
	id := c.send("coder", "Think", nil)
	until(t, "the task to end", func() bool { c.works("coder"); _, state := c.task(id); return state == mailbox.Completed })
	task, _ := c.task(id)
	if task.Mbox.Attempt != 2 {
		t.Errorf("it was done in attempt %d", task.Mbox.Attempt)
	}
	if !slices.ContainsFunc(task.Audit.StateChanges, func(s mailbox.StateChange) bool {
		return strings.Contains(s.Reason, "panic: mbox has a bug: index out of range")
	}) {
		t.Errorf("its history does not tell: %+v", task.Audit.StateChanges)
	}
}

// An answer that says nothing but that all is well is that alone.
func TestUnsaid(t *testing.T) {
	beat, other := &mailbox.Task{}, &mailbox.Task{}
	beat.Mbox.Trigger = "heartbeat"
	long := strings.Repeat("ä", 300)
	for _, q := range []struct {
		output string
		quiet  bool
	}{
		{`"HEARTBEAT_OK"`, true},
		{`" HEARTBEAT_OK. All is well.\n"`, true},
		{`"All is well.\nHEARTBEAT_OK\n"`, true},
		{`{"answer":"HEARTBEAT_OK"}`, true},
		{`"HEARTBEAT_OK ` + long + `"`, true},
		{`"HEARTBEAT_OK ` + long + `b"`, false},
		{`"It is not HEARTBEAT_OK here"`, false},
		{`"The disk is full"`, false},
		{`{"answer":"HEARTBEAT_OK","results":[1]}`, false},
		{`{"status":"HEARTBEAT_OK"}`, false},
		{`17`, false},
		{``, false},
	} {
		want := q.output
		if q.quiet {
			want = `"HEARTBEAT_OK"`
		}
		if got := unsaid(beat, jsontext.Value(q.output)); string(got) != want {
			t.Errorf("of %s: %s", q.output, got)
		}
		if got := unsaid(other, jsontext.Value(q.output)); string(got) != q.output {
			t.Errorf("of %s, which is no heartbeat: %s", q.output, got)
		}
	}
}
