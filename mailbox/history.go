package mailbox

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// history answers what has happened, from the ledger's lines alone.
type history struct{ *audit.Ledger }

// lastMove finds the last ledger line that moved the task; nil if there is none.
func (h history) lastMove(id ID) (*audit.Entry, *task.Move, error) {
	for line, err := range h.LinesOf(string(id)) {
		if err != nil {
			return nil, nil, err
		}
		if e, m := task.MoveIn(line); m != nil {
			return e, m, nil
		}
	}
	return nil, nil, nil
}

// lineWith finds the last line whose details have the text as that member; nil if
// there is none.
func (h history) lineWith(member, text string) (*audit.Entry, error) {
	for line, err := range h.Backward() {
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

// lineOfRequest finds the line of the task that carries the request; nil if there is
// none. It reads back to the line that created the task, not to the ledger's
// beginning.
func (h history) lineOfRequest(id ID, request string) (*audit.Entry, error) {
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

// spelling is how an id is written that the ledger knows in some case of its
// letters; "" if it does not.
func (h history) spelling(id ID) (ID, error) {
	for line, err := range h.Backward() {
		if err != nil {
			return "", err
		}
		if as := line.Task(); as != "" && strings.EqualFold(as, string(id)) {
			return ID(as), nil
		}
	}
	return "", nil
}

// knownGone tells whether an alarm has said so since the task moved last.
func (h history) knownGone(id ID) (bool, error) {
	for line, err := range h.LinesOf(string(id)) {
		if err != nil {
			return false, err
		}
		if _, m := task.MoveIn(line); m != nil || saysGone(line) {
			return m == nil, nil
		}
	}
	return false, nil
}

// history tells a task's way through the states from the ledger.
func (h history) trail(id ID) ([]StateChange, error) {
	trail := []StateChange{}
	for line, err := range h.LinesOf(string(id)) {
		if err != nil {
			return nil, err
		}
		e, m := task.MoveIn(line)
		if m == nil {
			continue
		}
		if m.Leaves() == None {
			break
		}
		if m.Leaves() != m.Enters() {
			trail = append(trail, StateChange{From: m.Leaves(), To: m.Enters(), By: e.Agent, At: task.At(e.Time()), Reason: task.StateReason(m.Reason)})
		}
	}
	slices.Reverse(trail)
	return trail, nil
}

// endedTask is what the ledger says of an ended task.
type endedTask struct {
	state     State
	after     string
	at        time.Time
	delivered bool
}

// ended folds the ledger to its ended tasks.
func (h history) ended() (map[ID]*endedTask, error) {
	ended := map[ID]*endedTask{}
	for line, err := range h.Read(audit.Position{}).Lines() {
		if err == nil {
			err = line.Damaged()
		}
		if err != nil {
			return nil, err
		}
		if line.Event() == audit.ResultDelivered {
			if t := ended[ID(line.Task())]; t != nil {
				t.delivered = true
			}
		}
		e, m := task.MoveIn(line)
		switch {
		case m == nil:
		case m.Enters() == Completed || m.Enters() == Failed:
			ended[ID(e.Task())] = &endedTask{state: m.Enters(), after: task.HashOf(m.After), at: e.Time()}
		default:
			delete(ended, ID(e.Task()))
		}
	}
	return ended, nil
}

// fold calls visit with every move of the ledger behind from, in order, and
// with every alarm that a task is gone, which has no move. It returns where the
// ledger ends.
func (h history) fold(from audit.Position, visit func(id ID, agent string, m *task.Move, at time.Time)) (end audit.Position, err error) {
	r := h.Read(from)
	for line, err := range r.Lines() {
		if err == nil {
			err = line.Damaged()
		}
		if err != nil {
			return r.Position(), err
		}
		if _, m := task.MoveIn(line); m != nil || saysGone(line) {
			visit(ID(line.Task()), line.Agent(), m, line.Time())
		}
	}
	if broken := r.Broken(); broken != nil {
		return r.Position(), fmt.Errorf("%w: %w", audit.ErrDamaged, broken)
	}
	return r.Position(), nil
}
