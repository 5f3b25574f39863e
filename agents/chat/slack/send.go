package slack

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
)

// metadata is what a message of ours carries for us to find it by.
type metadata struct {
	Type    string `json:"event_type"`
	Payload struct {
		Key string `json:"key"`
	} `json:"event_payload"`
}

const noticeType = "mbox_notice"

// escaped is a text that stands for itself: none of it is a name, a channel or a link.
func escaped(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// Send implements chat.Channel.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	room, thread, err := c.place(ctx, &n)
	if err != nil {
		return "", err
	}
	m := metadata{Type: noticeType}
	m.Payload.Key = n.Key
	carried, err := json.Marshal(m)
	if err != nil {
		return "", fmt.Errorf("%w: %w", err, chat.ErrRefused)
	}
	var sent struct {
		At string `json:"ts"`
	}
	err = c.call(ctx, c.Token, "chat.postMessage", map[string]string{
		"channel": room, "thread_ts": thread, "text": escaped(n.Text), "metadata": string(carried),
		"mrkdwn": "false", "parse": "none", "unfurl_links": "false", "unfurl_media": "false",
	}, &sent)
	if err != nil {
		return "", err
	}
	return room + ":" + sent.At, nil
}

// place is where a notice goes: in a channel into the thread of what it answers.
func (c *channel) place(ctx context.Context, n *chat.Notice) (room, thread string, err error) {
	if !isID(n.To.Peer) || n.To.Thread != "" && !isTime(n.To.Thread) {
		return "", "", fmt.Errorf("%.40q is nobody and no channel of Slack's: %w", n.To.Peer, chat.ErrRefused)
	}
	if !n.To.Group {
		room, err = c.direct(ctx, n.To.Peer)
		return room, n.To.Thread, err
	}
	in, at, _ := strings.Cut(n.Reply, ":")
	if thread = n.To.Thread; thread == "" && in == n.To.Peer && isTime(at) {
		thread = at
	}
	return n.To.Peer, thread, nil
}

// direct is the channel in which we speak with a person.
func (c *channel) direct(ctx context.Context, user string) (string, error) {
	c.mu.Lock()
	room := c.directs[user]
	c.mu.Unlock()
	if room != "" {
		return room, nil
	}
	var opened struct {
		Channel struct {
			ID string `json:"id"`
		} `json:"channel"`
	}
	if err := c.call(ctx, c.Token, "conversations.open", map[string]string{"users": user}, &opened); err != nil {
		return "", err
	}
	if room = opened.Channel.ID; !isID(room) {
		return "", fmt.Errorf("%s: it names no channel for a person", c.server.Host())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.directs[user] = room
	return room, nil
}

const (
	clockSlip = 5 * time.Minute // the clocks may differ by
	maxPages  = 100             // of one search; where that is not enough it is tried again, and not sent
)

var errLong = errors.New("more was said there since than is searched: whether the notice is there is not known")

// Sent implements chat.Searcher. It looks for a message of ours with the notice's key.
func (c *channel) Sent(ctx context.Context, n chat.Notice) (string, error) {
	room, thread, err := c.place(ctx, &n)
	if err != nil {
		return "", err
	}
	me, err := c.me(ctx)
	if err != nil {
		return "", err
	}
	method, fields := "conversations.history", map[string]string{"channel": room, "include_all_metadata": "true", "limit": "100"}
	if thread != "" {
		method, fields["ts"] = "conversations.replies", thread
	}
	if !n.Since.IsZero() {
		fields["oldest"] = strconv.FormatInt(n.Since.Add(-clockSlip).Unix(), 10) + ".000000"
	}
	for range maxPages {
		var page history
		err := c.call(ctx, c.Token, method, fields, &page)
		if f := (*fault)(nil); errors.As(err, &f) && f.code == "thread_not_found" {
			return "", nil // Send finds out what that means
		}
		if err != nil {
			return "", err
		}
		if at := page.find(n.Key, me); at != "" {
			return room + ":" + at, nil
		}
		if fields["cursor"] = page.Next.Cursor; page.Next.Cursor == "" {
			return "", nil
		}
	}
	return "", errLong
}

// history is a page of what was said.
type history struct {
	Messages []struct {
		At       string         `json:"ts"`
		User     string         `json:"user"`
		Bot      string         `json:"bot_id"`
		Metadata jsontext.Value `json:"metadata"` // of others it may be anything
	} `json:"messages"`
	Next struct {
		Cursor string `json:"next_cursor"`
	} `json:"response_metadata"`
}

// find is the message of ours with a key; "" where there is none.
func (h *history) find(key string, me identity) string {
	for _, m := range h.Messages {
		var carried metadata
		if m.User != me.User && (me.Bot == "" || m.Bot != me.Bot) || len(m.Metadata) == 0 || lenient(m.Metadata, &carried) != nil {
			continue
		}
		if carried.Type == noticeType && carried.Payload.Key == key {
			return m.At
		}
	}
	return ""
}
