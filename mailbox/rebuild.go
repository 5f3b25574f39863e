package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"mbox/audit"
	"mbox/schemas"
)

// What .mbox holds is derived from the ledger and the tree, or of this moment
// only, but for three things: the mailbox's id, which the ledger's files repeat;
// the salt; and the secrets beside it. So a home whose .mbox was deleted is
// rebuilt by Recover, and never made anew by Create: a new id would not fit the
// ledger.

// CheckVacant returns an error that matches ErrLost where a folder without a
// mailbox holds a ledger or tasks.
func CheckVacant(dir string) error {
	for _, f := range folders {
		if f != "audit/shared" && !strings.HasPrefix(f, "tasks/") {
			continue
		}
		names, err := listNames(filepath.Join(dir, f))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if !strings.HasPrefix(name, ".") {
				return fmt.Errorf("%s: %w: .mbox/VERSION is gone, and %s/%s is here", dir, ErrLost, f, name)
			}
		}
	}
	return nil
}

// Identity is the id of the mailbox in dir, as VERSION has it, or the ledger.
func Identity(dir string) (string, error) {
	v, err := readVersion(dir)
	if !errors.Is(err, ErrLost) {
		return v.MailboxID, err
	}
	id, why := audit.Identity(dir, "")
	if id == "" {
		return "", fmt.Errorf("%w: %w", err, why)
	}
	return id, nil
}

// rebuild makes anew what is missing of .mbox. VERSION comes behind the boot
// record, which says that a recovery is at work; a process that worked here
// before finds its lock files replaced. The boot is taken for the one in which
// the leases were made: a living worker keeps its task until the deadline.
func rebuild(dir string, o Options, r RecoverOptions) (done bool, err error) {
	v, missing := readVersion(dir)
	if missing != nil && !errors.Is(missing, ErrLost) {
		return false, missing
	}
	if missing == nil && r.MailboxID != "" && r.MailboxID != v.MailboxID {
		return false, fmt.Errorf("%s: %w: it is mailbox %s, not %s", dir, ErrConflict, v.MailboxID, schemas.Sentence(r.MailboxID, 60))
	}
	id, unknown := "", error(nil)
	if missing != nil {
		id, unknown = audit.Identity(dir, r.MailboxID)
	}
	switch {
	case errors.Is(unknown, audit.ErrOther):
		return false, fmt.Errorf("%s: %w: %w", dir, ErrConflict, unknown)
	case unknown != nil && !(r.Forget && id != ""):
		return false, fmt.Errorf("%w: %w", missing, unknown)
	}
	if err := makeFolders(dir, ".mbox/", o.Sync); err != nil {
		return false, err
	}
	if _, err := os.Lstat(privatePath(dir, "keys", "salt")); errors.Is(err, fs.ErrNotExist) {
		if err := makeSalt(dir, o.Sync); err != nil {
			return false, err
		}
		done = true
	} else if err != nil {
		return false, err
	}
	if missing == nil {
		return done, nil
	}
	if err := probeRenames(dir); err != nil {
		return done, err
	}
	boot, err := currentBoot(dir)
	if err != nil {
		return done, err
	}
	boot.Recovering = true
	return true, makeVersion(dir, id, boot, o.Sync)
}
