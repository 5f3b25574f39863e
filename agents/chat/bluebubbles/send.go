package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
)

const (
	knownMost = 256             // messages of ours that are remembered
	clockSlip = 2 * time.Second // the clocks are compared by whole seconds
	errNoUser = 22              // of iMessage: whom it is for has none
)

// Send implements chat.Channel.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	to, err := c.chatOf(ctx, n.To)
	if err != nil {
		return "", err
	}
	var sent row
	err = c.call(ctx, sendTime, http.MethodPost, map[string]any{
		"chatGuid": to, "message": strings.TrimRight(n.Text, "\n"), "tempGuid": n.Key, "method": c.Method,
	}, &sent, "message", "text")
	if err != nil {
		return "", judge(err)
	}
	c.claim(sent.GUID, n.Key)
	return sent.GUID, nil
}

// judge tells what an answer to a message says of it.
func judge(err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		return err
	}
	switch {
	case r.code == http.StatusBadRequest && strings.Contains(r.text, "already queued"):
		return fmt.Errorf("it is at it: %w", err) // it may be sent, or not: what Sent finds out
	case r.code == http.StatusBadRequest:
		return fmt.Errorf("%w: %w", err, chat.ErrRefused)
	case r.code == http.StatusNotFound:
		return fmt.Errorf("%w: %w", err, chat.ErrSetup)
	}
	var failed row
	if json.Unmarshal(r.data, &failed) == nil && failed.Error == errNoUser {
		return fmt.Errorf("%w: no iMessage there: %w", err, chat.ErrRefused)
	}
	return err
}

// chatOf finds the chat of a conversation: for a person the one in which they wrote
// last, else the first that there is of those that the Mac may have.
func (c *channel) chatOf(ctx context.Context, to chat.Conversation) (string, error) {
	if to.Group || strings.Contains(to.Peer, ";") {
		return to.Peer, nil
	}
	c.mu.Lock()
	guid := c.chats[to.Peer]
	c.mu.Unlock()
	if guid != "" {
		return guid, nil
	}
	for _, service := range []string{"iMessage", "any", "SMS"} {
		guid := service + ";-;" + to.Peer
		err := c.call(ctx, callTime, http.MethodGet, nil, nil, "chat", guid)
		if r := (*refusal)(nil); errors.As(err, &r) && r.code == http.StatusNotFound {
			continue
		}
		if err == nil {
			c.mu.Lock()
			c.chats[to.Peer] = guid
			c.mu.Unlock()
		}
		return guid, err
	}
	return "", fmt.Errorf("no chat with %s on the Mac: %w", chat.OneLine(to.Peer), chat.ErrRefused)
}

// Sent implements chat.Searcher. It finds a message of ours in the chat, not failed
// and not before n.Since, with the same text: letters and digits, which is what the
// server compares, too. Messages that this process knows as other notices do not
// count. So it takes for the notice what another process has sent with the same text
// since then, or the person at the Mac.
func (c *channel) Sent(ctx context.Context, n chat.Notice) (string, error) {
	to, err := c.chatOf(ctx, n.To)
	if err != nil {
		return "", err
	}
	since := n.Since
	if since.IsZero() {
		since = time.Now().Add(-lookBack)
	}
	from := since.Add(-lookBack).UnixMilli() // which the clocks may differ by
	for offset, pages := 0, 0; pages < maxPages; pages++ {
		page, count, err := c.rows(ctx, to, from, offset)
		if err != nil {
			return "", err
		}
		for _, r := range page {
			if c.isNotice(r, n, since) {
				c.claim(r.GUID, n.Key)
				return r.GUID, nil
			}
		}
		if offset += count; count < pageRows {
			break
		}
	}
	return "", nil
}

func (c *channel) isNotice(r row, n chat.Notice, since time.Time) bool {
	if !r.FromMe || r.GUID == "" || r.Error != 0 || r.ItemType != 0 || r.tapback() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.known {
		if k.guid == r.GUID {
			return k.key == n.Key
		}
	}
	return r.Created >= since.Add(c.skew-clockSlip).UnixMilli() && letters(r.words()) == letters(n.Text)
}

// letters are what a text is compared by: on its way through AppleScript signs and
// spaces change. A text without any is compared as it is.
func letters(text string) string {
	only := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return r
		}
		return -1
	}, text)
	if only == "" {
		return strings.Join(strings.Fields(text), " ")
	}
	return only
}

// claim remembers which message a notice is.
func (c *channel) claim(guid, key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = append(c.known[max(0, len(c.known)+1-knownMost):], claim{guid, key})
}
