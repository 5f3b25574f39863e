// Package imsg is iMessage by imsg (github.com/openclaw/imsg), a program on the Mac
// that has the account. `imsg rpc` speaks JSON-RPC 2.0 on its standard streams, an
// object a line, as its docs/rpc.md tells; it was read at commit 002a9b92, with the
// names of attachments' fields as the source has them (Sources/imsg/OutputModels.swift).
//
// Receive has a child of its own, which watches from a row of the Mac's database on
// (watch.subscribe); each notice has one, too, which ends when it is sent. So a send
// that hangs stops nothing else, and nothing has to be put right between two.
//
// The place that is kept is the cursor of the message that was handed over last, or
// its row where an older imsg has no cursor: a number. It belongs to that database.
package imsg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"mbox/agents/chat"
)

// Kind is the channel.
var Kind = chat.Kind{
	Name: "imsg", About: "iMessage by imsg, on this Mac",
	Needs:  []string{"command"},
	Takes:  []string{"rooms"},
	Limits: chat.Limits{Text: 4000, Parts: 10, Every: time.Second},
	Once:   chat.AtLeastOnce,
	Open:   open,
}

const (
	callTime = 30 * time.Second
	sendTime = 135 * time.Second
)

// JSON-RPC's codes, and imsg's.
const (
	codeMethod   = -32601 // there is no such method
	codeParams   = -32602 // what was asked for cannot be
	codeDatabase = -32002 // it cannot read the database
)

type channel struct{ chat.Settings }

func open(s chat.Settings) (chat.Channel, error) {
	if len(s.Command) == 0 || s.Command[0] == "" {
		return nil, fmt.Errorf(`command is missing: want ["imsg", "rpc"]: %w`, chat.ErrSetup)
	}
	return &channel{s}, nil
}

func (c *channel) remark(format string, a ...any) {
	if c.Log != nil {
		c.Log(format, a...)
	}
}

// Check implements chat.Channel.
func (c *channel) Check(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	child, err := start(ctx, c.Command)
	if err != nil {
		return "", err
	}
	defer child.end(ctx)
	var s struct {
		Version  string `json:"version"`
		Database struct {
			Path  string `json:"path"`
			Ready bool   `json:"ready"`
			Error string `json:"error"`
		} `json:"database"`
	}
	err = child.call(ctx, "status", map[string]any{}, &s)
	if f := (*fault)(nil); errors.As(err, &f) && f.Code == codeMethod { // an older one
		if err = child.call(ctx, "chats.list", map[string]any{"limit": 1}, nil); err == nil {
			return "imsg, which reads the database of Messages", nil
		}
	}
	switch {
	case err != nil:
		return "", err
	case !s.Database.Ready:
		return "", fmt.Errorf("imsg: %s: %w", chat.OneLine(cmp.Or(s.Database.Error, "it cannot read the database of Messages: does it have Full Disk Access?")), chat.ErrSetup)
	}
	return chat.OneLine(fmt.Sprintf("imsg %s, which reads %s", s.Version, s.Database.Path)), nil
}

// Send implements chat.Channel. Who is sent to is found by imsg, as at its command
// line: a person in the chat that there is, else by iMessage, else by SMS.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	child, err := start(ctx, c.Command)
	if err != nil {
		return "", err
	}
	defer child.end(ctx)
	params := map[string]any{"text": strings.TrimRight(n.Text, "\n"), "to": n.To.Peer}
	if n.To.Group {
		delete(params, "to")
		params["chat_guid"] = n.To.Peer
	}
	var sent struct {
		OK   bool   `json:"ok"`
		GUID string `json:"guid"`
	}
	err = child.call(ctx, "send", params, &sent)
	f := (*fault)(nil)
	switch {
	case errors.As(err, &f) && f.Code == codeParams:
		return "", fmt.Errorf("%w: %w", err, chat.ErrRefused)
	case err == nil && !sent.OK:
		return "", errors.New("imsg: it does not say that it has sent")
	}
	return sent.GUID, err
}
