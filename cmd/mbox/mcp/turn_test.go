package mcp

import (
	"context"
	"errors"
	"testing"
	"time"

	"mbox/mailbox"
)

// What looks through all tasks or the whole ledger is done by one at a time.
func TestWhatReadsMuchTakesTurns(t *testing.T) {
	s := New(Options{Box: newBox(t, mailbox.Options{})})
	for name, c := range map[string]struct {
		turn chan struct{}
		look func(context.Context) error
	}{
		"list_tasks":  {s.search, func(ctx context.Context) error { _, err := s.list(ctx, nil, listInput{}); return err }},
		"tail_ledger": {s.search, func(ctx context.Context) error { _, err := s.tail(ctx, nil, tailInput{Agent: "nobody"}); return err }},
		"the ledger":  {s.search, func(ctx context.Context) error { _, err := s.readTail(ctx, ""); return err }},
		"verify":      {s.prove, func(ctx context.Context) error { _, err := s.verify(ctx, nil, verifyInput{}); return err }},
	} {
		leave, err := inTurn(t.Context(), c.turn)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if err := c.look(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s out of turn: %v", name, err)
		}
		stop()
		leave()
		if err := c.look(t.Context()); err != nil {
			t.Errorf("%s in its turn: %v", name, err)
		}
	}
}
