package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

func releaseVerb() *verb {
	var h holder
	var delay config.Duration
	var reason string
	return &verb{
		name: "release", args: "ID", least: 1, most: 1,
		brief: "give a task back undone",
		about: "Moves the task back to pending, for anybody to take. No attempt is used up.",
		shows: []string{`mbox release "$id" --delay 10m --reason "the model is being loaded"`},
		exits: holderExits,
		flags: slices.Concat(h.flags(), flags(
			valueFlag("delay", "not to be taken again before `DURATION` has passed", &delay),
			textFlag("reason", "why: `TEXT`", &reason),
		)),
		run: func(ctx context.Context, s *session, args []string) error {
			return h.act(ctx, s, "release", args[0], func(_ *mailbox.Box, c *mailbox.Claim) error {
				return c.Release(ctx, cmp.Or(reason, "Released"), time.Duration(delay))
			})
		},
		words: tasksThatAre(mailbox.InProgress),
	}
}
