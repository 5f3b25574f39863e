package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/cmd/mbox/check"
	"mbox/cmd/mbox/top"
	"mbox/mailbox"
	"mbox/mailbox/home"
	"mbox/schemas"
)

type statusOptions struct{ watch, seen, json bool }

func statusVerb() *verb {
	var o statusOptions
	return &verb{
		name:  "status",
		brief: "tell on one screen how things stand, and what needs you",
		about: `Tells whether mbox up runs, what the disk has left, how often the folders are looked
at, how many tasks there are of each state and how old the oldest is, what each agent
works by, what it holds, since when and what it said last; and everything that needs
somebody, the worst first, with the command that helps. Nothing of that is exit code
0, anything is 1: for a prompt, a monitor or cron.

--watch shows it anew each second until Ctrl-C, which is exit code 0; into a pipe or
a file only when something has changed. With --json of each folder but completed the
first 100 tasks are there, too.

What came to quarantine is told until somebody says --seen. It stays where it lies, and
so does what the ledger tells of it.`,
		shows: []string{"mbox status", "mbox status --watch", "mbox status --json | jq '.problems[]'"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("watch", "show it again and again", &o.watch),
			boolFlag("seen", "what lies in quarantine has been seen", &o.seen),
			boolFlag("json", "print JSON, with --watch a line each time", &o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			return doubting(ctx, s, func(box *mailbox.Box, doubt error) error { return o.run(ctx, s, box, doubt) })
		},
	}
}

func (o *statusOptions) run(ctx context.Context, s *session, box *mailbox.Box, doubt error) error {
	if o.seen {
		if _, err := home.See(box.Home(), box.Options().Sync); err != nil {
			return err
		}
	}
	if o.watch {
		return o.again(ctx, s, box, doubt)
	}
	b, err := top.Read(ctx, box, o.json, lacks(ctx, s, box, doubt))
	if err != nil {
		return err
	}
	b.Tell(workersOf(ctx, s, box.Home()))
	b.Name(s.proposes.problem)
	if o.json {
		err = s.printJSON(b)
	} else {
		b.Print(s.out, styleOf(s))
	}
	if n := b.Needs(); n > 0 && err == nil {
		return &unwell{schemas.Count(n, "thing needs", "things need") + " somebody"}
	}
	return err
}

// lacks tells of agents that are not there, of schedules that do not do what they are for,
// of traces that nobody takes, and why the mailbox could not be opened: doubt, if any.
// Where the ledger cannot tell, the board does. Schedules are looked at seldom, for that
// reads far back, and so is whether it can be opened now.
func lacks(ctx context.Context, s *session, box *mailbox.Box, doubt error) func() []check.Finding {
	var schedules, closed []check.Finding
	asked := time.Time{}
	return func() []check.Finding {
		if time.Since(asked) > askAgain {
			if doubt != nil && !asked.IsZero() {
				doubt = doubtOf(ctx, s)
			}
			closed = closedBy(s, box.Home(), doubt)
			asked = time.Now()
			schedules, _ = check.Schedules(ctx, s.config, box)
			schedules = slices.DeleteFunc(schedules, func(f check.Finding) bool { return f.Level != check.Wrong })
		}
		found, err := check.Absent(s.config, box)
		if err != nil {
			found = nil
		}
		return slices.Concat(closed, found, schedules, check.Traces(s.config, box.Home()))
	}
}

// doubtOf is why the mailbox cannot be opened now.
func doubtOf(ctx context.Context, s *session) error {
	box, doubt, err := s.look(ctx)
	if box != nil {
		err = cmp.Or(err, box.Close())
	}
	return cmp.Or(doubt, err)
}

// closedBy tells why the mailbox could not be opened, where the board does not, or what of it
// is missing.
func closedBy(s *session, home string, doubt error) []check.Finding {
	switch {
	case doubt == nil:
		return check.Places(home)
	case errors.Is(doubt, mailbox.ErrReadOnly), errors.Is(doubt, audit.ErrDamaged):
		return nil // as is ErrGone, an ErrReadOnly
	}
	_, hint := s.judged(doubt)
	return []check.Finding{{Check: check.Mailbox, Level: check.Wrong, Text: "it cannot be opened: " + doubt.Error(), Hint: cmp.Or(hint, "mbox doctor")}}
}

// again shows the board as long as somebody looks on.
func (o *statusOptions) again(ctx context.Context, s *session, box *mailbox.Box, doubt error) error {
	var before []byte
	found, asked := []check.Finding(nil), time.Time{}
	ctx, end := whileRead(ctx)
	defer end()
	return top.Watch(ctx, box, o.json, lacks(ctx, s, box, doubt), func(b *top.Board) error {
		if time.Since(asked) > askAgain {
			found, asked = workersOf(ctx, s, box.Home()), time.Now()
		}
		b.Tell(found)
		b.Name(s.proposes.problem)
		now := fmt.Appendf(nil, "%d %t %v", b.Seq, b.Routed, b.Problems)
		if !s.terminal && bytes.Equal(now, before) {
			return nil
		}
		before = now
		switch {
		case o.json:
			if err := s.printLine(b); err != nil {
				return err
			}
		case s.terminal:
			top.Clear(s.out)
			b.Print(s.out, styleOf(s))
		default:
			b.Print(s.out, styleOf(s))
			s.printf("\n")
		}
		return s.out.Flush()
	})
}

// How long brains may take to say whether they can think, and when they are asked again.
const (
	askWithin = time.Second
	askAgain  = 30 * time.Second
)

// workersOf tells of each enabled agent whether it can work.
func workersOf(ctx context.Context, s *session, home string) []check.Finding {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return check.Workers(ctx, s.config, home, s.team)
}

// styleOf is how a board is printed on this standard output.
func styleOf(s *session) top.Style { return top.Style{Wide: s.wide, Colours: s.paint.on} }
