package mailbox

import (
	"fmt"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
)

// foldFrom calls visit with every move of the ledger behind from, in order, and
// with every alarm that a task is gone, which has no move. It returns where the
// ledger ends.
func (b *Box) foldFrom(from audit.Position, visit func(id ID, agent string, m *task.Move, at time.Time)) (end audit.Position, err error) {
	r := b.ledger.Read(from)
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
