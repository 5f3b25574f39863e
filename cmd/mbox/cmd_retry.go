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
	"mbox/mailbox/task"
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
in whatever order. So is what is in the archive: the hint sends it anew, as another task.

A drop that was rejected is not retried (exit code 5): mbox has kept only the fields that
were right. All of it lies in tasks/quarantine, to be mended and sent anew.`,
		shows: []string{
			`mbox retry task-2026-02-16-001 --reason "the disk has room again"`,
			"mbox retry --failed --since 1h --yes",
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy, exitCommitted},
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
					was, _, err := box.Task(ctx, id)
					if err == nil && was.Result.Status == mailbox.Failed && check.OnlyHere(was) {
						err = fmt.Errorf("%s: %w: mbox run did it, and nobody else has its command", id, mailbox.ErrConflict)
						return hint(err, "start it anew by mbox run, with the command that mbox show %s tells", schemas.ShellWord(string(id)))
					}
					if err := box.Retry(ctx, id, by, cmp.Or(o.reason, retryReason)); err != nil {
						return hintArchived(ctx, hintRejected(err, box, id), box, id)
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

// hintArchived adds how a failed task that is in the archive is sent anew, or one that is
// waited for.
func hintArchived(ctx context.Context, err error, box *mailbox.Box, id mailbox.ID) error {
	if !errors.Is(err, mailbox.ErrConflict) {
		return err
	}
	ids, blocked := []mailbox.ID{id}, new(mailbox.BlockedError)
	if errors.As(err, &blocked) {
		ids = blocked.Failed
	}
	for _, one := range ids {
		t, state, failed := box.Task(ctx, one)
		switch {
		case failed != nil || state != mailbox.Archived || t.Called(t.Result.Status) == task.Rejected || t.Result.Status != mailbox.Failed:
		case one == id:
			return hint(err, "%s", sendAnew(one))
		default:
			return hint(err, "%s is in the archive, and what waits for it has to be sent anew behind it: %s", one, sendAnew(one))
		}
	}
	return err
}

// sendAnew is the command that sends a task again, as another one. Its times have passed,
// and its key is taken.
func sendAnew(id mailbox.ID) string {
	return "mbox show " + schemas.ShellWord(string(id)) + " --json | jq '{source,task,assignment:{target_agent:.assignment.target_agent}," +
		"mbox:(.mbox|{action,labels,accept,expect_output,paths,max_attempts,depends_on}|with_entries(select(.value!=null)))}' | mbox send -"
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
