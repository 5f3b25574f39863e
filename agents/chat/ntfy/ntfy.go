// Package ntfy sends notices to a topic of an ntfy server: they appear on the phones
// and desktops that have subscribed to it. Nothing comes in.
//
// A notice is one request, whose body is the text; what it sends with it is written
// to version 2.14 of the server:
//
//	POST /topic
//	Authorization: Bearer tk_…
//	Title: =?UTF-8?b?…?=
//
// The title is encoded by RFC 2047, since a header has no UTF-8. A body of more than
// 4096 bytes would become a file that the server deletes after three hours, so it is
// cut. A text twice is two notices: the server knows no keys.
package ntfy

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// Kind is the channel.
var Kind = chat.Kind{
	Name: "ntfy", About: "notices on phones and desktops, by an ntfy server; it only sends",
	Needs:  []string{"server"},
	Takes:  []string{"token", "ca", "insecure"},
	Limits: chat.Limits{Text: 4096, Parts: 1, Every: time.Second},
	Once:   chat.AtLeastOnce,
	Sends:  true,
	Open:   open,
}

const (
	sendTime  = 30 * time.Second
	maxAnswer = 64 << 10
	maxTitle  = 250         // bytes
	noPause   = time.Minute // where the server names none: its limits fill within minutes
)

type channel struct {
	server *web.Server
	topic  string
	token  string
}

func open(s chat.Settings) (chat.Channel, error) {
	const want = "server: want a URL with the topic, as https://ntfy.sh/my-topic"
	u, err := url.Parse(s.Server)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", want, chat.ErrSetup)
	}
	topic := strings.Trim(u.Path, "/")
	if !regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`).MatchString(topic) {
		return nil, fmt.Errorf("%s, of letters, digits, - and _: %w", want, chat.ErrSetup)
	}
	if u.Query().Has("auth") {
		return nil, fmt.Errorf("server: a secret does not go into the URL: want token_file: %w", chat.ErrSetup)
	}
	if strings.ContainsFunc(s.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, fmt.Errorf("token: want one as tk_…: %w", chat.ErrSetup)
	}
	u.Path, u.RawPath = "/", ""
	server, err := web.Connect(s, u.String())
	if err != nil {
		return nil, err
	}
	return &channel{server, topic, s.Token}, nil
}

// Receive implements chat.Channel. Nothing ever comes.
func (c *channel) Receive(ctx context.Context, _ string, _ chat.Inbox) error {
	<-ctx.Done()
	return ctx.Err()
}

// Send implements chat.Channel. Whom the notice is for does not matter: the topic is
// all that there is.
func (c *channel) Send(ctx context.Context, n chat.Notice) (string, error) {
	body := n.Text[:min(len(n.Text), Kind.Limits.Text)]
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	r := c.request(ctx, http.MethodPost, []byte(strings.ToValidUTF8(body, "")), c.topic)
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	if title := oneLine(n.Title); title != "" {
		r.Header.Set("Title", mime.BEncoding.Encode("UTF-8", title))
	}
	var sent struct {
		ID string `json:"id"`
	}
	err := c.do(r, &sent)
	if err == nil && sent.ID == "" {
		err = fmt.Errorf("%s: it answers without an id: is it an ntfy server?", c.server.Host())
	}
	return sent.ID, err
}

// oneLine is a title as a header may hold it.
func oneLine(title string) string {
	title = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(title, ""), func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	return strings.ToValidUTF8(title[:min(len(title), maxTitle)], "")
}

// Check implements chat.Channel. That we may write to the topic is seen only when a
// notice is sent.
func (c *channel) Check(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	var account struct {
		Username string `json:"username"`
	}
	if err := c.do(c.request(ctx, http.MethodGet, nil, "v1", "account"), &account); err != nil {
		return "", err
	}
	switch who := oneLine(account.Username); {
	case who == "":
		return "", fmt.Errorf("%s: it names nobody: is it an ntfy server?", c.server.Host())
	case who == "*":
		return fmt.Sprintf("%s knows us as nobody in particular", c.server.Host()), nil
	default:
		return fmt.Sprintf("%s knows us as %s", c.server.Host(), who), nil
	}
}

func (c *channel) request(ctx context.Context, method string, body []byte, path ...string) *http.Request {
	r := c.server.Request(ctx, method, body, path...)
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r
}

// do does a request, and reads the answer into out.
func (c *channel) do(r *http.Request, out any) error {
	answer, err := c.server.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if bad := judge(answer); bad != nil {
		return fmt.Errorf("%s: %w", c.server.Host(), bad)
	}
	if err == nil {
		err = json.Unmarshal(text, out, jsontext.AllowInvalidUTF8(true))
	}
	if err != nil {
		return fmt.Errorf("%s: its answer is not what an ntfy server says", c.server.Host())
	}
	return nil
}

// judge tells what an answer's status says. What the server writes beside it is not
// repeated.
func judge(answer *http.Response) error {
	err := fmt.Errorf("it answers %d", answer.StatusCode)
	switch code := answer.StatusCode; {
	case code/100 == 2:
		return nil
	case code == http.StatusUnauthorized:
		return fmt.Errorf("%w: the token is not valid: %w", err, chat.ErrSetup)
	case code == http.StatusForbidden:
		return fmt.Errorf("%w: who writes to this topic needs a token that may: %w", err, chat.ErrSetup)
	case code == http.StatusNotFound || code == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: server names no topic of an ntfy server: %w", err, chat.ErrSetup)
	case code == http.StatusTooManyRequests:
		pause := web.Pause(answer)
		if pause == 0 {
			pause = noPause
		}
		return &chat.WaitError{For: pause, Err: err}
	case code == http.StatusRequestTimeout || code/100 == 5:
		return err
	}
	return fmt.Errorf("%w: %w", err, chat.ErrRefused)
}
