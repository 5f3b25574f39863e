package life

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

// Enter waits, for up to wait, until nothing else works in the home of an agent: an
// attempt of its worker, a dream, a change of its name or its program. Leave ends that.
// mailbox.ErrBusy says that the wait was over, fs.ErrNotExist that there is no such home
// any more.
//
// The lock is a flock, and lies where no confined command can open it, be the home its
// workspace: who holds it keeps the agent from being put away.
func Enter(ctx context.Context, b *mailbox.Box, agent string, wait time.Duration) (leave func() error, err error) {
	leave, err = lock(ctx, LockPath(b.Home(), agent), wait)
	if err != nil {
		return nil, err
	}
	if _, err := os.Lstat(b.AgentDir(agent)); err != nil {
		return nil, errors.Join(fmt.Errorf("agent %s: its home is gone: %w", agent, err), leave())
	}
	return leave, nil
}

// LockPath is the lock of an agent's home, from that of the mailbox.
func LockPath(dir, agent string) string { return home.LockPath(dir, "home-"+agent) }

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
