package main

import (
	"cmp"
	"context"

	"mbox/mailbox"
)

func retryVerb() *verb {
	var o operator
	return &verb{
		name: "retry", args: "ID", least: 1, most: 1,
		brief: "give a failed task another chance",
		about: "Moves a failed task back to pending, with all its attempts ahead of it.",
		shows: []string{`mbox retry task-2026-02-16-001 --reason "the disk has room again"`},
		exits: []int{exitNotFound, exitConflict, exitIO, exitBusy, exitCommitted},
		flags: o.flags("why: `TEXT`"),
		run: func(ctx context.Context, s *session, args []string) error {
			by, err := o.who()
			if err != nil {
				return err
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				id := mailbox.ID(args[0])
				if err := box.Retry(ctx, id, by, cmp.Or(o.reason, retryReason)); err != nil {
					return err
				}
				return o.answer(ctx, s, box, id, "retried")
			})
		},
		words: taskWords,
	}
}
