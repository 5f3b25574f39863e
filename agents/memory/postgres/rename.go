package postgres

import (
	"context"
	"errors"
)

// Rename gives the agent of o another name: what it remembers stays its own. A database
// that has no tables has no names, and one that the agent has already stays.
func Rename(ctx context.Context, o Options, to string) error {
	s, err := Open(o)
	if err != nil {
		return err
	}
	err = s.read(ctx, func(ctx context.Context) error {
		return s.transact(ctx, func() error {
			_, err := s.ask(ctx, "UPDATE agents SET alias = $2 WHERE alias = $1", o.Agent, to)
			return err
		})
	})
	return errors.Join(err, s.Close())
}

// Knows tells whether a database has an agent of the name of o.
func Knows(ctx context.Context, o Options) (known bool, err error) {
	s, err := Open(o)
	if err != nil {
		return false, err
	}
	err = s.read(ctx, func(ctx context.Context) error {
		r, err := s.ask(ctx, "SELECT FROM agents WHERE alias = $1", o.Agent)
		known = err == nil && len(r.Rows) > 0
		return err
	})
	return known, errors.Join(err, s.Close())
}
