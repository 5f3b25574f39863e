package chat

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"sync"
	"time"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// Follow calls heed with every line of the ledger behind a position as they come, and
// idle (if it is not nil) whenever there is no further one yet, until ctx ends: then it
// returns nil. An error of heed or idle ends it, too, and so does audit.ErrMoved where
// another ledger was begun.
func Follow(ctx context.Context, box *mailbox.Box, from audit.Position, heed func(context.Context, audit.Line) error, idle func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	wake := make(chan struct{}, 1)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	following.Go(func() {
		for range box.Follow(ctx, from) { // what it yields only says that there is something
			select {
			case wake <- struct{}{}:
			default:
			}
		}
	})
	r := box.Ledger().Read(from)
	defer r.Close()
	for ctx.Err() == nil {
		line, err := r.Next()
		switch {
		case err == io.EOF && r.Broken() != nil:
			return errors.Join(audit.ErrDamaged, r.Broken())
		case err == io.EOF && idle != nil:
			err = idle(ctx)
			waitFor(ctx, wake, box.Options().ScanInterval)
		case err == io.EOF:
			err = nil
			waitFor(ctx, wake, box.Options().ScanInterval)
		case err == nil:
			err = heed(ctx, line)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func waitFor(ctx context.Context, wake <-chan struct{}, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

// Hold takes the lock of what only one process does, under a name that no bridge has.
// mailbox.ErrBusy says that another one does it.
func Hold(box *mailbox.Box, name string) (*durable.Lock, error) {
	return hold(box.Home(), name, box.Options().Sync)
}

// PlaceFile is where it keeps how far it has come.
func PlaceFile(home, name string) string { return filepath.Join(folder(home), name+".out") }
