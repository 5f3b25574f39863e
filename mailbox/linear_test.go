package mailbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// call is what a client asks of one task, answer what it is told.
type call struct {
	id   ID
	verb string // submit, get, claim, progress, complete, fail, fail for good, release, retry, cancel, let go
	// token is the one that a verb of a claim shows. Of a claim whose answer
	// nobody heard it is a name for the token that was given out, if any was.
	token string
	// process: the claim lasts as long as the process that made it.
	process bool
}

type answer struct {
	said  string // ok, empty, stale, conflict, missing, busy
	token string // of a claim
	// What a claim or a get saw.
	state          State
	epoch, attempt int64
}

// unheard is the answer that a killed client did not live to hear: the call may
// have happened then or later, or never.
const unheard = ""

// taskNow is one task as the specification has it.
type taskNow struct {
	state          State
	token          string
	lost           string // the name of the token, where the claim's answer was not heard
	epoch, attempt int64
	cancelled      bool
	retried        bool // its last move was a retry
}

const linearAttempts = 3

// taskModel is the sequential specification of one task.
var taskModel = porcupine.Model{
	Init: func() any { return taskNow{} },
	Step: func(state, input, output any) (bool, any) {
		next, ok := state.(taskNow).step(input.(call), output.(answer))
		return ok, next
	},
	DescribeOperation: func(input, output any) string {
		c, a := input.(call), output.(answer)
		return fmt.Sprintf("%s %.4s → %q %s %.4s epoch %d attempt %d", c.verb, c.token, a.said, a.state, a.token, a.epoch, a.attempt)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

// step tells where the task is after the call, and whether the answer is one
// that it may have got.
func (t taskNow) step(c call, a answer) (taskNow, bool) {
	next, said := t.after(c)
	switch {
	case a.said == unheard:
		return next, true // that it never happened is the same as that it comes last
	case a.said == "busy":
		return t, true
	case c.verb == "get" && said == "ok":
		return t.seen(a)
	case c.verb == "claim" && a.said == "empty":
		return t, true // a claim does not wait for a task that somebody works on
	case c.verb == "claim":
		next.token, next.lost = a.token, ""
		return next, a.said == said && a.epoch == next.epoch && a.attempt == next.attempt
	}
	return next, a.said == said
}

// seen tells whether a get may have seen this. It may be the first to see the
// token of a claim whose answer was not heard.
func (t taskNow) seen(a answer) (taskNow, bool) {
	if t.state == InProgress && t.token == "" {
		t.token = a.token
	}
	return t, a.said == "ok" && a.state == t.state && a.epoch == t.epoch && a.attempt == t.attempt &&
		(t.state != InProgress || a.token == t.token)
}

// after is the specification: what the call makes of the task, and its answer.
func (t taskNow) after(c call) (next taskNow, said string) {
	switch {
	case c.verb == "submit" && t.state == None:
		return taskNow{state: Pending}, "ok"
	case c.verb == "submit":
		return t, "ok" // the same content again
	case t.state == None:
		return t, map[bool]string{true: "empty", false: "missing"}[c.verb == "claim"]
	case c.verb == "get":
		return t, "ok"
	case c.verb == "claim":
		if t.state != Pending {
			return t, "empty"
		}
		return taskNow{state: InProgress, lost: c.token, epoch: t.epoch + 1, attempt: t.attempt + 1}, "ok"
	case c.verb == "retry":
		return t.retry()
	case c.verb == "cancel":
		return t.cancel()
	case t.state != InProgress || c.token != t.token && c.token != t.lost:
		return t, "stale"
	}
	return t.held(c.verb), "ok"
}

func (t taskNow) retry() (taskNow, string) {
	switch {
	case t.state == Pending && t.retried:
		return t, "ok"
	case t.state != Failed:
		return t, "conflict"
	}
	return taskNow{state: Pending, epoch: t.epoch, retried: true}, "ok"
}

func (t taskNow) cancel() (taskNow, string) {
	switch {
	case t.state == Failed && t.cancelled:
		return t, "ok"
	case t.state.Terminal():
		return t, "conflict"
	}
	return taskNow{state: Failed, epoch: t.epoch, attempt: t.attempt, cancelled: true}, "ok"
}

// held is a verb of the claim that stands. Let go is what happens to a task
// whose worker has died.
func (t taskNow) held(verb string) taskNow {
	if verb == "progress" {
		return t
	}
	t.token, t.lost = "", ""
	switch {
	case verb == "complete":
		t.state = Completed
	case verb == "release":
		t.state, t.attempt = Pending, t.attempt-1
	case verb == "fail for good", t.attempt >= linearAttempts:
		t.state = Failed
	default: // fail, let go
		t.state = Pending
	}
	return t
}

// linearSize is how many calls make one history, from how many processes, and
// how many such histories there are. MBOX_LINEAR_CALLS and
// MBOX_LINEAR_PROCESSES change the first two. Histories are kept short because a
// verb with a token that is over reads the whole ledger.
func linearSize(t *testing.T) (calls, processes, histories int) {
	calls, processes, histories = amount(3_000, 12_500, 12_500), amount(4, 8, 16), amount(1, 4, 160)
	for name, n := range map[string]*int{"MBOX_LINEAR_CALLS": &calls, "MBOX_LINEAR_PROCESSES": &processes} {
		if text := os.Getenv(name); text != "" {
			var err error
			*n, err = strconv.Atoi(text)
			must(t, err)
		}
	}
	return calls, processes, histories
}

// callsPerTask is how many calls are made of a task, on average: few, so that
// checking stays fast, and enough for a life with some detours.
const callsPerTask = 25

// TestLinearizable: whatever many processes do to the same tasks at once, and
// wherever they are killed, each task behaves as if one call came after the
// other.
func TestLinearizable(t *testing.T) {
	calls, processes, histories := linearSize(t)
	random := rand.New(rand.NewPCG(seedOf(t), 1))
	for n := range histories {
		ok := t.Run(fmt.Sprint("history ", n+1), func(t *testing.T) {
			f := newFleet(t, calls, processes, random.Uint64())
			begun := time.Now()
			f.sail()
			took := time.Since(begun)
			history := f.history()
			counts := map[string]int{}
			for _, op := range history {
				counts[op.Input.(call).verb+" "+op.Output.(answer).said]++
			}
			t.Logf("%d operations in %v, %d processes killed: %v", len(history), took.Round(time.Millisecond), f.killed, counts)
			for _, needed := range []string{
				"submit ok", "get ok", "claim ok", "progress ok", "progress stale", "complete ok", "complete stale",
				"fail ok", "fail stale", "fail for good ok", "release ok", "release stale", "retry ok", "cancel ok", "cancel conflict",
			} {
				if counts[needed] == 0 {
					t.Errorf("the history holds no %q: it proves little", needed)
				}
			}
			checkHistory(t, history)
		})
		if !ok {
			return
		}
	}
}

// checkHistory checks each task's part of the history on its own.
func checkHistory(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	byTask := map[ID][]porcupine.Operation{}
	for _, op := range history {
		id := op.Input.(call).id
		byTask[id] = append(byTask[id], op)
	}
	var wg sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	for id, ops := range byTask {
		limit <- struct{}{}
		wg.Go(func() {
			defer func() { <-limit }()
			if porcupine.CheckOperations(taskModel, ops) {
				return
			}
			_, info := porcupine.CheckOperationsVerbose(taskModel, ops, 0)
			path := filepath.Join(os.TempDir(), "..", "mbox-linear-"+string(id)+".html") // t.TempDir would be gone before anybody looks
			t.Errorf("the history of %s is not linearizable; see %s (%v)", id, filepath.Clean(path), porcupine.VisualizePath(taskModel, info, path))
			for _, op := range ops {
				t.Logf("%d–%d client %d: %s", op.Call, op.Return, op.ClientId, taskModel.DescribeOperation(op.Input, op.Output))
			}
		})
	}
	wg.Wait()
}

// TestCheckerCanFail: a history with two claims that both won is refused, and so
// are a claim that went back, a lost task and a second completion; what a killed
// client did not hear is taken either way, but not both.
func TestCheckerCanFail(t *testing.T) {
	type step struct {
		c        call
		a        answer
		from, to int64
	}
	submit := step{call{id: "t", verb: "submit"}, answer{said: "ok"}, 0, 1}
	won := func(token string, epoch, from, to int64) step {
		return step{call{id: "t", verb: "claim"}, answer{said: "ok", token: token, epoch: epoch, attempt: epoch}, from, to}
	}
	done := func(token, said string, from, to int64) step {
		return step{call{id: "t", verb: "complete", token: token}, answer{said: said}, from, to}
	}
	got := func(s State, said string, from, to int64) step {
		a := answer{said: said, state: s}
		if s == InProgress || s == Completed {
			a.epoch, a.attempt = 1, 1
		}
		if s == InProgress {
			a.token = "a"
		}
		return step{call{id: "t", verb: "get"}, a, from, to}
	}
	killed := func(verb, token string, from int64) step {
		return step{call{id: "t", verb: verb, token: token}, answer{said: unheard}, from, never}
	}
	for _, row := range []struct {
		name string
		ops  []step
		want bool
	}{
		{"one claim wins", []step{submit, won("a", 1, 2, 5), {call{id: "t", verb: "claim"}, answer{said: "empty"}, 3, 4}, done("a", "ok", 6, 7)}, true},
		{"two claims win", []step{submit, won("a", 1, 2, 5), won("b", 1, 3, 4)}, false},
		{"two claims win, with two epochs", []step{submit, won("a", 1, 2, 5), won("b", 2, 3, 4)}, false},
		{"two completions", []step{submit, won("a", 1, 2, 3), done("a", "ok", 4, 7), done("a", "ok", 5, 6)}, false},
		{"a stale token completes", []step{submit, won("a", 1, 2, 3), {call{id: "t", verb: "release", token: "a"}, answer{said: "ok"}, 4, 5}, won("b", 2, 6, 7), done("a", "ok", 8, 9)}, false},
		{"a good token is refused", []step{submit, won("a", 1, 2, 3), done("a", "stale", 4, 5)}, false},
		{"an acknowledged task is missing", []step{submit, got(None, "missing", 2, 3)}, false},
		{"it is seen before it is sent", []step{{submit.c, submit.a, 4, 5}, got(Pending, "ok", 2, 3)}, false},
		{"a get goes back", []step{submit, won("a", 1, 2, 9), got(InProgress, "ok", 3, 4), got(Pending, "ok", 5, 6)}, false},
		{"a killed submit came to nothing", []step{killed("submit", "", 0), got(None, "missing", 2, 3)}, true},
		{"a killed submit shows late", []step{killed("submit", "", 0), got(None, "missing", 2, 3), got(Pending, "ok", 4, 5)}, true},
		{"a killed submit comes and goes", []step{killed("submit", "", 0), got(Pending, "ok", 2, 3), got(None, "missing", 4, 5)}, false},
		{"the token of a killed claim is found", []step{submit, killed("claim", "?", 2), got(InProgress, "ok", 3, 4), done("a", "ok", 5, 6)}, true},
		{"a killed claim has one token", []step{submit, killed("claim", "?", 2), got(InProgress, "ok", 3, 4), done("b", "ok", 5, 6)}, false},
		{"a killed claim keeps others out", []step{submit, killed("claim", "?", 2), got(InProgress, "ok", 3, 4), won("b", 2, 5, 6)}, false},
		{"the claim of a killed process is free", []step{submit, killed("claim", "?", 2), got(InProgress, "ok", 3, 4), killed("let go", "?", 2), won("b", 2, 5, 6)}, true},
		{"a claim is free before its process dies", []step{submit, won("a", 1, 2, 3), killed("let go", "a", 6), won("b", 2, 4, 5)}, false},
		{"a killed completion counts once", []step{submit, won("a", 1, 2, 3), killed("complete", "a", 4), got(Completed, "ok", 5, 6), {call{id: "t", verb: "claim"}, answer{said: "ok", token: "b", epoch: 2, attempt: 2}, 7, 8}}, false},
		{"gets around a claim", []step{submit, won("a", 1, 2, 9), got(Pending, "ok", 3, 4), got(InProgress, "ok", 5, 6)}, true},
	} {
		var history []porcupine.Operation
		for i, op := range row.ops {
			history = append(history, porcupine.Operation{ClientId: i, Input: op.c, Call: op.from, Output: op.a, Return: op.to})
		}
		if ok := porcupine.CheckOperations(taskModel, history); ok != row.want {
			t.Errorf("%s: linearizable %v, want %v", row.name, ok, row.want)
		}
	}
}

// TestCancelAgainstRetry: a task that goes to and fro between pending and
// cancelled can be cancelled at every moment. (A cancel once looked where the
// task was after giving its lock back, and found a conflict with a task that had
// just become pending.)
func TestCancelAgainstRetry(t *testing.T) {
	ctx := t.Context()
	a := newBox(t, Options{})
	b, err := Open(ctx, a.Home(), a.Options())
	must(t, err)
	defer b.Close()
	submitted(t, a)
	must(t, a.Cancel(ctx, "t1", "human", "no"))
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			if err := b.Retry(ctx, "t1", "human", "again"); err != nil {
				t.Errorf("retry: %v", err)
				return
			}
		}
	})
	for range 600 {
		if err := a.Cancel(ctx, "t1", "human", "no"); err != nil {
			t.Errorf("cancel: %v", err)
			break
		}
	}
	close(over)
	wg.Wait()
}
