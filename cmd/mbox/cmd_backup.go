package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

func backupVerb() *verb {
	var inJSON bool
	return &verb{
		name: "backup", args: "FILE.tar.zst|-", least: 1, most: 1,
		brief: "copy a running mailbox",
		about: `Writes the whole mailbox into one archive while others go on working, cut at one
line of the ledger, so that mbox restore gives a mailbox that verifies. A plain
copy of a running home does not. The file must not be there yet; - is standard
output.`,
		shows: []string{"mbox backup ~/agents-$(date +%F).tar.zst"},
		exits: []int{exitNotFound, exitConflict, exitIO, exitBusy},
		flags: []cli.Flag{boolFlag("json", "print what is in it, as JSON", &inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			if args[0] == "-" && inJSON {
				return usagef("mbox backup agents.tar.zst --json", "standard output is the archive, --json would be in it")
			}
			if args[0] == "-" && term.IsTerminal(int(os.Stdout.Fd())) {
				return usagef("mbox backup - > agents.tar.zst", "an archive does not belong on a terminal")
			}
			return s.with(ctx, func(box *mailbox.Box) error { return s.backup(ctx, box, args[0], inJSON) })
		},
	}
}

// backup writes to a file of another name first, so that what has the right
// name is whole.
func (s *session) backup(ctx context.Context, box *mailbox.Box, name string, inJSON bool) error {
	if name == "-" {
		_, err := box.Backup(ctx, s.out)
		s.endProgress()
		return err
	}
	if _, err := os.Lstat(name); err == nil {
		return hint(fmt.Errorf("%s: %w: the file is there already", name, mailbox.ErrConflict), "give another name, or remove it")
	}
	part := name + ".part"
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, durable.FileMode)
	if err != nil {
		return err
	}
	report, err := box.Backup(ctx, f)
	s.endProgress()
	if err == nil {
		err = durable.SyncFile(f)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = durable.Move(part, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	if err := durable.SyncDir(filepath.Dir(name), durable.Standard); err != nil {
		return err
	}
	if inJSON {
		return s.printLine(report)
	}
	s.done("%s: %d files, %s, up to line %d of the ledger", name, report.Files, size(uint64(report.Bytes)), report.Seq)
	return nil
}
