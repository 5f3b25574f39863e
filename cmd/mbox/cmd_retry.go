package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/check"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/schemas"
)

func retryVerb() *verb {
	var o operator
	c := choosing(mailbox.Failed)
	c.but = func(t *mailbox.Task) bool {
		return check.OnlyHere(t) || t.Called(mailbox.Failed) != string(mailbox.Failed)
	}
	return &verb{
		name: "retry", args: "[ID…]", most: -1,
		brief: "give a failed task another chance",
		about: `Moves failed tasks back to pending, with all their attempts ahead of them. --failed
is all of them but what was cancelled, what mbox run did, whose command nobody else has,
and drops that were rejected; how many that are is told, and asked about, or --yes has to
be there. A cancelled task is retried by its id. The exit code is that of the worst.
A deadline that has passed is taken away, which is said. What waits for a task that has
failed would fail again at once: it is refused (exit code 5), but together with that one,
in whatever order.

A drop that was rejected is not retried (exit code 5): mbox has kept only the fields that
were right. All of it lies in tasks/quarantine, to be mended and sent anew.`,
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
				return each(ctx, s, rootsFirst(ctx, box, ids), o.json, func(id mailbox.ID) error {
					was, state, err := box.Task(ctx, id)
					if err == nil && state == mailbox.Failed && check.OnlyHere(was) {
						err = fmt.Errorf("%s: %w: mbox run did it, and nobody else has its command", id, mailbox.ErrConflict)
						return hint(err, "start it anew by mbox run, with the command that mbox show %s tells", schemas.ShellWord(string(id)))
					}
					if err := box.Retry(ctx, id, by, cmp.Or(o.reason, retryReason)); err != nil {
						return hintRejected(err, box, id)
					}
					if now, _, err := box.Task(ctx, id); err == nil && was != nil && was.Mbox.Deadline != nil && now.Mbox.Deadline == nil {
						s.infof("the deadline of %s had passed, and is taken away", id)
					}
					return o.answer(ctx, s, box, id, "retried")
				})
			})
		},
		words: tasksThatAre(mailbox.Failed),
	}
}

// rootsFirst has each task behind those of the others that it waits for.
func rootsFirst(ctx context.Context, box *mailbox.Box, ids []mailbox.ID) []mailbox.ID {
	var ordered []mailbox.ID
	left := map[mailbox.ID]bool{}
	for _, id := range ids {
		left[id] = true
	}
	var place func(mailbox.ID)
	place = func(id mailbox.ID) {
		if !left[id] {
			return
		}
		delete(left, id)
		if t, _, err := box.Task(ctx, id); err == nil { // else the verb says what is wrong
			for _, d := range t.Mbox.DependsOn {
				place(d)
			}
		}
		ordered = append(ordered, id)
	}
	for _, id := range ids {
		place(id)
	}
	return ordered
}

// hintRejected adds how a drop that was rejected is sent anew.
func hintRejected(err error, box *mailbox.Box, id mailbox.ID) error {
	if !errors.Is(err, mailbox.ErrConflict) {
		return err
	}
	entries, _ := home.Entries(box.Home()) // what cannot be read, verify and doctor tell of
	if way := check.Anew(box.Home(), entries, id); way != "" {
		return hint(err, "%s", way)
	}
	return err
}
