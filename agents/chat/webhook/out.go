package webhook

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// notice is the body of what is sent.
type notice struct {
	Key    string `json:"key"`
	To     string `json:"to"`
	Group  bool   `json:"group,omitzero"`
	Thread string `json:"thread,omitzero"`
	Reply  string `json:"reply,omitzero"` // the id of the message that it answers
	Title  string `json:"title,omitzero"`
	Text   string `json:"text"`
	Again  bool   `json:"again,omitzero"`
}

const sendTime = 30 * time.Second

// Send implements chat.Channel. A key that the receiver knows is not its to take
// again, but to answer with 2xx.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	if c.server == nil {
		return "", fmt.Errorf("%w: %w", errNowhere, chat.ErrRefused)
	}
	body, err := json.Marshal(notice{
		Key: n.Key, To: n.To.Peer, Group: n.To.Group, Thread: n.To.Thread,
		Reply: strings.TrimPrefix(n.Reply, idStart(n.To.Peer)), Title: n.Title, Text: n.Text, Again: n.Again,
	})
	if err != nil {
		return "", fmt.Errorf("%w: %w", err, chat.ErrRefused)
	}
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	r := c.server.Request(ctx, http.MethodPost, body)
	r.Header.Set(signatureHeader, c.sign(body))
	r.Header.Set("Idempotency-Key", n.Key)
	answer, err := c.server.Do(r)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)) // so that the connection is used again
	return "", c.judge(answer)
}

// judge tells what an answer says of the notice.
func (c *channel) judge(answer *http.Response) error {
	if answer.StatusCode/100 == 2 {
		return nil
	}
	err := fmt.Errorf("%s answers %d", c.server.Host(), answer.StatusCode)
	switch code := answer.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return fmt.Errorf("%w: is the secret the same there? %w", err, chat.ErrSetup)
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusGone:
		return fmt.Errorf("%w: server names no webhook: %w", err, chat.ErrSetup)
	case code == http.StatusTooManyRequests || code/100 == 5:
		if pause := web.Pause(answer); pause > 0 {
			return &chat.WaitError{For: pause, Err: err}
		}
		return err
	case code == http.StatusRequestTimeout || code == http.StatusConflict || code == http.StatusTooEarly:
		return err // a request with this key may be under way
	default:
		return fmt.Errorf("%w: %w", err, chat.ErrRefused)
	}
}
