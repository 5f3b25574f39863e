package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
)

var (
	// ErrEmpty: there is no task that the claimant could take.
	ErrEmpty = errors.New("nothing to claim")
	// ErrConflict: the task is in a state that the verb does not fit, or the id
	// is taken.
	ErrConflict = errors.New("conflict")
	// ErrStale: the token is not that of the task's claim; another claim has
	// been given out, or the task has ended. The bytes of a late result are kept.
	ErrStale = errors.New("stale token")
	// ErrCommitted: the ledger has the line, so the operation counts, but the
	// files could not be brought in line. The next command finishes it.
	ErrCommitted = errors.New("committed, not yet applied")
	// ErrByHand: a stranger moved, edited or removed the file of a task. It is an
	// ErrIntegrity.
	ErrByHand = fmt.Errorf("%w: changed by hand", ErrIntegrity)
	// ErrBusy: a lock was not had in time.
	ErrBusy = durable.ErrBusy
	// ErrUnsettled: what a process left of one task or record cannot be finished, for a
	// file of it cannot be read or moved. Others do not wait for that; to them it is
	// an ErrBusy.
	ErrUnsettled = fmt.Errorf("%w: unsettled", ErrBusy)
	// ErrReadOnly: the mailbox is read-only after an I/O error or damage.
	ErrReadOnly = audit.ErrReadOnly
)

// BlockedError is an ErrConflict: a task would fail again at once, for what it waits
// for has failed.
type BlockedError struct {
	ID     ID
	Failed []ID // in an order in which they can be retried
}

func (e *BlockedError) Error() string {
	return fmt.Sprintf("%v: %s waits for %s, which has failed", ErrConflict, e.ID, e.Failed[len(e.Failed)-1])
}

func (e *BlockedError) Is(target error) bool { return target == ErrConflict }

// onTheWay is for an error of a change that a verb makes before its own: a task
// taken back, admitted, reconciled, a child created. That line counts, and the next
// command finishes it, but nothing of the verb itself is committed: the error
// matches whatever it did, except ErrCommitted.
func onTheWay(err error) error {
	if errors.Is(err, ErrCommitted) {
		return &onTheWayError{err}
	}
	return err
}

type onTheWayError struct{ err error }

func (e *onTheWayError) Error() string { return "a change that had to come first: " + e.err.Error() }

func (e *onTheWayError) Is(target error) bool {
	return target != ErrCommitted && errors.Is(e.err, target)
}

func (e *onTheWayError) As(target any) bool { return errors.As(e.err, target) }

// unsettled is an error of settling a shard. Where it comes of one file, and neither the
// disk nor the ledger is at fault, it is an ErrUnsettled.
func unsettled(b *books, number int, err error) error {
	err = fmt.Errorf("settling what a process left in %s: %w", home.ShardName(number), err)
	if ofOneFile(b.home, err) {
		return &unsettledError{err}
	}
	return err
}

type unsettledError struct{ error }

func (e *unsettledError) Unwrap() error { return e.error }

func (e *unsettledError) Is(target error) bool { return target == ErrUnsettled || target == ErrBusy }

// ofOneFile tells whether an error says of a file of tasks or records that this process
// may not read or move it. The mailbox's own files and the ledger's are everybody's.
func ofOneFile(in string, err error) bool {
	if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, syscall.EBUSY) {
		return false
	}
	path, inside := strings.CutPrefix(durable.PathOf(err), in+"/")
	return inside && !strings.HasPrefix(path, ".mbox/") && !strings.HasPrefix(path, "audit/")
}

// whereItIs is how an error calls what a task is.
func whereItIs(f *home.File) string {
	switch {
	case f.State == Archived:
		return "in the archive"
	case f.State == Failed && f.Task != nil:
		return f.Task.Called(Failed)
	}
	return string(f.State)
}
