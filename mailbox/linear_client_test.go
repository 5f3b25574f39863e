package mailbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
)

// window is about how many tasks all clients call at a time. The fewer, the more
// they meet.
const window = 2

// clientsOfProcess is how many clients share a process, and its mailbox.
const clientsOfProcess = 2

// runClient is the whole life of a client process.
func runClient(text string) int {
	var o orders
	err := json.Unmarshal([]byte(text), &o)
	if err == nil {
		err = o.run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (o orders) run(ctx context.Context) error {
	b, err := Open(ctx, o.Home, o.options())
	if err != nil {
		return err
	}
	defer b.Close()
	counter, err := o.counter()
	if err != nil {
		return err
	}
	shared := &tokens{of: map[ID][]string{}}
	errs := make([]error, clientsOfProcess)
	var wg sync.WaitGroup
	for g := range clientsOfProcess {
		wg.Go(func() {
			c := &client{
				orders: o, number: o.Number*clientsOfProcess + g, box: b, tokens: shared, counter: counter,
				random: rand.New(rand.NewPCG(o.Seed, uint64(o.Number*clientsOfProcess+g))),
			}
			if c.history, errs[g] = os.OpenFile(o.historyOf(g), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); errs[g] == nil {
				errs[g] = c.work(ctx)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// client calls at random and writes down what it was told and when.
type client struct {
	orders
	number  int
	box     *Box
	random  *rand.Rand
	tokens  *tokens
	counter *atomic.Int64
	history *os.File
	kept    []*Claim // that last as long as this process
	said    int
}

// tokens are what the clients of a process have seen, so that late and foreign
// tokens are shown too.
type tokens struct {
	sync.Mutex
	of map[ID][]string
}

func (s *tokens) add(id ID, token string) {
	s.Lock()
	defer s.Unlock()
	if token != "" && !slices.Contains(s.of[id], token) {
		s.of[id] = append(s.of[id], token)
	}
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
	heldVerbs = []string{"progress", "progress", "complete", "fail", "fail", "fail for good", "release", "release", "release"}
	allVerbs  = append([]string{"get", "get", "get", "get", "claim", "claim", "claim", "claim", "claim", "retry", "retry", "cancel", "submit"}, heldVerbs...)
)

// work makes calls about the tasks that all clients are at. Now and then it does
// what a router does, so that the tasks of dead processes come back.
func (c *client) work(ctx context.Context) error {
	defer c.letGo(0)
	for {
		n := int(c.counter.Add(1))
		if n > c.Calls {
			return nil
		}
		at := n * c.tasks() / c.Calls
		in := call{id: linearID(at + c.random.IntN(window)), verb: allVerbs[c.random.IntN(len(allVerbs))]}
		if slices.Contains(heldVerbs, in.verb) {
			if in.token = c.tokens.some(in.id, c.random); in.token == "" {
				in.verb = []string{"get", "submit", "claim"}[c.random.IntN(3)]
			}
		}
		in.process = in.verb == "claim" && c.random.IntN(8) == 0
		if err := c.note(ctx, in); err != nil {
			return fmt.Errorf("%s %s: %w", in.verb, in.id, err)
		}
		c.letGo(5)
		if c.random.IntN(100) == 0 {
			if err := c.box.Tidy(ctx); err != nil {
				return fmt.Errorf("tidying: %w", err)
			}
		}
	}
}

// letGo closes what is kept beyond so many claims, as a worker that gives up.
func (c *client) letGo(keep int) {
	for len(c.kept) > keep {
		old := c.kept[0]
		c.kept = c.kept[1:]
		c.write(callLine(call{id: old.ID(), verb: "let go", token: old.Token()}))
		old.Close()
	}
}

func (c *client) write(line string) {
	if _, err := c.history.WriteString(line); err != nil {
		panic(err)
	}
}

// note makes a call, and writes it down before and after.
func (c *client) note(ctx context.Context, in call) error {
	c.write(callLine(in))
	out, err := c.call(ctx, in)
	if err != nil {
		return err
	}
	c.write(answerLine(out))
	c.tokens.add(in.id, out.token)
	if in.verb == "complete" && out.said == "ok" {
		return c.note(ctx, call{id: in.id, verb: "cancel"}) // which comes too late
	}
	return nil
}

// agentFor names the one agent that may claim the task, so that a claim is
// about one task.
func agentFor(id ID) string { return "agent-" + string(id) }

func linearID(n int) ID { return ID(fmt.Sprintf("t%d", n)) }

func (c *client) call(ctx context.Context, in call) (out answer, err error) {
	switch in.verb {
	case "submit":
		t := request("linear")
		t.ID, t.Assignment.TargetAgent = in.id, agentFor(in.id)
		_, err = c.box.Submit(ctx, t)
	case "get":
		err = c.get(ctx, in.id, &out)
	case "claim":
		var claim *Claim
		if claim, err = c.box.Claim(ctx, ClaimRequest{Agent: agentFor(in.id), Process: in.process}); err == nil {
			out.token, out.epoch, out.attempt = claim.Token(), claim.Task.Mbox.Epoch, claim.Task.Mbox.Attempt
			if in.process {
				c.kept = append(c.kept, claim)
			}
		}
	case "retry":
		err = c.box.Retry(ctx, in.id, "human", "again")
	case "cancel":
		err = c.box.Cancel(ctx, in.id, "human", "no more")
	default:
		err = c.hold(ctx, in)
	}
	for said, e := range map[string]error{"empty": ErrEmpty, "stale": ErrStale, "conflict": ErrConflict, "missing": ErrNotFound, "busy": ErrBusy} {
		if errors.Is(err, e) {
			out.said = said
			return out, nil
		}
	}
	out.said = "ok"
	return out, err
}

// get believes what the file says: its content changes at one moment, its folder
// a moment before or after. But what lies in completed has its result.
func (c *client) get(ctx context.Context, id ID, out *answer) error {
	t, folder, err := c.box.Task(ctx, id)
	if err != nil {
		return err
	}
	if folder == Completed && t.Result.Status != Completed {
		return fmt.Errorf("it lies in %s without its result, as %s", folder, t.Result.Status)
	}
	out.state, out.epoch, out.attempt = t.Result.Status, t.Mbox.Epoch, t.Mbox.Attempt
	if l := t.Mbox.Lease; l != nil && out.state == InProgress {
		out.token = l.Token
	}
	return nil
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
	case "progress":
		return claim.Progress(ctx, Progress{Message: what})
	case "complete":
		return claim.Complete(ctx, Result{Output: jsontext.Value(`"` + what + `"`)})
	case "release":
		return claim.Release(ctx, what, 0)
	}
	return claim.Fail(ctx, Failure{TaskError: TaskError{Code: "no", Message: what}, Final: in.verb == "fail for good"})
}
