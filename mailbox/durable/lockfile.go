package durable

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// LockFile is a lock whose file is held open, and for the record that is kept in
// it. After each flock the descriptor is compared with what bears the name, and
// opened anew if that is another file.
type LockFile struct {
	turns
	file  *os.File // Invariant: used only by who has the turn
	waits *waiter  // whose thread still waits, though nobody wants the lock
}

// NewLockFile returns the lock of the file at path. It opens nothing yet.
func NewLockFile(path string) *LockFile { return &LockFile{turns: newTurns(path)} }

// Try takes the lock if nobody has it, else ErrBusy. While it is held, the
// returned file is the lock file.
func (l *LockFile) Try() (*os.File, error) {
	if err := l.try(l.flock); err != nil {
		return nil, err
	}
	return l.file, nil
}

// Acquire waits for the lock until it has it, the context ends, or wait has
// passed; then the error matches ErrBusy. Among goroutines it waits its turn, for
// other processes in flock(2) (see waiter).
func (l *LockFile) Acquire(ctx context.Context, wait time.Duration) (*os.File, error) {
	deadline := time.Now().Add(wait)
	if err := l.takeTurn(ctx, wait); err != nil {
		return nil, err
	}
	for {
		err := l.flock()
		if errors.Is(err, ErrBusy) {
			if err = l.await(ctx, deadline); errors.Is(err, ErrReplaced) {
				continue
			}
		}
		if err == nil {
			return l.file, nil
		}
		<-l.turn
		return nil, err
	}
}

// File is the lock file, for who has the lock.
func (l *LockFile) File() *os.File { return l.file }

// Unlock gives the lock back.
func (l *LockFile) Unlock() error {
	err := again(func() error { return unix.Flock(int(l.file.Fd()), unix.LOCK_UN) })
	if err != nil {
		l.drop() // closing frees it
	}
	<-l.turn
	return pathError("flock", l.path, err)
}

// Close closes the file, once nobody has the lock.
func (l *LockFile) Close() {
	l.turn <- struct{}{}
	l.drop()
	<-l.turn
}

func (l *LockFile) drop() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// flock takes the flock without waiting, on the file that bears the name.
func (l *LockFile) flock() error {
	for range 3 {
		if l.file == nil {
			f, err := OpenNamed(l.path, os.O_RDWR)
			if err != nil {
				return err
			}
			l.file, l.dev, l.ino = f.File, f.dev, f.ino // the path stays: others read it
		}
		err := again(func() error { return unix.Flock(int(l.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
		if errors.Is(err, unix.EWOULDBLOCK) {
			if err := l.named(); err == nil || !errors.Is(err, ErrReplaced) {
				return fmt.Errorf("%s: %w", l.path, errors.Join(ErrBusy, err))
			}
			l.drop()
			continue
		}
		if err == nil {
			err = l.named()
		}
		if err == nil {
			return nil
		}
		l.drop()
		if !errors.Is(err, ErrReplaced) {
			return pathError("flock", l.path, err)
		}
	}
	return fmt.Errorf("%s: %w", l.path, ErrReplaced)
}
