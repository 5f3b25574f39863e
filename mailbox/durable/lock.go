package durable

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// ErrBusy says that a lock was not had in time.
var ErrBusy = errors.New("busy")

// ErrReplaced says that a lock file was replaced or removed under its holder,
// so that the lock protects nothing.
var ErrReplaced = errors.New("lock file was replaced")

// Lock is an exclusive flock(2) on a lock file that exists already. A Lock is
// one acquisition: it has its own open file, so two goroutines exclude each
// other as two processes do. It is never shared and never taken twice.
type Lock struct{ held *flock.Flock }

// TryLock takes the lock of the file at path if nobody holds it, else ErrBusy.
// It never makes the file: a missing one matches fs.ErrNotExist.
func TryLock(path string) (*Lock, error) {
	l := flock.New(path, flock.SetFlag(os.O_RDWR))
	ok := false
	err := again(func() (err error) { ok, err = l.TryLock(); return err })
	if _, bare := err.(syscall.Errno); bare { //nolint:errorlint // one that is wrapped has the name
		err = &os.PathError{Op: "flock", Path: path, Err: err}
	}
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("%s: %w", path, ErrBusy)
	}
	return named(l)
}

// named refuses a lock on a file that no longer has the name it was opened by.
func named(l *flock.Flock) (*Lock, error) {
	mine, err := l.Stat()
	if err == nil {
		var now os.FileInfo
		if now, err = os.Lstat(l.Path()); err == nil && !os.SameFile(mine, now) {
			err = fmt.Errorf("%s: %w", l.Path(), ErrReplaced)
		}
	}
	if err != nil {
		l.Unlock()
		return nil, err
	}
	return &Lock{l}, nil
}

// AcquireLock waits for the lock of the file at path until it has it, the
// context ends, or wait has passed; then the error matches ErrBusy. It polls,
// from 50 µs on with growing, random pauses of at most 500 µs: a blocking flock
// could not be given up at a deadline.
func AcquireLock(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	deadline := time.Now().Add(wait)
	pause := 50 * time.Microsecond
	for {
		l, err := TryLock(path)
		if !errors.Is(err, ErrBusy) {
			return l, err
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("%w for %v", err, wait)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, ctx.Err())
		case <-time.After(pause/2 + rand.N(pause)):
		}
		pause = min(2*pause, 500*time.Microsecond)
	}
}

// Unlock gives the lock back.
func (l *Lock) Unlock() error { return l.held.Unlock() }

// Path is the lock file.
func (l *Lock) Path() string { return l.held.Path() }
