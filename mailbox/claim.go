package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
)

// ClaimRequest says who asks for a task.
type ClaimRequest struct {
	Agent string // who claims
	ID    ID     // this task and no other; "" for the best one
	Type  string // only tasks of this type; "" for all
	// OnlyNamed takes no task that is for any, whatever the agent's table says.
	OnlyNamed bool
	// Thinks is asked, at most once a claim, when the best task is one that carries
	// no action: false takes the next one that does. nil: yes.
	Thinks func() bool
	// Enter is asked, at most once a claim, before a task is taken: false takes none
	// yet, and Wait asks again soon. leave is called where none was taken after all;
	// who has the claim calls it when the work has ended. nil: yes.
	Enter func() (leave func(), ok bool)
	// Looked, if not nil, is called each time that Wait has looked and found nothing, at
	// least once in each scan interval: a sign that it goes on.
	Looked func()
	// Process makes a lease file that the claim holds locked as long as this
	// process lives. Without it the lease is its deadline alone: for one-shot
	// commands.
	Process bool
}

// Claim is a task that is ours, until the lease ends. Its verbs show the
// claim's token; once another claim has been given out they answer ErrStale.
type Claim struct {
	Task  *Task // as it stands in in-progress
	box   *Box
	agent string
	token string
	from  string        // SHA-256 of the file in pending that was claimed
	lease *durable.Lock // of its lease file; nil for a claim without one
	left  *artifact.Set // what Keep was given; nil for nothing

	checked string // the request to complete whose result has passed its checks

	mu    sync.Mutex
	spent Budget // not debited yet; guarded by mu
}

// Spend debits the tree that the task belongs to. It stands in the ledger with
// the next line of this claim.
func (c *Claim) Spend(spent Budget) {
	if len(spent) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.spent == nil {
		c.spent = Budget{}
	}
	c.spent.Add(spent)
}

func (c *Claim) takeSpent() Budget {
	c.mu.Lock()
	defer c.mu.Unlock()
	spent := c.spent
	c.spent = nil
	return spent
}

// ID is the task's id.
func (c *Claim) ID() ID { return c.Task.ID }

// Token is the claim's fencing token.
func (c *Claim) Token() string { return c.token }

// Agent is who claimed.
func (c *Claim) Agent() string { return c.agent }

// Close gives up the lease file and its lock.
func (c *Claim) Close() error {
	if c.lease == nil {
		return nil
	}
	err := c.lease.Unlock()
	c.lease = nil
	return err
}

// Hold makes the file that the processes inherit that are to do the work: while
// one of them has it open, the task is handed out again only when they have been
// ended, or at the deadline. They cannot write to it. nil for a claim without a
// lease file. The caller closes it.
func (c *Claim) Hold() (*os.File, error) {
	if c.lease == nil {
		return nil, nil
	}
	return c.box.leases.Hold(c.ID(), c.token)
}

// Started records the process that ends whatever works on the task, at once,
// when it gets SIGTERM.
func (c *Claim) Started(child int) error {
	if c.lease == nil {
		return nil
	}
	return c.box.leases.Started(c.ID(), c.token, child)
}

// Renew is a sign of life: it moves the lease's end to one lease time from now.
func (c *Claim) Renew() error {
	if c.lease == nil {
		return nil
	}
	return c.box.leases.Renew(c.ID(), c.token)
}

// fits tells whether the agent may take tasks of the class.
func (b *Box) fits(r ClaimRequest) func(queue.Class) bool {
	own, registered := b.o.Agents[r.Agent]
	return func(c queue.Class) bool {
		if r.Type != "" && c.Type != r.Type || own.Disabled {
			return false
		}
		return c.Target == r.Agent || c.Target == "any" && !r.OnlyNamed && takesAny(own, registered, c)
	}
}

// takesAny tells whether an agent takes a task that names nobody: a registered
// one by its actions or types, another one whatever needs no action.
func takesAny(own Capabilities, registered bool, c queue.Class) bool {
	switch {
	case !registered:
		return c.Action == ""
	case own.OnlyNamed:
		return false
	case c.Action != "":
		return slices.Contains(own.Actions, c.Action)
	}
	return slices.Contains(own.Types, c.Type)
}

// Claim takes the next task that is ready and fits, by priority (with ageing),
// then age, then id. Where another claim is at that task, any other one of the
// same standing may come before it. ErrEmpty if there is none; before it says so,
// it gives tasks whose lock is held a tenth of a second, since who holds it may be
// about to give the task back, or may be at another task of the same shard. For an
// agent that may not claim now it is a PausedError. It does not admit drops or reclaim
// lost tasks; Tidy does.
func (b *Box) Claim(ctx context.Context, r ClaimRequest) (*Claim, error) {
	deadline := time.Now().Add(busyPauseMax)
	for pause := busyPause; ; pause *= 2 {
		c, busy, err := b.claimNext(ctx, r)
		left := time.Until(deadline)
		if !busy || left <= 0 {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(min(pause, left)):
		}
	}
}

// claimNext is Claim that does not wait: busy tells, with ErrEmpty, that there may
// be a task nevertheless, which somebody else has in his hands. Who gives a lock
// back gives no sign of it that a watcher sees.
func (b *Box) claimNext(ctx context.Context, r ClaimRequest) (c *Claim, busy bool, err error) {
	if err := task.CheckAgent(r.Agent); err != nil {
		return nil, false, err
	}
	if err := b.dependencies.resolve(ctx); err != nil {
		return nil, false, onTheWay(err)
	}
	if err := mayClaim(b.books, r.Agent); err != nil {
		return nil, false, err
	}
	if r.ID != "" {
		return claimThis(ctx, b, r)
	}
	fits, asked, entered, at := b.fits(r), false, false, 0
	var taken []queue.Taken
	defer func() { b.queue.PutBack(taken) }()
	for ; ; at++ {
		if at == len(taken) {
			most := 1
			if busy {
				most = amongHeads
			}
			more, others := b.queue.Take(fits, most, len(taken))
			if len(more) == 0 {
				return nil, busy || others, ErrEmpty
			}
			taken = append(taken, more...)
		}
		rec := taken[at]
		if !fits(rec.Class) {
			continue
		}
		if rec.Class.Action == "" && r.Thinks != nil && !asked {
			asked = true
			if !r.Thinks() {
				any := fits
				fits = func(c queue.Class) bool { return c.Action != "" && any(c) }
				continue
			}
		}
		if r.Enter != nil && !entered {
			leave, ok := r.Enter()
			if !ok {
				return nil, true, ErrEmpty
			}
			entered = true
			defer func() {
				if c == nil {
					leave()
				}
			}()
		}
		c, err := b.claim(ctx, r, rec.ID)
		switch {
		case err == nil:
			return c, false, nil
		case errors.Is(err, ErrCommitted):
			return nil, false, err // it is claimed; busy was what came after
		case errors.Is(err, ErrUnsettled): // it is not soon over
		case errors.Is(err, ErrBusy):
			busy = true // somebody else is claiming it, or still sending it
		case errors.Is(err, ErrNotFound), errors.Is(err, errNotReady), errors.Is(err, errHeld):
			// Somebody else has it, or had it, or a line about it has to come first.
		case ofNewer(err): // who knows its fields takes it
		case errors.Is(err, ErrByHand):
			if _, err := b.reconciler.lookInto(ctx, rec.ID); err != nil && !errors.Is(err, errNowhere) {
				return nil, false, onTheWay(err)
			}
		default:
			return nil, false, err
		}
	}
}

// kept tells, as a part of a sentence, what keeps an agent from claiming a task; "" where
// its file alone does not say.
func kept(b *Box, id ID, agent string) string {
	f, err := b.seek(id)
	if err != nil || f.Task == nil {
		return ""
	}
	t := f.Task
	switch at, target := t.Mbox.NotBefore, t.Assignment.TargetAgent; {
	case f.State.Terminal():
		return ", for it is " + t.Called(f.State)
	case f.State == InProgress:
		return ", for " + pickedBy(t) + " has it"
	case target != "any" && target != agent:
		return ", for it is for " + target
	case at != nil && at.After(b.now()):
		return ", for its time is not before " + at.String()
	}
	for _, other := range slices.Concat(t.Mbox.DependsOn, t.Mbox.WaitsFor) {
		if state, _, err := b.dependencies.dependencyState(other); err == nil && !state.Terminal() {
			return ", for it waits for " + string(other)
		}
	}
	return ""
}

// asEnded is the error of a task that is not live: ErrConflict where it has ended, and how.
func asEnded(b *books, id ID, err error) error {
	f, failed := b.seek(id)
	if failed != nil || f.Task == nil || !f.Task.Result.Status.Terminal() {
		return task.About(id, err)
	}
	return task.About(id, fmt.Errorf("%w: it has ended, and is %s", ErrConflict, f.Task.Called(f.State)))
}

// claimThis is claimNext for one task. One that is not ready, has ended, or is for somebody
// else, is ErrConflict, and one that nobody knows ErrNotFound.
func claimThis(ctx context.Context, b *Box, r ClaimRequest) (c *Claim, busy bool, err error) {
	if err := task.CheckID(r.ID); err != nil {
		return nil, false, err
	}
	c, err = b.claim(ctx, r, r.ID)
	switch {
	case errors.Is(err, errNotReady) && b.queue.InTheWay(r.ID) != nil:
		_, way := inTheWay(b.books, r.ID)
		err = task.About(r.ID, fmt.Errorf("%s cannot take it now, for %s: %w", r.Agent, way, ErrConflict))
	case errors.Is(err, errHeld):
		err = task.About(r.ID, fmt.Errorf("%s cannot take it now, for it has to be approved: %w", r.Agent, ErrConflict))
	case errors.Is(err, errNotReady):
		err = task.About(r.ID, fmt.Errorf("%s cannot take it now%s: %w", r.Agent, kept(b, r.ID, r.Agent), ErrConflict))
	case errors.Is(err, ErrByHand):
		_, failed := b.reconciler.lookInto(ctx, r.ID)
		if _, _, now := b.current(r.ID); !errors.Is(now, ErrByHand) {
			err = task.About(r.ID, ErrBusy) // what was adopted is asked for again
		}
		return nil, true, cmp.Or(onTheWay(failed), err)
	case errors.Is(err, ErrNotFound) && !errors.Is(err, ErrCommitted):
		err = asEnded(b.books, r.ID, err)
	case err != nil && !errors.Is(err, ErrCommitted):
		err = task.About(r.ID, err)
	}
	return c, errors.Is(err, ErrBusy) && !errors.Is(err, ErrUnsettled) && !errors.Is(err, ErrCommitted), err
}

// amongHeads is among how many tasks those choose who found the first one taken. All
// of them would meet again at the second one.
const amongHeads = 32

// errNotReady says that a task that looked ready is not.
var errNotReady = errors.New("not ready")

// claim tries to claim one task. It does not wait for the shard: who holds it
// is most likely claiming this task.
func (b *Box) claim(ctx context.Context, r ClaimRequest, id ID) (*Claim, error) {
	under, err := tryPaths(ctx, b, id)
	if err != nil {
		return nil, err
	}
	if under != nil {
		defer under.unlock()
	}
	s, err := b.tryShard(ctx, home.Shard(string(id)))
	if err != nil {
		return nil, err
	}
	defer s.unlock()
	f, rec, err := b.current(id)
	if err != nil {
		return nil, err
	}
	if len(rec.Paths) > 0 {
		if under == nil {
			return nil, ErrBusy // it was edited just now
		}
		s.locks = append(s.locks, under.locks...)
		if b.queue.InTheWay(id) != nil {
			return nil, errNotReady
		}
	}
	if rec.State != Pending || rec.Blocked || rec.NotBefore > b.now().UnixMilli() || !b.fits(r)(rec.Class) {
		return nil, errNotReady
	}
	if err := mayClaim(b.books, r.Agent); err != nil {
		return nil, err
	}
	if err := b.approvals.mayRun(ctx, s, f, r.Agent); err != nil {
		return nil, onTheWay(err)
	}
	c := &Claim{Task: f.Task, box: b, agent: r.Agent, token: home.RandomHex(16), from: f.Hash}
	ch := b.pick(c, f.Hash)
	if r.Process {
		ch.lease = func() (err error) { c.lease, err = b.leases.Begin(c.ID(), c.token); return err }
	}
	err = b.commit(ctx, s, ch)
	if err == nil && ch.stolen {
		err = errors.Join(b.reconciler.yield(ctx, s, c), errNotReady)
	}
	if err != nil {
		c.Close() // the lease file went with what was staged, or settle drops it
		return nil, task.About(id, err)
	}
	return c, nil
}

// tryPaths takes the lock of delegations, without waiting, for a task with paths: of
// two claims under it the second one sees what the first one has taken. It comes before
// the task's shard. nil for a task without.
func tryPaths(ctx context.Context, b *Box, id ID) (*shard, error) {
	if rec := b.queue.Find(id); rec == nil || len(rec.Paths) == 0 {
		return nil, nil
	}
	return b.tryShard(ctx, home.Delegations)
}

// pick makes the claim's change of the task.
func (b *Box) pick(c *Claim, before string) *change {
	t, now := c.Task, task.At(b.now())
	t.Mbox.Attempt++
	t.Mbox.Epoch++
	t.Mbox.Lease = &Lease{Token: c.token, Host: b.writer.Host, Deadline: task.At(now.Add(b.o.Lease))}
	t.Mbox.NotBefore = nil
	t.Assignment.PickedUpBy, t.Assignment.PickedUpAt = &c.agent, &now
	return &change{
		id: t.ID, by: c.agent, event: audit.TaskPicked, from: Pending, to: InProgress, task: t, before: before,
		reason: "Picked up for processing", action: fmt.Sprintf("%s picked %s, attempt %d", c.agent, t.ID, t.Mbox.Attempt),
		token: c.token,
	}
}

// How soon a task is looked at again whose lock is held: a transition holds it for
// a few flushes, a stopped process for long.
const (
	busyPause    = 500 * time.Microsecond
	busyPauseMax = 100 * time.Millisecond
)

// Wait is Claim that waits until there is a task, and until the agent may claim. It watches for new ones; without
// a router it admits and reclaims on its own. What it watches with is kept for the
// next Wait, until Close.
func (b *Box) Wait(ctx context.Context, r ClaimRequest) (*Claim, error) {
	l, fresh := b.borrowLookout()
	defer b.returnLookout(l)
	if err := l.first(ctx, fresh); err != nil {
		return nil, err
	}
	for pause := busyPause; ; {
		c, busy, err := b.claimNext(ctx, r)
		if !errors.Is(err, ErrEmpty) {
			return c, err
		}
		if r.Looked != nil {
			r.Looked()
		}
		if l.listen(errors.Is(err, ErrPaused)) {
			continue // what was said before is heard by looking once more
		}
		most := min(l.p.next(), untilClaims(b, err))
		if busy {
			most = min(most, pause)
			pause = min(2*pause, busyPauseMax)
		} else {
			pause = busyPause
		}
		s, err := l.w.wait(ctx, most)
		if err != nil {
			return nil, err
		}
		l.heed(ctx, s)
	}
}

// untilClaims is after what time at most an agent is asked about again that may not
// claim, as err says.
func untilClaims(b *Box, err error) time.Duration {
	if paused, is := errors.AsType[*PausedError](err); is && paused.Until != nil {
		return max(paused.Until.Sub(b.now()), time.Millisecond)
	}
	return b.o.ScanInterval
}

// untilDue is how long to wait at most: the scan interval, or less if a
// waiting task's time comes before.
func (b *Box) untilDue() time.Duration {
	due := b.queue.NextDue()
	if due.IsZero() {
		return b.o.ScanInterval
	}
	return min(b.o.ScanInterval, max(due.Sub(b.now()), time.Millisecond))
}
