package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/mailbox"
)

// approvalLasts is how long an approval counts that names no time.
const approvalLasts = time.Hour

type approveOptions struct {
	valid  length
	reason string
	json   bool
}

func approveVerb() *verb {
	o := approveOptions{valid: length{Duration: Duration(approvalLasts)}}
	return &verb{
		name: "approve", args: "ID", least: 1, most: 1,
		brief: "let a task run that needs an operator's word",
		about: `Approves the action that a pending task carries, as it is now: the approval names
the SHA-256 of its file and ends after --for. Any later change of the task voids
it, so a task that comes back to pending has to be approved again. It is a
decision record, with its line in the ledger, and tells from which terminal it
came; its id is printed. mbox why ID prints what is to be approved, whole, and
mbox cancel ID says no.

A task that still has to think cannot be approved: what it then wants to do and
needs a person for becomes a task of its own, for which it waits.

Approving is for people. Refused is who has MBOX_AGENT or MBOX_TASK_ID in its
environment or, on Linux, in that of a process above it; and who is below a worker
or a command of this mailbox, or in its session or process group, as long as the
claim lasts. A program of the same user that leaves all of these can still
approve, as it could write the files themselves: only a sandbox keeps it from that.`,
		shows: []string{`mbox approve task-2026-02-16-001 --for 30m --reason "looked at the ports"`},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("for", "how long it counts: `DURATION` (1h)", &o.valid),
			textFlag("reason", "why: `TEXT`", &o.reason),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if name := ofAgent(os.LookupEnv); name != "" {
				return notAPerson("this is an agent's command: its environment has " + name)
			}
			if o.valid.Duration <= 0 {
				return usagef("mbox approve "+quoteWord(args[0])+" --for 1h", "--for %s: an approval has to last", span(time.Duration(o.valid.Duration)))
			}
			return s.tidied(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box, mailbox.ID(args[0])) })
		},
		words: taskWords,
	}
}

func (o *approveOptions) run(ctx context.Context, s *session, box *mailbox.Box, id mailbox.ID) error {
	valid := time.Duration(o.valid.Duration)
	if why, err := worksForAgent(ctx, box); err != nil || why != "" {
		return cmp.Or(err, notAPerson(why))
	}
	decision, err := box.Approve(ctx, id, "human", door(), o.reason, valid)
	var refused *mailbox.Refusal
	if errors.As(err, &refused) {
		return hint(err, "mbox why %s tells what it waits for", quoteWord(string(id)))
	}
	if err != nil {
		return err
	}
	if o.json {
		return s.printLine(map[string]any{"id": string(id), "decision": decision, "until": mailbox.At(time.Now().Add(valid))})
	}
	s.printf("%s\n", decision)
	s.done("approved %s for %s", id, span(valid))
	return nil
}
