// Package slack is an app of Slack in Socket Mode, by its Web API and the WebSocket
// that apps.connections.open names: nothing listens, and no public address is needed.
//
// # What comes in
//
// Each event is an envelope that Slack sends again, at once, after a minute and after
// five, until it is acknowledged: that is done when its message is a task. A message
// comes as more than one event where the app has subscribed to several; its ID,
// "<channel>:<ts>", is the same in each. There is no place to keep: what Slack gave up
// while the bridge was away does not come.
//
// # What goes out
//
// chat.postMessage, whose text is escaped, so that nothing in it is a link or calls a
// channel's people. The notice's key is the message's metadata, by which the channel
// or the thread is searched before a notice is sent again.
//
// # Why not with a library
//
// slack-go/slack (read at v0.35.0) connects again by itself: at once after a connection
// ends, and then by a backoff that cannot be set. It bounds what comes by the WebSocket
// only where it is told to, and answers of the Web API not at all; its slacktest sends
// no envelopes and has no conversations.history. What is needed is here: a few calls and
// one kind of envelope.
package slack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// Kind is the channel.
var Kind = chat.Kind{
	Name: "slack", About: "an app of Slack, in Socket Mode",
	Needs: []string{"token", "password"},
	Takes: []string{"server", "rooms", "ca", "insecure"},
	// The server takes 40000 characters; escaped, no text has more than five times its bytes.
	Limits: chat.Limits{Text: 4000, Parts: 5, Every: time.Second},
	Once:   chat.BySearch,
	Open:   open,

	Account: account,
}

const defaultServer = "https://slack.com"

type channel struct {
	chat.Settings
	server *web.Server
	pause  time.Duration // before it connects again
	beat   time.Duration // between two looks whether the connection lives

	mu      sync.Mutex
	who     identity
	directs map[string]string // the channel of a person
}

// identity is who the server says we are.
type identity struct {
	User string `json:"user_id"`
	Bot  string `json:"bot_id"`
	Name string `json:"user"`
	Team string `json:"team"`
}

// isID tells whether a text may be the ID of a person or a channel.
func isID(text string) bool {
	return len(text) > 1 && len(text) <= 32 && text[0] > '9' && strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// isTime tells whether a text may be a ts, which names a message in its channel.
func isTime(text string) bool {
	seconds, rest, _ := strings.Cut(text, ".")
	return seconds != "" && rest != "" && len(seconds) <= 12 && len(rest) <= 9 && strings.Trim(seconds+rest, "0123456789") == ""
}

func open(s chat.Settings) (chat.Channel, error) {
	switch {
	case !strings.HasPrefix(s.Token, "xoxb-"):
		return nil, fmt.Errorf("token: want the app's Bot User OAuth Token, xoxb-…: %w", chat.ErrSetup)
	case !strings.HasPrefix(s.Password, "xapp-"):
		return nil, fmt.Errorf("password: want an App-Level Token with connections:write, xapp-…: %w", chat.ErrSetup)
	}
	for _, room := range s.Rooms {
		if !isID(room) || room[0] != 'C' && room[0] != 'G' {
			return nil, fmt.Errorf("rooms: %.40q: want the ID of a channel, as C0123456789: %w", room, chat.ErrSetup)
		}
	}
	server, err := web.Connect(s, cmp.Or(s.Server, defaultServer))
	if err != nil {
		return nil, err
	}
	return &channel{Settings: s, server: server, pause: time.Second, beat: 30 * time.Second, directs: map[string]string{}}, nil
}

// account is the team and the bot, which stand in a token before its secret.
func account(s chat.Settings) string {
	parts := strings.Split(s.Token, "-")
	return strings.Join(parts[:min(len(parts), 3)], "-")
}

func (c *channel) remark(format string, a ...any) {
	if c.Log != nil {
		c.Log(format, a...)
	}
}

// me is who we are, which is asked for once.
func (c *channel) me(ctx context.Context) (identity, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.who.User != "" {
		return c.who, nil
	}
	var who identity
	if err := c.call(ctx, c.Token, "auth.test", nil, &who); err != nil {
		return who, err
	}
	if !isID(who.User) {
		return who, fmt.Errorf("%s: it does not say who we are", c.server.Host())
	}
	c.who = who
	return who, nil
}

// Check implements chat.Channel. It asks where to connect to, and does not connect.
func (c *channel) Check(ctx context.Context) (string, error) {
	who, err := c.me(ctx)
	if err != nil {
		return "", fmt.Errorf("token: %w", err)
	}
	if _, err := c.link(ctx); err != nil {
		return "", fmt.Errorf("password: %w", err)
	}
	for _, room := range c.Rooms {
		var known struct {
			Channel struct {
				In bool `json:"is_member"`
			} `json:"channel"`
		}
		err := c.call(ctx, c.Token, "conversations.info", map[string]string{"channel": room}, &known)
		if errors.Is(err, chat.ErrRefused) || err == nil && !known.Channel.In {
			return "", fmt.Errorf("rooms: %s: invite the app there: /invite @%s: %w", room, chat.OneLine(who.Name), chat.ErrSetup)
		}
		if err != nil {
			return "", fmt.Errorf("rooms: %s: %w", room, err)
		}
	}
	return chat.OneLine(fmt.Sprintf("@%s (%s) in %s", who.Name, who.User, who.Team)), nil
}
