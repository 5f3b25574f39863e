package main

import (
	"context"
	"errors"
	"syscall"

	"mbox/agents/secret"
	"mbox/mailbox"
	"mbox/mailbox/backup"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/schemas"
)

func restoreVerb() *verb {
	return &verb{
		name: "restore", args: "FILE.tar.zst|- DIR", least: 2, most: 2,
		brief: "make a mailbox of a backup",
		about: `Makes a mailbox in DIR, which must be empty or not there yet, of what mbox backup
wrote. Every file is held against the archive's manifest before anything is in
its place. After one that was killed, say it again. The first command that opens it
brings it up to date: leases of the old machine are over, and tasks that were in
progress go back to pending. Secrets of agents that came without what opens them are
told; where that lay in a keyring of this user, it is found there again.`,
		shows: []string{"mbox restore agents-2026-02-16.tar.zst ~/agents-restored", "mbox --home ~/agents-restored verify"},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO},
		run: func(ctx context.Context, s *session, args []string) error {
			from, err := s.openInput(ctx, args[0])
			if err != nil {
				return err
			}
			defer from.Close()
			if err := home.CheckPlace(args[1]); err != nil {
				return err
			}
			report, err := backup.Restore(ctx, from, args[1], durable.Standard)
			if err != nil {
				return refusedArchive(err)
			}
			s.warnSkipped(report)
			if _, err := secret.List(ctx, args[1], ""); errors.Is(err, secret.ErrIdentity) {
				_, way := judge(err)
				s.warnf("%s; %s", clean(err.Error(), maxLine), way)
			}
			s.done("restored; check it: mbox --home %s verify", schemas.ShellWord(args[1]))
			return nil
		},
	}
}

// refusedArchive tells bytes that are no backup as bad data, apart from what the
// system refused.
func refusedArchive(err error) error {
	var number syscall.Errno
	switch {
	case err == nil, errors.As(err, &number), errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, mailbox.ErrExists):
		return hint(err, "give a folder that is empty, or not there yet")
	}
	return &badArchive{err}
}

// badArchive is a file that is no whole backup.
type badArchive struct{ error }

func (e *badArchive) Unwrap() error { return e.error }
