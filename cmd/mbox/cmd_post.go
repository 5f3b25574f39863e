package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"mbox/agents"
	"mbox/cmd/mbox/config"
	"mbox/mailbox"
	"mbox/mailbox/channel"
	"mbox/mailbox/durable"
	"mbox/mailbox/lifecycle"
	"mbox/schemas"
)

type postOptions struct {
	speaker
	answer
	kind, id, replyTo string
}

func postVerb() *verb {
	var o postOptions
	return &verb{
		name: "post", args: "CHANNEL TEXT|-", least: 2, most: 2,
		brief: "say something in a channel",
		about: `Posts a message to a channel, and prints its id. An agent that the text names
(@coder), all with @agents, and those that watch the channel get it into their
inboxes, each as one task; people who are named by @apes are told by [notify]. A
channel is made by mbox create-channel.

The same --message-id a second time is the first message, and nothing is added;
with another text it is refused. An agent's command posts as that agent, by the
token of its task: what it posts belongs to that task's tree, one level deeper, and
reaches no inbox where a delegation would be too deep. Its --reply-to the message
that its inbox item tells of is the answer to that item: there is one, however
often the item is worked at.`,
		shows: []string{
			`mbox post builds "@coder the build is red, please look"`,
			`mbox post builds "It was the clock" --reply-to msg-20260216-0123456789abcdef`,
			`./report | mbox post builds - --type report --message-id "nightly-$(date +%F)"`,
		},
		exits: []int{exitNotFound, exitConflict, exitStale, exitData, exitPolicy, exitIO, exitBusy, exitCommitted},
		flags: slices.Concat(o.speaker.flags("from", "who says it: an `AGENT`, or human (human)"), []cli.Flag{
			textFlag("type", "a `WORD` that says what kind it is (message)", &o.kind),
			filledFlag("message-id", "the message's `ID`: the same again is the same message", &o.id),
			textFlag("reply-to", "the message that it answers: `ID`", &o.replyTo),
		}, o.answer.flags("print nothing but what is wrong")),
		run:   func(ctx context.Context, s *session, args []string) error { return o.run(ctx, s, args[0], args[1]) },
		words: channelWords,
	}
}

func (o *postOptions) run(ctx context.Context, s *session, name, text string) error {
	if err := o.check("post"); err != nil {
		return err
	}
	if text == "-" && !s.literal {
		data, err := s.readInput(ctx, "-", channel.MaxText)
		if err != nil {
			return err
		}
		text = strings.TrimSuffix(string(data), "\n")
	}
	return s.tidied(ctx, func(box *mailbox.Box) error {
		p := mailbox.Post{Channel: name, Text: text, Type: o.kind, ID: o.id, ReplyTo: o.replyTo}
		var err error
		if p.From, p.By, err = o.speaks(ctx, box); err != nil {
			return err
		}
		m, made, unknown, err := mailbox.PostMessage(ctx, box, p)
		if err != nil {
			return o.explain(err, box, &p)
		}
		for _, who := range unknown {
			s.warnf("%s", unreached(s, box, who))
		}
		if m.People && !tellsPeople(s.config) {
			s.warnf(`@apes reaches nobody: no [notify.NAME] in mbox.toml has on = ["message"]`)
		}
		if m.Ended {
			s.warnf("it reaches no inbox: it is the answer to an answer to an answer, and the depth of delegation is %d", box.Options().MaxDepth)
		}
		if o.quiet {
			return nil
		}
		if !made {
			s.infof("it was posted before")
		}
		if o.json {
			return s.printLine(m)
		}
		s.printf("%s\n", m.ID)
		return nil
	})
}

// unreached tells why a name in the text reaches nobody.
func unreached(s *session, box *mailbox.Box, who string) string {
	if who == channel.Agents {
		return "@agents reaches nobody: no other agent that is enabled has a table [agents.NAME] in mbox.toml"
	}
	if now, err := mailbox.AgentOf(box, who); err == nil && now.State == lifecycle.Dead {
		return fmt.Sprintf("%s is dead, and does not get it; mbox agent restore %s brings it back", who, schemas.ShellWord(who))
	}
	return fmt.Sprintf("nobody is called %s%s", who, didYouMean(who, append(agentWords(s), channel.Agents, channel.Apes)))
}

// tellsPeople tells whether somebody is told of messages that name the people.
func tellsPeople(c *config.File) bool {
	for _, n := range c.Notify {
		if slices.Contains(n.On, "message") {
			return true
		}
	}
	return false
}

// explain adds what helps to an error of a post.
func (o *postOptions) explain(err error, box *mailbox.Box, p *mailbox.Post) error {
	switch {
	case errors.Is(err, mailbox.ErrNotFound) && !channelThere(box, p.Channel):
		name := clean(p.Channel, 128)
		if near := schemas.Suggest(p.Channel, channelNames(box.Home())); near != "" {
			return hint(err, "did you mean %s? mbox create-channel %s makes this one", near, schemas.ShellWord(name))
		}
		return hint(err, "mbox create-channel %s", schemas.ShellWord(name))
	case errors.Is(err, mailbox.ErrNotFound):
		return hint(err, "mbox read %s", schemas.ShellWord(p.Channel))
	case errors.Is(err, mailbox.ErrConflict):
		return hint(err, "leave --message-id out, or give another one")
	}
	return hintData(err, "mbox post --help")
}

func didYouMean(word string, among []string) string {
	if near := schemas.Suggest(word, among); near != "" {
		return "; did you mean @" + near + "?"
	}
	return ""
}

// speaker is who posts, reads an inbox or acknowledges: the agent by whose task's token
// the command works, or whom the line names.
type speaker struct {
	agent, task, token string
	flag               string // the one that names the agent
}

func (p *speaker) flags(name, usage string) []cli.Flag {
	p.flag = name
	return []cli.Flag{
		filledFlag(name, usage, &p.agent),
		&cli.StringFlag{Name: "task", Usage: "the task that it is done for: `ID`, with its token", EnvVars: []string{"MBOX_TASK_ID"}, Destination: &p.task},
		&cli.StringFlag{Name: "token", Usage: "the `TOKEN` of that task's claim", EnvVars: []string{"MBOX_TOKEN"}, Destination: &p.token},
	}
}

// speaks tells who speaks, and by which claim. A command of an agent speaks by its
// claim alone: else two agents could talk to each other without an end.
func (p *speaker) speaks(ctx context.Context, box *mailbox.Box) (string, *mailbox.Claim, error) {
	if p.task != "" && p.token != "" {
		c, err := box.Held(ctx, mailbox.ID(p.task), p.token)
		if err != nil {
			return "", nil, err
		}
		if p.agent != "" && p.agent != c.Agent() {
			return "", nil, p.another(c.Agent())
		}
		return c.Agent(), c, nil
	}
	if p.task != "" {
		return "", nil, usagef("--task "+schemas.ShellWord(p.task)+" --token TOKEN", "task %s without --token or MBOX_TOKEN: mbox claim printed it as mbox.lease.token", clean(p.task, 128))
	}
	if err := posting.byPerson(); err != nil {
		return "", nil, err
	}
	if err := posting.byNoWorker(ctx, box); err != nil {
		return "", nil, err
	}
	name, err := actor(p.flag, p.agent)
	if err == nil && strings.HasPrefix(name, "bridge:") {
		err = usagef("--"+p.flag+" human, or the name of an agent", "--%s: a bridge says nothing of its own", p.flag)
	}
	return name, nil, err
}

func (p *speaker) another(agent string) error {
	return hint(&agents.RefusedError{Step: "channels", Reason: "this is a command of " + clean(agent, 128) + ", and of nobody else"}, "leave --%s out", p.flag)
}

// named is whose inbox is meant: that of the agent whose command this is, or of the one
// that the line names.
func (p *speaker) named(verb string, args ...string) (string, error) {
	own := os.Getenv("MBOX_AGENT")
	if own != "" && p.agent != "" && p.agent != own {
		return "", p.another(own)
	}
	name := cmp.Or(p.agent, own)
	return name, needAgent(verb, name, args...)
}

// channelNames are those of the channels that have a folder.
func channelNames(home string) []string {
	names, _ := durable.Names(home + "/channels") // none where there is none
	return names
}

func channelThere(box *mailbox.Box, name string) bool {
	_, err := mailbox.MessageOf(box, channel.CreatedID(name))
	return !errors.Is(err, mailbox.ErrNotFound)
}

// channelWords are the names of the channels.
func channelWords(s *session) []string {
	home, err := s.homeDir()
	if err != nil {
		return nil
	}
	return fileWords(home+"/channels", "")
}

// noChannel is the error of a verb about a channel that is not there.
func noChannel(home, name string) error {
	err := fmt.Errorf("channel %s: %w", clean(name, 128), mailbox.ErrNotFound)
	if near := schemas.Suggest(name, channelNames(home)); near != "" {
		return hint(err, "did you mean %s? mbox channels lists all", near)
	}
	return hint(err, "mbox channels lists all")
}
