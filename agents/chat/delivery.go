package chat

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// DeliveryOptions of a bridge's delivery.
type DeliveryOptions struct {
	Box     *mailbox.Box
	Name    string // of the bridge
	Kind    Kind
	Channel Channel
	OneWay  bool                             // nothing can be sent: results are kept
	Allowed func(Conversation) bool          // whom the bridge talks to
	Log     func(format string, args ...any) // a remark for whoever runs the bridge

	// GiveUp is how long a result is tried from its first try on, and at least eight
	// times, before it is a dead letter; 24 h.
	GiveUp time.Duration
	Pause  time.Duration // before the second try, then longer each time; 2 s
}

// Delivery sends the results of a bridge's tasks back to where they were asked for.
//
// It follows the ledger, and acts on what that tells alone: a result is due when a
// task has ended that the bridge itself has sent. So neither the children of such a
// task nor a drop that names the bridge make it talk. Each step is a receipt in the
// ledger (task.Receipt): before a part is sent an intent, which is also what brings
// all before it to the disk, and behind it that it was sent. A part with an intent
// and no receipt may have been sent: what happens then says [Once].
//
// A Delivery is the only one of its bridge, which its caller sees to. Run and Once
// are not for use at the same time; Seen is for any goroutine.
type Delivery struct {
	o       DeliveryOptions
	agent   string
	way     *outlet
	wake    chan struct{} // full where the ledger may have grown
	out     *outbox
	saved   time.Time // when the place was kept, and which
	savedAt audit.Position
	tries   map[mailbox.ID]*tries
	done    int // results that were sent to the last part

	mu      sync.Mutex          // guards what follows
	begun   int                 // rounds
	ended   int                 // the last round that has ended
	left    map[mailbox.ID]bool // what is not done with since
	changed chan struct{}       // closed when a round has ended
}

// tries are what this process knows of the tries to deliver a result.
type tries struct {
	end    int64 // of the task, and what a person said since: r.Asked
	asked  int64
	n      int
	next   time.Time
	unsent bool // the part that was begun was not sent for sure
}

// leastTries is how often a result is tried at least before it is given up.
const leastTries = 8

const (
	maxPause  = 10 * time.Minute // between two tries
	saveEvery = 10 * time.Second // the place in the ledger is kept
)

// NewDelivery makes the delivery of a bridge, from the place that was kept last.
func NewDelivery(o DeliveryOptions) *Delivery {
	if o.GiveUp == 0 {
		o.GiveUp = 24 * time.Hour
	}
	if o.Pause == 0 {
		o.Pause = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	d := &Delivery{
		o: o, agent: task.Bridge + o.Name, way: newOutlet(o.Channel, o.Kind.Limits.Every), tries: map[mailbox.ID]*tries{},
		wake: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	d.out = newOutbox(o.Box, d.agent)
	d.restore()
	return d
}

// Say sends an answer of the bridge, between two results.
func (d *Delivery) Say(ctx context.Context, n Notice) (id string, err error) {
	return d.way.send(ctx, n)
}

// Settled waits, while Run delivers, until the results of these tasks are sent, or
// given up.
func (d *Delivery) Settled(ctx context.Context, ids map[mailbox.ID]bool) error {
	d.mu.Lock()
	since := d.begun
	d.mu.Unlock()
	for {
		d.nudge()
		d.mu.Lock()
		changed, waits := d.changed, d.ended <= since
		for id := range ids {
			waits = waits || d.left[id]
		}
		d.mu.Unlock()
		if !waits {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// nudge has Run look at the ledger.
func (d *Delivery) nudge() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Run delivers until ctx ends. An error says that the ledger cannot be read or
// written; what a channel refuses is none.
func (d *Delivery) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	defer d.out.close()
	if err := d.out.update(); err != nil {
		return err
	}
	from := d.out.at
	following.Go(func() {
		for range d.o.Box.Follow(ctx, from) { // what it yields only says that there is something
			d.nudge()
		}
	})
	for ctx.Err() == nil {
		next, err := d.round(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		d.told()
		d.save(ctx, saveEvery)
		d.wait(ctx, next)
	}
	d.save(context.WithoutCancel(ctx), 0)
	return d.out.update()
}

func (d *Delivery) wait(ctx context.Context, until time.Time) {
	timer := time.NewTimer(max(time.Until(until), time.Millisecond))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-d.wake:
	}
}

// Report says what came of the results that waited.
type Report struct {
	Sent int `json:"sent"` // to the last part
	Left int `json:"left"` // to be tried again
	Dead int `json:"dead"` // given up, now or before
}

// Once tries each result that waits once.
func (d *Delivery) Once(ctx context.Context) (r Report, err error) {
	defer d.out.close()
	if _, err := d.round(ctx); err != nil {
		return r, err
	}
	r.Sent = d.done
	for _, w := range d.out.waiting() {
		if w.Dead == "" {
			r.Left++
		} else {
			r.Dead++
		}
	}
	d.save(context.WithoutCancel(ctx), 0)
	return r, ctx.Err()
}

// round reads the ledger to its end and tries each result whose time has come, until
// all wait for theirs: next is when the first one's comes.
func (d *Delivery) round(ctx context.Context) (next time.Time, err error) {
	d.mu.Lock()
	d.begun++
	d.mu.Unlock()
	if err := d.out.update(); err != nil {
		return next, err
	}
	next = time.Now().Add(d.o.Box.Options().ScanInterval)
	for _, r := range d.out.waiting() {
		t := d.triesOf(r)
		if r.Dead == "" && !time.Now().Before(t.next) {
			if err := d.deliver(ctx, r, t); err != nil || ctx.Err() != nil {
				return next, err
			}
		}
		if r = d.out.open[r.ID]; r != nil && r.Dead == "" && t.next.Before(next) {
			next = t.next
		}
	}
	d.forget()
	return next, nil
}

// told tells who waits what is left after a round.
func (d *Delivery) told() {
	left := map[mailbox.ID]bool{}
	for id, r := range d.out.open {
		if r.Dead == "" {
			left[id] = true
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended, d.left = d.begun, left
	close(d.changed)
	d.changed = make(chan struct{})
}

// triesOf are those of this end of the task. What a person wants sent again begins
// anew.
func (d *Delivery) triesOf(r *Result) *tries {
	t := d.tries[r.ID]
	if t == nil || t.end != r.End || t.asked != r.Asked {
		t = &tries{end: r.End, asked: r.Asked}
		d.tries[r.ID] = t
	}
	return t
}

func (d *Delivery) forget() {
	for id := range d.tries {
		if r := d.out.open[id]; r == nil || !r.ended() {
			delete(d.tries, id)
		}
	}
}

// deliver sends what is left of a result. An error is one of the mailbox; one of the
// channel makes it wait, or a dead letter.
func (d *Delivery) deliver(ctx context.Context, r *Result, t *tries) error {
	if d.o.OneWay {
		return d.receive(ctx, r, task.Receipt{Leg: task.Retained}, "has no way back for the result of")
	}
	notices, err := d.notices(r)
	if err == nil && r.Parts != len(notices) {
		err = d.receive(ctx, r, task.Receipt{Leg: task.Stored, Parts: len(notices)}, "has a result to send: that of")
		if err != nil {
			return err
		}
	}
	for r = d.out.open[r.ID]; err == nil && d.still(r, t); r = d.out.open[r.ID] {
		var fault error
		if fault, err = d.send(ctx, r, t, notices[r.Sent]); fault != nil {
			return fault
		}
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return d.failed(ctx, r, t, err)
}

// still tells whether the result is still the one that was to be delivered, and not
// yet: lines that came meanwhile may say otherwise.
func (d *Delivery) still(r *Result, t *tries) bool {
	return r != nil && r.End == t.end && r.Dead == "" && r.Sent < r.Parts
}

// send sends the next part. fault is an error of the mailbox, err one of the channel.
func (d *Delivery) send(ctx context.Context, r *Result, t *tries, n Notice) (fault, err error) {
	if err := d.way.ready(ctx); err != nil {
		return nil, err
	}
	was, part := *r, r.Sent+1
	receipt := task.Receipt{Leg: task.Intent, Key: n.Key, Part: part, Parts: r.Parts}
	maybe := (r.Begun == part || r.Again) && !t.unsent
	if r.Begun != part {
		if fault := d.receive(ctx, r, receipt, "is about to send the result of"); fault != nil || !d.still(r, t) {
			return fault, nil
		}
	}
	id := ""
	if n.Since = r.Last.Time; r.Again {
		n.Since = r.Since.Time
	}
	if maybe {
		id, err = d.lookFor(ctx, &n)
	}
	if id == "" && err == nil {
		id, err = d.way.send(ctx, n)
		var not *unsent
		t.unsent = !maybe && errors.As(err, &not)
	}
	if err != nil {
		return nil, err
	}
	t.n, t.next, t.unsent = 0, time.Time{}, false
	receipt.Leg, receipt.Message = task.Notified, id
	if part == was.Parts {
		if d.done++; id != "" {
			d.out.sent.add(message{id, was.ID, was.End, was.Epoch, was.Session})
		}
	}
	return d.receive(context.WithoutCancel(ctx), &was, receipt, "sent the result of"), nil
}

// lookFor does what can be done about a notice that may have been sent: the channel
// is searched, or knows its key, or the notice says that it may be a repetition.
func (d *Delivery) lookFor(ctx context.Context, n *Notice) (id string, err error) {
	switch d.o.Kind.Once {
	case BySearch:
		if s, ok := d.o.Channel.(Searcher); ok {
			return s.Sent(ctx, *n)
		}
	case ByKey:
		return "", nil
	}
	n.Again = true
	n.Text = repeated(n.Text, d.o.Kind.Limits)
	return "", nil
}

// receive writes a receipt, and takes in what the ledger has had since.
func (d *Delivery) receive(ctx context.Context, r *Result, receipt task.Receipt, does string) error {
	receipt.Channel = d.o.Kind.Name
	action := fmt.Sprintf("%s %s %s", d.agent, does, r.ID)
	if receipt.Parts > 1 && receipt.Part > 0 {
		action += fmt.Sprintf(", part %d of %d", receipt.Part, receipt.Parts)
	}
	if err := receive(ctx, d.o.Box, r, d.agent, receipt, action); err != nil {
		return err
	}
	return d.out.update()
}

// failed puts a result off after an error, or gives it up.
func (d *Delivery) failed(ctx context.Context, r *Result, t *tries, err error) error {
	var wait *WaitError
	switch {
	case errors.As(err, &wait):
		t.next = time.Now().Add(min(max(wait.For, d.o.Pause), maxWait))
		d.o.Log("%s: the server wants a pause of %s: %v", d.agent, wait.For, wait.Err)
		return nil
	case errors.Is(err, errNotYet) && t.n < leastTries:
		t.n++
		t.next = time.Now().Add(backoff(20*time.Millisecond, time.Second, t.n))
		return nil
	}
	t.n++
	t.next = time.Now().Add(backoff(d.o.Pause, maxPause, t.n))
	since := r.Since.Time
	if r.Since.IsZero() { // nothing was begun
		since = r.At.Time
	}
	if !errors.Is(err, ErrRefused) && (t.n < leastTries || time.Since(since) < d.o.GiveUp) {
		d.o.Log("%s: the result of %s: %v; it is tried again", d.agent, r.ID, err)
		return nil
	}
	d.o.Log("%s gives up the result of %s: %v", d.agent, r.ID, err)
	if err := giveUp(ctx, d.o.Box, r, d.agent, d.o.Kind.Name, err); err != nil {
		return err
	}
	return d.out.update()
}

// backoff is how long to wait after try n: twice as long each time, at most most, and
// half of it by chance.
func backoff(first, most time.Duration, n int) time.Duration {
	d := min(first<<min(n-1, 20), most)
	return d/2 + rand.N(d/2+1)
}

// errNotYet says that a task's file is not yet, or not any more, what the ledger
// names: the line comes before the file.
var errNotYet = errors.New("its file is not what the ledger names")

// notices are the messages that tell the result: the same whenever they are made.
func (d *Delivery) notices(r *Result) ([]Notice, error) {
	dir := d.o.Box.Home()
	f, err := home.Read(dir, r.State, filepath.Join(home.Folder(dir, r.State, r.At.Time), r.ID.File()))
	if errors.Is(err, fs.ErrNotExist) || f != nil && f.Hash != r.After {
		return nil, fmt.Errorf("%w; mbox why %s", errNotYet, r.ID)
	}
	if err != nil {
		return nil, err
	}
	to, ok := d.conversation(f.Task.Source.Session)
	if !ok || d.o.Allowed != nil && !d.o.Allowed(to) {
		return nil, fmt.Errorf("%w: its conversation is none that this bridge may answer", ErrRefused)
	}
	reply, _ := Origin(f.Task)
	parts, file := compose(f.Task, d.o.Kind.Limits)
	notices := make([]Notice, len(parts))
	for i, text := range parts {
		notices[i] = Notice{Key: d.key(r, i+1), To: to, Reply: reply, Title: line(Plain(f.Task.Task.Title)), Text: text}
	}
	notices[len(parts)-1].File = file
	return notices, nil
}

// conversation is where a task was asked for; ok is false where that was not here.
func (d *Delivery) conversation(session string) (c Conversation, ok bool) {
	if d.o.Kind.Conversation != nil {
		return d.o.Kind.Conversation(session)
	}
	_, bridge, c, ok := ParseSession(session)
	return c, ok && bridge == d.o.Name
}

// key is a notice's idempotency key: of this mailbox, bridge, end of the task and
// part.
func (d *Delivery) key(r *Result, part int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%s\n%d\n%d\n%d\n", d.o.Box.MailboxID(), d.agent, r.ID, r.Epoch, r.End, part))
	return hex.EncodeToString(sum[:16])
}

// Seen writes down that a message which told a result has been read. Of other
// messages, and of old ones, it knows nothing.
func (d *Delivery) Seen(ctx context.Context, id string) error {
	m, ok := d.out.sent.take(id)
	if !ok {
		return nil
	}
	r := &Result{ID: m.ID, End: m.End, Epoch: m.Epoch, Session: m.Session}
	receipt := task.Receipt{Leg: task.Seen, Channel: d.o.Kind.Name, Message: id}
	return receive(ctx, d.o.Box, r, d.agent, receipt, fmt.Sprintf("%s: the result of %s has been seen", d.agent, r.ID))
}

// Acknowledge is the command by which somebody says that a result has come, for a
// task that was asked for in the same conversation, which the caller sees to.
func (d *Delivery) Acknowledge(ctx context.Context, id mailbox.ID) error {
	return Acknowledge(ctx, d.o.Box, id, d.agent)
}
