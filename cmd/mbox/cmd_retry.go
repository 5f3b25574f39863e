package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/check"
	"mbox/mailbox"
	"mbox/schemas"
)

func retryVerb() *verb {
	var o operator
	c := choosing(mailbox.Failed)
	c.but = check.OnlyHere
	return &verb{
		name: "retry", args: "[ID…]", most: -1,
		brief: "give a failed task another chance",
		about: `Moves failed tasks back to pending, with all their attempts ahead of them. --failed
is all of them but what mbox run did, whose command nobody else has; how many that are is told, and asked about, or --yes has to be there.
The exit code is that of the worst.`,
		shows: []string{
			`mbox retry task-2026-02-16-001 --reason "the disk has room again"`,
			"mbox retry --failed --since 1h --yes",
		},
		exits: []int{exitNotFound, exitConflict, exitIO, exitBusy, exitCommitted},
		flags: slices.Concat(o.flags("why: `TEXT`"), c.flags("failed", "instead of ids: all that have failed", "to"), []cli.Flag{c.byLabel()}),
		run: func(ctx context.Context, s *session, args []string) error {
			by, err := o.who()
			if err != nil {
				return err
			}
			if err := c.check("retry", "failed", args); err != nil {
				return err
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				ids, err := c.ids(ctx, s, box, "retry", args)
				if err != nil {
					return err
				}
				return each(ctx, s, ids, o.json, func(id mailbox.ID) error {
					if t, state, err := box.Task(ctx, id); err == nil && state == mailbox.Failed && check.OnlyHere(t) {
						err = fmt.Errorf("%s: %w: mbox run did it, and nobody else has its command", id, mailbox.ErrConflict)
						return hint(err, "mbox run once more, with the command that mbox show %s tells", schemas.ShellWord(string(id)))
					}
					if err := box.Retry(ctx, id, by, cmp.Or(o.reason, retryReason)); err != nil {
						return err
					}
					return o.answer(ctx, s, box, id, "retried")
				})
			})
		},
		words: taskWords,
	}
}
