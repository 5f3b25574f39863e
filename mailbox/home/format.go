// Package home says where things lie in a mailbox's folder: its folders and lock files,
// VERSION, the boot record, the intent records, the leases and the quarantine, and how
// a home of the format before is brought to the present one.
//
// # The formats of a home
//
// VERSION tells which one it is. A later one than this mbox knows is refused
// (ErrFormat); an earlier one is brought to the present one by the first command that
// opens the home, for good ([Upgrade]), and refused by what only looks (ErrOldFormat).
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
// In .mbox/keys lies the salt, made with the home. Beside it may lie secrets that are
// no part of a format, each told by the package that keeps it: tokens/
// (cmd/mbox/gateway/token), secrets/ and identity or the name of its
// entry in a keyring (agents/secret). In .mbox/bridges lie
// the locks and places of bridges (agents/chat), in .mbox/locks also those of the homes of
// agents (agents/life), in .mbox/lines the tables of where each
// task's lines stand (audit), which are no part of a format either, and of no backup.
//
// Other formats: of the ledger's lines audit.Format, of a backup's manifest
// [ManifestFormat], of .mbox/index [SnapshotVersion] (another one is built anew), of a
// task file its field version.
package home

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
	Format    = audit.HomeFormat // of a home that this mbox makes
	OldFormat = 1                // which it brings to that

	ManifestFormat  = 1  // of a backup
	SnapshotVersion = 10 // of .mbox/index
)

// Version is the content of .mbox/VERSION. It is written last by Create.
type Version struct {
	Format    int    `json:"format"`
	MailboxID string `json:"mailbox_id"`
}

// VersionName is the place of VERSION in a home.
const VersionName = ".mbox/VERSION"

// ReadVersion reads VERSION, of whichever format that this mbox knows.
func ReadVersion(dir string) (Version, error) {
	var v Version
	data, err := durable.Read(Private(dir, "VERSION"), 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return v, cmp.Or(CheckVacant(dir), fmt.Errorf("%s: %w", dir, ErrNoMailbox))
	}
	if err != nil {
		return v, err
	}
	if v, err = DecodeVersion(VersionName, data); err != nil && !errors.Is(err, ErrFormat) {
		return Version{}, fmt.Errorf("%s: %w: damaged: %w", dir, ErrLost, err)
	}
	return v, err
}

// Present is readVersion for who only looks at a home.
func Present(dir string) (Version, error) {
	v, err := ReadVersion(dir)
	if err == nil && v.Format != Format {
		err = fmt.Errorf("%s: %w", dir, ErrOldFormat)
	}
	return v, err
}

// DecodeVersion reads what VERSION holds.
func DecodeVersion(path string, data []byte) (v Version, err error) {
	if err := schemas.Decode(data, &v); err != nil {
		return v, fmt.Errorf("%s: %w", path, err)
	}
	if v.Format < OldFormat || v.Format > Format {
		return v, fmt.Errorf("%s: %w: format %d, this mbox knows %d to %d", path, ErrFormat, v.Format, OldFormat, Format)
	}
	if id, err := hex.DecodeString(v.MailboxID); err != nil || len(id) != 16 {
		return v, fmt.Errorf("%s: %q is no mailbox's id", path, v.MailboxID)
	}
	return v, nil
}

// WriteVersion makes a home one of the present format.
func WriteVersion(dir, id string, m durable.Mode) error {
	data, err := schemas.Encode(Version{Format: Format, MailboxID: id})
	if err != nil {
		return err
	}
	if err := durable.Replace(Private(dir, "VERSION"), data, m); err != nil {
		return err
	}
	return durable.SyncDir(dir, m)
}
