package main

import (
	"context"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/schemas"
)

func archiveVerb() *verb {
	var o operator
	older := length{Duration: config.Duration(30 * 24 * time.Hour)}
	return &verb{
		name: "archive", args: "[ID…]", most: -1,
		brief: "put old ended tasks away",
		about: `Moves these tasks, which have to have ended, or without an id all completed and
failed tasks that ended longer ago than --older-than, to tasks/archive/YYYY-MM. Nothing is deleted. Prints how many there were. A task that came
by a bridge stays until its result was delivered; mbox deliver --list tells of those.

mbox up does it by itself with tasks whose results were delivered archive_after ago.`,
		shows: []string{"mbox archive --older-than 7d", "mbox archive task-2026-02-16-001"},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("older-than", "ended longer ago than `DURATION`", &older),
			filledFlag("by", "who does it: an `AGENT`, or human (human)", &o.by),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			by, err := o.who()
			if err != nil {
				return err
			}
			if len(args) > 0 && older.given {
				return usagef("mbox archive "+schemas.ShellWord(args[0]), "tasks are named by their ids, or by --older-than, not by both")
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				if len(args) > 0 {
					return each(ctx, s, ids(args), o.json, func(id mailbox.ID) error {
						if err := mailbox.ArchiveTask(ctx, box, id, by); err != nil {
							return err
						}
						return o.answer(ctx, s, box, id, "archived")
					})
				}
				n, err := box.Archive(ctx, time.Duration(older.Duration), by)
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
		words: tasksThatAre(mailbox.Completed, mailbox.Failed),
	}
}

// archivePause is how often mbox up looks for tasks to archive.
const archivePause = time.Minute

// archiveDelivered archives tasks whose results were delivered, as mbox.toml says,
// until ctx ends.
func (v *service) archiveDelivered(ctx context.Context) {
	if v.config.ArchiveAfter == 0 {
		return
	}
	tick := time.NewTicker(archivePause)
	defer tick.Stop()
	for {
		n, err := v.box.ArchiveDelivered(ctx, time.Duration(v.config.ArchiveAfter))
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			v.warnf("archive: %v", err)
		case n > 0:
			v.infof("archived %s, delivered before", tasksOf(n))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
