// Package telegram is a bot of Telegram, by the Bot API at https://api.telegram.org or
// a server of one's own that speaks it. It is written to version 9.2 of the API.
//
// # What comes in
//
// Long polling (getUpdates). The server keeps an update for a day, or until it is
// asked for those behind it: that confirms it. So the place is the id of the last
// update that was taken, and the server is asked for what is behind the place that
// was kept, never further. Ids grow, but after a week of silence the server goes on
// from any number: an update is never left out because its id is low. A message that
// comes twice has the same ID, "<chat>:<message>".
//
// # What goes out
//
// sendMessage, and sendDocument for a long result. The API has no idempotency keys
// and a bot cannot search: what may have been sent is sent again, and says so. Text
// is plain, and the server is told not to open the links in it.
//
// # Why not with a library
//
// go-telegram/bot puts updates into a channel and confirms them when they are there,
// not when they are tasks: a kill would lose them. It retries by itself, reads
// answers without a bound, and decodes all updates of an answer or none. What is
// needed of the API is here: six calls and a dozen fields.
package telegram

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// Kind is the channel.
var Kind = chat.Kind{
	Name: "telegram", About: "a bot of Telegram",
	Needs: []string{"token"},
	Takes: []string{"server", "rooms", "ca", "insecure"},
	// The server's limit is 4096 UTF-16 code units: no text has more of these than bytes.
	Limits: chat.Limits{Text: 4096, Parts: 5, File: 10 << 20, Every: time.Second},
	Once:   chat.AtLeastOnce,
	Open:   open,

	Account: func(s chat.Settings) string { bot, _, _ := strings.Cut(s.Token, ":"); return bot },
}

const defaultServer = "https://api.telegram.org"

type channel struct {
	chat.Settings
	server *web.Server
	id     int64         // of the bot
	first  time.Duration // pause after the first conflict
}

func open(s chat.Settings) (chat.Channel, error) {
	number, secret, _ := strings.Cut(s.Token, ":")
	id, err := strconv.ParseInt(number, 10, 64)
	if err != nil || id <= 0 || !regexp.MustCompile(`^[A-Za-z0-9_-]{10,200}$`).MatchString(secret) {
		return nil, fmt.Errorf("token: want what @BotFather gave, as 123456:ABC-DEF…: %w", chat.ErrSetup)
	}
	for _, room := range s.Rooms {
		if n, err := strconv.ParseInt(room, 10, 64); err != nil || n >= 0 {
			return nil, fmt.Errorf("rooms: %.40q: want the number of a group, as -1001234567890: %w", room, chat.ErrSetup)
		}
	}
	server, err := web.Connect(s, cmp.Or(s.Server, defaultServer))
	if err != nil {
		return nil, err
	}
	return &channel{Settings: s, server: server, id: id, first: 2 * time.Second}, nil
}

func (c *channel) remark(format string, a ...any) {
	if c.Log != nil {
		c.Log(format, a...)
	}
}

// Check implements chat.Channel. It does not poll: that would end the poll of a
// bridge that runs.
func (c *channel) Check(ctx context.Context) (string, error) {
	me, err := c.me(ctx)
	if err != nil {
		return "", err
	}
	var hook struct {
		URL string `json:"url"`
	}
	if err := c.call(ctx, callTime, "getWebhookInfo", nil, &hook); err != nil {
		return "", err
	}
	if hook.URL != "" {
		return "", errWebhook
	}
	for _, room := range c.Rooms {
		if err := c.call(ctx, callTime, "getChat", map[string]any{"chat_id": number(room)}, nil); err != nil {
			err = fmt.Errorf("rooms: %s: %w", room, err)
			if errors.Is(err, chat.ErrRefused) {
				err = fmt.Errorf("%w: is the bot in that group? %w", err, chat.ErrSetup)
			}
			return "", err
		}
	}
	hears := "in groups it gets only what is meant for it (privacy mode)"
	if me.ReadsAll {
		hears = "in groups it gets every message"
	}
	return fmt.Sprintf("@%s (%d); %s", clean(me.Username), me.ID, hears), nil
}

// me is who the server says we are.
func (c *channel) me(ctx context.Context) (me account, err error) {
	if err := c.call(ctx, callTime, "getMe", nil, &me); err != nil {
		return me, err
	}
	if me.ID != c.id {
		return me, fmt.Errorf("%s: it does not know the bot of the token: is it a server of the Bot API? %w", c.server.Host(), chat.ErrSetup)
	}
	return me, nil
}

// number is a text that is one, or 0.
func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64) // 0 is nobody and nothing at this server
	return n
}

var errWebhook = fmt.Errorf("a webhook is set for this bot, so it gets nothing by polling: "+
	"give the bridge a bot of its own (@BotFather, /newbot), or remove the webhook with the method deleteWebhook of the Bot API: %w", chat.ErrSetup)
