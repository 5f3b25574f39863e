// Package openclaw brings results back by the command line of OpenClaw, into the chat
// systems that it is at home in. Nothing comes in: OpenClaw leaves tasks by mbox send,
// as examples/openclaw-skill shows, with the bridge as their source. Which of the two
// answers is settled by that source: mbox what it names a bridge for, OpenClaw the
// rest. Its gateway is not spoken to.
//
// The command is run once for each message, and sends the text as it is, without a
// turn of a model:
//
//	openclaw message send --channel=C [--account=A] --target=T [--thread-id=I] --message=M
//
// It knows no key that we could give it, so a message arrives at least once.
package openclaw

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/command"
)

// Kind is the channel.
var Kind = chat.Kind{
	Name: "openclaw", About: "results go back by OpenClaw's command line",
	Needs:  []string{"command"},
	Takes:  []string{"rooms"},
	Limits: chat.Limits{Text: 4000, Parts: 8, Every: time.Second},
	Once:   chat.AtLeastOnce,
	Sends:  true,
	Open:   open,

	Conversation: conversation,
}

const (
	sendTime  = 3 * time.Minute // it starts slowly, and its gateway asks the chat system
	checkTime = time.Minute
)

type channel struct{ argv []string }

func open(s chat.Settings) (chat.Channel, error) {
	if len(s.Command) == 0 || !filepath.IsAbs(s.Command[0]) {
		return nil, fmt.Errorf("%w: command begins with the absolute path of openclaw", chat.ErrSetup)
	}
	return &channel{s.Command}, nil
}

// Receive implements chat.Channel.
func (c *channel) Receive(ctx context.Context, _ string, _ chat.Inbox) error {
	<-ctx.Done()
	return ctx.Err()
}

// Check implements chat.Channel: it asks for the version, and how the gateway is.
func (c *channel) Check(ctx context.Context) (string, error) {
	version, err := c.run(ctx, command.Program{For: checkTime, Says: true}, "--version")
	if err == nil {
		_, err = c.run(ctx, command.Program{For: checkTime}, "health")
	}
	return "OpenClaw " + version + ", its gateway answers", err
}

// Send implements chat.Channel.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	where, ok := placeOf(n.To)
	if !ok {
		return "", fmt.Errorf("%w: %s names no channel of OpenClaw's", chat.ErrRefused, n.To.Peer)
	}
	arguments := append([]string{"message", "send"}, where.arguments()...)
	_, err := c.run(ctx, command.Program{Key: n.Key, Text: n.Text, For: sendTime}, append(arguments, "--message="+n.Text)...)
	return "", err
}

func (c *channel) run(ctx context.Context, p command.Program, arguments ...string) (said string, err error) {
	p.Argv = slices.Concat(c.argv, arguments)
	return p.Run(ctx)
}

// place is where OpenClaw sends to.
type place struct {
	channel string // telegram, whatsapp, …
	account string // "" for the one that there is
	target  string
	thread  string
	group   bool
}

// A key has a channel and at most an account before what is talked with. What is
// talked with may have ":" in it.
const keyForm = `^agent:([a-z0-9][a-z0-9_-]{0,63}):([a-z0-9][a-z0-9_-]{0,63})(?::([a-z0-9][a-z0-9_-]{0,63}))??:(direct|dm|group|channel):(.+?)(?::(?:thread|topic):([^:]+))?$`

// conversation reads one of OpenClaw's session keys. Its peer is CHANNEL:TARGET, or
// CHANNEL/ACCOUNT:TARGET.
func conversation(session string) (c chat.Conversation, ok bool) {
	m := regexp.MustCompile(keyForm).FindStringSubmatch(session)
	if m == nil {
		return c, false
	}
	channel, account, what, target, thread := m[2], m[3], m[4], m[5], m[6]
	if account != "" {
		channel += "/" + account
	}
	c = chat.Conversation{Peer: channel + ":" + target, Group: what == "group" || what == "channel", Thread: thread}
	return c, chat.IsName(c.Peer) && (thread == "" || chat.IsName(thread))
}

func placeOf(c chat.Conversation) (p place, ok bool) {
	channel, target, ok := strings.Cut(c.Peer, ":")
	channel, account, _ := strings.Cut(channel, "/")
	return place{channel, account, target, c.Thread, c.Group}, ok && channel != "" && target != ""
}

// forms are what stands before a bare target, which would be taken for something
// else: one of a person, one of a group.
func forms(channel string) (person, group string) {
	switch channel {
	case "discord", "slack", "mattermost":
		return "user:", "channel:"
	case "msteams":
		return "user:", "conversation:"
	case "googlechat":
		return "users/", "spaces/"
	case "signal":
		return "", "group:"
	case "imessage":
		return "", "chat_id:"
	}
	return "", ""
}

func (p place) arguments() []string {
	target := p.target
	form, ofGroup := forms(p.channel)
	if p.group {
		form = ofGroup
	}
	if !strings.ContainsAny(target, ":/") {
		target = form + target
	}
	arguments := []string{"--channel=" + p.channel, "--target=" + target}
	if p.account != "" {
		arguments = append(arguments, "--account="+p.account)
	}
	if p.thread != "" {
		arguments = append(arguments, "--thread-id="+p.thread)
	}
	return arguments
}
