package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

type tailOptions struct {
	agent, task string
	called      func(name string) string // what an agent is called now
	events      choices
	since       moment
	last        number
	stay        bool // --no-follow
	json, raw   bool
	day         string // the date of the line printed last
	tell        teller
}

func eventNames() []string {
	var names []string
	for _, e := range audit.Events {
		names = append(names, string(e))
	}
	return names
}

func tailVerb() *verb {
	o := tailOptions{events: choices{among: eventNames()}, since: moment{past: true}, last: number{max: 1 << 30}}
	return &verb{
		name:  "tail",
		brief: "follow the ledger",
		about: `Prints the last lines of the ledger and then every new one, across midnight,
until Ctrl-C, which is exit code 0, or until nobody reads on. Beside what a line
tells stands what the task's file says now: its title, how far it is, why it failed.
--raw leaves that out, and has the agent and the event in columns. With --json the lines are those of the
ledger: byte for byte into a pipe or a file; on a terminal, what moves it or hides
(C1, bidi) is written as \u escapes.`,
		shows: []string{
			"mbox tail",
			"mbox tail --agent coder --event task_completed,task_failed",
			"mbox tail --since 2h --no-follow --json | jq -r .action",
		},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			valueFlag("n", "begin with the last `N` lines (10; with --since all)", &o.last),
			filledFlag("agent", "only lines of `AGENT`", &o.agent),
			filledFlag("task", "only lines of task `ID`", &o.task),
			valueFlag("event", "only `EVENT`s; may be repeated, or separated by commas", &o.events),
			valueFlag("since", "begin at `WHEN`: a time, or a duration ago", &o.since),
			boolFlag("no-follow", "end at the end of the ledger", &o.stay),
			boolFlag("raw", "print what the ledger alone tells, with the event", &o.raw),
			boolFlag("json", "print the ledger's lines as they are", &o.json),
		},
		run: func(ctx context.Context, s *session, _ []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box) })
		},
	}
}

func (o *tailOptions) run(ctx context.Context, s *session, box *mailbox.Box) error {
	if err := checkOnly(o.task); err != nil {
		return err
	}
	ctx, end := whileRead(ctx)
	defer end()
	if o.agent != "" {
		called, err := mailbox.Names(box)
		if err != nil {
			return err
		}
		o.called = called
	}
	from, err := o.start(box.Ledger())
	if err != nil {
		return err
	}
	return o.follow(ctx, s, box, from)
}

// checkOnly refuses an id of which no line can be; "" is for those of all tasks.
func checkOnly(id string) error {
	if id == "" {
		return nil
	}
	return task.CheckID(mailbox.ID(id))
}

// follow prints from there to the end of the ledger, and what comes until the context
// ends.
func (o *tailOptions) follow(ctx context.Context, s *session, box *mailbox.Box, from audit.Position) error {
	o.tell = teller{&s.printer, box}
	r := box.Ledger().Read(from)
	defer r.Close()
	if err := o.catchUp(ctx, s, r); err != nil || o.stay {
		return err
	}
	// What Follow yields only says that there is something; the reader prints it,
	// for it has the bytes.
	for _, err := range box.Follow(ctx, r.Position()) {
		if err = firstError(err, o.catchUp(ctx, s, r)); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return o.catchUp(context.WithoutCancel(ctx), s, r)
}

// catchUp prints up to the end of the ledger.
func (o *tailOptions) catchUp(ctx context.Context, s *session, r *audit.Reader) error {
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = o.print(ctx, s, line)
		}
		if err != nil {
			return err
		}
	}
	if broken := r.Broken(); broken != nil && o.stay {
		s.warnf("the ledger is damaged, and this is what stands before it: %s", clean(broken.Error(), maxLine))
	} else if broken != nil {
		return fmt.Errorf("%w: %w", audit.ErrDamaged, broken)
	}
	return s.out.Flush()
}

// start finds where to begin, from the end of the ledger backwards.
func (o *tailOptions) start(l *audit.Ledger) (audit.Position, error) {
	most := 10
	if o.last.value != nil {
		most = *o.last.value
	} else if !o.since.at.IsZero() {
		most = -1
	}
	var at audit.Position // of the oldest line to print
	for line, err := range l.Backward() {
		if err != nil {
			return at, err
		}
		if at == (audit.Position{}) {
			at = line.End
		}
		if most == 0 {
			return at, nil
		}
		if err := line.Sound(); err != nil {
			return at, err
		}
		if line.Time().Before(o.since.at) {
			return at, nil
		}
		if o.wants(line) {
			at = line.At
			most--
		}
	}
	if most != 0 {
		return audit.Position{}, nil
	}
	return at, nil
}

func (o *tailOptions) wants(line audit.Line) bool {
	return (o.agent == "" || line.Agent() == o.agent || o.called(line.Agent()) == o.called(o.agent)) &&
		(o.task == "" || strings.EqualFold(line.Task(), o.task)) &&
		(len(o.events.values) == 0 || slices.Contains(o.events.values, string(line.Event())))
}

func (o *tailOptions) print(ctx context.Context, s *session, line audit.Line) error {
	e, err := line.Decode()
	if err != nil || !o.wants(line) || e.Time().Before(o.since.at) {
		return err
	}
	if o.json {
		s.printRaw(line.Raw)
		return nil
	}
	if day := e.Time().Local().Format("Monday, 2006-01-02"); day != o.day {
		o.day = day
		s.printf("%s\n", s.paint.dim(day))
	}
	if o.raw {
		s.printf("%s\n", s.entryLine(&e))
	} else {
		s.printf("%s\n", o.tell.line(ctx, &e))
	}
	return nil
}

// entryLine is what a ledger line alone tells.
func (s *printer) entryLine(e *audit.Entry) string {
	colour, said := s.eventColour(e.Event), clean(e.Action, maxLine)
	if d, err := delegation.Of(e); err == nil {
		colour, said = s.decisionColour(d.Decision), s.delegationLine(&d)
	}
	return fmt.Sprintf("%s  %s  %s  %s  %s",
		s.paint.dim(e.Time().Local().Format(time.TimeOnly)),
		s.paint.bold(fmt.Sprintf("%-12s", clean(e.Agent, 72))),
		colour(fmt.Sprintf("%-16s", clean(string(e.Event), 40))),
		cmp.Or(clean(e.Task(), 128), "-"),
		said)
}

func (s *printer) eventColour(e audit.Event) paint {
	switch e {
	case audit.TaskCompleted, audit.ResultDelivered:
		return s.paint.green
	case audit.TaskFailed, audit.TaskRejected, audit.TaskQuarantined, audit.TaskLateResult, audit.PolicyDenied,
		audit.AuditRepaired, audit.ErrorEvent:
		return s.paint.red
	case audit.TaskRetried, audit.TaskReleased, audit.TaskEdited, audit.TaskCancelled, audit.Reconcile:
		return s.paint.yellow
	case audit.TaskCreated, audit.TaskPicked, audit.TaskProgress:
		return s.paint.cyan
	}
	return s.paint.blue
}
