package agents

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
)

func TestTimeout(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"obeys":         `echo $$ >$OUT/pid; echo begun >&2; sleep 1000`,
		"exits with 0":  `trap 'exit 0' TERM; echo $$ >$OUT/pid; echo begun >&2; while :; do sleep 0.01; done`,
		"does not obey": `trap '' TERM; echo $$ >$OUT/pid; echo begun >&2; while :; do sleep 0.01; done`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{MaxAttempts: 1})
			id := s.submit("x")
			w := s.worker(line)
			w.Timeout, w.Grace = time.Second, 300*time.Millisecond
			s.once(w)
			s.wantFailed(id, "timeout", "no end after 1s: begun")
			if !dead(s.pid("pid")) {
				t.Error("the command lives")
			}
		})
	}
}

// A command that lives keeps its lease, however silent it is.
func TestSilenceKeepsTheLease(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{Lease: 500 * time.Millisecond, MaxAttempts: 1})
	id := s.submit("x")
	s.once(s.worker(`sleep 2; echo done`))
	s.wantOutput(id, `"done"`)
}

// Worker.Silence is how long a command may write nothing.
func TestSilence(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	id := s.submit("x")
	w := s.worker(`for i in 1 2 3 4 5 6; do echo $i >&2; sleep 0.3; done; echo $$ >$OUT/pid; sleep 1000 & wait`)
	w.Silence = time.Second
	s.once(w)
	s.wantFailed(id, "silence", "it wrote nothing for 1s: 1\n2\n3\n4\n5\n6")
	if !dead(s.pid("pid")) {
		t.Error("it lives")
	}
}

// A task that is cancelled is over at once, with everything that works on it;
// the worker goes on with the next.
func TestCancel(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	first := s.submit("first")
	s.run(s.worker(`[ $MBOX_TASK_ID != ` + string(first) + ` ] && exit; trap '' TERM
		sh -c "trap '' TERM; "'echo $$ >$OUT/inner; while :; do sleep 0.01; done' & echo $$ >$OUT/pid; wait; wait`))
	pids := []int{s.pid("pid"), s.pid("inner")}
	second := s.submit("second")
	begun := time.Now()
	if err := s.another().Cancel(context.Background(), first, "human", "no longer needed"); err != nil {
		t.Fatal(err)
	}
	until(t, "dead", func() bool { return dead(pids[0]) && dead(pids[1]) })
	s.untilState(second, mailbox.Completed)
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("that took %v, as long as the grace", took)
	}
	s.wantFailed(first, "cancelled", "no longer needed")
	if got := s.events(first); slices.Contains(got, audit.TaskLateResult) {
		t.Errorf("events %v", got)
	}
}

// What a command leaves in its process group ends with it, on success too.
func TestBackgroundEndsWithTheTask(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		line  string
		least time.Duration
	}{
		"obeys":         {`sleep 1000 & echo $! >$OUT/pid; echo done`, 0},
		"cleans up":     {`sh -c 'trap "echo cleaned >$OUT/cleaned; exit" TERM; echo $$ >$OUT/pid; while :; do sleep 0.01; done' & until [ -s $OUT/pid ]; do sleep 0.01; done; echo done`, 0},
		"does not obey": {`sh -c 'trap "" TERM; echo $$ >$OUT/pid; while :; do sleep 0.01; done' & until [ -s $OUT/pid ]; do sleep 0.01; done; echo done`, 400 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, mailbox.Options{})
			id := s.submit("x")
			w := s.worker(c.line)
			if c.least > 0 {
				w.Grace = c.least
			}
			begun := time.Now()
			s.once(w)
			s.wantOutput(id, `"done"`)
			if !dead(s.pid("pid")) {
				t.Error("it lives")
			}
			if took := time.Since(begun); took < c.least || c.least == 0 && took > 4*time.Second {
				t.Errorf("that took %v", took)
			}
			if name == "cleans up" && s.written("cleaned") == "" {
				t.Error("it was not asked first")
			}
		})
	}
}

// When the worker is to stop, what runs may finish.
func TestStopLetsFinish(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id, next := s.submit("x"), s.submit("y")
	stop := s.run(s.worker(`echo begun >$OUT/begun; trap 'echo TERM >$OUT/term' TERM; until [ -e $OUT/go ]; do sleep 0.01; done; echo done`))
	until(t, "begun", func() bool { return s.written("begun") != "" })
	stopped := make(chan struct{})
	go func() { defer close(stopped); stop() }()
	until(t, "stopping", func() bool { return strings.Contains(s.log.String(), "stopping") })
	s.give("go")
	<-stopped
	s.wantOutput(id, `"done"`)
	if s.written("term") != "" {
		t.Error("it was signalled")
	}
	if _, state := s.task(next); state != mailbox.Pending {
		t.Errorf("the next task is %s", state)
	}
}

// What does not finish in time is given back, and no attempt is burnt.
func TestStopGivesBack(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	w := s.worker(`sleep 1000 & echo $! >$OUT/inner; echo $$ >$OUT/pid; trap '' TERM; wait; wait`)
	w.Grace = 300 * time.Millisecond
	stop := s.run(w)
	pids := []int{s.pid("pid"), s.pid("inner")}
	begun := time.Now()
	stop()
	if took := time.Since(begun); took < w.Grace || took > w.Grace+5*time.Second {
		t.Errorf("that took %v", took)
	}
	task, state := s.task(id)
	if state != mailbox.Pending || task.Mbox.Attempt != 0 || task.Mbox.NotBefore != nil {
		t.Errorf("%s, attempt %d, not before %v", state, task.Mbox.Attempt, task.Mbox.NotBefore)
	}
	if c := task.Audit.StateChanges; c[len(c)-1].Reason != "worker stopping" {
		t.Errorf("reason %q", c[len(c)-1].Reason)
	}
	if !dead(pids[0]) || !dead(pids[1]) {
		t.Error("the command lives")
	}
}

// Concurrency tasks at once, and no more.
func TestConcurrency(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	var ids []mailbox.ID
	for range 5 {
		ids = append(ids, s.submit("x"))
	}
	w := s.worker(`echo >$OUT/at-$MBOX_TASK_ID; until [ -e $OUT/go ]; do sleep 0.01; done`)
	w.Concurrency = 3
	s.run(w)
	at := func() int {
		names, _ := filepath.Glob(filepath.Join(s.dir, "at-*"))
		return len(names)
	}
	until(t, "three at once", func() bool { return at() == 3 })
	for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); { // in which it may be wrong
		if at() != 3 {
			t.Fatalf("%d at once", at())
		}
	}
	s.give("go")
	for _, id := range ids {
		s.untilState(id, mailbox.Completed)
	}
}

// Once waits for what runs, because that may make other tasks ready.
func TestOnce(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	s.once(s.worker(`exit 1`)) // nothing to do
	first := s.submit("first")
	second, err := s.box.Submit(t.Context(), &mailbox.Task{Task: mailbox.Request{Title: "second"}, Mbox: mailbox.Meta{DependsOn: []mailbox.ID{first}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.box.Home(), "tasks/pending/drop.json"), []byte(`{"task":{"title":"dropped"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w := s.worker(`sleep 0.1; echo done`)
	w.Concurrency = 3
	s.once(w)
	for _, id := range []mailbox.ID{first, second, "drop"} {
		s.wantOutput(id, `"done"`)
	}
}

func TestType(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	other := s.submit("other")
	research, err := s.box.Submit(t.Context(), &mailbox.Task{Task: mailbox.Request{Title: "x", Type: "research"}})
	if err != nil {
		t.Fatal(err)
	}
	w := s.worker(`echo done`)
	w.Type = "research"
	s.once(w)
	s.wantOutput(research, `"done"`)
	if _, state := s.task(other); state != mailbox.Pending {
		t.Errorf("the other task is %s", state)
	}
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	b := newScene(t, mailbox.Options{}).box
	for want, w := range map[string]Worker{
		"no mailbox":   {Agent: "coder", Exec: "x"},
		"neither a":    {Box: b, Agent: "coder"},
		"NUL":          {Box: b, Agent: "coder", Exec: "a\x00b"},
		"negative":     {Box: b, Agent: "coder", Exec: "x", Grace: -1},
		"no agent":     {Box: b, Agent: "Coder", Exec: "x"},
		"is reserved":  {Box: b, Agent: "any", Exec: "x"},
		"worker coder": {Box: b, Agent: "coder", Exec: "x", Concurrency: -1},
	} {
		if err := w.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A mailbox that is read-only is waited out, before a claim and with a result in
// hand.
func TestReadOnlyIsWaitedOut(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	readonly := audit.ReadOnlyPath(s.box.Home())
	id, next := s.submit("x"), s.submit("y")
	s.run(s.worker(`echo $MBOX_TASK_ID >>$OUT/ran; [ $MBOX_TASK_ID != ` + string(id) + ` ] || until [ -e $OUT/go ]; do sleep 0.01; done; echo done`))
	until(t, "begun", func() bool { return s.written("ran") != "" })
	if err := os.WriteFile(readonly, []byte("a test"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.give("go")
	until(t, "not completed", func() bool { return strings.Contains(s.log.String(), "does not take it yet") })
	if err := os.Remove(readonly); err != nil {
		t.Fatal(err)
	}
	s.untilState(id, mailbox.Completed)
	s.wantOutput(id, `"done"`)
	s.untilState(next, mailbox.Completed)
	if got := s.written("ran"); got != string(id)+"\n"+string(next)+"\n" {
		t.Errorf("ran %q", got)
	}
}

// A worker that meets a read-only mailbox with a task to claim waits, without
// spinning.
func TestClaimInReadOnly(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	readonly := audit.ReadOnlyPath(s.box.Home())
	if err := os.WriteFile(readonly, []byte("a test"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := s.worker(`echo done`)
	w.Once = true
	if err := w.Run(t.Context()); !errors.Is(err, mailbox.ErrReadOnly) {
		t.Errorf("once: %v", err)
	}
	begun := time.Now()
	s.run(s.worker(`echo done`))
	until(t, "cannot claim", func() bool { return strings.Count(s.log.String(), "cannot claim") >= 3 })
	if took := time.Since(begun); took < 300*time.Millisecond { // 100 and 200
		t.Errorf("three tries in %v", took)
	}
	if err := os.Remove(readonly); err != nil {
		t.Fatal(err)
	}
	s.untilState(id, mailbox.Completed)
}

// A completion that is committed and not applied counts as done.
func TestCommittedCounts(t *testing.T) {
	s := newScene(t, mailbox.Options{})
	id := s.submit("x")
	failed := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpMove && strings.Contains(path, "/completed/") && !failed {
			failed = true
			return false, syscall.EIO
		}
		return true, nil
	})
	defer remove()
	s.once(s.worker(`echo $MBOX_TASK_ID >>$OUT/ran; echo done`))
	s.wantOutput(id, `"done"`)
	if !failed || s.written("ran") != string(id)+"\n" {
		t.Errorf("failed %v, ran %q", failed, s.written("ran"))
	}
	if log := s.log.String(); !strings.Contains(log, "committed, not yet applied") || strings.Contains(log, "try again") {
		t.Error("the log does not say so")
	}
}

// A command begins only when its process group stands in the lease file.
func TestNothingRunsUnrecorded(t *testing.T) {
	s := newScene(t, mailbox.Options{MaxAttempts: 1})
	id := s.submit("x")
	lines := 0
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpAppend && strings.Contains(path, "/leases/") {
			if lines++; lines == 2 { // the claim's own is the first
				time.Sleep(200 * time.Millisecond) // in which the command may show that it runs
				return false, syscall.EIO
			}
		}
		return true, nil
	})
	defer remove()
	s.once(s.worker(`echo ran >$OUT/ran`))
	s.wantFailed(id, "start", "input/output error")
	if s.written("ran") != "" {
		t.Error("it ran")
	}
}

func TestTaskFileNames(t *testing.T) {
	t.Parallel()
	for _, id := range []mailbox.ID{"a", "task-2026-02-16-001", "v1.2", "v1.2.json", "1.2"} {
		name := taskFile(&mailbox.Task{ID: id, Mbox: mailbox.Meta{Epoch: 12}})
		if got, _, ok := copyOf(name, taskPrefix, taskSuffix); !ok || got != id {
			t.Errorf("%s: got %q, %v", name, got, ok)
		}
	}
	for _, name := range []string{".task-a.json", ".task-a.x.json", "task-a.1.json", ".task-a.1.jsonl"} {
		if id, _, ok := copyOf(name, taskPrefix, taskSuffix); ok {
			t.Errorf("%s: got %q", name, id)
		}
	}
}

// An idle worker, and one whose command is silent, use next to no CPU.
func TestIdleCostsNothing(t *testing.T) {
	for name, busy := range map[string]bool{"idle": false, "waiting for a silent command": true} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, mailbox.Options{ScanInterval: 5 * time.Second})
			s.run(s.worker(`echo $$ >$OUT/pid; until [ -e $OUT/go ]; do sleep 0.2; done`))
			if busy {
				s.submit("x")
				s.pid("pid")
			}
			cpu := func() time.Duration {
				var u syscall.Rusage
				if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
					t.Fatal(err)
				}
				return time.Duration(u.Utime.Nano() + u.Stime.Nano())
			}
			// The first moment is the start's; then a second is measured.
			time.Sleep(300 * time.Millisecond)
			before := cpu()
			time.Sleep(time.Second)
			if used := cpu() - before; used > 50*time.Millisecond {
				t.Errorf("%v of CPU in a second", used)
			}
			s.give("go")
		})
	}
}

// When the ledger could not be followed for a while, the claims are asked for.
func TestCheckAll(t *testing.T) {
	t.Parallel()
	s := newScene(t, mailbox.Options{})
	w := s.begun("unused")
	attempts := map[string]*attempt{}
	for _, title := range []string{"stands", "cancelled", "completed by its command"} {
		s.submit(title)
		claim, err := s.box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder", Process: true})
		if err != nil {
			t.Fatal(err)
		}
		defer claim.Close()
		attempts[title] = newAttempt(t.Context(), w, claim)
		w.running[attempts[title]] = true
	}
	if err := s.box.Cancel(t.Context(), attempts["cancelled"].claim.ID(), "human", "enough"); err != nil {
		t.Fatal(err)
	}
	if err := attempts["completed by its command"].claim.Complete(t.Context(), mailbox.Result{}); err != nil {
		t.Fatal(err)
	}
	w.checkAll(t.Context())
	for title, a := range attempts {
		if over := a.live.Err() != nil; over != (title == "cancelled") {
			t.Errorf("%s: over %v (%s)", title, over, a.lapsed())
		}
	}
	if err := attempts["stands"].claim.Complete(t.Context(), mailbox.Result{}); err != nil {
		t.Fatal(err)
	}
}
