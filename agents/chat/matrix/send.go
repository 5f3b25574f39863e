package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
)

// maxEvent is what a message's content may have as JSON: an event of 64 KiB holds
// signatures and references besides.
const maxEvent = 56 << 10

// message is the content of what we send. A notice is what programs say: other
// programs do not answer it.
type message struct {
	Type  string    `json:"msgtype"`
	Body  string    `json:"body"`
	Name  string    `json:"filename,omitzero"`
	URL   string    `json:"url,omitzero"`
	Info  *fileInfo `json:"info,omitzero"`
	About *relation `json:"m.relates_to,omitzero"`
}

// Send implements chat.Channel. The same key again is the same event.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	room, m, err := c.compose(ctx, &n)
	if err == nil && n.File != nil {
		err = c.attach(ctx, m, n.File)
	}
	if err != nil {
		return "", refused(err)
	}
	if text, err := json.Marshal(m); err != nil || len(text) > maxEvent {
		return "", fmt.Errorf("a message of %d bytes as JSON, at most %d (%v): %w", len(text), maxEvent, err, chat.ErrRefused)
	}
	var sent struct {
		ID string `json:"event_id"`
	}
	err = c.call(ctx, ask{method: http.MethodPut, path: client("rooms", room, "send", "m.room.message", n.Key), in: m}, &sent)
	if err != nil {
		return "", refused(err)
	}
	if !isID(sent.ID, '$') {
		return "", fmt.Errorf("%s: no event for what was sent", c.server.Host())
	}
	return sent.ID, nil
}

// refused marks the errors that come again however often the same is sent.
func refused(err error) error {
	if errors.Is(err, chat.ErrSetup) { // the login is what is wrong
		return err
	}
	if errors.Is(err, errEncrypted) || errors.Is(err, errMembers) || says(err, "M_FORBIDDEN", "M_NOT_FOUND", "M_TOO_LARGE", "M_BAD_JSON", "M_NOT_JSON", "M_INVALID_PARAM", "M_INVALID_ROOM_STATE") {
		return fmt.Errorf("%w: %w", err, chat.ErrRefused)
	}
	return err
}

// compose finds where a notice goes, and whether it may: not into a room that is
// encrypted, and not to others than the one person whom it is for.
func (c *channel) compose(ctx context.Context, n *chat.Notice) (room string, m *message, err error) {
	room, thread := place(n.To)
	if !isRoom(room) {
		return "", nil, fmt.Errorf("%.*q is no room: %w", maxID, room, chat.ErrRefused)
	}
	if room, err = c.resolve(ctx, room); err != nil {
		return "", nil, err
	}
	if err := c.open(ctx, room); err != nil {
		return "", nil, err
	}
	if !n.To.Group {
		pair, err := c.pair(ctx, room, n.To.Peer)
		if err == nil && !pair {
			err = errMembers
		}
		if err != nil {
			return "", nil, err
		}
	}
	m = &message{Type: "m.notice", Body: n.Text}
	if isID(n.Reply, '$') {
		m.About = &relation{Reply: &reply{n.Reply}}
	}
	if thread != "" {
		if m.About == nil {
			m.About = &relation{Reply: &reply{thread}, Fallback: true}
		}
		m.About.Type, m.About.ID = "m.thread", thread
	}
	return room, m, nil
}
