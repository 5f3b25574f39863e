package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/queue"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Failure says why an attempt failed.
type Failure struct {
	TaskError
	Final bool // no further attempt, whatever max_attempts says
}

// Held returns the claim on a task that the token stands for, for a process
// that did not make it. The token is not judged here: every verb judges it
// under the task's lock.
func (b *Box) Held(ctx context.Context, id ID, token string) (*Claim, error) {
	if err := task.CheckID(id); err != nil {
		return nil, err
	}
	if token == "" {
		return nil, &schemas.Error{Path: "token", Code: "missing_field", Problem: "there is no token", Want: "the token that claim printed in mbox.lease.token"}
	}
	f, err := b.seek(id)
	if err != nil {
		return nil, err
	}
	return &Claim{Task: f.Task, box: b, agent: cmp.Or(f.Task.Claimant(), "unknown"), token: token}, nil
}

// Valid returns nil while the claim stands, and ErrStale once it is over:
// cancelled, reclaimed or ended.
func (c *Claim) Valid(ctx context.Context) error {
	r, err := c.box.lookup(c.ID())
	if err != nil {
		return err
	}
	if r == nil || r.State != InProgress || r.Epoch != c.Task.Mbox.Epoch {
		return task.About(c.ID(), ErrStale)
	}
	return nil
}

// Progress tells how far the work is and renews the lease. It rewrites the task
// file, at most once a second; what comes sooner only renews the lease. Percent
// is 0 to 100. ErrStale tells that the claim is over, also where the same was
// reported before.
func (c *Claim) Progress(ctx context.Context, p Progress) error {
	if p.Percent != nil && (*p.Percent < 0 || *p.Percent > 100) {
		return &schemas.Error{Path: "percent", Code: "bad_value", Problem: fmt.Sprintf("%d is not allowed", *p.Percent), Want: "0 to 100"}
	}
	p.Message = schemas.Sentence(p.Message, 1000)
	b := c.box
	if err := c.Renew(); err != nil {
		return err
	}
	return c.verb(ctx, "progress", p, func(f *home.File) (*change, error) {
		now := b.now()
		last := f.Task.Mbox.Progress
		if last != nil && now.Sub(last.At.Time) < time.Second {
			return nil, nil
		}
		p.At = task.At(now)
		f.Task.Mbox.Progress = &p
		f.Task.Mbox.Lease.Deadline = task.At(now.Add(b.o.Lease))
		return &change{event: audit.TaskProgress, to: InProgress, action: "reported progress on", reason: "progress"}, nil
	})
}

// Complete ends the task with a result: Output of r is taken, and what Keep was
// given becomes its artifacts. An output over MaxOutput becomes one too, and its
// tail stays. A claim that is over gets ErrStale, and the result is kept in
// quarantine. See [Claim.Check] for what the result has to pass.
func (c *Claim) Complete(ctx context.Context, r Result) error {
	if err := c.Check(ctx, r); err != nil {
		return err
	}
	content := c.content(r)
	return c.verb(ctx, "complete", content, func(f *home.File) (*change, error) {
		checks, err := c.passed(f.Task, c.content(r))
		if err != nil {
			return nil, err
		}
		left := c.leaving()
		if f.Size == 0 || len(content.Artifacts) > 0 || f.Size+mostIndented*len(content.Output) > MaxTask-laterRoom {
			if err := spill(c.Task, left, &content); err != nil {
				return nil, err
			}
		}
		f.Task.Result.Output, f.Task.Result.Artifacts = content.Output, content.Artifacts
		return &change{event: audit.TaskCompleted, to: Completed, action: "completed", reason: completion(checks), left: left, checks: checks}, nil
	})
}

// completion is the reason of a completion, which tells people's lists what was passed.
func completion(checks []string) string {
	if len(checks) == 0 {
		return "Completed"
	}
	return task.Passed + strings.Join(checks, ", ")
}

// Fail ends the attempt. The task waits in pending for another one, longer each
// time, or has failed for good when its attempts are used up or f is final. Another code
// than [task.CheckCode] takes is refused.
func (c *Claim) Fail(ctx context.Context, fail Failure) error {
	fail.Code = cmp.Or(fail.Code, "failed")
	if err := task.CheckCode(fail.Code); err != nil {
		return err
	}
	fail.Bound()
	return c.verb(ctx, "fail", fail, func(f *home.File) (*change, error) {
		return c.box.reclaimer.failed(f.Task, fail), nil
	})
}

// failed decides what a failed attempt leads to.
func (b *reclaimer) failed(t *Task, fail Failure) *change {
	why := fail.Code
	if fail.Message != "" {
		why += ": " + fail.Message
	}
	if fail.Final || t.Mbox.Attempt >= t.Mbox.MaxAttempts {
		t.Result.Error = &fail.TaskError
		return &change{event: audit.TaskFailed, to: Failed, action: "failed", reason: why, brief: fail.Code}
	}
	t.Mbox.NotBefore = new(task.At(b.now().Add(b.backoff(t.Mbox.Attempt))))
	return &change{
		event: audit.TaskRetried, to: Pending, action: "will be tried again:", reason: why,
		brief: fmt.Sprintf("%s, attempt %d of %d", fail.Code, t.Mbox.Attempt, t.Mbox.MaxAttempts),
	}
}

// backoff is how long the task waits after attempt n: RetryBase·2ⁿ, of which a
// random half is taken off, at most an hour.
func (b *reclaimer) backoff(n int64) time.Duration {
	wait := b.o.RetryBase << min(max(n, 0), 12)
	wait = min(wait, time.Hour)
	if wait <= 0 {
		return 0
	}
	return wait/2 + rand.N(wait/2+1)
}

// Release gives the task back, without burning an attempt. It is ready again
// after delay.
func (c *Claim) Release(ctx context.Context, why string, delay time.Duration) error {
	content := struct {
		Why   string `json:"why"`
		Delay int64  `json:"delay"`
	}{why, int64(delay)}
	return c.verb(ctx, "release", content, func(f *home.File) (*change, error) {
		f.Task.Mbox.Attempt = max(0, f.Task.Mbox.Attempt-1)
		if delay > 0 {
			f.Task.Mbox.NotBefore = new(task.At(c.box.now().Add(delay)))
		}
		return &change{event: audit.TaskReleased, to: Pending, action: "gave back", reason: why, brief: givenBack(why)}, nil
	})
}

// givenBack is what the ledger says of a release: its reason where that is a code of
// words joined by _, such as a model's fault, or begins with one and a colon, and nothing
// of any other text.
func givenBack(why string) string {
	code, _, _ := strings.Cut(why, ": ")
	if len(code) > 32 || !strings.Contains(code, "_") || strings.Trim(code, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "given back"
	}
	return "given back: " + code
}

// verb carries out a verb of the claim: under the task's lock the token is
// checked, and decide makes the change from what was read there. The same verb
// with the same token and content, said again after it was done, is fine and
// writes nothing; but progress of a claim that is over is ErrStale, whatever it says.
func (c *Claim) verb(ctx context.Context, verb string, content any, decide func(*home.File) (*change, error)) error {
	b, id := c.box, c.ID()
	request, err := b.sender.request(verb, c.token, content)
	if err != nil {
		return err
	}
	s, err := b.lockShard(ctx, string(id))
	if err != nil {
		return task.About(id, err)
	}
	defer s.unlock()
	f, err := b.claimed(ctx, s, id)
	if errors.Is(err, ErrByHand) {
		f, err = c.remembered(err)
	}
	if err != nil {
		return err
	}
	if f == nil || f.Task.Mbox.Lease == nil || f.Task.Mbox.Lease.Token != c.token {
		return c.late(ctx, s, verb, request, content)
	}
	ch, err := decide(f)
	if err != nil || ch == nil {
		return err
	}
	ch.id, ch.by, ch.from, ch.task, ch.before, ch.token = id, c.agent, InProgress, f.Task, f.Hash, c.token
	ch.spent = c.takeSpent()
	ch.action = fmt.Sprintf("%s %s %s", c.agent, ch.action, id)
	ch.extra = func(m *task.Move) {
		m.Request = request
		if ch.spent != nil {
			m.Root = f.Task.Root()
		}
	}
	err = b.commit(ctx, s, ch)
	if err != nil && !errors.Is(err, ErrCommitted) && ch.spent != nil {
		c.Spend(ch.spent) // it stands in no line yet
	}
	return task.About(id, err)
}

// claimed reads the task if it is in progress; nil if it is not. A task that
// somebody moved by hand is reconciled first.
func (b *Box) claimed(ctx context.Context, s *shard, id ID) (*home.File, error) {
	f, r, err := b.current(id)
	if errors.Is(err, ErrByHand) {
		if err := b.reconciler.reconcile(ctx, s, id); err != nil && !errors.Is(err, errNowhere) {
			return nil, onTheWay(err)
		}
		f, r, err = b.current(id)
	}
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil || r.State != InProgress {
		return nil, err
	}
	return f, nil
}

// remembered is the task as this process claimed it, for a verb of a claim that
// stands while its file was overwritten or removed, most likely by the claim's
// own command: else the result would be lost, and the task would stay where it
// is. What stands in its place is put aside by the move. Any other claim gets
// the error.
func (c *Claim) remembered(foreign error) (*home.File, error) {
	b, id := c.box, c.ID()
	r, err := b.lookup(id)
	if err != nil {
		return nil, err
	}
	if c.from == "" || r == nil || r.State != InProgress || r.Claim != task.DigestOf(b.saltedHash("token", c.token)) {
		return nil, foreign
	}
	data, err := schemas.Encode(c.Task)
	if err != nil {
		return nil, err
	}
	t := new(Task)
	if err := schemas.Decode(data, t); err != nil {
		return nil, err
	}
	if !t.AsksFor(r.Asked) {
		return nil, foreign
	}
	return &home.File{Task: t, Hash: r.After.String(), State: InProgress}, b.reconciler.mendFile(t, r)
}

// ours tells whether a claim of the task is known with this token, and refuses one that
// another task was claimed with. Nothing is kept of what came with that: it belongs
// elsewhere.
func (c *Claim) ours() (known bool, err error) {
	e, err := c.box.ledger.LineWith("claim", c.box.saltedHash("token", c.token))
	if err != nil || e == nil || ID(e.Task()) == c.ID() {
		return e != nil, err
	}
	return true, task.About(c.ID(), task.Fault("token", "it is the token of another task, "+e.Task(), "the token that claim printed for this one"))
}

// late answers a verb whose token is not that of the present claim.
func (c *Claim) late(ctx context.Context, s *shard, verb, request string, content any) error {
	b, id := c.box, c.ID()
	said, err := b.ledger.LineOfRequest(id, request)
	if err != nil {
		return err
	}
	if said != nil && ID(said.Task()) == id && verb != "progress" { // one that ended the claim; who reports it wants to know that
		return nil
	}
	known, err := c.ours()
	if err != nil {
		return err
	}
	over := "its claim is over"
	switch {
	case c.Task.Mbox.Epoch == 0:
		over = "it is " + c.Task.Called(c.Task.Result.Status) + ", and nobody has claimed it"
	case !known:
		over = "no claim of it is known that had this one"
	}
	if verb != "complete" && verb != "fail" {
		return task.About(id, fmt.Errorf("%w: %s", ErrStale, over))
	}
	data, err := schemas.Encode(struct {
		Task    ID     `json:"task"`
		Verb    string `json:"verb"`
		By      string `json:"by"`
		Content any    `json:"content"`
	}{id, verb, c.agent, content})
	if err != nil {
		return err
	}
	why := home.Reason{Reason: verb + " with a token whose claim is over", Code: home.LateResult, Task: id}
	err = b.putAside(ctx, s, "", data, string(id)+".result.json", audit.TaskLateResult, why)
	if err != nil && !errors.Is(err, ErrCommitted) { // what is committed is kept, whoever brings it there
		// Not ErrStale, for that would say that the bytes are kept.
		return task.About(id, fmt.Errorf("its claim is over, and its result could not be kept: %w", err))
	}
	return task.About(id, fmt.Errorf("%w: %s; what was handed in is kept in tasks/quarantine", ErrStale, over))
}

// Cancel ends a task that is pending or in progress; it then lies in failed
// with the error code "cancelled". Whoever works on it is killed. A task that is
// cancelled already is fine; one that has ended otherwise is ErrConflict. What it
// has handed on is cancelled with it, down the whole tree.
func (b *Box) Cancel(ctx context.Context, id ID, by, why string) error {
	return CancelSeen(ctx, b, id, by, why, Seen{})
}

// Seen is how somebody saw a task about which he decides: in which state, and after how
// many claims. Its zero value stands for any.
type Seen struct {
	State State
	Epoch int64
}

// Check is nil for a task that is still as it was seen, and ErrConflict for any other.
func (s Seen) Check(t *Task, state State) error {
	switch {
	case s.State == None || s.State == state && s.Epoch == t.Mbox.Epoch:
		return nil
	case s.State == state:
		return task.About(t.ID, fmt.Errorf("%w: it was claimed since you looked, and is %s again", ErrConflict, state))
	}
	return task.About(t.ID, fmt.Errorf("%w: it was %s when you looked, and is %s", ErrConflict, s.State, state))
}

// CancelSeen is [Box.Cancel] of a task that is still as it was seen.
func CancelSeen(ctx context.Context, b *Box, id ID, by, why string, seen Seen) error {
	if err := cmp.Or(task.CheckID(id), task.CheckActor(by)); err != nil {
		return err
	}
	err := b.dependencies.cancel(ctx, id, by, why, func(f *home.File) (bool, error) { return true, seen.Check(f.Task, f.State) })
	if err != nil {
		return err
	}
	if err := b.queue.Update(); err != nil {
		return err
	}
	if err := b.dependencies.tend(ctx); err != nil && !errors.Is(err, ErrBusy) { // then the next scan does it
		return err
	}
	return nil
}

// cancel cancels one task. still is asked under the task's shard whether it is to be
// done.
func (b *dependencies) cancel(ctx context.Context, id ID, by, why string, still func(*home.File) (bool, error)) error {
	s, err := b.lockShard(ctx, string(id))
	if err != nil {
		return task.About(id, err)
	}
	defer s.unlock()
	var note *home.Note
	err = b.transition(ctx, s, id, func(f *home.File, r *queue.Entry) (*change, error) {
		if yes, err := still(f); err != nil || !yes {
			return nil, err
		}
		c := &change{
			id: id, by: by, event: audit.TaskCancelled, from: r.State, to: Failed, task: f.Task, before: f.Hash,
			reason: why, action: fmt.Sprintf("%s cancelled %s", by, id),
		}
		if l := f.Task.Mbox.Lease; r.State == InProgress && l != nil {
			c.token = l.Token
			_, note, _ = b.leases.Judge(f.Task)
		}
		f.Task.Result.Error = &TaskError{Code: "cancelled", Message: task.OneLine(why)}
		return c, nil
	})
	if errors.Is(err, ErrNotFound) {
		return b.cancelEnded(id)
	}
	if err != nil {
		return err
	}
	return b.leases.EndChild(note)
}

// cancelEnded answers a cancel of a task that is not live. Under its shard: a
// retry may bring the task back at any other moment.
func (b *dependencies) cancelEnded(id ID) error {
	f, err := b.seek(id)
	if err != nil {
		return err
	}
	if f.State == Failed && f.Task.Result.Error != nil && f.Task.Result.Error.Code == "cancelled" {
		return nil
	}
	return task.About(id, fmt.Errorf("%w: it is %s already", ErrConflict, whereItIs(f)))
}

// Retry puts a failed task back into pending, with all its attempts; the epoch
// goes on. A deadline that has passed before anybody took it is taken away, and the line
// says so. A task that is in no failed state is ErrConflict.
func (b *Box) Retry(ctx context.Context, id ID, by, why string) error {
	return RetrySeen(ctx, b, id, by, why, Seen{})
}

// RetrySeen is [Box.Retry] of a task that is still as it was seen.
func RetrySeen(ctx context.Context, b *Box, id ID, by, why string, seen Seen) error {
	if err := cmp.Or(task.CheckID(id), task.CheckActor(by)); err != nil {
		return err
	}
	s, err := b.lockShard(ctx, string(id))
	if err != nil {
		return task.About(id, err)
	}
	defer s.unlock()
	f, err := b.seek(id)
	if err != nil {
		return err
	}
	e, last, err := b.ledger.LastStep(id)
	switch {
	case err != nil:
		return err
	case e == nil:
		return task.About(id, fmt.Errorf("%w: the ledger knows nothing of it", ErrIntegrity))
	case f.State == Pending && last.Enters() == Pending && e.Event == audit.TaskRetried && last.Leaves() == Failed:
		return nil // said again
	case f.State != Failed || last.Enters() != Failed:
		return task.About(id, fmt.Errorf("%w: it is %s, only a failed task can be retried", ErrConflict, whereItIs(f)))
	case f.Hash != task.HashOf(last.After):
		return task.About(id, fmt.Errorf("%w: its bytes are not those of its last ledger line", ErrByHand))
	case f.Task.Called(Failed) == task.Rejected:
		return task.About(id, fmt.Errorf("%w: it is a drop that was rejected, and has only the fields that were right", ErrConflict))
	}
	if err := seen.Check(f.Task, f.State); err != nil {
		return err
	}
	if failed, err := FailedBefore(b, f.Task); err != nil || len(failed) > 0 {
		return task.About(id, cmp.Or(err, error(&BlockedError{id, failed})))
	}
	m, action := &f.Task.Mbox, fmt.Sprintf("%s retried %s", by, id)
	m.Attempt, m.NotBefore, m.WaitsFor, m.Join = 0, nil, nil, ""
	if m.Deadline != nil && m.Epoch == 0 && !m.Deadline.After(b.now()) { // else it would fail again at once
		m.Deadline = nil
		action += ", without its deadline, which has passed"
	}
	if _, child := f.Task.Born(); child {
		m.Trigger = "retry" // its parent may have ended: it works for itself now
	}
	return task.About(id, b.commit(ctx, s, &change{
		id: id, by: by, event: audit.TaskRetried, from: Failed, to: Pending, task: f.Task, before: f.Hash,
		reason: why, action: action,
	}))
}
