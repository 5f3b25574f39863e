package main

import (
	"context"
	"slices"

	"mbox/mailbox"
)

func progressVerb() *verb {
	var h holder
	var message string
	percent := number{min: 0, max: 100}
	return &verb{
		name: "progress", args: "ID", least: 1, most: 1,
		brief: "say that the work goes on",
		about: `Makes the claim last longer, and notes how far the work has come, at most once
a second: what is told sooner only makes it last. A claim without a sign of life is
over at its deadline, and the task goes to somebody else.`,
		shows: []string{`mbox progress "$id" --percent 40 --message "read 12 of 30 files"`},
		exits: holderExits,
		flags: slices.Concat(h.flags(), flags(
			valueFlag("percent", "how much is done, `N` from 0 to 100", &percent),
			textFlag("message", "what is being done: `TEXT`", &message),
		)),
		run: func(ctx context.Context, s *session, args []string) error {
			return h.act(ctx, s, "progress", args[0], func(_ *mailbox.Box, c *mailbox.Claim) error {
				return c.Progress(ctx, mailbox.Progress{Percent: percent.value, Message: message})
			})
		},
		words: tasksThatAre(mailbox.InProgress),
	}
}
