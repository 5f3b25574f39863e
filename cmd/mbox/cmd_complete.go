package main

import (
	"context"
	"slices"

	"mbox/mailbox"
)

func completeVerb() *verb {
	var h holder
	var r resultFlags
	return &verb{
		name: "complete", args: "ID", least: 1, most: 1,
		brief: "hand in the result",
		about: `Moves the task to completed, with its result. When the command returns 0 the
result is on disk. The same line again answers 0 and changes nothing.

Artifacts are copied to tasks/artifacts, at most 1000 files and 1 GiB; of a
folder all files are. A result over 256 KiB becomes one too, and its tail stays in
the task. A result that comes after the claim was lost is refused with exit code 6; its
bytes are kept in tasks/quarantine.`,
		shows: []string{
			`mbox complete "$id" --output "All 30 files read"`,
			`./report | mbox complete "$id" --output-file - --artifact report.pdf`,
		},
		exits: holderExits,
		flags: slices.Concat(h.flags(), r.flags()),
		run: func(ctx context.Context, s *session, args []string) error {
			if err := r.check("complete", args[0]); err != nil {
				return err
			}
			output, err := r.read(ctx, s)
			if err != nil {
				return err
			}
			return h.act(ctx, s, "complete", args[0], func(box *mailbox.Box, c *mailbox.Claim) error {
				for _, path := range r.artifacts {
					if _, err := c.Keep(ctx, path); err != nil {
						return uncopied(err, path)
					}
				}
				return c.Complete(ctx, mailbox.Result{Output: output})
			})
		},
		words: tasksThatAre(mailbox.InProgress),
	}
}
