package audit

import (
	"context"
	"errors"
	"io"
	"iter"
)

// Tail yields the entries from p on and goes on for ever: at the end it calls
// wait, which blocks until the ledger may have grown, and reads on, across
// midnight and behind repairs. It ends when wait or the context does, and then
// yields no error for a cancelled context.
func (l *Ledger) Tail(ctx context.Context, p Position, wait func(context.Context) error) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		r := l.Read(p)
		defer r.Close()
		for {
			line, err := r.Next()
			if err == nil {
				e, bad := line.Decode()
				if !yield(e, bad) {
					return
				}
				continue
			}
			if err == io.EOF {
				err = wait(ctx)
			}
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
					yield(Entry{}, err)
				}
				return
			}
		}
	}
}
