package main

import (
	"context"
	"errors"
	"io"
	"os"

	"mbox/mailbox"
)

func restoreVerb() *verb {
	return &verb{
		name: "restore", args: "FILE.tar.zst|- DIR", least: 2, most: 2,
		brief: "make a mailbox of a backup",
		about: `Makes a mailbox in DIR, which must be empty or not there yet, of what mbox backup
wrote. The first command that opens it brings it up to date: leases of the old
machine are over, and tasks that were in progress go back to pending.`,
		shows: []string{"mbox restore agents-2026-02-16.tar.zst ~/agents-restored", "mbox --home ~/agents-restored verify"},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO},
		run: func(ctx context.Context, s *session, args []string) error {
			from := io.Reader(s.in)
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return missingFile(err, args[0])
				}
				defer f.Close()
				from = f
			}
			if err := mailbox.CheckPlace(args[1]); err != nil {
				return err
			}
			err := mailbox.Restore(ctx, from, args[1], mailbox.Options{Progress: s.progress})
			if err != nil {
				return refusedArchive(err)
			}
			s.done("restored; check it: mbox --home %s verify", quoteWord(args[1]))
			return nil
		},
	}
}

// refusedArchive tells bytes that are no backup as bad data.
func refusedArchive(err error) error {
	switch {
	case errors.Is(err, mailbox.ErrExists):
		return hint(err, "give a folder that is empty, or not there yet")
	case errors.Is(err, mailbox.ErrNoMailbox), !refusedBySystem(err) && !errors.Is(err, context.Canceled):
		return &badArchive{err}
	}
	return err
}

// badArchive is a file that is no whole backup.
type badArchive struct{ error }

func (e *badArchive) Unwrap() error { return e.error }
