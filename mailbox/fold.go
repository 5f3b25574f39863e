package mailbox

import (
	"errors"
	"fmt"
	"io"
	"time"

	"mbox/audit"
)

// foldFrom calls visit with every move of the ledger behind from, in order, and
// with every alarm that a task is gone, which has no move. It returns where the
// ledger ends.
func (b *Box) foldFrom(from audit.Position, visit func(id ID, agent string, m *move, at time.Time)) (end audit.Position, err error) {
	r, end := b.ledger.Read(from), from
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if broken := r.Broken(); broken != nil {
				return end, fmt.Errorf("%w: %w", audit.ErrDamaged, broken)
			}
			return end, nil
		}
		if err != nil {
			return end, err
		}
		e, err := line.Decode()
		if err != nil {
			return end, fmt.Errorf("%w: ledger seq %d: %w", audit.ErrDamaged, line.Seq, err)
		}
		if m, ok := moveOf(&e); ok || saysGone(&e) {
			visit(ID(e.Task()), e.Agent, m, e.Time())
		}
		end = line.End
	}
}
