package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// ErrBusy says that a lock was not had in time.
var ErrBusy = errors.New("busy")

// HeldError is the ErrBusy of a lock that was waited for until the deadline.
type HeldError struct {
	Path    string
	PID     int  // who has it; 0 where the system does not tell
	Stopped bool // that process is, and goes on with SIGCONT
}

func (e *HeldError) Error() string {
	text := fmt.Sprintf("%s: %v until the deadline", e.Path, ErrBusy)
	if e.PID > 0 {
		text += fmt.Sprintf(", held by process %d", e.PID)
	}
	if e.Stopped {
		text += ", which is stopped"
	}
	return text
}

func (e *HeldError) Unwrap() error { return ErrBusy }

// heldTooLong is the error of a lock that was not had in time: only then it is asked who
// has it.
func heldTooLong(path string) error {
	pid, stopped := Holder(path)
	return &HeldError{path, pid, stopped}
}

// ErrReplaced says that a file was replaced or removed under who had it open, so
// that a lock on it protects nothing, and what is written to it nobody reads.
var ErrReplaced = errors.New("lock file was replaced")

// A lock is an exclusive flock(2) on a file that exists already: it is never made
// here, and a missing one matches fs.ErrNotExist. There are two kinds. A Lock opens
// its file for each acquisition; a LockFile keeps it open, for a lock that all
// processes take all the time, and for what is kept in the file.

// Held is what a line of the ledger rests on: a lock, or a file that was written.
type Held interface {
	// Check returns ErrReplaced where the open file does not bear its name any more.
	Check() error
}

// StillHeld is Check of several: the first error.
func StillHeld(files ...Held) error {
	for _, f := range files {
		if err := f.Check(); err != nil {
			return err
		}
	}
	return nil
}

// name is an open file, and the path that it was opened by.
type name struct {
	path     string
	dev, ino uint64
}

// Path is the path that the file was opened by.
func (n *name) Path() string { return n.path }

// Check tells whether the open file still bears its name, else ErrReplaced.
func (n *name) Check() error {
	err := n.named()
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", n.path, ErrReplaced)
	}
	return err
}

func (n *name) named() error {
	st, err := Lstat(n.path)
	if err == nil && (uint64(st.Dev) != n.dev || st.Ino != n.ino) {
		err = fmt.Errorf("%s: %w", n.path, ErrReplaced)
	}
	return err
}

// File is an open file of mbox's own that knows by which name it was opened.
type File struct {
	name
	*os.File
}

// OpenNamed is OpenFile of a file whose name counts.
func OpenNamed(path string, flags int) (*File, error) {
	f, err := OpenFile(path, flags)
	if err != nil {
		return nil, err
	}
	st, err := Fstat(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &File{name{path, uint64(st.Dev), st.Ino}, f}, nil
}

// turns are taken by the goroutines of a process that want one lock, so that its
// object is never shared: who has the turn asks the system for the lock.
type turns struct {
	name
	turn chan struct{} // holds one token while somebody has the lock or asks for it
}

func newTurns(path string) turns { return turns{name{path: path}, make(chan struct{}, 1)} }

// try takes the lock if nobody has it, else ErrBusy.
func (t *turns) try(take func() error) error {
	select {
	case t.turn <- struct{}{}:
	default:
		return fmt.Errorf("%s: %w", t.path, ErrBusy)
	}
	err := take()
	if err != nil {
		<-t.turn
	}
	return err
}

// Idle waits until no goroutine of this process has the lock or asks for it.
func (t *turns) Idle() {
	t.turn <- struct{}{}
	<-t.turn
}

func (t *turns) takeTurn(ctx context.Context, wait time.Duration) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	default:
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w: %w", t.path, ErrBusy, ctx.Err())
	case <-timer.C:
		return heldTooLong(t.path)
	}
}

// Lock is the lock of a task, or of another thing that is held for long or taken
// seldom. No descriptor is open while nobody has it.
type Lock struct {
	turns
	held *flock.Flock // Invariant: used only by who has the turn
}

// NewLock returns the lock of the file at path. It opens nothing yet.
func NewLock(path string) *Lock { return &Lock{turns: newTurns(path)} }

// TryLock takes the lock of the file at path if nobody has it, else ErrBusy.
func TryLock(path string) (*Lock, error) {
	l := NewLock(path)
	return l, l.Try()
}

// AcquireLock waits for the lock of the file at path.
func AcquireLock(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	l := NewLock(path)
	return l, l.Acquire(ctx, wait)
}

// Try takes the lock if nobody has it, else ErrBusy.
func (l *Lock) Try() error { return l.try(l.take) }

// Acquire waits for the lock until it has it, the context ends, or wait has
// passed; then the error matches ErrBusy. Among goroutines it waits its turn;
// for other processes it polls, from 20 µs on with growing, random pauses of at
// most 500 µs: a blocking flock could not be given up at a deadline, and only for
// a LockFile a thread is worth its while.
func (l *Lock) Acquire(ctx context.Context, wait time.Duration) error {
	deadline := time.Now().Add(wait)
	if err := l.takeTurn(ctx, wait); err != nil {
		return err
	}
	pause := 20 * time.Microsecond
	for {
		err := l.take()
		if err == nil {
			return nil
		}
		if errors.Is(err, ErrBusy) && time.Now().After(deadline) {
			if wait > 0 {
				err = heldTooLong(l.path)
			}
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
		return err
	}
}

// Unlock gives the lock back.
func (l *Lock) Unlock() error {
	err := free(l.held)
	l.held = nil
	<-l.turn
	return pathError("flock", l.path, err)
}

// free gives a flock back. Where the call fails gofrs/flock leaves the file open,
// and the lock taken until the garbage collector closes it: it is asked twice.
func free(held *flock.Flock) error {
	if again(held.Unlock) == nil {
		return nil
	}
	return again(held.Unlock)
}

// take takes the flock by an object of its own, which nobody shares, and refuses
// it on a file that has lost its name in between.
func (l *Lock) take() error {
	// An os.File that is opened to be blocked on costs four calls more.
	held := flock.New(l.path, flock.SetFlag(os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK))
	ok := false
	err := again(func() (err error) { ok, err = held.TryLock(); return err })
	if errors.Is(err, unix.ELOOP) {
		err = pathError("open", l.path, ErrNotRegular)
	}
	if _, bare := err.(syscall.Errno); bare { //nolint:errorlint // one that is wrapped has the name
		err = pathError("flock", l.path, err)
	}
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", l.path, ErrBusy)
	}
	if err != nil {
		return err
	}
	info, err := held.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = pathError("open", l.path, ErrNotRegular)
	}
	if err == nil {
		st := StatOf(info)
		l.dev, l.ino = uint64(st.Dev), st.Ino
		err = l.named()
	}
	if err != nil {
		_ = free(held)
		return err
	}
	l.held = held
	return nil
}
