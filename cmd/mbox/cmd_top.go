package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"mbox/audit"
	"mbox/cmd/mbox/top"
	"mbox/mailbox"
)

type topOptions struct{ readonly, plain bool }

func topVerb() *verb {
	var o topOptions
	return &verb{
		name:  "top",
		brief: "watch the mailbox: what waits, runs, ended, and is wrong",
		about: `Shows the four folders with counts and the age of the oldest task, what is wrong,
and the ledger as it grows. The arrows move, enter describes a task, / filters, ?
lists the keys, q quits. c cancels a task and r retries one, as human, once you have
said y to the command that is shown; p, in the list of agents, pauses one or lets it
go on. --readonly takes these keys away, and an agent's command never has them.

Where standard input or output is no terminal, with --plain, or with TERM=dumb, it
prints what mbox status does, and then a line for each change, for a pipe or a
screen reader.`,
		shows: []string{"mbox top", "mbox top --plain"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			boolFlag("readonly", "no key changes anything", &o.readonly),
			boolFlag("plain", "print lines, and move no cursor", &o.plain),
		},
		run: func(ctx context.Context, s *session, _ []string) error { return o.run(ctx, s) },
	}
}

func (o *topOptions) run(ctx context.Context, s *session) error {
	box, doubt, err := s.look(ctx)
	if err != nil {
		return err
	}
	return errors.Join(o.watch(ctx, s, box, doubt), box.Close())
}

// topPercent has the collector run more often than a short command needs: a board
// stays, and reads anew what it shows.
const topPercent = 50

func (o *topOptions) watch(ctx context.Context, s *session, box *mailbox.Box, doubt error) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(topPercent)
	}
	b := top.Options{
		Doubt: doubt,
		Lacks: lacks(ctx, s, box, nil),
		Line:  func(e *audit.Entry) string { return s.entryLine(e) },
		Fault: s.faultLine,
		Name:  s.proposes.problem,
		Describe: func(ctx context.Context, id mailbox.ID) (string, error) {
			return s.describe(ctx, box, id)
		},
		Cancel: func(ctx context.Context, id mailbox.ID) error { return box.Cancel(ctx, id, "human", cancelReason) },
		Retry:  func(ctx context.Context, id mailbox.ID) error { return box.Retry(ctx, id, "human", retryReason) },
		Pause: func(ctx context.Context, agent mailbox.ID) error {
			_, err := mailbox.PauseAgent(ctx, box, mailbox.Pause{Agent: string(agent), By: "human"})
			return err
		},
		Resume: func(ctx context.Context, agent mailbox.ID) error {
			_, err := mailbox.ResumeAgent(ctx, box, string(agent), "human", "")
			return err
		},
	}
	if o.plain || !s.terminal || !term.IsTerminal(int(s.in.Fd())) || os.Getenv("TERM") == "dumb" {
		s.paint = palette{}
		return top.Plain(ctx, box, b, s.out, s.out.Flush)
	}
	b.ReadOnly = o.mayOnlyLook(ctx, box)
	return top.Run(ctx, box, b)
}

// mayOnlyLook tells why no key may change anything; "" if keys may.
func (o *topOptions) mayOnlyLook(ctx context.Context, box *mailbox.Box) string {
	if o.readonly {
		return "--readonly"
	}
	if name := ofAgent(os.LookupEnv); name != "" {
		return "this is an agent's command: its environment has " + name
	}
	why, err := worksForAgent(ctx, box)
	if err != nil {
		return "it cannot be told whether this is an agent's command: " + err.Error()
	}
	return why
}

// faultLine is an error and its hint, in one line.
func (s *session) faultLine(err error) string {
	text := clean(strings.ReplaceAll(err.Error(), "\n", "; "), maxLine)
	if hint := s.hint(err); hint != "" {
		text += "; hint: " + hint
	}
	return text
}

// describe is what mbox show and mbox why print of a task.
func (s *session) describe(ctx context.Context, box *mailbox.Box, id mailbox.ID) (string, error) {
	w, err := box.Why(ctx, id)
	if err != nil {
		return "", err
	}
	var text bytes.Buffer
	p := printer{out: bufio.NewWriter(&text), paint: s.paint, terminal: true}
	if w.Task != nil {
		p.showTask(w.Task, w.State, w)
		p.printf("\n")
		w.Approve = "" // what it binds has been shown
	}
	p.printWhy(s.proposes.why(w), s.proposes.named(anew(box.Home(), w)))
	err = p.out.Flush()
	return text.String(), err
}
