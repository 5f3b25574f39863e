package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Rename gives an agent of a database another name: what it remembers stays its own. A
// database that is not there has no names, and one that the agent has already stays.
func Rename(ctx context.Context, path, from, to string, wait time.Duration) error {
	s, err := Open(path, from, wait)
	if err != nil {
		return err
	}
	if is, err := s.there(ctx); err != nil || !is {
		return errors.Join(err, s.Close())
	}
	err = s.change(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE agents SET alias = ? WHERE alias = ?", to, from)
		return err
	})
	return errors.Join(err, s.Close())
}

// Knows tells whether a database has an agent of that name.
func Knows(ctx context.Context, path, agent string, wait time.Duration) (known bool, err error) {
	s, err := Open(path, agent, wait)
	if err != nil {
		return false, err
	}
	if is, err := s.there(ctx); err != nil || !is {
		return false, errors.Join(err, s.Close())
	}
	err = s.db.QueryRowContext(ctx, "SELECT count(*) > 0 FROM agents WHERE alias = ?", agent).Scan(&known)
	return known, errors.Join(s.about(err), s.Close())
}
