package main

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/schemas"
)

// approvalLasts is how long an approval counts that names no time.
const approvalLasts = time.Hour

type approveOptions struct {
	valid  length
	reason string
	sha256 string
	json   bool
}

func approveVerb() *verb {
	o := approveOptions{valid: length{Duration: config.Duration(approvalLasts)}}
	return &verb{
		name: "approve", args: "[ID…]", most: -1,
		brief: "let a task run that needs an operator's word",
		about: `Approves the action that a pending task carries, as it is now: the approval names
the SHA-256 of its file and ends after --for. Any later change of the task voids
it, so a task that comes back to pending has to be approved again. It is a
decision record, with its line in the ledger, and tells from which terminal it
came; its id is printed. mbox cancel ID says no.

Without an ID it approves nothing, and prints all that waits for an approval, the
oldest first, each whole; with --json a line for each. mbox why ID prints one. There
is no word for approving all: who approves has looked at each.

A deployment's approval also binds what lies in the folders that images are built
from and that services mount read-only: what is deployed is a copy that has the
SHA-256 as of now. A folder that a service may write is not bound.

A script that has read mbox why ID --json gives its "approve" with --sha256: what
is not that any more is not approved, with exit code 5.

A task that still has to think cannot be approved: what it then wants to do and
needs a person for becomes a task of its own, for which it waits.

Approving is for people. Refused is who has MBOX_AGENT or MBOX_TASK_ID in its
environment or, on Linux, in that of a process above it; and who is below a worker
or a command of this mailbox, or in its session or process group, as long as the
claim lasts. A program of the same user that leaves all of these can still
approve, as it could write the files themselves: only a sandbox keeps it from that.`,
		shows: []string{
			"mbox approve",
			`mbox approve task-2026-02-16-001 --for 30m --reason "looked at the ports"`,
			`mbox approve task-2026-02-16-001 --sha256 "$(mbox why task-2026-02-16-001 --json | jq -r .approve)"`,
		},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{
			valueFlag("for", "how long it counts: `DURATION`", &o.valid),
			textFlag("reason", "why: `TEXT`", &o.reason),
			textFlag("sha256", "only what has this SHA-256, as mbox why tells it: `HEX`", &o.sha256),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			if len(args) == 0 {
				return o.list(ctx, s)
			}
			if err := approving.byPerson(); err != nil {
				return err
			}
			if o.valid.Duration <= 0 {
				return usagef("mbox approve "+schemas.ShellWord(args[0])+" --for 1h", "--for %s: an approval has to last", config.Span(time.Duration(o.valid.Duration)))
			}
			if ok, _ := regexp.MatchString(`^(sha256:)?[0-9a-f]{64}$`, o.sha256); o.sha256 != "" && !ok {
				return usagef("mbox why "+schemas.ShellWord(args[0]), "--sha256 %s: want 64 hexadecimal digits", clean(o.sha256, 80))
			}
			if o.sha256 != "" && len(args) > 1 {
				return usagef("mbox approve "+schemas.ShellWord(args[0])+" --sha256 "+o.sha256, "--sha256 is what one task has")
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				ids, err := new(selection).ids(ctx, s, box, "approve", args)
				if err != nil {
					return err
				}
				return each(ctx, s, ids, o.json, func(id mailbox.ID) error { return o.run(ctx, s, box, id) })
			})
		},
		words: tasksThatAre(mailbox.Pending),
	}
}

// list prints what waits for an approval.
func (o *approveOptions) list(ctx context.Context, s *session) error {
	if o.sha256+o.reason != "" {
		return usagef("mbox approve ID", "--sha256 and --reason are for one task")
	}
	return s.looking(ctx, func(box *mailbox.Box) error {
		x, err := box.Index()
		if err != nil {
			return err
		}
		slices.SortStableFunc(x.Live, func(a, b mailbox.Live) int { return a.Created.Compare(b.Created) })
		found := 0
		for _, l := range x.Live {
			if l.State != mailbox.Pending || l.Action == "" {
				continue
			}
			w, err := box.Why(ctx, l.ID)
			if errors.Is(err, mailbox.ErrNotFound) {
				continue // it is over by now
			}
			if err != nil {
				return err
			}
			if w.Approve == "" || w.Task == nil {
				continue
			}
			if found++; o.json {
				err = s.printLine(map[string]any{"id": l.ID, "approve": w.Approve, "folders": w.Folders, "task": w.Task})
			} else {
				s.showTask(w.Task, w.State, w)
				s.printf("\n%s\n\n", s.paint.dim(s.proposes.named("mbox approve "+schemas.ShellWord(string(l.ID))+" --sha256 "+w.Approve)))
			}
			if err != nil {
				return err
			}
		}
		if found == 0 && !o.json {
			s.infof("nothing waits for an approval")
		}
		return nil
	})
}

func (o *approveOptions) run(ctx context.Context, s *session, box *mailbox.Box, id mailbox.ID) error {
	valid := time.Duration(o.valid.Duration)
	if err := approving.byNoWorker(ctx, box); err != nil {
		return err
	}
	c := mailbox.Consent{By: "human", From: door(), Why: o.reason, For: valid}
	if o.sha256 != "" {
		c.SHA256 = "sha256:" + strings.TrimPrefix(o.sha256, "sha256:")
	}
	a, err := box.Approve(ctx, id, c)
	var refused *mailbox.Refusal
	if errors.As(err, &refused) {
		return hint(err, "mbox why %s tells what it waits for", schemas.ShellWord(string(id)))
	}
	if err != nil {
		return err
	}
	if o.json {
		return s.printLine(map[string]any{"id": string(id), "decision": a.Decision, "until": a.Until, "sha256": a.Sum()})
	}
	s.printf("%s\n", a.Decision)
	s.done("approved %s for %s: %s", id, config.Span(valid), a.Sum())
	return nil
}
