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

A result over 256 KiB becomes an artifact, and its tail stays in the task. A
result that comes after the claim was lost is refused with exit code 6; its
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
			output, err := r.read(s)
			if err != nil {
				return err
			}
			return h.act(ctx, s, "complete", args[0], func(box *mailbox.Box, c *mailbox.Claim) error {
				artifacts, err := r.keep(box, c)
				if err != nil {
					return err
				}
				return c.Complete(ctx, mailbox.Result{Output: output, Artifacts: artifacts})
			})
		},
		words: taskWords,
	}
}

// keep copies the artifacts into the agent's home.
func (r *resultFlags) keep(box *mailbox.Box, c *mailbox.Claim) ([]mailbox.Artifact, error) {
	var kept []mailbox.Artifact
	for _, path := range r.artifacts {
		a, err := box.AddArtifact(c, path)
		if err != nil {
			return nil, missingFile(err, path)
		}
		kept = append(kept, a)
	}
	return kept, nil
}
