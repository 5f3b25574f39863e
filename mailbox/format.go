// Package mailbox keeps tasks in a home on disk: the verbs that change them, the one
// writer behind those, and what brings a home in order again.
//
// # The formats of a home
//
// VERSION tells which one it is. A later one than this mbox knows is refused
// (ErrFormat); an earlier one is brought to the present one by the first command that
// opens the home, for good (upgrade), and refused by what only looks (ErrOldFormat).
//
//	1  .mbox/locks/shard-00…ff have the intent records of their shards ("dirty"
//	   records), ledger has the head record, without format and generation, serial
//	   the number drawn last; delegate, recover, router, index, copy-00…1f. In
//	   .mbox/spare are files that were used again: after a power cut the bytes of
//	   another task may lie under a name.
//	2  .mbox/intents has the intent records, and the number drawn last. The locks
//	   are chain (with the head record), sync, those of the agents' copies,
//	   task-00…ff, delegation, recovery, routing, snapshot and numbers. No file is
//	   used twice.
//
// Other formats: of the ledger's lines audit.Format, of a backup's manifest
// manifestFormat, of .mbox/index snapshotVersion (another one is built anew), of a
// task file its field version.
package mailbox

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

const (
	format    = audit.HomeFormat
	oldFormat = 1

	manifestFormat  = 1
	snapshotVersion = 4
)

// version is the content of .mbox/VERSION. It is written last by Create.
type version struct {
	Format    int    `json:"format"`
	MailboxID string `json:"mailbox_id"`
}

const versionName = ".mbox/VERSION"

// readVersion reads VERSION, of whichever format that this mbox knows.
func readVersion(dir string) (version, error) {
	var v version
	data, err := durable.Read(privatePath(dir, "VERSION"), 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return v, cmp.Or(CheckVacant(dir), fmt.Errorf("%s: %w", dir, ErrNoMailbox))
	}
	if err != nil {
		return v, err
	}
	if v, err = decodeVersion(versionName, data); err != nil && !errors.Is(err, ErrFormat) {
		return version{}, fmt.Errorf("%s: %w: damaged: %w", dir, ErrLost, err)
	}
	return v, err
}

// present is readVersion for who only looks at a home.
func present(dir string) (version, error) {
	v, err := readVersion(dir)
	if err == nil && v.Format != format {
		err = fmt.Errorf("%s: %w", dir, ErrOldFormat)
	}
	return v, err
}

func decodeVersion(path string, data []byte) (v version, err error) {
	if err := schemas.Decode(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	if v.Format < oldFormat || v.Format > format {
		return v, fmt.Errorf("%s: %w: format %d, this mbox knows %d to %d", path, ErrFormat, v.Format, oldFormat, format)
	}
	if id, err := hex.DecodeString(v.MailboxID); err != nil || len(id) != 16 {
		return v, fmt.Errorf("%s: %q is no mailbox's id", path, v.MailboxID)
	}
	return v, nil
}

// writeVersion makes a home one of the present format.
func writeVersion(dir, id string, m durable.Mode) error {
	data, err := schemas.Encode(version{Format: format, MailboxID: id})
	if err != nil {
		return err
	}
	if err := durable.Replace(privatePath(dir, "VERSION"), data, m); err != nil {
		return err
	}
	return durable.SyncDir(dir, m)
}
