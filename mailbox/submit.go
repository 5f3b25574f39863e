package mailbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// sender makes new tasks, with the numbers in the names of those that have no id.
type sender struct {
	*books
	serial *durable.LockFile // of .mbox/locks/numbers
}

// Submit puts a new task into pending and returns its id; missing fields get
// their defaults, and a missing id is made. When it returns, the task is on
// disk and will be executed at least once. A second Submit of the same id with
// the same content, or with the same idempotency key, writes nothing and
// returns the first task's id; the same id with other content is ErrConflict, a task for an
// agent that has ended an [EndedError].
// A task that is wrong, or whose deadline has passed, is a *schemas.Error; one that Options.Review refuses is
// refused with its error.
func (b *Box) Submit(ctx context.Context, t *Task) (ID, error) {
	return SubmitWith(ctx, b, t, nil)
}

// sendNew is Submit for a task that has been looked at for what only mbox may say. It
// fills in n; without a transaction there it was sent before.
func sendNew(ctx context.Context, b *Box, n *Task, files *artifact.Set) (ID, error) {
	now := b.now()
	n.Complete(now, now, "human", b.o.MaxAttempts)
	if err := n.Validate(); err != nil {
		return "", err
	}
	notes, err := b.approvals.review(ctx, nil, n)
	if err != nil {
		return "", err
	}
	id, err := b.sender.submitNew(ctx, nil, n, files, nil)
	if err != nil && !errors.Is(err, ErrCommitted) {
		return "", err
	}
	if n.Mbox.TX == "" { // said again: it has been decided then
		return id, err
	}
	return id, errors.Join(err, b.approvals.noteAll(ctx, nil, id, notes))
}

// SentWith is the task that was sent with this idempotency key, whose line is on the
// disk then; "" if none was.
func SentWith(ctx context.Context, b *Box, key string) (ID, error) {
	id, err := b.sender.idOfKey(b.saltedHash("key", key))
	if err != nil || id == "" {
		return "", err
	}
	return id, b.ledger.Flushed(ctx)
}

// Fire is Submit for what mbox sends by itself at a tick of a schedule: the tick is the
// task's trigger and its idempotency key. A tick has one task, whoever fires it; made
// tells whether it is this one.
func Fire(ctx context.Context, b *Box, t *Task, name, tick string) (id ID, made bool, err error) {
	if t.Mbox.IdempotencyKey != "" {
		return "", false, task.Fault("mbox.idempotency_key", "a schedule's task has that of its tick", "leave it out")
	}
	trigger := task.Scheduled + name + ":" + tick
	return sendOnce(ctx, b, t, trigger, trigger)
}

// Beat is Submit for what an agent has to look after by itself at a tick. A tick of an
// agent has one task; made tells whether it is this one.
func Beat(ctx context.Context, b *Box, t *Task, tick string) (id ID, made bool, err error) {
	return sendOnce(ctx, b, t, task.Heartbeat, beatKey(t.Assignment.TargetAgent, tick))
}

// sendOnce is Submit for what mbox sends by itself, with this trigger and key.
func sendOnce(ctx context.Context, b *Box, t *Task, trigger, key string) (id ID, made bool, err error) {
	if err := t.Forged(); err != nil {
		return "", false, err
	}
	n := *t
	n.Mbox.Trigger, n.Mbox.IdempotencyKey = trigger, key
	id, err = sendNew(ctx, b, &n, nil)
	return id, n.Mbox.TX != "", err
}

// BeatAt is the task of an agent's tick; "" if it has none.
func BeatAt(b *Box, agent, tick string) (ID, error) {
	return b.sender.idOfKey(b.sender.beatHash(beatKey(agent, tick)))
}

func beatKey(agent, tick string) string { return task.Heartbeat + ":" + agent + ":" + tick }

// Fired is the task of a schedule's tick; "" if it has none.
func Fired(b *Box, name, tick string) (ID, error) {
	return b.sender.idOfKey(b.sender.tickHash(task.Scheduled + name + ":" + tick))
}

// submitNew puts a task into pending whose fields are filled in and right. What
// it costs its tree is debited with it. Its line rests on these locks as well.
func (b *sender) submitNew(ctx context.Context, under []durable.Held, n *Task, files *artifact.Set, spent Budget) (ID, error) {
	request, err := b.request("submit", "", n.Asked())
	if err != nil {
		return "", err
	}
	if n.ID != "" {
		return b.submitNamed(ctx, under, n, files, request, spent)
	}
	for ctx.Err() == nil {
		if n.ID, err = b.nextID(ctx, b.now()); err != nil {
			return "", err
		}
		id, err := b.submitAs(ctx, under, n, files, request, spent)
		if circle, is := errors.AsType[*Refusal](err); is && circle.Step == "cycle" {
			continue // with one that waits for an id that nobody has
		}
		if _, ended := errors.AsType[*EndedError](err); ended || !errors.Is(err, ErrConflict) {
			return id, err // for an agent that has ended no other id helps
		}
	}
	return "", ctx.Err()
}

// submitNamed is submitAs for an id that others may know, and wait for, already: of two
// who send side by side what would wait for one another, the second one sees the first.
func (b *sender) submitNamed(ctx context.Context, under []durable.Held, n *Task, files *artifact.Set, request string, spent Budget) (ID, error) {
	if len(n.Mbox.DependsOn) > 0 {
		s, err := b.lockShardNumber(ctx, home.Delegations)
		if err != nil {
			return "", task.About(n.ID, err)
		}
		defer s.unlock()
		under = append(under, s.locks...)
	}
	return b.submitAs(ctx, under, n, files, request, spent)
}

// request is the salted hash of a verb with its token and content. A line
// carries it, so that the same verb said again is known.
func (b *sender) request(verb, token string, content any) (string, error) {
	data, err := schemas.Encode(content)
	if err != nil {
		return "", err
	}
	return b.saltedHash("request", verb+"\n"+token+"\n"+string(data)), nil
}

func (b *sender) submitAs(ctx context.Context, under []durable.Held, t *Task, files *artifact.Set, request string, spent Budget) (ID, error) {
	s, unlock, err := b.lockForSubmit(ctx, t)
	if err != nil {
		return "", task.About(t.ID, err)
	}
	defer unlock()
	s.locks = append(s.locks, under...)
	key := ""
	if t.Mbox.IdempotencyKey != "" {
		key = b.keyHash(t)
		if id, err := b.idOfKey(key); err != nil || id != "" {
			return id, err
		}
	}
	known, err := b.known(t.ID)
	if err != nil {
		return "", err
	}
	if known {
		return b.sameAgain(t.ID, request)
	}
	t.Assignment.TargetAgent = b.queue.Called(t.Assignment.TargetAgent)
	if t.Mbox.Trigger == "" { // what mbox sends by itself waits or fails, and why tells
		if err := ahead(t.Mbox.Deadline, b.now()); err != nil {
			return "", err
		}
		if err := mayGet(b.books, t.Assignment.TargetAgent); err != nil {
			return "", err
		}
	}
	if err := closes(b.books, t); err != nil {
		return "", task.About(t.ID, err)
	}
	c := &change{
		id: t.ID, by: t.Source.Agent, event: audit.TaskCreated, from: None, to: Pending, task: t,
		reason: "submitted", spent: spent, action: fmt.Sprintf("%s sent %s to %s", t.Source.Agent, t.ID, t.Assignment.TargetAgent),
		left:  attachedTo(files, t.ID),
		extra: func(m *task.Move) { m.Request, m.Key, m.Attachments = request, key, t.Mbox.Attachments },
	}
	return t.ID, task.About(t.ID, b.commit(ctx, s, c))
}

// ahead refuses a deadline that has passed: the task would fail at once.
func ahead(deadline *Time, now time.Time) error {
	if deadline == nil || deadline.After(now) {
		return nil
	}
	return task.Fault("mbox.deadline", deadline.String()+" has passed", "a time that lies ahead, or none")
}

// closes refuses a new task that depends on one that waits for it. Two drops that are
// admitted at one moment, by two processes, each miss the other's.
func closes(b *books, t *Task) error {
	if len(t.Mbox.DependsOn) == 0 {
		return nil
	}
	if err := b.queue.Update(); err != nil {
		return err
	}
	return circle(b, t.ID, "", t.Mbox.DependsOn)
}

// lockForSubmit takes the id's shard and, with an idempotency key, the key's,
// the lower number first. The task's line rests on both.
func (b *sender) lockForSubmit(ctx context.Context, t *Task) (s *shard, unlock func(), err error) {
	id := home.Shard(string(t.ID))
	numbers := []int{id}
	if t.Mbox.IdempotencyKey != "" {
		numbers = append(numbers, home.Shard("key:"+t.Mbox.IdempotencyKey))
	}
	slices.Sort(numbers)
	var held []*shard
	unlock = func() {
		for _, h := range slices.Backward(held) {
			h.unlock()
		}
	}
	for _, n := range slices.Compact(numbers) {
		h, err := b.lockShardNumber(ctx, n)
		if err != nil {
			unlock()
			return nil, nil, err
		}
		held = append(held, h)
		if n == id {
			s = h
		}
	}
	for _, h := range held {
		if h != s {
			s.locks = append(s.locks, h.lock)
		}
	}
	return s, unlock, nil
}

// idOfKey returns the task that was sent with the key; "" if none was.
func (b *sender) idOfKey(key string) (ID, error) {
	e, err := lineOfKey(b.books, key)
	if err != nil || e == nil {
		return "", err
	}
	return ID(e.Task()), nil
}

// errUntold is a key that was used, and of which no line tells any more: what it was
// used for must not come to be a second time.
var errUntold = fmt.Errorf("%w: the index knows the key, and the ledger has no line of it: mbox verify tells what is missing", ErrIntegrity)

// lineOfKey is the line of a salted key; nil if it was never used.
func lineOfKey(b *books, key string) (*audit.Entry, error) {
	if err := b.queue.Hear(); err != nil || !b.queue.Knows(key) {
		return nil, err
	}
	e, err := b.ledger.LineWith("key", key)
	if err == nil && e == nil && !b.looks {
		err = errUntold
	}
	return e, err
}

// keyHash is what the ledger knows a task's key by. The keys that mbox makes for
// children, for ticks, for heartbeats and for inbox items are of kinds of their own:
// whoever guesses one and sends a task with it does not become the child, nor keeps a
// schedule or an inbox from its own.
func (b *sender) keyHash(t *Task) string {
	if _, child := t.Born(); child {
		return b.childHash(t.Mbox.IdempotencyKey)
	}
	if strings.HasPrefix(t.Mbox.Trigger, task.Scheduled) {
		return b.tickHash(t.Mbox.IdempotencyKey)
	}
	if t.Mbox.Trigger == task.Heartbeat {
		return b.beatHash(t.Mbox.IdempotencyKey)
	}
	if t.Message() != "" {
		return itemHash(b.books, t.Mbox.IdempotencyKey)
	}
	return b.saltedHash("key", t.Mbox.IdempotencyKey)
}

func (b *sender) tickHash(key string) string { return b.saltedHash("tick", key) }

func (b *sender) beatHash(key string) string { return b.saltedHash("heartbeat", key) }

func (b *sender) childHash(key string) string { return b.saltedHash("child", key) }

// sameAgain answers a second send of an id: fine if it asks for the same.
func (b *sender) sameAgain(id ID, request string) (ID, error) {
	e, err := b.ledger.LineOfRequest(id, request)
	if err != nil {
		return "", err
	}
	if e != nil && ID(e.Task()).Fold() == id.Fold() {
		return ID(e.Task()), nil
	}
	return "", task.About(id, fmt.Errorf("%w: the id is taken, with other content", ErrConflict))
}

// nextID makes an id of today: task-<UTC date>-<serial>. The number is drawn
// from a slot of the intents, under a lock, so that senders do not race for one. The draw is only a hint: submitAs tries the id under its own lock.
func (b *sender) nextID(ctx context.Context, now time.Time) (ID, error) {
	if _, err := b.serial.Acquire(ctx, b.o.LockWait); err != nil {
		return "", home.LockError(err)
	}
	defer b.serial.Unlock()
	f, err := b.intents.Last()
	if err != nil {
		return "", home.LockError(err)
	}
	record, err := home.ReadSlot(f, home.SerialSlot)
	if err != nil {
		return "", err
	}
	date := now.UTC().Format(time.DateOnly)
	n, ok := drawn(string(record), date)
	if !ok {
		if n, err = b.lastSerial(date); err != nil {
			return "", err
		}
	}
	if err := home.WriteSlot(f, home.SerialSlot, home.SlotOf(fmt.Sprintf("%s %d", date, n+1))); err != nil {
		return "", err
	}
	return serialID(date, n+1), nil
}

func serialID(date string, n int64) ID { return ID(fmt.Sprintf("task-%s-%03d", date, n)) }

// drawn reads the last number drawn on the date.
func drawn(record, date string) (int64, bool) {
	day, number, ok := strings.Cut(strings.TrimSpace(record), " ")
	if !ok || day != date {
		return 0, false
	}
	n, err := strconv.ParseInt(number, 10, 64)
	return n, err == nil && n >= 0
}

// lastSerial finds a free number when the record is of another day, or lost: it
// doubles until it meets an unknown id and halves back. It need not be the very
// last, for every number is tried under its lock.
func (b *sender) lastSerial(date string) (last int64, err error) {
	free := func(n int) bool {
		known, failed := b.known(serialID(date, int64(n)))
		err = cmp.Or(err, failed)
		return !known || err != nil
	}
	low, high := 0, 1
	for !free(high) {
		low, high = high, 2*high
	}
	more := sort.Search(high-low-1, func(i int) bool { return free(low + 1 + i) })
	return int64(low + more), err
}
