package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/audit/record"
	"mbox/mailbox"
	"mbox/schemas"
)

func decisionVerb() *verb {
	return &verb{
		name:  "decision",
		brief: "record a choice that mattered",
		about: `A decision record is a markdown file in decisions/, written together with a
ledger line that holds its hash.`,
		verbs: []*verb{decisionNewVerb(), decisionListVerb(), decisionShowVerb(), decisionOutcomeVerb()},
	}
}

type decisionOptions struct {
	agent, task, context, decision, outcome string
	options, tradeoffs                      texts
	json                                    bool
}

func decisionNewVerb() *verb {
	var o decisionOptions
	return &verb{
		name: "new", args: "[FILE|-]", most: 1,
		brief: "write a decision record",
		about: `Writes a decision record and prints its id. The sections come from flags, or from
a markdown file, or from standard input, with the headings ## Context,
## Options Considered (a numbered list), ## Decision, ## Trade-offs (a numbered list,
left out if there are none) and ## Outcome; only the outcome may be empty, and is
added later by mbox decision outcome.`,
		shows: []string{
			`mbox decision new --agent openclaw --task task-2026-02-16-001 \`,
			`     --context "Two mail servers offer the same" \`,
			`     --option "Keep both: safe, twice the work" --option "Keep one: simple" \`,
			`     --decision "Keep one" --tradeoff "Half the work; no mail while it is down"`,
		},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy, exitCommitted},
		flags: flags(
			filledFlag("agent", "who decided: an `AGENT`, or human (human)", &o.agent),
			filledFlag("task", "the task it belongs to: `ID`", &o.task),
			textFlag("context", "what made it necessary: `TEXT`", &o.context),
			valueFlag("option", "what could be done, with pros and cons: `TEXT`; may be repeated", &o.options),
			textFlag("decision", "what was decided, and why: `TEXT`", &o.decision),
			valueFlag("tradeoff", "what is given up by it, and what for: `TEXT`; may be repeated", &o.tradeoffs),
			textFlag("outcome", "what came of it: `TEXT`", &o.outcome),
			jsonFlag(&o.json),
		),
		run: func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args) },
	}
}

func (o *decisionOptions) run(ctx context.Context, s *session, args []string) error {
	d := record.Decision{Context: o.context, Options: o.options, Decision: o.decision, Tradeoffs: o.tradeoffs, Outcome: o.outcome}
	if len(args) == 1 {
		if o.context+o.decision+o.outcome != "" || len(o.options)+len(o.tradeoffs) > 0 {
			return usagef("mbox decision new "+schemas.ShellWord(args[0]), "sections come from flags or from %s, not from both", args[0])
		}
		text, err := s.readRecord(ctx, args[0], recordHead("Decision", "decision", "**Task:** none"))
		if err != nil {
			return err
		}
		if d, err = record.ParseDecision(text); err != nil {
			return inFile(err, args[0])
		}
	}
	var err error
	if d.Agent, err = actor("agent", cmp.Or(o.agent, d.Agent)); err != nil {
		return err
	}
	d.Task = cmp.Or(o.task, d.Task)
	if d.Date == noDate {
		d.ID, d.Date = "", "" // mbox makes them
	}
	return s.with(ctx, func(box *mailbox.Box) error {
		id, err := box.Decide(ctx, d)
		return s.wrote(id, err, o.json)
	})
}

// wrote prints the id of a record.
func (s *session) wrote(id string, err error, inJSON bool) error {
	var bad *schemas.Error
	if errors.As(err, &bad) && bad.Code == schemas.CodeMissingField {
		return hint(err, "all sections need text; --help names them")
	}
	if err != nil {
		return err
	}
	if inJSON {
		return s.printLine(map[string]any{"id": id})
	}
	s.printf("%s\n", id)
	return nil
}

func decisionListVerb() *verb {
	var inJSON bool
	var grep string
	return &verb{
		name:  "list",
		brief: "list decision records",
		about: "Lists the decision records, oldest first. With --json each line is one record.",
		shows: []string{`mbox decision list --grep "mail server"`},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{filledFlag("grep", "only those with `TEXT` in them, in any case", &grep), jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.with(ctx, func(box *mailbox.Box) error {
				decisions, err := box.Decisions(ctx)
				nothing := "no decision is recorded"
				if len(decisions) > 0 {
					nothing = "no decision has that text"
				}
				decisions = slices.DeleteFunc(decisions, func(d record.Decision) bool { return !mentions(d, grep) })
				if err != nil || inJSON {
					return firstError(err, s.printLines(len(decisions), func(i int) any { return decisions[i] }))
				}
				t := table{head: []string{"ID", "DATE", "AGENT", "TASK", "OUTCOME", "DECISION"}}
				for _, d := range decisions {
					outcome := "open"
					if d.Outcome != "" {
						outcome = "known"
					}
					t.add(text(d.ID), text(d.Date), text(d.Agent), text(cmp.Or(d.Task, "-")), text(outcome), text(schemas.LocalTimes(d.Decision)))
				}
				t.printIfAny(s, nothing)
				return nil
			})
		},
	}
}

// mentions tells whether a text stands in a record, in any case.
func mentions(d record.Decision, what string) bool {
	data, err := d.Markdown()
	return err == nil && strings.Contains(strings.ToLower(string(data)), strings.ToLower(what))
}

func decisionShowVerb() *verb {
	var inJSON bool
	return &verb{
		name: "show", args: "ID", least: 1, most: 1,
		brief: "show a decision record",
		about: "Prints a decision record, whole.",
		shows: []string{"mbox decision show decision-2026-02-16-001"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			return s.with(ctx, func(box *mailbox.Box) error { return showDecision(ctx, s, box, args[0], inJSON) })
		},
	}
}

func showDecision(ctx context.Context, s *session, box *mailbox.Box, id string, inJSON bool) error {
	decisions, err := box.Decisions(ctx)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(decisions, func(d record.Decision) bool { return d.ID == id })
	if at < 0 {
		return hint(fmt.Errorf("%s: no such decision: %w", clean(id, 128), mailbox.ErrNotFound), "mbox decision list")
	}
	if inJSON {
		return s.printJSON(decisions[at])
	}
	data, err := decisions[at].Markdown()
	s.printf("%s\n", cleanLines(string(data)))
	return err
}

func decisionOutcomeVerb() *verb {
	var by string
	var inJSON bool
	return &verb{
		name: "outcome", args: "ID TEXT|-", least: 2, most: 2,
		brief: "tell what came of a decision",
		about: `Fills in the outcome of a decision record, and logs the file's new hash. What was told
before stays, and stands above it. Said again, what stands last is not told twice.`,
		shows: []string{`mbox decision outcome decision-2026-02-16-001 "No mail was lost in a month"`},
		exits: []int{exitNotFound, exitConflict, exitData, exitIO, exitBusy, exitCommitted},
		flags: []cli.Flag{filledFlag("by", "who tells it: an `AGENT`, or human (human)", &by), jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			by, err := actor("by", by)
			if err != nil {
				return err
			}
			if !record.IsDecision(args[0]) {
				return hint(fmt.Errorf("%s: no such decision: %w", clean(args[0], 128), mailbox.ErrNotFound), "mbox decision list")
			}
			text := args[1]
			if text == "-" {
				data, err := s.readInput(ctx, "-", record.MaxBody)
				if err != nil {
					return err
				}
				text = string(data)
			}
			return s.with(ctx, func(box *mailbox.Box) error {
				err := box.Outcome(ctx, args[0], by, text)
				if errors.Is(err, mailbox.ErrNotFound) {
					return hint(err, "mbox decision list")
				}
				if err != nil && !errors.Is(err, mailbox.ErrCommitted) {
					return err
				}
				return errors.Join(s.told(inJSON, map[string]string{"id": args[0], "by": by, "outcome": text}, "the outcome of %s is told", args[0]), err)
			})
		},
	}
}

// printLines prints n values as JSON lines.
func (s *printer) printLines(n int, value func(i int) any) error {
	for i := range n {
		if err := s.printLine(value(i)); err != nil {
			return err
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// noDate is the date of a record that has none yet.
const noDate = "0001-01-01"

// recordHead stands above sections that were written without a title.
func recordHead(kind, prefix, field string) string {
	return fmt.Sprintf("# %s: %s-%s-001\n\n**Date:** %s\n**Agent:** human\n%s\n\n", kind, prefix, noDate, noDate, field)
}
