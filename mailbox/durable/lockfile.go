package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// LockFile is a lock file that is held open, for a lock that is taken often and
// for the record that is kept in it. Goroutines take turns by a mutex, and the
// one whose turn it is takes the flock(2), which excludes other processes; so
// the descriptor is never locked twice. (gofrs/flock opens the file for each
// acquisition, which costs more than all else that a transition does with it.)
//
// The file is never made, and never removed while a process may hold it: a
// missing one matches fs.ErrNotExist. After each flock the descriptor is
// compared with what bears the name, and opened anew if that is another file.
type LockFile struct {
	path     string
	turn     chan struct{} // holds one token while somebody has the lock or asks for it
	file     *os.File      // Invariant: used only by who has the turn
	dev, ino uint64
}

// NewLockFile returns the lock of the file at path. It opens nothing yet.
func NewLockFile(path string) *LockFile {
	return &LockFile{path: path, turn: make(chan struct{}, 1)}
}

// Path is the lock file.
func (l *LockFile) Path() string { return l.path }

// Try takes the lock if nobody has it, else ErrBusy. While it is held, the
// returned file is the lock file.
func (l *LockFile) Try() (*os.File, error) {
	select {
	case l.turn <- struct{}{}:
	default:
		return nil, fmt.Errorf("%s: %w", l.path, ErrBusy)
	}
	err := l.flock()
	if err != nil {
		<-l.turn
		return nil, err
	}
	return l.file, nil
}

// Acquire waits for the lock until it has it, the context ends, or wait has
// passed; then the error matches ErrBusy. Among goroutines it waits its turn;
// for other processes it polls, from 20 µs on with growing, random pauses of at
// most 500 µs: a blocking flock could not be given up at a deadline.
func (l *LockFile) Acquire(ctx context.Context, wait time.Duration) (*os.File, error) {
	deadline := time.Now().Add(wait)
	if err := l.takeTurn(ctx, wait); err != nil {
		return nil, err
	}
	pause := 20 * time.Microsecond
	for {
		err := l.flock()
		if err == nil {
			return l.file, nil
		}
		if errors.Is(err, ErrBusy) && time.Now().After(deadline) {
			err = fmt.Errorf("%w for %v", err, wait)
		} else if errors.Is(err, ErrBusy) {
			select {
			case <-ctx.Done():
				err = fmt.Errorf("%w: %w", err, ctx.Err())
			case <-time.After(pause/2 + rand.N(pause)):
				pause = min(2*pause, 500*time.Microsecond)
				continue
			}
		}
		<-l.turn
		return nil, err
	}
}

func (l *LockFile) takeTurn(ctx context.Context, wait time.Duration) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", l.path, ErrBusy, ctx.Err())
	case <-timer.C:
		return fmt.Errorf("%s: %w for %v", l.path, ErrBusy, wait)
	}
}

// Check tells, to who has the lock, whether the file that it holds still bears the
// name: else (ErrReplaced) the lock excludes nobody any more.
func (l *LockFile) Check() error {
	err := l.named()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", l.path, ErrReplaced)
	}
	return err
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
			if err := l.open(); err != nil {
				return err
			}
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

func (l *LockFile) open() error {
	f, err := OpenFile(l.path, os.O_RDWR)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := again(func() error { return unix.Fstat(int(f.Fd()), &st) }); err != nil {
		f.Close()
		return pathError("fstat", l.path, err)
	}
	l.file, l.dev, l.ino = f, uint64(st.Dev), st.Ino
	return nil
}

// named tells whether the name is still that of the open file.
func (l *LockFile) named() error {
	var st unix.Stat_t
	if err := again(func() error { return unix.Lstat(l.path, &st) }); err != nil {
		return &fs.PathError{Op: "lstat", Path: l.path, Err: err}
	}
	if uint64(st.Dev) != l.dev || st.Ino != l.ino {
		return fmt.Errorf("%s: %w", l.path, ErrReplaced)
	}
	return nil
}

// StillHeld is Check of several locks: the first error.
func StillHeld(locks ...*LockFile) error {
	for _, l := range locks {
		if err := l.Check(); err != nil {
			return err
		}
	}
	return nil
}
