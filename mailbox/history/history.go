// Package history answers what has happened, from the lines of the ledger alone.
package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// Ledger answers from the lines of a ledger.
type Ledger struct{ *audit.Ledger }

// LastMove finds the last ledger line that moved the task; nil if there is none.
func (h Ledger) LastMove(id task.ID) (*audit.Entry, *task.Move, error) {
	return h.lastMove(id, func(*audit.Entry) bool { return true })
}

// LastStep is LastMove that passes over edits, which leave a task where it is.
func (h Ledger) LastStep(id task.ID) (*audit.Entry, *task.Move, error) {
	return h.lastMove(id, func(e *audit.Entry) bool { return e.Event != audit.TaskEdited })
}

func (h Ledger) lastMove(id task.ID, counts func(*audit.Entry) bool) (*audit.Entry, *task.Move, error) {
	for line, err := range h.LinesOf(string(id)) {
		if err != nil {
			return nil, nil, err
		}
		if e, m := task.MoveIn(line); m != nil && counts(e) {
			return e, m, nil
		}
	}
	return nil, nil, nil
}

// LineWith finds the last line whose details have the text as that member; nil if
// there is none.
func (h Ledger) LineWith(member, text string) (*audit.Entry, error) {
	for line, err := range h.Naming(text) {
		if err != nil {
			return nil, err
		}
		if line.Text(member) == text {
			e, err := line.Decode()
			return &e, err
		}
	}
	return nil, nil
}

// LineOfRequest finds the line of the task that carries the request; nil if there is
// none. It reads back to the line that created the task, not to the ledger's
// beginning.
func (h Ledger) LineOfRequest(id task.ID, request string) (*audit.Entry, error) {
	for line, err := range h.LinesOf(string(id)) {
		if err != nil {
			return nil, err
		}
		if line.Text("request") == request {
			e, err := line.Decode()
			return &e, err
		}
		if task.Creates(line) {
			break
		}
	}
	return nil, nil
}

// Spelling is how an id is written that the ledger knows in some case of its
// letters; "" if it does not.
func (h Ledger) Spelling(id task.ID) (task.ID, error) {
	for line, err := range h.Backward() {
		if err != nil {
			return "", err
		}
		if as := line.Task(); as != "" && strings.EqualFold(as, string(id)) {
			return task.ID(as), nil
		}
	}
	return "", nil
}

// KnownGone tells whether an alarm has said so since the task moved last.
func (h Ledger) KnownGone(id task.ID) (bool, error) {
	for line, err := range h.LinesOf(string(id)) {
		if err != nil {
			return false, err
		}
		if _, m := task.MoveIn(line); m != nil || task.SaysGone(line) {
			return m == nil, nil
		}
	}
	return false, nil
}

// Trail tells a task's way through the states from the ledger.
func (h Ledger) Trail(id task.ID) ([]task.StateChange, error) {
	trail := []task.StateChange{}
	for line, err := range h.LinesOf(string(id)) {
		if err != nil {
			return nil, err
		}
		e, m := task.MoveIn(line)
		if m == nil {
			continue
		}
		if m.Leaves() == task.None {
			break
		}
		if m.Leaves() != m.Enters() {
			trail = append(trail, task.StateChange{From: m.Leaves(), To: m.Enters(), By: e.Agent, At: task.At(e.Time()), Reason: task.StateReason(m.Reason)})
		}
	}
	slices.Reverse(trail)
	return trail, nil
}

// EndedTask is what the ledger says of an ended task.
type EndedTask struct {
	State     task.State
	After     string
	At        time.Time
	Seq       int64     // of the line that ended it
	Awaited   bool      // a bridge asked for it, and is to deliver the result
	Delivered time.Time // when that was done, or an inbox item acknowledged; zero: it was not
}

// Endings are the tasks that have ended and lie in no archive, up to some line.
type Endings struct {
	Tasks   map[task.ID]*EndedTask
	Awaited bool // only those for which a bridge asked, and inbox items

	asked map[task.ID]bool // by a bridge
	items map[string]bool  // keys of inbox items that are still to be made
	inbox map[task.ID]bool // those items
	at    audit.Position
}

// Ended reads on where the endings were read up to.
func (h Ledger) Ended(s *Endings) error {
	if s.Tasks == nil || h.Check(s.at) != nil {
		s.Tasks, s.asked, s.at = map[task.ID]*EndedTask{}, map[task.ID]bool{}, audit.Position{}
		s.items, s.inbox = map[string]bool{}, map[task.ID]bool{}
	}
	r := h.Read(s.at)
	for line, err := range r.Lines() {
		if err = cmp.Or(err, line.Damaged()); err != nil {
			return err
		}
		s.heed(line)
		s.at = line.End
	}
	return nil
}

func (s *Endings) heed(line audit.Line) {
	id := task.ID(line.Task())
	if line.Event() == audit.ResultDelivered {
		s.received(line)
		return
	}
	if line.Event() == audit.MessageEvent {
		s.told(line)
		return
	}
	e, m := task.MoveIn(line)
	if m == nil {
		return
	}
	if task.AskedByBridge(e, m) {
		s.asked[id] = true
	}
	if s.items[m.Key] {
		s.inbox[id] = true
		delete(s.items, m.Key)
	}
	switch to := m.Enters(); {
	case to == task.Completed || to == task.Failed:
		if t := s.Tasks[id]; t != nil && m.Leaves() == to {
			t.After = task.HashOf(m.After) // taken over as somebody edited it
		} else if s.asked[id] || s.inbox[id] || !s.Awaited {
			s.Tasks[id] = &EndedTask{State: to, After: task.HashOf(m.After), At: e.Time(), Seq: e.Seq, Awaited: s.asked[id]}
			if s.inbox[id] && to == task.Completed {
				s.Tasks[id].Delivered = e.Time()
			}
		}
	default:
		delete(s.Tasks, id)
		if to == task.Archived || to == task.None {
			delete(s.asked, id)
			delete(s.inbox, id)
		}
	}
}

// told notes for which inbox items a message is.
func (s *Endings) told(line audit.Line) {
	e, err := line.Decode()
	var d struct {
		Inbox []string `json:"inbox"`
	}
	if err != nil || e.Detail(&d) != nil {
		return
	}
	for _, key := range d.Inbox {
		s.items[key] = true
	}
}

func (s *Endings) received(line audit.Line) {
	t := s.Tasks[task.ID(line.Task())]
	if t == nil {
		return
	}
	if e, err := line.Decode(); err == nil {
		if r := task.ReceiptOf(&e); r != nil && r.End == t.Seq && r.Delivers() {
			t.Delivered = e.Time()
		}
	}
}

// Fold calls visit with every move of the ledger behind from, in order, and
// with every alarm that a task is gone, which has no move. It returns where the
// ledger ends.
func (h Ledger) Fold(from audit.Position, visit func(id task.ID, agent string, m *task.Move, at time.Time)) (end audit.Position, err error) {
	r := h.Read(from)
	for line, err := range r.Lines() {
		if err = cmp.Or(err, line.Damaged()); err != nil {
			return r.Position(), err
		}
		if _, m := task.MoveIn(line); m != nil || task.SaysGone(line) {
			visit(task.ID(line.Task()), line.Agent(), m, line.Time())
		}
	}
	if broken := r.Broken(); broken != nil {
		return r.Position(), fmt.Errorf("%w: %w", audit.ErrDamaged, broken)
	}
	return r.Position(), nil
}
