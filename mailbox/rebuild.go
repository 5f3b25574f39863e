package mailbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/schemas"
)

// Most of .mbox follows from the ledger and the tree, or matters only while a
// process runs. Three things do not: the mailbox's id, which the ledger's files
// repeat; the salt; and the secrets beside it. So Recover rebuilds a home whose
// .mbox was deleted. Create refuses it: a new id would not fit the ledger.

// rebuild makes anew what is missing of .mbox. VERSION comes behind the boot
// record, which says that a recovery is at work; a process that worked here
// before finds its lock files replaced. The boot is taken for the one in which
// the leases were made: a living worker keeps its task until the deadline.
func rebuild(dir string, o Options, r RecoverOptions) (done bool, err error) {
	v, missing := home.ReadVersion(dir)
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
	if err := home.MakeFolders(dir, ".mbox/", o.Sync); err != nil {
		return false, err
	}
	if _, err := home.Salt(dir); errors.Is(err, home.ErrSalt) {
		salt := home.Private(dir, "keys", "salt")
		err := durable.Rename(salt, salt+".damaged-"+home.RandomHex(4)) // a person may know what it was
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err := cmp.Or(err, home.MakeSalt(dir, o.Sync)); err != nil {
			return false, err
		}
		done = true
	} else if err != nil {
		return false, err
	}
	if missing == nil {
		return done, nil
	}
	if err := home.ProbeRenames(dir); err != nil {
		return done, err
	}
	boot, err := home.CurrentBoot(dir)
	if err != nil {
		return done, err
	}
	boot.Recovering = true
	return true, home.MakeVersion(dir, id, boot, o.Sync)
}
