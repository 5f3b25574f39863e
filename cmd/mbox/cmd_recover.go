package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
)

func recoverVerb() *verb {
	var afterIO, deleted, inJSON bool
	var adopt texts
	return &verb{
		name:  "recover",
		brief: "bring files in line with the ledger",
		about: `Folds the whole ledger, looks at every file, and brings each task to where its
last line has it. Every command does this after a restart of the machine; it is
for a disk that was away, a lock file that was removed, and for the cases
below. A second run changes nothing.

--after-io-error ends the read-only state that a failed write to the ledger set.
--adopt ID takes over what somebody did to a task by hand, and what is never
taken over by itself: edits, deletions, moves out of completed.
--adopt-deleted gives up every task whose file is nowhere. More than 16 that are
gone at once, or any from a folder that was replaced, make the mailbox read-only
until they are back or this is said.`,
		shows: []string{"mbox recover", "mbox recover --adopt task-2026-02-16-001"},
		exits: []int{exitNotFound, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			boolFlag("after-io-error", "the disk is well again: end the read-only state", &afterIO),
			boolFlag("adopt-deleted", "give up every task whose file is nowhere", &deleted),
			valueFlag("adopt", "take over what was done to task `ID` by hand; may be repeated", &adopt),
			jsonFlag(&inJSON),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			home, o, err := s.options()
			if err != nil {
				return err
			}
			r := mailbox.RecoverOptions{AfterIOError: afterIO, AdoptDeleted: deleted}
			for _, id := range adopt {
				r.Adopt = append(r.Adopt, mailbox.ID(id))
			}
			done, err := mailbox.Recover(ctx, home, o, r)
			s.endProgress()
			if err != nil {
				return stillReadOnly(err, afterIO)
			}
			if inJSON {
				return s.printLine(done)
			}
			s.printRecovered(done)
			return nil
		},
		words: taskWords,
	}
}

// stillReadOnly gives the hint of a read-only mailbox to those who have not
// followed it yet.
func stillReadOnly(err error, followed bool) error {
	if errors.Is(err, mailbox.ErrReadOnly) && followed {
		return hint(err, "mbox verify --ledger-only names the damage; mbox restore makes a mailbox of a backup")
	}
	return err
}

const costOfRebuilding = `.mbox was made anew, with another salt: an idempotency key or a verb of before, ` +
	`sent once more, is not known again, and hashed sessions differ from those in older lines; ` +
	`secrets that lay in .mbox/keys have to be put there again`

func (s *session) printRecovered(r mailbox.Recovered) {
	t := table{head: []string{"TASKS", "MENDED", "RECLAIMED", "QUARANTINED", "LOST", "ADOPTED", "LOCKS"}}
	row := []cell{}
	for _, n := range []int{r.Tasks, r.Mended, r.Reclaimed, r.Quarantine, r.Lost, r.Adopted, r.Locks} {
		row = append(row, count(n))
	}
	t.add(row...)
	t.print(s)
	if r.Rebuilt {
		s.warnf("%s", costOfRebuilding)
	}
	if r.Moved {
		s.infof("the home is on another machine or disk than before")
	}
}
