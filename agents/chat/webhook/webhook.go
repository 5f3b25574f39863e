// Package webhook is a bridge for anything that can do an HTTP request: a message
// comes in as a POST, and a notice goes out as one. Both are signed with a secret
// that the two sides share; the form is that of ZeroClaw's webhook channel:
//
//	POST /webhook HTTP/1.1
//	X-Webhook-Signature: sha256=<hex of the HMAC-SHA256 of the body>
//
//	{"sender": "ci", "content": "…", "thread_id": "build-7", "id": "4711"}
//
// # Which messages are the same
//
// The signature is of the body. So nothing beside the body may make a message that
// is another one's copy into a new one for good, or swallow one:
//
//   - An id in the body is the sender's own: what comes again with it is the same
//     message, for ever. Only this keeps out who has caught a request and sends it
//     again.
//   - Idempotency-Key (or X-Idempotency-Key), which is not signed, counts together
//     with the body: the same key with another body is another message, so nobody can
//     spend the key of a message to come.
//   - With neither, the same body within five minutes is the same message. When it
//     first came is kept before a task is made of it: so a repetition after a kill is
//     one, too.
//
// It is answered with 202 when the task is on the disk. A sender that gets no such
// answer sends the same again.
package webhook

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// Kind is the webhook.
var Kind = chat.Kind{
	Name: "webhook", About: "signed HTTP requests, in and out",
	Needs:  []string{"token", "listen"}, // of a bridge: what nothing comes in by has no results to send
	Takes:  []string{"server", "outgoing", "ca", "insecure"},
	Limits: chat.Limits{Text: 48 << 10, Parts: 20},
	Once:   chat.ByKey,
	OneWay: func(s chat.Settings) bool { return s.Server == "" && s.Outgoing == "" },
	Open:   open,
}

const (
	signatureHeader = "X-Webhook-Signature"
	signatureStart  = "sha256="
	leastSecret     = 16 // characters: whoever sees a request may try secrets at leisure
	maxBody         = 64 << 10
)

type channel struct {
	chat.Settings
	server *web.Server // nil where nothing goes out
}

func open(s chat.Settings) (chat.Channel, error) {
	c := &channel{Settings: s}
	to := cmp.Or(s.Outgoing, s.Server)
	switch {
	case len(s.Token) < leastSecret:
		return nil, fmt.Errorf("token: want a secret of %d characters or more, as of: openssl rand -hex 32: %w", leastSecret, chat.ErrSetup)
	case s.Outgoing != "" && s.Server != "":
		return nil, fmt.Errorf("server and outgoing: a webhook sends to one of them: %w", chat.ErrSetup)
	case s.Listen == "" && to == "":
		return nil, fmt.Errorf("listen and server are missing: nothing would come in, and nothing go out: %w", chat.ErrSetup)
	}
	if s.Listen != "" {
		if err := web.CheckListen(s, s.Listen); err != nil {
			return nil, err
		}
	}
	var err error
	if to != "" {
		c.server, err = web.Connect(s, to)
	}
	return c, err
}

// sign is the header's value for a body.
func (c *channel) sign(body []byte) string {
	return signatureStart + hex.EncodeToString(c.mac(body))
}

func (c *channel) mac(body []byte) []byte {
	m := hmac.New(sha256.New, []byte(c.Token))
	m.Write(body)
	return m.Sum(nil)
}

// signed tells whether a header's value is a body's signature.
func (c *channel) signed(header string, body []byte) bool {
	text, ok := strings.CutPrefix(header, signatureStart)
	given, err := hex.DecodeString(text)
	return ok && err == nil && hmac.Equal(given, c.mac(body))
}

// Check implements chat.Channel. That the other side takes the secret is seen only
// when a notice is sent.
func (c *channel) Check(ctx context.Context) (string, error) {
	var said []string
	if c.Listen != "" {
		door, err := web.Listen(c.Settings, c.Listen)
		if err != nil {
			return "", fmt.Errorf("%w (does the bridge run?)", err)
		}
		said = append(said, "may listen on "+door.Address()+path)
		door.Close()
		if c.server == nil {
			said = append(said, "sends nothing: results stay with their tasks")
		}
	}
	if c.server != nil {
		answer, err := c.server.Do(c.server.Request(ctx, http.MethodHead, nil))
		if err != nil {
			return "", err
		}
		answer.Body.Close()
		said = append(said, fmt.Sprintf("%s answers (%d to HEAD)", c.server.Host(), answer.StatusCode))
	}
	return strings.Join(said, ", "), nil
}

// errNowhere says that the bridge only listens.
var errNowhere = errors.New("server is missing in the bridge's table: there is nowhere to send to")
