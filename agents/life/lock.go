package life

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// Enter waits, for up to wait, until nothing else works in the home of an agent: an
// attempt of its worker, a dream, a change of its name or its program. Leave ends that.
// mailbox.ErrBusy says that the wait was over.
func Enter(ctx context.Context, b *mailbox.Box, agent string, wait time.Duration) (leave func() error, err error) {
	return lock(ctx, filepath.Join(b.AgentDir(agent), "agent.lock"), wait)
}

func lock(ctx context.Context, path string, wait time.Duration) (unlock func() error, err error) {
	if err := durable.Stage(path, nil, durable.None); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	l, err := durable.AcquireLock(ctx, path, wait)
	if err != nil {
		return nil, err
	}
	return l.Unlock, nil
}
