package mailbox

import (
	"errors"
	"fmt"

	"mbox/audit"
	"mbox/mailbox/durable"
)

var (
	// ErrNoMailbox: the folder holds no mailbox.
	ErrNoMailbox = errors.New("no mailbox here")
	// ErrLost: the folder holds the ledger or tasks of a mailbox, and what is
	// mbox's own (.mbox) is gone, or VERSION damaged. Recover makes it anew.
	ErrLost = errors.New("the mailbox's own files are lost")
	// ErrExists: the folder holds a mailbox already.
	ErrExists = errors.New("a mailbox is here already")
	// ErrFormat: the mailbox has a format that this mbox does not know, or has to
	// be brought to this one's first.
	ErrFormat = audit.ErrFormat
	// ErrOldFormat: the mailbox is one of an earlier mbox, and this command changes
	// nothing. Open brings it to the present format.
	ErrOldFormat = fmt.Errorf("%w: it is of an earlier mbox", ErrFormat)
	// ErrFileSystem: the file system cannot keep mbox's promises.
	ErrFileSystem = errors.New("file system refused")
	// ErrEmpty: there is no task that the claimant could take.
	ErrEmpty = errors.New("nothing to claim")
	// ErrNotFound: there is no such task, record or archive.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the task is in a state that the verb does not fit, or the id
	// is taken.
	ErrConflict = errors.New("conflict")
	// ErrStale: the token is not that of the task's claim; another claim has
	// been given out, or the task has ended. The bytes of a late result are kept.
	ErrStale = errors.New("stale token")
	// ErrCommitted: the ledger has the line, so the operation counts, but the
	// files could not be brought in line. The next command finishes it.
	ErrCommitted = errors.New("committed, not yet applied")
	// ErrIntegrity: the tree and the ledger differ where no crash makes them.
	ErrIntegrity = errors.New("integrity")
	// ErrBusy: a lock was not had in time.
	ErrBusy = durable.ErrBusy
	// ErrReadOnly: the mailbox is read-only after an I/O error or damage.
	ErrReadOnly = audit.ErrReadOnly
)
