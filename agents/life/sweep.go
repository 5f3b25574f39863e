package life

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
)

// Sweep removes what births have left that were killed before their line: nobody has heard
// of these agents. While somebody brings an agent in or out it does nothing, for what is
// there may be his.
func Sweep(ctx context.Context, b *mailbox.Box) error {
	if left, err := unborn(b); err != nil || len(left) == 0 {
		return err
	}
	unlock, err := lock(ctx, livesLock(b), 0)
	if errors.Is(err, mailbox.ErrBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(sweep(b), unlock())
}

// sweep is Sweep for who has the lock.
func sweep(b *mailbox.Box) error {
	left, err := unborn(b)
	for _, name := range left {
		err = errors.Join(err, durable.RemoveIfThere(filepath.Join(b.Home(), EntryName(name))+".new"), durable.RemoveAll(staged(b, name)))
	}
	return err
}

// unborn are the names for which a home was begun, and of which the ledger does not tell.
func unborn(b *mailbox.Box) (left []string, err error) {
	all, err := durable.Names(filepath.Join(b.Home(), "agents"))
	if err != nil && !gone(err) {
		return nil, err
	}
	for _, file := range all {
		name, is := strings.CutSuffix(strings.TrimPrefix(file, "."), ".birth")
		if !is || !strings.HasPrefix(file, ".") || checkName(name) != nil {
			continue
		}
		a, err := mailbox.AgentsOf(b)
		if err != nil {
			return nil, err
		}
		if a[name].State == lifecycle.Unborn {
			left = append(left, name)
		}
	}
	return left, nil
}
