package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/mailbox"
)

func auditVerb() *verb {
	return &verb{
		name:  "audit",
		brief: "look things up in the ledger",
		about: "Looks things up in the ledger. See also mbox tail and mbox verify.",
		verbs: []*verb{auditShowVerb(), auditDelegationVerb()},
	}
}

func auditShowVerb() *verb {
	var inJSON bool
	return &verb{
		name: "show", args: "SEQ|ID…", least: 1, most: -1,
		brief: "print ledger lines by number or by task",
		about: `Prints the ledger's line number SEQ, or every line of task ID, in the order of
the ledger. With --json the lines are those of the ledger: byte for byte into a pipe or a
file; on a terminal, what moves it or hides (C1, bidi) is written as \u escapes.`,
		shows: []string{"mbox audit show 17", "mbox audit show task-2026-02-16-001 --json"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{boolFlag("json", "print the ledger's lines as they are", &inJSON)},
		run: func(ctx context.Context, s *session, args []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error { return s.auditShow(ctx, box, args, inJSON) })
		},
		words: taskWords,
	}
}

// wanted are the lines that are asked for, and whether each has been seen.
type wanted map[string]bool

func (w wanted) has(e *audit.Entry) bool {
	found := false
	for _, name := range []string{strconv.FormatInt(e.Seq, 10), strings.ToLower(e.Task())} {
		if _, asked := w[name]; asked && name != "" {
			w[name], found = true, true
		}
	}
	return found
}

func (s *session) auditShow(ctx context.Context, box *mailbox.Box, args []string, raw bool) error {
	want := wanted{}
	for _, a := range args {
		want[strings.ToLower(a)] = false
	}
	r := box.Ledger().Read(audit.Position{})
	for line, err := range r.Lines() {
		if err == nil {
			err = s.showLine(line, want, raw)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
	}
	if broken := r.Broken(); broken != nil {
		return fmt.Errorf("%w: %w", audit.ErrDamaged, broken)
	}
	for _, a := range args {
		if !want[strings.ToLower(a)] {
			return hint(fmt.Errorf("%s: no such line: %w", clean(a, 128), mailbox.ErrNotFound), "mbox tail --no-follow -n 20 shows the last lines")
		}
	}
	return nil
}

func (s *session) showLine(line audit.Line, want wanted, raw bool) error {
	e, err := line.Decode()
	if err != nil || !want.has(&e) {
		return err
	}
	if raw {
		s.printRaw(line.Raw)
		return nil
	}
	s.printf("%s  %s  %s\n   %s\n", s.paint.dim(fmt.Sprintf("%6d", e.Seq)), e.Time().Local().Format(time.DateOnly), s.entryLine(&e), clean(string(e.Details), maxLine))
	return nil
}
