package chat

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

// Result is the result of a task that a bridge has sent, on its way back to who
// asked. It is told by the ledger alone.
type Result struct {
	ID     mailbox.ID    `json:"id"`
	Bridge string        `json:"bridge"`         // its name
	End    int64         `json:"end"`            // seq of the line that ended the task; 0: it has not ended
	State  mailbox.State `json:"state"`          // that it ended in
	At     mailbox.Time  `json:"at"`             // when
	Leg    task.Leg      `json:"leg,omitzero"`   // how far it has come
	Parts  int           `json:"parts,omitzero"` // into which it is cut; 0: not known yet
	Sent   int           `json:"sent,omitzero"`  // of them
	Begun  int           `json:"begun,omitzero"` // the part that may be sent or not: it has an intent, and no receipt
	Again  bool          `json:"again,omitzero"` // parts of it were sent, when it was cut otherwise
	Since  mailbox.Time  `json:"since,omitzero"` // the first intent
	Last   mailbox.Time  `json:"last,omitzero"`  // the last one: that of the part that was begun
	Asked  int64         `json:"asked,omitzero"` // seq of the line by which a person wanted it sent again
	Dead   string        `json:"dead,omitzero"`  // why it was given up

	Delivered bool `json:"delivered,omitzero"`

	Epoch   int64   `json:"epoch,omitzero"`
	After   string  `json:"after,omitzero"` // SHA-256 of the task's file
	Session *string `json:"session,omitzero"`
}

// ended tells whether the result is one yet.
func (r *Result) ended() bool { return r.End != 0 }

// message is one that was sent, which its reader may still see.
type message struct {
	Text    string     `json:"message"` // its id
	ID      mailbox.ID `json:"id"`
	End     int64      `json:"end"`
	Epoch   int64      `json:"epoch"`
	Session *string    `json:"session,omitzero"`
}

// messages are the last that were sent, oldest first: so the channel's word that one
// was seen leads to a task. They are for any goroutine.
type messages struct {
	mu  sync.Mutex
	all []message
}

// maxMessages is how many are remembered.
const maxMessages = 500

func (s *messages) add(m message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.ContainsFunc(s.all, func(o message) bool { return o.Text == m.Text }) {
		s.all = append(s.all, m)
		s.all = s.all[max(0, len(s.all)-maxMessages):]
	}
}

// take forgets the message with this id, and returns it.
func (s *messages) take(id string) (m message, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.all, func(m message) bool { return m.Text == id })
	if i < 0 {
		return m, false
	}
	m = s.all[i]
	s.all = slices.Delete(s.all, i, i+1)
	return m, true
}

func (s *messages) list() []message {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// outbox is what the ledger tells up to a place: the tasks of bridges that are not
// done with.
type outbox struct {
	box  *mailbox.Box
	only string // the agent of one bridge; "" for all
	at   audit.Position
	open map[mailbox.ID]*Result // that have not ended, or whose results are not delivered
	sent messages
	read *audit.Reader

	keeps bool // also what is delivered
}

func newOutbox(box *mailbox.Box, only string) *outbox {
	return &outbox{box: box, only: only, open: map[mailbox.ID]*Result{}}
}

// Undelivered are the results that no bridge has delivered, dead letters among them,
// by the ledger as it stands.
func Undelivered(box *mailbox.Box) ([]*Result, error) {
	o := newOutbox(box, "")
	defer o.close()
	if err := o.update(); err != nil {
		return nil, err
	}
	return o.waiting(), nil
}

// waiting are the results that are to be delivered, in the order of their ends.
func (o *outbox) waiting() (all []*Result) {
	for _, r := range o.open {
		if r.ended() {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *Result) int { return cmp.Compare(a.End, b.End) })
	return all
}

func (o *outbox) close() {
	if o.read != nil {
		o.read.Close()
		o.read = nil
	}
}

// update reads the ledger on to its end. Where that no longer has the place that was
// kept, it begins anew: what was delivered stands in it.
func (o *outbox) update() error {
	for {
		if o.read == nil {
			if errors.Is(o.box.Ledger().Check(o.at), audit.ErrMoved) {
				o.at, o.open = audit.Position{}, map[mailbox.ID]*Result{}
			}
			o.read = o.box.Ledger().Read(o.at)
		}
		line, err := o.read.Next()
		if err == nil {
			err = line.Damaged()
		}
		switch {
		case err == io.EOF && o.read.Broken() != nil:
			return errors.Join(audit.ErrDamaged, o.read.Broken())
		case err == io.EOF:
			return nil
		case errors.Is(err, audit.ErrMoved):
			o.close()
			continue
		case err != nil:
			return err
		}
		if err := o.heed(line); err != nil {
			return err
		}
		o.at = line.End
	}
}

func (o *outbox) heed(line audit.Line) error {
	about := line.Event() == audit.ResultDelivered || line.Event() == audit.ErrorEvent || line.Detail("to") != nil
	if !about || line.Task() == "" {
		return nil
	}
	e, err := line.Decode()
	if err != nil {
		return err
	}
	return o.take(&e)
}

// take takes a line in.
func (o *outbox) take(e *audit.Entry) error {
	if receipt := task.ReceiptOf(e); receipt != nil {
		o.received(e, receipt)
		return nil
	}
	m, ok := task.MoveOf(e)
	if !ok {
		return nil
	}
	if o.ours(e, m) {
		o.open[mailbox.ID(e.Task())] = &Result{ID: mailbox.ID(e.Task()), Bridge: strings.TrimPrefix(e.Agent, task.Bridge), Session: e.Session}
	}
	return o.moved(e, m)
}

// ours tells whether the line made a task of the bridge.
func (o *outbox) ours(e *audit.Entry, m *task.Move) bool {
	return task.AskedByBridge(e, m) && (o.only == "" || e.Agent == o.only)
}

func (o *outbox) moved(e *audit.Entry, m *task.Move) (err error) {
	id := mailbox.ID(e.Task())
	r, to := o.open[id], m.Enters()
	if r == nil && m.Leaves() == mailbox.Failed && to == mailbox.Pending {
		if r, err = o.origin(id); r != nil { // it was delivered, and is tried once more
			o.open[id] = r
		}
	}
	switch {
	case r == nil:
	case to == mailbox.Archived || to == mailbox.None:
		delete(o.open, id)
	case to != mailbox.Completed && to != mailbox.Failed:
		r.End = 0
	case m.Leaves() == to:
		r.After = task.HashOf(m.After) // taken over as somebody edited it
	default:
		*r = Result{
			ID: id, Bridge: r.Bridge, Session: r.Session, End: e.Seq, State: to, At: task.At(e.Time()), Epoch: m.Epoch, After: task.HashOf(m.After),
		}
	}
	return err
}

// origin is the task as its bridge sent it; nil if none has.
func (o *outbox) origin(id mailbox.ID) (*Result, error) {
	lines, err := linesOf(o.box, id)
	if err != nil || len(lines) == 0 {
		return nil, err
	}
	e := &lines[0]
	if m, ok := task.MoveOf(e); !ok || !o.ours(e, m) {
		return nil, nil
	}
	return &Result{ID: id, Bridge: strings.TrimPrefix(e.Agent, task.Bridge), Session: e.Session}, nil
}

// linesOf are the ledger's lines about a task, from the one that created it on.
func linesOf(box *mailbox.Box, id mailbox.ID) (all []audit.Entry, err error) {
	for line, err := range box.Ledger().LinesOf(string(id)) {
		if err != nil {
			return nil, err
		}
		e, err := line.Decode()
		if err != nil {
			return nil, err
		}
		if all = append(all, e); task.Creates(line) {
			break
		}
	}
	slices.Reverse(all)
	return all, nil
}

// received heeds a receipt.
func (o *outbox) received(e *audit.Entry, receipt *task.Receipt) {
	if receipt.Leg == task.Seen {
		o.sent.take(receipt.Message)
	}
	r := o.open[mailbox.ID(e.Task())]
	if r == nil || r.End != receipt.End {
		return // of an end before, or of what another bridge does
	}
	r.Leg = receipt.Leg
	switch {
	case e.Event == audit.ErrorEvent:
		r.Dead = reasonOf(e)
	case receipt.Leg == task.Stored && receipt.Parts == 0: // a person wants it sent again
		r.Dead, r.Since, r.Asked = "", task.At(e.Time()), e.Seq
	case receipt.Leg == task.Stored:
		r.Again = r.Sent > 0 || r.Begun > 0
		r.Parts, r.Sent = receipt.Parts, 0
	case receipt.Leg == task.Intent:
		r.Begun, r.Last = receipt.Part, task.At(e.Time())
		if r.Since.IsZero() {
			r.Since = task.At(e.Time())
		}
	case receipt.Leg == task.Notified:
		r.Sent, r.Begun = receipt.Part, 0
	}
	if receipt.Delivers() && e.Event == audit.ResultDelivered {
		if r.Dead = ""; receipt.Leg == task.Notified && receipt.Message != "" {
			o.sent.add(message{receipt.Message, r.ID, r.End, r.Epoch, r.Session})
		}
		o.done(r)
	}
}

func reasonOf(e *audit.Entry) string {
	var d struct {
		Reason string `json:"reason"`
	}
	_ = e.Detail(&d) // without one it was given up all the same
	return cmp.Or(d.Reason, "it was given up")
}

// done forgets a result that was delivered.
func (o *outbox) done(r *Result) {
	if r.Delivered = true; !o.keeps {
		delete(o.open, r.ID)
	}
}
