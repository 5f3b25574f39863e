package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"mbox/mailbox/durable"
)

// Snapshot makes a copy of a database as it is at one moment (VACUUM INTO), without what
// was deleted, while others use it. "" if there is no database. The copy lies beside it
// until end; one at a time is made.
func Snapshot(ctx context.Context, path string, wait time.Duration) (copied string, end func() error, err error) {
	nothing := func() error { return nil }
	s, err := Open(path, "", wait)
	if err != nil {
		return "", nothing, err
	}
	defer s.Close()
	if there, err := s.there(ctx); err != nil || !there {
		return "", nothing, err
	}
	lock, err := snapshotLock(path)
	if err != nil {
		return "", nothing, err
	}
	if err := lock.Acquire(ctx, wait); err != nil {
		return "", nothing, err
	}
	copied = snapshotOf(path)
	end = func() error { return errors.Join(durable.RemoveIfThere(copied), lock.Unlock()) }
	if err = makeEmpty(copied); err == nil { // with the mode of all that mbox makes
		_, err = s.db.ExecContext(ctx, "VACUUM INTO ?", copied)
	}
	if err != nil {
		return "", nothing, errors.Join(s.about(err), end())
	}
	return copied, end, nil
}

// Beside are the files that lie beside a database, and are no part of what it has.
func Beside(path string) []string {
	return []string{path + "-journal", snapshotOf(path), snapshotLockOf(path)}
}

func snapshotLockOf(path string) string {
	return filepath.Join(filepath.Dir(path), ".snapshot.lock")
}

func snapshotOf(path string) string {
	return filepath.Join(filepath.Dir(path), ".snapshot.db")
}

func makeEmpty(path string) error {
	if err := durable.RemoveIfThere(path); err != nil {
		return err
	}
	f, err := durable.Create(path)
	if err != nil {
		return err
	}
	return f.Close()
}

func snapshotLock(path string) (*durable.Lock, error) {
	name := snapshotLockOf(path)
	f, err := durable.Create(name)
	if err == nil {
		err = f.Close()
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return durable.NewLock(name), nil
}

// dropSnapshot removes a copy that a killed backup has left: it has what is forgotten
// now. One that is in use was begun before.
func dropSnapshot(path string) error {
	lock, err := snapshotLock(path)
	if err != nil {
		return err
	}
	if err := lock.Try(); err != nil {
		if errors.Is(err, durable.ErrBusy) {
			return nil
		}
		return err
	}
	return errors.Join(durable.RemoveIfThere(snapshotOf(path)), lock.Unlock())
}
