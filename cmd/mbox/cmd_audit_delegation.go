package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/schemas"
)

type delegationOptions struct {
	most       number
	tail, head bool
	tails      int // how often --tail is given
	task       string
	decision   choice
	json       bool
}

func decisionNames() []string {
	var names []string
	for _, d := range delegation.Decisions {
		names = append(names, string(d))
	}
	return names
}

func auditDelegationVerb() *verb {
	o := delegationOptions{most: number{min: 1, max: 100_000}, decision: oneOf(decisionNames()...)}
	return &verb{
		name:  "delegation",
		brief: "list who handed what to whom, and what was decided",
		about: `Lists the last delegations, the newest last: which agent handed which action to
which other, and whether it was delivered, rejected, failed or only a test. An
action has a line when it is handed over, and one with its result when it has been
done. Of the parameters there are names, sizes and salted hashes, never values. With
--json it is one object {"count", "entries"}; mbox schema print delegation is the
form of an entry.`,
		shows: []string{"mbox audit delegation -n 10", "mbox audit delegation --decision rejected --json | jq -r '.entries[].reason'"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			valueFlag("n", "at most `N` (100)", &o.most),
			&cli.BoolFlag{Name: "tail", Usage: "the last ones; --tail=false is --head", Value: true, Destination: &o.tail, Count: &o.tails},
			boolFlag("head", "the first ones", &o.head),
			filledFlag("task", "only those of task `ID`", &o.task),
			valueFlag("decision", "only those with this `DECISION`: "+strings.Join(decisionNames(), ", "), &o.decision),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			if o.head && o.tail && o.tails > 0 {
				return usagef("mbox audit delegation --head", "--head and --tail exclude each other")
			}
			return s.with(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box) })
		},
	}
}

func (o *delegationOptions) query() delegation.Query {
	q := delegation.Query{N: 100, Head: o.head || !o.tail, Task: o.task, Decision: delegation.Decision(o.decision.value)}
	if o.most.value != nil {
		q.N = *o.most.value
	}
	return q
}

func (o *delegationOptions) run(ctx context.Context, s *session, box *mailbox.Box) error {
	if err := checkOnly(o.task); err != nil {
		return err
	}
	found, err := delegation.Find(ctx, box.Ledger(), o.query())
	if err != nil {
		return err
	}
	if o.json {
		return s.printJSON(struct {
			Count   int               `json:"count"`
			Entries []delegation.View `json:"entries"`
		}{len(found), found})
	}
	t := &table{head: []string{"TIME", "FROM → TO", "ACTION", "DECISION", "TASK", "RESULT OR REASON"}}
	for _, d := range found {
		t.add(s.delegationRow(&d)...)
	}
	t.printIfAny(s, "no such hand-over is in the ledger")
	return nil
}

func (s *printer) delegationRow(d *delegation.View) []cell {
	at, task, reason := "-", "-", "-"
	if when, err := time.Parse(time.RFC3339, d.TimeISO); err == nil {
		at = schemas.LocalTime(when)
	}
	if d.TaskID != nil {
		task = *d.TaskID
	}
	switch {
	case d.Reason != nil:
		reason = *d.Reason
	case d.ResultSummary != "": // else it has only been handed over
		reason = d.ResultSummary
	}
	return []cell{
		text(at), text(d.From + " → " + d.To), text(d.Task),
		coloured(string(d.Decision), s.decisionColour(d.Decision)), text(task), text(reason),
	}
}

func (s *printer) decisionColour(d delegation.Decision) paint {
	switch d {
	case delegation.Delivered:
		return s.paint.green
	case delegation.Rejected, delegation.Failed:
		return s.paint.red
	}
	return s.paint.dim
}

// delegationLine is a hand-over on one line, for people who follow the ledger:
// why it was refused is what they want to know.
func (s *printer) delegationLine(d *delegation.Details) string {
	decided := string(d.Decision)
	if d.Step != "" {
		decided += " at " + string(d.Step)
	}
	said := clean(fmt.Sprintf("%s → %s  %s", d.FromAgent, d.ToAgent, d.Task), maxLine) + "  " + s.decisionColour(d.Decision)(clean(decided, 60))
	switch {
	case d.Reason != nil && *d.Reason != "":
		said += ": " + clean(*d.Reason, maxLine)
	case d.ResultSummary != "":
		said += ": " + clean(d.ResultSummary, maxLine)
	}
	return said
}
