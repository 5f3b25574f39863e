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
		name: "logs", args: "ID|AGENT", least: 1, most: 1,
		brief: "print what an agent said while it worked",
		about: `Prints what was said in the attempts at a task, or by an agent in its last attempt:
the command's stderr, and what a model replied, with the reason where that was not
done. Secrets that the command was given, and what looks like one, are <redacted>.

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
			return s.looking(ctx, func(box *mailbox.Box) error { return o.run(ctx, s, box, args[0]) })
		},
		words: moveWords,
	}
}

// run prints what there is, and with --follow what comes.
func (o *logsOptions) run(ctx context.Context, s *session, box *mailbox.Box, of string) error {
	agent, id, err := o.whose(ctx, s, box, of)
	if err != nil {
		return err
	}
	said, err := o.print(s, box, agent, id, true)
	if err != nil || !o.follow {
		if err == nil && said == 0 {
			s.warnf("%s has said nothing that is kept", of)
		}
		return err
	}
	ctx, end := whileRead(ctx)
	defer end()
	for look := time.NewTicker(logsEvery); ; {
		if err := s.out.Flush(); err != nil {
			return err
		}
		over := false // before what it said last is looked at
		if id != "" {
			_, state, err := box.Task(ctx, id)
			over = err != nil || state != mailbox.Pending && state != mailbox.InProgress
		}
		if _, err := o.print(s, box, agent, id, false); err != nil || over || ctx.Err() != nil {
			look.Stop()
			return errors.Join(err, s.out.Flush())
		}
		select {
		case <-ctx.Done():
		case <-look.C:
		}
	}
}

// logsEvery is how often --follow looks for more.
const logsEvery = 250 * time.Millisecond

// whose tells whether a task is asked for, or an agent.
func (o *logsOptions) whose(ctx context.Context, s *session, box *mailbox.Box, of string) (agent string, id mailbox.ID, err error) {
	_, _, err = box.Task(ctx, mailbox.ID(of))
	if err == nil {
		return "", mailbox.ID(of), nil
	}
	of, failed := mailbox.AgentCalled(box, of)
	if failed != nil {
		return "", "", failed
	}
	if s.config.Agents[of] != nil {
		return audit.Folder(of), "", nil
	}
	if task.CheckAgent(of) == nil {
		if logs, failed := agents.AttemptLogs(box.Home(), audit.Folder(of), ""); failed == nil && len(logs) > 0 {
			return audit.Folder(of), "", nil
		}
	}
	if errors.Is(err, mailbox.ErrNotFound) {
		return "", "", hint(fmt.Errorf("%s is neither a task nor an agent: %w", clean(of, 128), mailbox.ErrNotFound), "mbox ls shows the tasks there are, mbox status the agents")
	}
	return "", "", err
}

// print prints what was said since the last time; of an agent, at first, what it said in
// its last attempt. It returns how many lines there were.
func (o *logsOptions) print(s *session, box *mailbox.Box, agent string, id mailbox.ID, first bool) (int, error) {
	logs, err := agents.AttemptLogs(box.Home(), agent, id)
	if err != nil {
		return 0, err
	}
	lines := []logLine{}
	for i := range logs {
		l := &logs[i]
		name := fmt.Sprintf("%s %s %d", l.Agent, l.Task, l.Epoch)
		hidden := first && id == "" && i < len(logs)-1
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
