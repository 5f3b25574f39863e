package mailbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/go-json-experiment/json/jsontext"
)

// call is what a client asks of one task, answer what it is told.
type call struct {
	id    ID
	verb  string // submit, get, claim, complete, fail, fail for good, release, retry, cancel
	token string // of the claim that a verb shows
}

type answer struct {
	said  string // ok, empty, stale, conflict, missing
	token string // of a claim
	epoch int64
	state State // of a get
}

// taskNow is one task as the specification has it.
type taskNow struct {
	state     State
	token     string
	epoch     int64
	attempt   int64
	cancelled bool
	retried   bool
}

const linearAttempts = 3

// taskModel is the sequential specification of one task; a history falls apart
// by the tasks' ids.
var taskModel = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[ID][]porcupine.Operation{}
		for _, op := range history {
			id := op.Input.(call).id
			by[id] = append(by[id], op)
		}
		var out [][]porcupine.Operation
		for _, ops := range by {
			out = append(out, ops)
		}
		return out
	},
	Init: func() any { return taskNow{} },
	Step: func(state, input, output any) (bool, any) {
		next, ok := state.(taskNow).step(input.(call), output.(answer))
		return ok, next
	},
	DescribeOperation: func(input, output any) string {
		c, a := input.(call), output.(answer)
		return fmt.Sprintf("%s %.4s → %s %s %.4s %d", c.verb, c.token, a.said, a.state, a.token, a.epoch)
	},
	DescribeState: func(state any) string { return fmt.Sprintf("%+v", state) },
}

// step tells where the task is after the call, and whether the answer is one
// that it may have got.
func (t taskNow) step(c call, a answer) (taskNow, bool) {
	holds := t.state == InProgress && c.token == t.token
	switch c.verb {
	case "submit":
		if t.state != None {
			return t, a.said == "ok" // the same content again
		}
		return taskNow{state: Pending}, a.said == "ok"
	case "get":
		return t, a.state == t.state && (a.said == "missing") == (t.state == None)
	case "claim":
		if a.said == "empty" {
			return t, true // a claim does not wait for a task that somebody works on
		}
		n := taskNow{state: InProgress, token: a.token, epoch: t.epoch + 1, attempt: t.attempt + 1}
		return n, a.said == "ok" && t.state == Pending && a.epoch == n.epoch
	case "retry":
		switch {
		case t.state == None:
			return t, a.said == "missing"
		case t.state == Pending && t.retried:
			return t, a.said == "ok"
		case t.state != Failed:
			return t, a.said == "conflict"
		}
		return taskNow{state: Pending, epoch: t.epoch, retried: true}, a.said == "ok"
	case "cancel":
		switch {
		case t.state == None:
			return t, a.said == "missing"
		case t.state == Failed && t.cancelled:
			return t, a.said == "ok"
		case t.state.Terminal():
			return t, a.said == "conflict"
		}
		t.state, t.cancelled, t.retried = Failed, true, false
		return t, a.said == "ok"
	}
	if !holds {
		return t, a.said == "stale"
	}
	switch {
	case c.verb == "complete":
		t.state = Completed
	case c.verb == "release":
		t.state, t.attempt = Pending, t.attempt-1
	case c.verb == "fail for good", t.attempt >= linearAttempts:
		t.state, t.cancelled = Failed, false
	default:
		t.state = Pending
	}
	return t, a.said == "ok"
}

// client calls at random and notes what it was told and when.
type client struct {
	number  int
	box     *Box
	random  *rand.Rand
	ids     []ID
	tokens  *tokens
	begun   time.Time
	history []porcupine.Operation
	said    int
}

// tokens are shared, so that late and foreign tokens are shown too.
type tokens struct {
	sync.Mutex
	of map[ID][]string
}

func (s *tokens) add(id ID, token string) {
	s.Lock()
	defer s.Unlock()
	s.of[id] = append(s.of[id], token)
}

// some is one of the last tokens of a task, most often the last.
func (s *tokens) some(id ID, r *rand.Rand) string {
	s.Lock()
	defer s.Unlock()
	all := s.of[id]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1-min(len(all)-1, r.IntN(8)/6)]
}

var (
	heldVerbs = []string{"complete", "fail", "fail", "fail for good", "release", "release", "release"}
	allVerbs  = append([]string{"get", "get", "claim", "claim", "claim", "claim", "claim", "claim", "retry", "retry", "cancel", "submit"}, heldVerbs...)
)

func (c *client) one() error {
	in := call{id: c.ids[c.random.IntN(len(c.ids))], verb: allVerbs[c.random.IntN(len(allVerbs))]}
	if slices.Contains(heldVerbs, in.verb) {
		if in.token = c.tokens.some(in.id, c.random); in.token == "" {
			in.verb = "submit"
		}
	}
	from := time.Since(c.begun)
	out, err := c.call(in)
	if err != nil {
		return fmt.Errorf("%s %s: %w", in.verb, in.id, err)
	}
	if out.token != "" {
		c.tokens.add(in.id, out.token)
	}
	c.history = append(c.history, porcupine.Operation{ClientId: c.number, Input: in, Call: int64(from), Output: out, Return: int64(time.Since(c.begun))})
	return nil
}

// agentFor names the one agent that may claim the task, so that a claim is
// about one task.
func agentFor(id ID) string { return "agent-" + string(id) }

func (c *client) call(in call) (out answer, err error) {
	ctx := context.Background()
	switch in.verb {
	case "submit":
		t := request("linear")
		t.ID, t.Assignment.TargetAgent = in.id, agentFor(in.id)
		_, err = c.box.Submit(ctx, t)
	case "get":
		_, out.state, err = c.box.Task(ctx, in.id)
	case "claim":
		var claim *Claim
		if claim, err = c.box.Claim(ctx, ClaimRequest{Agent: agentFor(in.id)}); err == nil {
			out.token, out.epoch = claim.Token(), claim.Task.Mbox.Epoch
		}
	case "retry":
		err = c.box.Retry(ctx, in.id, "human", "again")
	case "cancel":
		err = c.box.Cancel(ctx, in.id, "human", "no more")
	default:
		err = c.hold(ctx, in)
	}
	for said, e := range map[string]error{"empty": ErrEmpty, "stale": ErrStale, "conflict": ErrConflict, "missing": ErrNotFound} {
		if errors.Is(err, e) {
			out.said = said
			return out, nil
		}
	}
	out.said = "ok"
	return out, err
}

// hold says a verb of a claim. Its content is unlike any other's, for a verb that
// is said twice with the same content is fine however late it comes.
func (c *client) hold(ctx context.Context, in call) error {
	claim, err := c.box.Held(ctx, in.id, in.token)
	if err != nil {
		return err
	}
	c.said++
	what := fmt.Sprintf("%d of client %d", c.said, c.number)
	switch in.verb {
	case "complete":
		return claim.Complete(ctx, Result{Output: jsontext.Value(`"` + what + `"`)})
	case "release":
		return claim.Release(ctx, what, 0)
	}
	return claim.Fail(ctx, Failure{TaskError: TaskError{Code: "no", Message: what}, Final: in.verb == "fail for good"})
}

// TestLinearizable: whatever 16 clients of 4 boxes do to a few tasks at once,
// each task behaves as if one call came after the other.
func TestLinearizable(t *testing.T) {
	const boxes, clients = 4, 4
	total, tasks := 5_000, 100
	switch {
	case os.Getenv("MBOX_LONG") != "":
		total, tasks = 50_000, 500
	case testing.Short():
		total, tasks = 1_000, 20
	}
	first := newBox(t, Options{RetryBase: time.Nanosecond, MaxAttempts: linearAttempts})
	shared := &tokens{of: map[ID][]string{}}
	begun := time.Now()
	var all []*client
	var wg sync.WaitGroup
	for i := range boxes {
		b, err := Open(t.Context(), first.Home(), first.Options())
		must(t, err)
		t.Cleanup(func() { b.Close() })
		for j := range clients {
			n := i*clients + j
			c := &client{number: n, box: b, random: rand.New(rand.NewPCG(uint64(n), 7)), tokens: shared, begun: begun}
			all = append(all, c)
			wg.Go(func() {
				// A few tasks at a time, so that clients meet.
				calls := total / boxes / clients
				for k := range calls {
					at := k * tasks / calls
					c.ids = []ID{linearID(at), linearID(at + 1), linearID(at + 2)}
					if err := c.one(); err != nil {
						t.Errorf("client %d: %v", n, err)
						return
					}
				}
			})
		}
	}
	wg.Wait()
	var history []porcupine.Operation
	counts := map[string]int{}
	for _, c := range all {
		history = append(history, c.history...)
		for _, op := range c.history {
			counts[op.Input.(call).verb+" "+op.Output.(answer).said]++
		}
	}
	t.Logf("%d operations in %v: %v", len(history), time.Since(begun).Round(time.Millisecond), counts)
	for _, needed := range []string{"claim ok", "complete ok", "complete stale", "fail ok", "release ok", "release stale", "retry ok", "cancel ok", "cancel conflict", "get ok", "submit ok"} {
		if counts[needed] == 0 {
			t.Errorf("the history holds no %q: it proves little", needed)
		}
	}
	checkHistory(t, history)
}

func linearID(n int) ID { return ID(fmt.Sprintf("t%d", n)) }

func checkHistory(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(taskModel, history, time.Minute)
	switch result {
	case porcupine.Unknown:
		t.Error("the checker did not come to an end in a minute")
	case porcupine.Illegal:
		const path = "/tmp/mbox-linear.html" // t.TempDir would be gone before anybody looks
		t.Errorf("the history is not linearizable; see %s (%v)", path, porcupine.VisualizePath(taskModel, info, path))
	}
}

// TestCheckerCanFail: a history with two claims that both won is refused, and so
// are a claim that went back, a lost task and a second completion.
func TestCheckerCanFail(t *testing.T) {
	type step struct {
		c        call
		a        answer
		from, to int64
	}
	submit := step{call{"t", "submit", ""}, answer{said: "ok"}, 0, 1}
	won := func(token string, epoch, from, to int64) step {
		return step{call{"t", "claim", ""}, answer{said: "ok", token: token, epoch: epoch}, from, to}
	}
	done := func(token, said string, from, to int64) step {
		return step{call{"t", "complete", token}, answer{said: said}, from, to}
	}
	got := func(s State, said string, from, to int64) step {
		return step{call{"t", "get", ""}, answer{said: said, state: s}, from, to}
	}
	for _, row := range []struct {
		name string
		ops  []step
		want bool
	}{
		{"one claim wins", []step{submit, won("a", 1, 2, 5), {call{"t", "claim", ""}, answer{said: "empty"}, 3, 4}, done("a", "ok", 6, 7)}, true},
		{"two claims win", []step{submit, won("a", 1, 2, 5), won("b", 1, 3, 4)}, false},
		{"two claims win, with two epochs", []step{submit, won("a", 1, 2, 5), won("b", 2, 3, 4)}, false},
		{"two completions", []step{submit, won("a", 1, 2, 3), done("a", "ok", 4, 7), done("a", "ok", 5, 6)}, false},
		{"a stale token completes", []step{submit, won("a", 1, 2, 3), {call{"t", "release", "a"}, answer{said: "ok"}, 4, 5}, won("b", 2, 6, 7), done("a", "ok", 8, 9)}, false},
		{"a good token is refused", []step{submit, won("a", 1, 2, 3), done("a", "stale", 4, 5)}, false},
		{"an acknowledged task is missing", []step{submit, got(None, "missing", 2, 3)}, false},
		{"it is seen before it is sent", []step{{submit.c, submit.a, 4, 5}, got(Pending, "ok", 2, 3)}, false},
		{"a get goes back", []step{submit, won("a", 1, 2, 9), got(InProgress, "ok", 3, 4), got(Pending, "ok", 5, 6)}, false},
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
