package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

// operator is what cancel, retry and archive share: who does it, and why.
type operator struct {
	by, reason string
	json       bool
}

func (o *operator) flags(reason string) []cli.Flag {
	return []cli.Flag{
		textFlag("reason", reason, &o.reason),
		filledFlag("by", "who does it: an `AGENT`, or human (human)", &o.by),
		jsonFlag(&o.json),
	}
}

// who is the name that the ledger gets; human where none is given.
func (o *operator) who() (string, error) { return actor("by", o.by) }

// actor checks a flag that says who does something: an agent, or human.
func actor(flag, name string) (string, error) {
	if name == "" || name == "human" {
		return "human", nil
	}
	if problem := config.AgentProblem(name); problem != "" {
		return "", usagef("--"+flag+" human, or the name of an agent", "--%s: %s", flag, problem)
	}
	return name, nil
}

// answer prints where the task is now.
func (o *operator) answer(ctx context.Context, s *session, box *mailbox.Box, id mailbox.ID, what string) error {
	if o.json {
		return s.printState(ctx, box, id)
	}
	s.done("%s %s", what, id)
	return nil
}

// printState prints a task's id and state as JSON.
func (s *printer) printState(ctx context.Context, box *mailbox.Box, id mailbox.ID) error {
	t, state, err := box.Task(ctx, id)
	if err != nil {
		return err
	}
	return s.printLine(map[string]any{"id": t.ID, "state": state})
}

// What the ledger has where no reason is given.
const (
	cancelReason = "Cancelled"
	retryReason  = "Retried"
)

func cancelVerb() *verb {
	var o operator
	var waiting bool
	c := choosing(mailbox.Pending, mailbox.InProgress)
	return &verb{
		name: "cancel", args: "[ID…]", most: -1,
		brief: "end a task that has not ended",
		about: `Moves a pending task, or one that is in progress, to failed. A worker that has
it learns of it at its next word, and its result is refused. --live is all such tasks,
--pending those that nobody has taken; how many that are is told, and asked about, or
--yes has to be there. The exit code is that of the worst.`,
		shows: []string{`mbox cancel task-2026-02-16-001 --reason "no longer needed"`},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy, exitCommitted},
		flags: slices.Concat(o.flags("why: `TEXT`"), c.flags("live", "instead of ids: all that have not ended", "to"),
			[]cli.Flag{boolFlag("pending", "instead of ids: all that wait", &waiting), c.byLabel()}),
		run: func(ctx context.Context, s *session, args []string) error {
			by, err := o.who()
			if err != nil {
				return err
			}
			if waiting && c.all {
				return usagef("mbox cancel --pending", "--live has those of --pending, too")
			}
			if waiting {
				c.states, c.all = []mailbox.State{mailbox.Pending}, true
			}
			if err := c.check("cancel", "live", args); err != nil {
				return err
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				ids, err := c.ids(ctx, s, box, "cancel", args)
				if err != nil {
					return err
				}
				return each(ctx, s, ids, o.json, func(id mailbox.ID) error {
					if err := box.Cancel(ctx, id, by, cmp.Or(o.reason, cancelReason)); err != nil {
						return err
					}
					return o.answer(ctx, s, box, id, "cancelled")
				})
			})
		},
		words: tasksThatAre(mailbox.Pending, mailbox.InProgress),
	}
}
