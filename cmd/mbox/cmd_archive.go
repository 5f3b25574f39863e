package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
)

func archiveVerb() *verb {
	var o operator
	older := config.Duration(30 * 24 * time.Hour)
	return &verb{
		name:  "archive",
		brief: "put old ended tasks away",
		about: `Moves completed and failed tasks that ended longer ago than --older-than to
tasks/archive/YYYY-MM. Nothing is deleted. Prints how many there were.`,
		shows: []string{"mbox archive --older-than 7d"},
		exits: []int{exitNotFound, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("older-than", "ended longer ago than `DURATION`", &older),
			textFlag("by", "who does it: an `AGENT`, or human (human)", &o.by),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			by, err := o.who()
			if err != nil {
				return err
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				n, err := box.Archive(ctx, time.Duration(older), by)
				s.endProgress()
				if err != nil {
					return err
				}
				if o.json {
					return s.printLine(map[string]any{"archived": n})
				}
				s.printf("%d\n", n)
				return nil
			})
		},
	}
}
