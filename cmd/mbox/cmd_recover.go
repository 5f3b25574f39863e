package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func recoverVerb() *verb {
	var afterIO, deleted, inJSON bool
	var adopt texts
	var forget agreed
	var id string
	return &verb{
		name:  "recover",
		brief: "bring files in line with the ledger",
		about: `Folds the whole ledger, looks at every file, and brings each task to where its
last line has it. Every command does this after a restart of the machine; it is
for a disk that was away, for a lock file or all of .mbox that was removed, and
for the cases below. A second run changes nothing. It tells which tasks were mended,
lost or adopted; what is lost, whose content is nowhere, makes the exit code 1.

--after-io-error ends the read-only state that a failed write to the ledger set,
or damage to it, once the disk is well or the ledger is back.
--forget-ledger gives a ledger up that is lost or damaged and of which there is
no backup. The tasks stay as they lie, and another ledger begins, whose first
line says where the one before ended. The mailbox's id is asked for, or given:
--forget-ledger=ID.
--adopt ID takes over what somebody did to a task by hand, and what is never
taken over by itself: edits, deletions, moves out of completed.
--adopt-deleted gives up every task whose file is nowhere, and what was removed
from tasks/quarantine. More than 16 tasks that are gone at once, or any from a folder
that was replaced, make the mailbox read-only until they are back or this is said.
--mailbox-id ID is for a home whose .mbox is gone and whose ledger is older than
its own name: .mbox/VERSION in a backup has the id. The ledger's first line proves
it; a wrong one is refused.`,
		shows: []string{"mbox recover", "mbox recover --adopt task-2026-02-16-001", "mbox recover --forget-ledger=4f1d6b2c9a0e4d3f8b7a6c5d4e3f2a1b"},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			boolFlag("after-io-error", "the disk is well, or the ledger is back: end the read-only state", &afterIO),
			boolFlag("adopt-deleted", "give up every task whose file is nowhere, and what was removed from quarantine", &deleted),
			valueFlag("forget-ledger", "begin another ledger with the tasks as they lie; `[=ID]` is the mailbox's id, as .mbox/VERSION has it", &forget),
			valueFlag("adopt", "take over what was done to task `ID` by hand; may be repeated", &adopt),
			textFlag("mailbox-id", "the mailbox's id is `ID`, where .mbox is gone and the ledger does not tell", &id),
			jsonFlag(&inJSON),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			home, o, err := s.options()
			if err != nil {
				return err
			}
			r := mailbox.RecoverOptions{AfterIOError: afterIO, AdoptDeleted: deleted, Forget: forget.given, MailboxID: id}
			if forget.given {
				if err := s.sure(ctx, home, forget.value); err != nil {
					return err
				}
			}
			for _, id := range adopt {
				if err := task.CheckID(mailbox.ID(id)); err != nil {
					return err
				}
				r.Adopt = append(r.Adopt, mailbox.ID(id))
			}
			done, err := mailbox.Recover(ctx, home, o, r)
			s.endProgress()
			if err != nil {
				return nothingLeft(s, home, err, r)
			}
			if inJSON {
				err = s.printLine(done)
			} else {
				s.printRecovered(done)
			}
			if err == nil && done.Lost > 0 {
				err = hint(&unwell{schemas.Count(done.Lost, "task is", "tasks are") + " lost: what the ledger names is nowhere"}, "%s", backOrUp(ctx, home, done.LostIDs[0]))
			}
			return err
		},
		words: taskWords,
	}
}

// sure makes a person name the mailbox whose ledger is to be given up.
func (s *session) sure(ctx context.Context, dir, said string) error {
	id, err := home.Identity(dir)
	if err != nil {
		return err
	}
	if said == "" && s.people && term.IsTerminal(int(s.in.Fd())) {
		fmt.Fprintf(s.err, "What the ledger proved is given up for good. To go on, type the mailbox's id, %s: ", id)
		line, err := bufio.NewReader(io.LimitReader(patient{ctx, s.in}, 1<<10)).ReadString('\n')
		if err != nil {
			return err
		}
		said = strings.TrimSpace(line)
	}
	if said != id {
		return usagef("mbox recover --forget-ledger="+id, "to give the ledger of %s up, its id has to be named", clean(dir, maxLine))
	}
	return nil
}

// nothingLeft gives a hint to those who have followed the last one already.
func nothingLeft(s *session, home string, err error, did mailbox.RecoverOptions) error {
	var bad *schemas.Error
	switch {
	case errors.As(err, &bad), errors.Is(err, durable.ErrNotRegular):
		for _, id := range did.Adopt {
			if way := mendFile(home, id); way != "" {
				return hint(err, "%s", way)
			}
		}
	case wayFree(s, err) != "": // which is the hint
	case errors.Is(err, audit.ErrUnnamed):
		return hint(err, "mbox recover --mailbox-id ID: .mbox/VERSION of a backup has the id, and mbox restore BACKUP DIR unpacks one")
	case errors.Is(err, mailbox.ErrConflict) && did.MailboxID != "":
		return hint(err, "mbox recover takes the id that the home tells; where it tells none, .mbox/VERSION of a backup has it")
	case errors.Is(err, mailbox.ErrLost):
		return hint(err, "the ledger does not tell the mailbox's id: restore the home from a backup; mbox help damage tells how to go on without one")
	case errors.Is(err, audit.ErrDamaged) && did.Forget, errors.Is(err, mailbox.ErrReadOnly) && did.AfterIOError && !errors.Is(err, audit.ErrDamaged):
		return hint(err, "restore from a backup: mbox restore makes a mailbox of it; mbox help damage tells more")
	case errors.Is(err, mailbox.ErrConflict) && did.Forget:
		return hint(err, "mbox recover brings the files in line with it")
	case errors.Is(err, mailbox.ErrIntegrity):
		return hint(err, "mbox verify names the place")
	}
	return err
}

const costOfRebuilding = `.mbox was made anew, with another salt: an idempotency key or a verb of before, ` +
	`sent once more, is not known again, and hashed sessions differ from those in older lines; ` +
	`tokens of the doors that lay in .mbox/keys have to be made anew`

func (s *session) printRecovered(r mailbox.Recovered) {
	t := table{head: []string{"TASKS", "MENDED", "RECLAIMED", "QUARANTINED", "LOST", "ADOPTED", "LOCKS"}}
	row := []cell{}
	for _, n := range []int{r.Tasks, r.Mended, r.Reclaimed, r.Quarantine, r.Lost, r.Adopted, r.Locks} {
		row = append(row, count(n))
	}
	t.add(row...)
	t.print(s)
	s.idsOf("mended", r.MendedIDs)
	s.idsOf("lost", r.LostIDs)
	s.idsOf("adopted", r.AdoptedIDs)
	if r.Rebuilt {
		s.warnf("%s", costOfRebuilding)
	}
	if r.Moved {
		s.infof("the home is on another machine or disk than before")
	}
}

// mostNamed is how many tasks of a kind are named to people.
const mostNamed = 20

// idsOf is a line with the tasks of a kind, if there are any.
func (s *printer) idsOf(what string, ids []mailbox.ID) {
	if len(ids) == 0 {
		return
	}
	more := ""
	if n := len(ids) - mostNamed; n > 0 {
		more, ids = fmt.Sprintf(" and %d more", n), ids[:mostNamed]
	}
	s.printf("%s: %s%s\n", what, clean(joinIDs(ids), maxLine), more)
}
