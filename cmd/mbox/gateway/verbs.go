package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"mbox/mailbox"
	"mbox/schemas"
)

// approvalLasts is how long an approval counts that names no time.
const (
	approvalLasts = time.Hour
	mostApproval  = 7 * 24 * time.Hour
	mostDelay     = 24 * time.Hour
)

func verbRoutes() []route {
	return []route{
		{method: "POST", path: "/tasks/{id}/cancel", needs: operate, about: "end a task that has not ended", takes: Order{}, optional: true, gives: Done{}, do: said[Order]((*call).cancel)},
		{method: "POST", path: "/tasks/{id}/retry", needs: operate, about: "put a failed task back into pending", takes: Order{}, optional: true, gives: Done{}, do: said[Order]((*call).retry)},
		{method: "POST", path: "/tasks/{id}/approve", needs: operate, about: "let a task run that needs an operator's word", takes: ApproveOrder{}, optional: true, gives: Done{}, do: said[ApproveOrder]((*call).approve)},
		{method: "POST", path: "/tasks/{id}/release", needs: operate, about: "give a task in progress back, without burning an attempt", takes: ReleaseOrder{}, optional: true, gives: Done{}, do: said[ReleaseOrder]((*call).release)},
	}
}

// Order is what may be said with cancel and retry.
type Order struct {
	Reason string `json:"reason,omitzero" jsonschema:"maxLength=300,description=in the person's words"`
	Seen   string `json:"seen,omitzero" jsonschema:"pattern=^[a-z-]+/[0-9]+$,description=only while it is as it was seen\\, its result.status and mbox.epoch\\, such as in-progress/2"`
}

// ReleaseOrder is what may be said with release.
type ReleaseOrder struct {
	Order
	Delay string `json:"delay,omitzero" jsonschema:"description=when it is ready again\\, at once if missing"`
}

// ApproveOrder is what may be said with approve.
type ApproveOrder struct {
	Reason string `json:"reason,omitzero" jsonschema:"maxLength=300,description=in the person's words"`
	For    string `json:"for,omitzero" jsonschema:"description=how long it counts\\, 1h if missing"`
	SHA256 string `json:"sha256,omitzero" jsonschema:"description=only what has this SHA-256\\, which GET /tasks/ID/why tells as approve"`
}

// anyOrder is an order of any kind: what is not said with a verb is "".
type anyOrder struct {
	Reason, For, SHA256, Delay, Seen string

	seen mailbox.Seen
}

func (o Order) order() anyOrder { return anyOrder{Reason: o.Reason, Seen: o.Seen} }
func (o ReleaseOrder) order() anyOrder {
	return anyOrder{Reason: o.Reason, Seen: o.Seen, Delay: o.Delay}
}

func (o ApproveOrder) order() anyOrder {
	return anyOrder{Reason: o.Reason, For: o.For, SHA256: o.SHA256}
}

// seenAs says how a task is seen.
func seenAs(state mailbox.State, t *mailbox.Task) string {
	epoch := int64(0)
	if t != nil {
		epoch = t.Mbox.Epoch
	}
	return fmt.Sprintf("%s/%d", state, epoch)
}

// order reads into o what is said with a verb; nothing has to be.
func (c *call) order(o any) error {
	if c.r.ContentLength == 0 {
		return nil
	}
	data, err := c.body()
	if err != nil || len(data) == 0 {
		return err
	}
	return schemas.Decode(data, o)
}

func (o *anyOrder) check() error {
	if o.Seen != "" {
		state, times, _ := strings.Cut(o.Seen, "/")
		epoch, err := strconv.ParseInt(times, 10, 64)
		if err != nil || epoch < 0 || !slices.Contains(stateNames(), state) {
			return &schemas.Error{Path: "seen", Code: schemas.CodeBadValue, Problem: schemas.Quote(o.Seen) + " is nothing that a task can be seen as", Want: "its state and mbox.epoch, such as in-progress/2"}
		}
		o.seen = mailbox.Seen{State: mailbox.State(state), Epoch: epoch}
	}
	if utf8.RuneCountInString(o.Reason) > mailbox.MaxReason {
		return &schemas.Error{Path: "reason", Code: schemas.CodeTooLarge, Problem: "is too long", Want: fmt.Sprintf("at most %d characters", mailbox.MaxReason)}
	}
	return nil
}

func lasts(path, text string, standard, most time.Duration) (time.Duration, error) {
	if text == "" {
		return standard, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > most {
		return 0, &schemas.Error{Path: path, Code: schemas.CodeBadValue, Problem: fmt.Sprintf("%s is no duration up to %v", schemas.Quote(text), most), Want: "such as 30m"}
	}
	return d, nil
}

// Done is what is answered to a verb.
type Done struct {
	ID       mailbox.ID    `json:"id"`
	State    mailbox.State `json:"state"`
	Decision string        `json:"decision,omitzero" jsonschema:"description=the record of an approval"`
	SHA256   string        `json:"sha256,omitzero" jsonschema:"description=what was approved"`
	Note     string        `json:"note,omitzero" jsonschema:"description=what is still to be done\\, by mbox itself"`
}

// verb is what may be done with a task.
type verb func(c *call, id mailbox.ID, o anyOrder) (Done, error)

// said is a route by which a verb is said, with an order of its own kind.
func said[T interface{ order() anyOrder }](do verb) func(*call) error {
	return func(c *call) error {
		var given T
		if err := c.order(&given); err != nil {
			return err
		}
		o := given.order()
		if err := o.check(); err != nil {
			return err
		}
		out, err := c.decide(do, mailbox.ID(c.r.PathValue("id")), o)
		if err != nil {
			return err
		}
		return c.json(http.StatusOK, out)
	}
}

// decide does what a verb says, in a mailbox that is in order, and tells where the task
// is then. What is committed counts, whatever else went wrong.
func (c *call) decide(do verb, id mailbox.ID, o anyOrder) (Done, error) {
	if err := c.Box.Tidy(c.ctx); err != nil {
		return Done{}, err
	}
	out, err := do(c, id, o)
	if errors.Is(err, mailbox.ErrCommitted) {
		_, out.Note = c.door.o.Judge(err)
		err = nil
	}
	if err == nil {
		_, out.State, err = c.Box.Task(c.ctx, id)
	}
	if err != nil {
		return Done{}, aboutTask(id, err)
	}
	out.ID = id
	return out, nil
}

// reason is what a line names: the person's, and by which door he came.
func (c *call) reason(o anyOrder) string { return strings.TrimSpace(o.Reason + " (" + c.from() + ")") }

func (c *call) cancel(id mailbox.ID, o anyOrder) (Done, error) {
	return Done{}, mailbox.CancelSeen(c.ctx, c.Box, id, c.by(), c.reason(o), o.seen)
}

func (c *call) retry(id mailbox.ID, o anyOrder) (Done, error) {
	return Done{}, mailbox.RetrySeen(c.ctx, c.Box, id, c.by(), c.reason(o), o.seen)
}

func (c *call) approve(id mailbox.ID, o anyOrder) (out Done, err error) {
	valid, err := lasts("for", o.For, approvalLasts, mostApproval)
	if err != nil {
		return out, err
	}
	consent := mailbox.Consent{By: c.by(), From: c.from(), Why: o.Reason, For: valid}
	if o.SHA256 != "" {
		consent.SHA256 = "sha256:" + strings.TrimPrefix(o.SHA256, "sha256:")
	}
	a, err := c.Box.Approve(c.ctx, id, consent)
	if a != nil {
		out.Decision, out.SHA256 = a.Decision, a.Sum()
	}
	return out, err
}

// release gives back what somebody has claimed: the operator speaks for him, by the
// token that stands in the task.
func (c *call) release(id mailbox.ID, o anyOrder) (Done, error) {
	delay, err := lasts("delay", cmp.Or(o.Delay, "0s"), 0, mostDelay)
	if o.Delay != "" && err != nil {
		return Done{}, err
	}
	t, state, err := c.Box.Task(c.ctx, id)
	if err != nil {
		return Done{}, err
	}
	if state != mailbox.InProgress || t.Mbox.Lease == nil {
		return Done{}, fmt.Errorf("%w: it is %s, only a task in progress can be released", mailbox.ErrConflict, t.Called(state))
	}
	if err := o.seen.Check(t, state); err != nil { // and the token is that of this claim alone
		return Done{}, err
	}
	held, err := c.Box.Held(c.ctx, id, t.Mbox.Lease.Token)
	if err != nil {
		return Done{}, err
	}
	return Done{}, held.Release(c.ctx, c.reason(o), delay)
}
