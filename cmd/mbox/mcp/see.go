package mcp

import (
	"context"
	"fmt"

	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
)

// sight is what one request may see.
func (s *Server) sight() *sight.Sight { return sight.Of(s.o.Box, s.o.Agent) }

// task reads a task that the client may see. Any other one is not found.
func (s *Server) task(ctx context.Context, id mailbox.ID) (*mailbox.Task, mailbox.State, error) {
	return s.sight().Task(ctx, id)
}

// tidy does what a running router would have done.
func (s *Server) tidy(ctx context.Context) error {
	if err := s.o.Box.Tidy(ctx); err != nil {
		return fmt.Errorf("the mailbox cannot be tidied: %w", err)
	}
	return nil
}

// inTurn waits until nobody else has the turn. Who was let in has to leave.
func inTurn(ctx context.Context, turn chan struct{}) (leave func(), err error) {
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
