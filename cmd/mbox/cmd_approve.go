package main

import (
	"context"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents"
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
		about: `Approves a pending task as it is now: the approval names the SHA-256 of its
file and ends after --for. Any later change of the task voids it, so a task that
comes back to pending has to be approved again. It is a decision record, with its
line in the ledger; its id is printed. mbox why ID tells what waits for an
approval, mbox show ID what it asks for, and mbox cancel ID says no. An agent's
command is refused: approving is for people.`,
		shows: []string{`mbox approve task-2026-02-16-001 --for 30m --reason "looked at the ports"`},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("for", "how long it counts: `DURATION` (1h)", &o.valid),
			textFlag("reason", "why: `TEXT`", &o.reason),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if agent := os.Getenv("MBOX_AGENT"); agent != "" {
				return &agents.RefusedError{Step: "approval", Reason: "this is a command of " + clean(agent, 128) + "; a person approves"}
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
	decision, err := box.Approve(ctx, id, "human", o.reason, valid)
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
