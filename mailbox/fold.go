package mailbox

import (
	"errors"
	"fmt"
	"io"
	"time"

	"mbox/audit"
)

// foldAll calls visit with every move of the ledger, in order.
func (b *Box) foldAll(visit func(id ID, agent string, m *move, at time.Time)) error {
	r := b.ledger.Read(audit.Position{})
	defer r.Close()
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if broken := r.Broken(); broken != nil {
				return fmt.Errorf("%w: %w", audit.ErrDamaged, broken)
			}
			return nil
		}
		if err != nil {
			return err
		}
		e, err := line.Decode()
		if err != nil {
			return fmt.Errorf("%w: ledger seq %d: %w", audit.ErrDamaged, line.Seq, err)
		}
		if m, ok := moveOf(&e); ok {
			visit(ID(e.Task()), e.Agent, m, e.Time())
		}
	}
}
