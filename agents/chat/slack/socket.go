package slack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

const maxEnvelope = 1 << 20

// envelope is what comes by the WebSocket.
type envelope struct {
	ID          string         `json:"envelope_id"`
	Type        string         `json:"type"`
	Reason      string         `json:"reason"`          // of disconnect
	Connections int            `json:"num_connections"` // of hello
	Payload     jsontext.Value `json:"payload"`
}

// Receive implements chat.Channel. Slack ends a connection every few hours, and says
// so: then there is another one.
func (c *channel) Receive(ctx context.Context, _ string, in chat.Inbox) error {
	me, err := c.me(ctx)
	if err != nil {
		return err
	}
	for {
		if err := c.listen(ctx, me, in); err != nil {
			return err
		}
		if !chat.Sleep(ctx, c.pause) {
			return ctx.Err()
		}
	}
}

// link asks where to connect to. The address is good once, and a secret.
func (c *channel) link(ctx context.Context) (string, error) {
	var to struct {
		URL string `json:"url"`
	}
	err := c.call(ctx, c.Password, "apps.connections.open", nil, &to)
	return to.URL, err
}

// dial connects. No error of it has the address.
func (c *channel) dial(ctx context.Context) (*websocket.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	at, err := c.link(ctx)
	if err != nil {
		return nil, err
	}
	if !strings.HasPrefix(at, "ws") {
		return nil, fmt.Errorf("%s: it names no WebSocket to connect to", c.server.Host())
	}
	at = "http" + strings.TrimPrefix(at, "ws")
	server, err := web.Connect(c.Settings, at)
	if err != nil {
		return nil, errors.New("the WebSocket that Slack names is none to connect to")
	}
	conn, answer, err := websocket.Dial(ctx, at, &websocket.DialOptions{HTTPClient: server.Client()})
	if answer != nil && answer.Body != nil {
		answer.Body.Close()
	}
	var hidden *url.Error
	if errors.As(err, &hidden) {
		err = hidden.Err
	}
	if err != nil {
		return nil, fmt.Errorf("the WebSocket at %s: %w", server.Host(), err)
	}
	conn.SetReadLimit(maxEnvelope)
	return conn, nil
}

// listen takes what one connection brings. It returns nil when Slack wants another.
func (c *channel) listen(ctx context.Context, me identity, in chat.Inbox) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	var beating sync.WaitGroup
	beating.Go(func() { stop(c.tend(ctx, conn)) })
	defer beating.Wait()
	defer stop(nil)
	defer conn.CloseNow()
	for {
		_, text, err := conn.Read(ctx)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("the WebSocket has ended: %w", err)
		}
		var e envelope
		if lenient(text, &e) != nil {
			c.remark("Slack sends what is no envelope, which is left out")
			continue
		}
		switch e.Type {
		case "hello":
			if e.Connections > 1 {
				c.remark("%d programs are connected as this app: each gets a part of the messages only", e.Connections)
			}
			continue
		case "disconnect":
			if e.Reason == "link_disabled" {
				return fmt.Errorf("the app's settings have Socket Mode switched off: %w", chat.ErrSetup)
			}
			return nil
		case "events_api":
			if err := c.take(ctx, e.Payload, me, in); err != nil {
				return err
			}
		}
		if err := acknowledge(ctx, conn, e.ID); err != nil {
			return fmt.Errorf("the WebSocket has ended: %w", err)
		}
	}
}

// tend ends a connection at whose other end nobody is.
func (c *channel) tend(ctx context.Context, conn *websocket.Conn) error {
	for chat.Sleep(ctx, c.beat) {
		within, cancel := context.WithTimeout(ctx, 2*c.beat)
		err := conn.Ping(within)
		cancel()
		if err != nil {
			return fmt.Errorf("nobody answers: %w", err)
		}
	}
	return ctx.Err()
}

// acknowledge tells Slack not to send an envelope again.
func acknowledge(ctx context.Context, conn *websocket.Conn, id string) error {
	if id == "" {
		return nil
	}
	text, err := json.Marshal(map[string]string{"envelope_id": id})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, text)
}
