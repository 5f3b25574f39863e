package home

import (
	"errors"
	"fmt"

	"mbox/audit"
)

var (
	// ErrNoMailbox: the folder holds no mailbox.
	ErrNoMailbox = errors.New("no mailbox here")
	// ErrLost: the folder holds the ledger or tasks of a mailbox, and what is
	// mbox's own (.mbox) is gone, or VERSION damaged. Recover makes it anew.
	ErrLost = errors.New("the mailbox's own files are lost")
	// ErrSalt: the salt is missing or damaged. With another one, nothing that was
	// hashed is known again; Recover makes one.
	ErrSalt = errors.New("the mailbox's salt is lost")
	// ErrExists: the folder holds a mailbox already.
	ErrExists = errors.New("a mailbox is here already")
	// ErrFormat: the mailbox has a format that this mbox does not know, or has to
	// be brought to this one's first.
	ErrFormat = audit.ErrFormat
	// ErrOldFormat: the mailbox is one of an earlier mbox, and this command changes
	// nothing. Open brings it to the present format.
	ErrOldFormat = fmt.Errorf("%w: it is of an earlier mbox", ErrFormat)
	// ErrOlderAtWork: a process of an earlier mbox works in the mailbox, so that it
	// cannot be brought to this one's format.
	ErrOlderAtWork error = olderAtWork{}
	// ErrFileSystem: the file system cannot keep mbox's promises.
	ErrFileSystem = errors.New("file system refused")
	// ErrIntegrity: the tree and the ledger differ where no crash makes them.
	ErrIntegrity = errors.New("integrity")
)

type olderAtWork struct{}

func (olderAtWork) Error() string { return "of an older mbox, which has to end first" }
