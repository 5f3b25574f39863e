package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

type logsOptions struct {
	follow, json bool
	most         number

	places map[string]agents.Place // how far each attempt's log was read
	shown  string                  // the attempt whose line was printed last
}

func logsVerb() *verb {
	o := logsOptions{most: number{min: 0, max: 1 << 30}, places: map[string]agents.Place{}}
	return &verb{
		name: "logs", args: "ID|AGENT…", least: 1, most: -1,
		brief: "print what an agent said while it worked",
		about: `Prints what was said in the attempts at a task, or by an agent in its last attempt:
the command's stderr, and what a model replied, with the reason where that was not
done. Of several it does so one after the other, each below lines that name it. Secrets
that the command was given, and what looks like one, are <redacted>.

It is kept in agents/NAME/logs/ID.CLAIM.log, where CLAIM counts how often the task
was taken; [logs] in mbox.toml says how much and how long. What a command wrote on
stdout is the task's result: mbox show ID --output.`,
		shows: []string{"mbox logs task-2026-02-16-001", "mbox logs coder -f"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on with what comes: of a task until it has ended, of an agent until Ctrl-C", Destination: &o.follow},
			valueFlag("n", "begin with the last `N` lines", &o.most),
			boolFlag("json", "print each line as JSON, with its task, agent and claim", &o.json),
		},
		run: func(ctx context.Context, s *session, args []string) error {
			return s.looking(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box, ids(args)) })
		},
		words: logWords,
	}
}

// logSource is a task or an agent whose words are asked for.
type logSource struct {
	agent string
	id    mailbox.ID // "" of an agent
}

// run prints what there is, and with --follow what comes.
func (o *logsOptions) run(ctx context.Context, s *session, box *mailbox.Box, of []mailbox.ID) error {
	var all []logSource
	err := each(ctx, s, of, o.json, func(name mailbox.ID) error {
		who, err := o.whose(ctx, s, box, string(name))
		if err != nil {
			return err
		}
		all = append(all, who)
		said, err := o.print(s, box, who, true)
		if err == nil && said == 0 && !o.follow {
			s.warnf("%s has said nothing that is kept", name)
		}
		return err
	})
	if err != nil || !o.follow {
		return err
	}
	return o.goOn(ctx, s, box, all)
}

// goOn prints what comes, until all these tasks have ended.
func (o *logsOptions) goOn(ctx context.Context, s *session, box *mailbox.Box, all []logSource) error {
	ctx, end := whileRead(ctx)
	defer end()
	look := time.NewTicker(logsEvery)
	defer look.Stop()
	for {
		if err := s.out.Flush(); err != nil {
			return err
		}
		over := true
		for _, who := range all {
			if who.id == "" || goesOn(ctx, box, who.id) { // before what it said last is looked at
				over = false
			}
			if _, err := o.print(s, box, who, false); err != nil {
				return errors.Join(err, s.out.Flush())
			}
		}
		if over || ctx.Err() != nil {
			return s.out.Flush()
		}
		select {
		case <-ctx.Done():
		case <-look.C:
		}
	}
}

// goesOn tells whether more may be said about a task.
func goesOn(ctx context.Context, box *mailbox.Box, id mailbox.ID) bool {
	_, state, err := box.Task(ctx, id)
	return err == nil && (state == mailbox.Pending || state == mailbox.InProgress)
}

// logsEvery is how often --follow looks for more.
const logsEvery = 250 * time.Millisecond

// whose tells whether a task is asked for, or an agent.
func (o *logsOptions) whose(ctx context.Context, s *session, box *mailbox.Box, of string) (logSource, error) {
	_, _, err := box.Task(ctx, mailbox.ID(of))
	if err == nil {
		return logSource{id: mailbox.ID(of)}, nil
	}
	of, failed := mailbox.AgentCalled(box, of)
	if failed != nil {
		return logSource{}, failed
	}
	if s.config.Agents[of] != nil {
		return logSource{agent: audit.Folder(of)}, nil
	}
	if task.CheckAgent(of) == nil {
		if logs, failed := agents.AttemptLogs(box.Home(), audit.Folder(of), ""); failed == nil && len(logs) > 0 {
			return logSource{agent: audit.Folder(of)}, nil
		}
	}
	if errors.Is(err, mailbox.ErrNotFound) {
		return logSource{}, hint(fmt.Errorf("%s is neither a task nor an agent: %w", clean(of, 128), mailbox.ErrNotFound), "mbox ls shows the tasks there are, mbox status the agents")
	}
	return logSource{}, err
}

// print prints what was said since the last time; of an agent, at first, what it said in
// its last attempt. It returns how many lines there were.
func (o *logsOptions) print(s *session, box *mailbox.Box, who logSource, first bool) (int, error) {
	logs, err := agents.AttemptLogs(box.Home(), who.agent, who.id)
	if err != nil {
		return 0, err
	}
	lines := []logLine{}
	for i := range logs {
		l := &logs[i]
		name := fmt.Sprintf("%s %s %d", l.Agent, l.Task, l.Epoch)
		hidden := first && who.id == "" && i < len(logs)-1
		if o.places[name], err = l.Lines(o.places[name], func(said agents.Said) error {
			if !hidden {
				lines = append(lines, logLine{l.Agent, l.Task, l.Epoch, said})
			}
			return nil
		}); err != nil {
			return 0, err
		}
	}
	if first && o.most.value != nil {
		lines = lines[max(0, len(lines)-*o.most.value):]
	}
	for i := range lines {
		if err := o.printLine(s, &lines[i]); err != nil {
			return 0, err
		}
	}
	return len(lines), nil
}

// logLine is one line of mbox logs --json.
type logLine struct {
	Agent string     `json:"agent"` // its folder's name
	Task  mailbox.ID `json:"task"`
	Claim int64      `json:"claim"` // which one of the task's, from 1
	agents.Said
}

func (o *logsOptions) printLine(s *session, l *logLine) error {
	if o.json {
		return s.printLine(l)
	}
	if head := fmt.Sprintf("%s, claim %d by %s, %s", l.Task, l.Claim, l.Agent, l.At.Local().Format(time.DateOnly)); head != o.shown {
		o.shown = head
		s.printf("%s\n", s.paint.bold(clean(head, maxLine)))
	}
	text := clean(l.Text, maxLine)
	switch l.Kind {
	case agents.SaidRefused:
		text = s.paint.red("not done: " + text)
	case agents.SaidModel, agents.SaidAction:
		text = s.paint.dim(l.Kind + ": " + text)
	case agents.SaidReply:
		text = s.paint.cyan("reply: ") + text
	}
	s.printf("%s  %s\n", s.paint.dim(l.At.Local().Format(time.TimeOnly)), text)
	return nil
}
