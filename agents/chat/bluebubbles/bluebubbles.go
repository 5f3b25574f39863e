// Package bluebubbles is iMessage by a BlueBubbles server, a program on a Mac. It is
// written to version 1.9.9 of the server.
//
// # What comes in
//
// The server calls a webhook once for a message, and never again; after a restart it
// may call for a week's messages again, and it calls for each change of one. So a
// call is only a reason to look: what there is, the server's database is asked for
// (POST /message/query), at the start, at each call and once a minute. A message is
// known by its guid. The [place] says from when on all was seen, and what of that was
// taken; it reaches back two hours, since a message may come later than its date says.
//
// From a call alone comes that a message was read.
//
// # What goes out
//
// POST /message/text answers when the server has seen the message in its database:
// after two minutes at most, and no answer proves nothing. The notice's key goes
// along as tempGuid. While the server is at it, it refuses the same key; later no key
// is found any more. Then [channel.Sent] looks for the text.
package bluebubbles

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// Kind is the channel.
var Kind = chat.Kind{
	Name: "bluebubbles", About: "iMessage by a BlueBubbles server",
	Needs:  []string{"server", "password"},
	Takes:  []string{"rooms", "listen", "method", "ca", "insecure"},
	Limits: chat.Limits{Text: 4000, Parts: 10, Every: time.Second},
	Once:   chat.BySearch,
	Open:   open,
}

const (
	pollTime  = time.Minute      // between two looks where the server calls
	aloneTime = 10 * time.Second // where it cannot
)

type channel struct {
	chat.Settings
	server *web.Server
	listen string // "" where the server has no way to us
	secret string // in the path at which it calls
	every  time.Duration

	mu    sync.Mutex
	chats map[string]string // the chat of a person, as it was seen last
	known []claim           // messages that are notices of ours
	skew  time.Duration     // of the server's clock to ours
}

// claim is a message that is the notice with a key.
type claim struct{ guid, key string }

func open(s chat.Settings) (chat.Channel, error) {
	server, err := web.Connect(s, s.Server)
	if err != nil {
		return nil, err
	}
	c := &channel{Settings: s, server: server, listen: s.Listen, every: pollTime, chats: map[string]string{}}
	switch s.Method {
	case "":
		c.Method = "apple-script"
	case "apple-script", "private-api":
	default:
		return nil, fmt.Errorf("method: want apple-script or private-api: %w", chat.ErrSetup)
	}
	if s.Password == "" {
		return nil, fmt.Errorf("password is missing: %w", chat.ErrSetup)
	}
	switch {
	case c.listen == "" && server.Local():
		c.listen = "127.0.0.1:0"
	case c.listen == "":
		c.every = aloneTime
		return c, nil
	case web.Anywhere(c.listen):
		return nil, fmt.Errorf("listen: want the address at which the server finds this machine, not %s: %w", c.listen, chat.ErrSetup)
	}
	m := hmac.New(sha256.New, []byte(s.Password))
	m.Write([]byte("mbox webhook " + s.Name))
	c.secret = hex.EncodeToString(m.Sum(nil)[:16])
	return c, web.CheckListen(s, c.listen)
}

func (c *channel) remark(format string, a ...any) {
	if c.Log != nil {
		c.Log(format, a...)
	}
}

// Check implements chat.Channel.
func (c *channel) Check(ctx context.Context) (string, error) {
	var info struct {
		Version  string `json:"server_version"`
		System   string `json:"os_version"`
		IMessage string `json:"detected_imessage"`
		Private  bool   `json:"private_api"`
	}
	if err := c.call(ctx, callTime, http.MethodGet, nil, &info, "server", "info"); err != nil {
		return "", err
	}
	if c.Method == "private-api" && !info.Private {
		return "", fmt.Errorf("method: the server's private API is off: %w", chat.ErrSetup)
	}
	return chat.OneLine(fmt.Sprintf("BlueBubbles %s on macOS %s, %s", info.Version, info.System, info.IMessage)), nil
}
