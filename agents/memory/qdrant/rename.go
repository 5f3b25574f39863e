package qdrant

import (
	"context"
	"errors"

	client "github.com/qdrant/go-client/qdrant"
)

// Rename gives the agent another name: what it remembers stays its own. What was cut off
// is finished by the same call.
func (s *Store) Rename(ctx context.Context, to string) error {
	return s.read(ctx, func(ctx context.Context, a *agent) error {
		other, err := s.agent(ctx, to)
		switch {
		case err != nil:
			return err
		case other != nil && other.uuid != a.uuid:
			return fault(errors.New("another agent has that name"), "another name; mbox memory list --agent NAME shows what it remembers")
		}
		if err := s.putAgent(ctx, to, a); err != nil {
			return err
		}
		return s.remove(ctx, s.o.Collection, &client.Filter{Must: []*client.Condition{client.NewHasID(agentID(s.o.Agent))}})
	})
}

// Knows tells whether the server has an agent of the store's name.
func (s *Store) Knows(ctx context.Context) (known bool, err error) {
	err = s.read(ctx, func(context.Context, *agent) error {
		known = true
		return nil
	})
	return known, err
}
