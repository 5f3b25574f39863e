package main

import (
	"context"
	"errors"
	"os"

	"mbox/agents/life"
	"mbox/mailbox"
	"mbox/schemas"
)

func inboxVerb() *verb {
	var o speaker
	var as answer
	return &verb{
		name:  "inbox",
		brief: "list the messages that wait for an agent",
		about: `Lists an agent's inbox items that are not acknowledged, the oldest first: messages
that name it, those of channels that it watches, and those to all agents. An item is
a task for the agent (mbox help channels): a worker claims it like any other, and its
end acknowledges it, as mbox ack does. With --json each line is one item.`,
		shows: []string{"mbox inbox --agent coder", "mbox inbox --json | jq -r .text"},
		exits: []int{exitNotFound, exitData, exitPolicy, exitIO, exitBusy},
		flags: append(flags(filledFlag("agent", "whose inbox: `AGENT`; the agent's own commands leave it out", &o.agent)), as.flags("print the items' ids alone")...),
		run: func(ctx context.Context, s *session, _ []string) error {
			if err := as.check("inbox"); err != nil {
				return err
			}
			o.flag = "agent"
			who, err := o.named("inbox")
			if err != nil {
				return err
			}
			return s.looking(ctx, func(box *mailbox.Box) error {
				if o.agent != "" { // an agent's own command asks for what claims by its name
					if _, err := knownAgent(s.config, box, who); err != nil {
						return err
					}
				}
				who, err := mailbox.AgentCalled(box, who)
				if err != nil {
					return err
				}
				lines, err := mailbox.Inbox(ctx, box, who)
				switch {
				case err != nil || as.json:
					return firstError(err, s.printLines(len(lines), func(i int) any { return lines[i] }))
				case as.quiet:
					return printIDs(s, lines, func(l mailbox.InboxItem) string { return string(l.ID) })
				}
				t := table{head: []string{"ID", "STATE", "WHY", "FROM", "CHANNEL", "TEXT"}}
				for _, l := range lines {
					t.add(text(string(l.ID)), text(string(l.State)), text(l.Trigger), text(l.From), text(l.Channel), text(l.Text))
				}
				t.printIfAny(s, "the inbox of "+who+" is empty")
				return nil
			})
		},
	}
}

func ackVerb() *verb {
	var o speaker
	var as answer
	var all bool
	return &verb{
		name: "ack", args: "[ID...]", most: -1,
		brief: "acknowledge inbox items",
		about: `Acknowledges items of an agent's inbox: they are completed, and do not come again.
The same line again answers 0 and changes nothing. An item that somebody works at
is acknowledged with the token of its claim, --task ID and --token; the commands of
a worker have both in their environment. Items that were acknowledged more than
archive_after ago (7 days) are archived by mbox up.`,
		shows: []string{"mbox ack task-2026-02-16-001 --agent coder", "mbox ack --all --agent coder"},
		exits: []int{exitNotFound, exitConflict, exitStale, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: append(append(o.flags("agent", "whose inbox: `AGENT`; the agent's own commands leave it out"), boolFlag("all", "all that wait", &all)), as.flags("print nothing but what is wrong")...),
		run: func(ctx context.Context, s *session, args []string) error {
			if err := as.check("ack ID"); err != nil {
				return err
			}
			if all == (len(args) > 0) {
				return usagef("mbox ack ID, or mbox ack --all", "mbox ack needs the ids of items, or --all, and not both")
			}
			who, err := o.named("ack", args...)
			if err != nil {
				return err
			}
			return s.tidied(ctx, func(box *mailbox.Box) error {
				who, err := mailbox.AgentCalled(box, who)
				if err != nil {
					return err
				}
				var ids []mailbox.ID
				for _, id := range args {
					ids = append(ids, mailbox.ID(id))
				}
				if all {
					if o.agent != "" {
						if _, err := heardAgent(s.config, box, who); err != nil {
							return err
						}
					}
					if ids, err = waitingFor(ctx, box, who); err != nil {
						return err
					}
				}
				return each(ctx, s, ids, as.json, func(id mailbox.ID) error {
					if err := o.acknowledge(ctx, box, id, who); err != nil {
						return err
					}
					if as.json {
						return s.printState(ctx, box, id)
					}
					if !as.quiet {
						s.done("acknowledged %s", id)
					}
					return nil
				})
			})
		},
		words: taskWords,
	}
}

// waitingFor are the ids of the items that wait for an agent.
func waitingFor(ctx context.Context, box *mailbox.Box, who string) (ids []mailbox.ID, err error) {
	lines, err := mailbox.Inbox(ctx, box, who)
	for _, l := range lines {
		if l.State == mailbox.Pending {
			ids = append(ids, l.ID)
		}
	}
	return ids, err
}

// acknowledge is life.Acknowledge by the token that the line has, if that is the
// item's.
func (o *speaker) acknowledge(ctx context.Context, box *mailbox.Box, id mailbox.ID, who string) error {
	token := o.token
	if o.task != "" && mailbox.ID(o.task).Fold() != id.Fold() {
		token = ""
	}
	err := life.Acknowledge(ctx, box, id, who, token)
	if errors.Is(err, mailbox.ErrConflict) {
		return hint(err, "mbox inbox --agent %s lists what waits; mbox show %s tells how this is", schemas.ShellWord(who), schemas.ShellWord(clean(string(id), 128)))
	}
	return err
}

// self is what mbox whoami tells.
type self struct {
	Agent string     `json:"agent"` // or human
	Task  mailbox.ID `json:"task,omitzero"`
	Home  string     `json:"home"`
}

func whoamiVerb() *verb {
	var o answer
	return &verb{
		name:  "whoami",
		brief: "tell for whom mbox takes this command",
		about: `Prints the agent whose command this is, or human. With --json it prints also the task
that it works for and the mailbox's folder.`,
		shows: []string{"mbox whoami --json"},
		exits: []int{exitNotFound, exitData, exitIO, exitBusy},
		flags: flags(o.flags("print the name alone, as without it")...),
		run: func(ctx context.Context, s *session, _ []string) error {
			if err := o.check("whoami"); err != nil {
				return err
			}
			return s.looking(ctx, func(box *mailbox.Box) error {
				me := self{Agent: os.Getenv("MBOX_AGENT"), Task: mailbox.ID(os.Getenv("MBOX_TASK_ID")), Home: box.Home()}
				if me.Agent == "" && me.Task != "" {
					t, _, err := box.Task(ctx, me.Task)
					if err != nil {
						return err
					}
					me.Agent = t.Claimant()
				}
				if me.Agent == "" {
					me.Agent = "human"
				}
				if o.json {
					return s.printLine(me)
				}
				s.printf("%s\n", clean(me.Agent, 128))
				return nil
			})
		},
	}
}
