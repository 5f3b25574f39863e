package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"mbox/agents/chat"
	"mbox/mailbox"
	"mbox/schemas"
)

type deliverOptions struct {
	operator
	list       bool
	retry, ack string
}

func deliverVerb() *verb {
	var o deliverOptions
	return &verb{
		name:  "deliver",
		brief: "bring results back to where they were asked for",
		about: `Sends the results of tasks that came by a bridge and have ended, for every enabled
bridge of mbox.toml that no other process serves: each result once, and what cannot be
sent now stays for the next time (exit code 75). mbox up and mbox bridge do so all the
time.

--list shows what is not delivered. What was tried for a day, or is refused, is a dead
letter: an alarm that mbox doctor and mbox why tell, too. --retry has it sent again,
--ack says that it has come another way. mbox help delivery tells how it is done.`,
		shows: []string{"mbox deliver --list", "mbox deliver --retry task-2026-02-16-001"},
		exits: []int{exitNotFound, exitConflict, exitData, exitPolicy, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("list", "list the results that are not delivered", &o.list),
			filledFlag("retry", "send the result of task `ID` again, which was given up", &o.retry),
			filledFlag("ack", "the result of task `ID` has come to who asked for it", &o.ack),
			filledFlag("by", "who does it: an `AGENT`, or human (human)", &o.by),
			jsonFlag(&o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *deliverOptions) run(ctx context.Context, s *session) error {
	by, err := o.who()
	if err != nil {
		return err
	}
	asked := 0
	for _, is := range []bool{o.list, o.retry != "", o.ack != ""} {
		if is {
			asked++
		}
	}
	if asked > 1 {
		return usagef("mbox deliver --list", "--list, --retry and --ack are three things")
	}
	if o.list {
		return s.looking(ctx, func(box *mailbox.Box) error { return o.show(s, box) })
	}
	if err := bridging.byPerson(); err != nil {
		return err
	}
	return s.tidied(ctx, func(box *mailbox.Box) error {
		if err := bridging.byNoWorker(ctx, box); err != nil {
			return err
		}
		id := mailbox.ID(o.ack + o.retry)
		switch {
		case o.ack != "":
			if err := chat.Acknowledge(ctx, box, id, by); err != nil {
				return whatWaits(err)
			}
			return o.answer(ctx, s, box, id, "acknowledged")
		case o.retry != "":
			if err := chat.Again(ctx, box, id, by); err != nil {
				return whatWaits(err)
			}
			s.done("to be sent again: %s", id)
		}
		return o.deliver(ctx, s, box)
	})
}

func (o *deliverOptions) show(s *session, box *mailbox.Box) error {
	left, err := chat.Undelivered(box)
	if err != nil {
		return err
	}
	if o.json {
		return s.printLines(len(left), func(i int) any { return left[i] })
	}
	t := table{head: []string{"TASK", "BRIDGE", "ENDED", "STATE", "DELIVERY"}}
	for _, r := range left {
		state := coloured("waits", s.paint.yellow)
		switch {
		case r.Dead != "":
			state = coloured("given up: "+r.Dead, s.paint.red)
		case r.Parts > 1:
			state = coloured(fmt.Sprintf("%d of %d parts are sent", r.Sent, r.Parts), s.paint.yellow)
		case r.Begun > 0:
			state = coloured("begun, and not known to be sent", s.paint.yellow)
		}
		t.add(text(string(r.ID)), text(r.Bridge), text(schemas.LocalTime(r.At.Time)), text(string(r.State)), state)
	}
	t.printIfAny(s, "nothing is to be delivered")
	return nil
}

// deliver sends what waits at each bridge that nobody serves.
func (o *deliverOptions) deliver(ctx context.Context, s *session, box *mailbox.Box) error {
	var failed []error
	left := 0
	for _, name := range s.config.Bridges.Names() {
		b, err := bridgeOf(s, box, name)
		if err == nil && b.Kind.Stdio {
			continue
		}
		var report chat.Report
		if err == nil {
			report, err = b.Deliver(ctx)
		}
		if errors.Is(err, mailbox.ErrBusy) {
			s.infof("bridge %s: another process serves it", name)
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("bridge %s: %w", name, err))
			continue
		}
		left += report.Left
		if err := o.tell(s, name, report); err != nil {
			return err
		}
	}
	if err := errors.Join(failed...); err != nil {
		return err
	}
	if left > 0 {
		return hint(fmt.Errorf("%w: %d results could not be sent now", mailbox.ErrBusy, left), "mbox deliver --list; mbox bridge NAME --check tells whether a bridge works")
	}
	return nil
}

func (o *deliverOptions) tell(s *session, name string, r chat.Report) error {
	if o.json {
		return s.printLine(struct {
			Bridge string `json:"bridge"`
			chat.Report
		}{name, r})
	}
	s.printf("%s: %d sent, %d left, %d given up\n", clean(name, 80), r.Sent, r.Left, r.Dead)
	return nil
}

// whatWaits adds to a conflict where to see what is not delivered.
func whatWaits(err error) error {
	if !errors.Is(err, mailbox.ErrConflict) {
		return err
	}
	return hint(err, "mbox deliver --list shows what is not delivered, and what was given up")
}
