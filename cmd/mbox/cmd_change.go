package main

import (
	"bytes"
	"cmp"
	"context"

	"github.com/urfave/cli/v2"

	"mbox/audit/record"
	"mbox/mailbox"
	"mbox/schemas"
)

func changeVerb() *verb {
	return &verb{
		name:  "change",
		brief: "record a change of configuration, code, data or system",
		about: `A change record is a markdown file in changes/, written together with a ledger
line that holds its hash.`,
		verbs: []*verb{changeNewVerb(), changeListVerb()},
	}
}

type changeOptions struct {
	kind choice
	c    record.Change
	json bool
}

func changeNewVerb() *verb {
	o := changeOptions{kind: oneOf(record.ChangeTypes...)}
	return &verb{
		name: "new", args: "[FILE|-]", most: 1,
		brief: "write a change record",
		about: `Writes a change record and prints its id. All six sections are needed. They come
from flags, or from a markdown file, or from standard input, with the headings
## Description, ## Rationale, ## Before, ## After, ## Rollback and
## Verification.`,
		shows: []string{
			`mbox change new --type config --description "Longer leases" \`,
			`     --rationale "Builds take 20 minutes" --before 'lease = "15m"' \`,
			`     --after 'lease = "1h"' --rollback "Put 15m back" \`,
			`     --verification "mbox doctor shows lease = 1h"`,
			"mbox change new change.md --agent coder --type system",
		},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy, exitCommitted},
		flags: flags(
			filledFlag("agent", "who made it: an `AGENT`, or human (human)", &o.c.Agent),
			valueFlag("type", "what was changed: `TYPE` is config, code, data or system (system)", &o.kind),
			textFlag("description", "what the change is: `TEXT`", &o.c.Description),
			textFlag("rationale", "why it is made: `TEXT`", &o.c.Rationale),
			textFlag("before", "how things were: `TEXT`", &o.c.Before),
			textFlag("after", "how they are now: `TEXT`", &o.c.After),
			textFlag("rollback", "how to undo it: `TEXT`", &o.c.Rollback),
			textFlag("verification", "how to see that it works: `TEXT`", &o.c.Verification),
			jsonFlag(&o.json),
		),
		run: func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args) },
	}
}

func (o *changeOptions) run(ctx context.Context, s *session, args []string) error {
	c := o.c
	if len(args) == 1 {
		if c.Description+c.Rationale+c.Before+c.After+c.Rollback+c.Verification != "" {
			return usagef("mbox change new "+schemas.ShellWord(args[0]), "sections come from flags or from %s, not from both", args[0])
		}
		text, err := s.readRecord(ctx, args[0], recordHead("Change", "change", "**Type:** system"))
		if err != nil {
			return err
		}
		if c, err = record.ParseChange(text); err != nil {
			return inFile(err, args[0])
		}
	}
	var err error
	if c.Agent, err = actor("agent", cmp.Or(o.c.Agent, c.Agent)); err != nil {
		return err
	}
	if c.Date == noDate {
		c.ID, c.Date = "", "" // mbox makes them
	}
	c.Type = cmp.Or(o.kind.value, c.Type, "system")
	return s.with(ctx, func(box *mailbox.Box) error {
		id, err := box.Change(ctx, c)
		return s.wrote(id, err, o.json)
	})
}

// readRecord reads a record's markdown. Where it has sections only, head is put
// above them.
func (s *session) readRecord(ctx context.Context, name, head string) ([]byte, error) {
	data, err := s.readInput(ctx, name, 4<<20)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimSpace(data); bytes.HasPrefix(trimmed, []byte("## ")) {
		data = append([]byte(head), trimmed...)
	}
	return data, nil
}

func changeListVerb() *verb {
	var inJSON bool
	return &verb{
		name:  "list",
		brief: "list change records",
		about: "Lists the change records, oldest first. With --json each line is one record.",
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{jsonFlag(&inJSON)},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.with(ctx, func(box *mailbox.Box) error {
				changes, err := box.Changes(ctx)
				if err != nil || inJSON {
					return firstError(err, s.printLines(len(changes), func(i int) any { return changes[i] }))
				}
				t := table{head: []string{"ID", "DATE", "AGENT", "TYPE", "DESCRIPTION"}}
				for _, c := range changes {
					t.add(text(c.ID), text(c.Date), text(c.Agent), text(c.Type), text(c.Description))
				}
				t.printIfAny(s, "no change is recorded")
				return nil
			})
		},
	}
}
