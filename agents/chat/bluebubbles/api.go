package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

const (
	callTime  = 30 * time.Second
	sendTime  = 135 * time.Second // the server gives up after 120
	fileTime  = 10 * time.Minute
	maxAnswer = 8 << 20
	maxFile   = 100 << 20
)

// refusal is what the server says where it does not do what it was asked for.
type refusal struct {
	code int
	text string
	data jsontext.Value
}

func (e *refusal) Error() string {
	if errors.Is(e, chat.ErrSetup) {
		return fmt.Sprintf("the server answers %d: %s: is the password the one of its settings?", e.code, e.text)
	}
	return fmt.Sprintf("the server answers %d: %s", e.code, e.text)
}

// Is makes an error of the settings of what the server says of the password.
func (e *refusal) Is(target error) bool {
	return target == chat.ErrSetup && (e.code == http.StatusUnauthorized || e.code == http.StatusForbidden)
}

// ask sends a request. The password goes in the query: the server knows no other way.
func (c *channel) ask(ctx context.Context, method string, body []byte, query url.Values, path ...string) (*http.Response, error) {
	r := c.server.Request(ctx, method, body, append([]string{"api", "v1"}, path...)...)
	q := r.URL.Query()
	maps.Copy(q, query)
	q.Set("password", c.Password)
	r.URL.RawQuery = q.Encode()
	answer, err := c.server.Do(r)
	if err != nil {
		return nil, err
	}
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		c.mu.Lock()
		c.skew = time.Until(at)
		c.mu.Unlock()
	}
	return answer, nil
}

// call asks with JSON, and reads the answer's data into out, unless that is nil.
func (c *channel) call(ctx context.Context, most time.Duration, method string, in, out any, path ...string) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	answer, err := c.ask(ctx, method, body, nil, path...)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := c.open(answer)
	if err == nil && out != nil {
		if err = json.Unmarshal(data, out); err != nil {
			err = fmt.Errorf("%s: what it answers is not what a BlueBubbles server does: %s", c.server.Host(), c.clean(err.Error()))
		}
	}
	return err
}

// open opens the envelope of an answer.
func (c *channel) open(answer *http.Response) (jsontext.Value, error) {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.server.Host(), err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("%s: an answer of more than %d bytes", c.server.Host(), maxAnswer)
	}
	var envelope struct {
		Message string `json:"message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
		Data jsontext.Value `json:"data"`
	}
	err = json.Unmarshal(text, &envelope)
	if pause := web.Pause(answer); pause > 0 && (answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode == http.StatusServiceUnavailable) {
		return nil, &chat.WaitError{For: pause, Err: &refusal{code: answer.StatusCode, text: "later"}}
	}
	if answer.StatusCode/100 != 2 {
		return nil, &refusal{answer.StatusCode, c.clean(envelope.Error.Message + " " + envelope.Message), envelope.Data}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: it answers no JSON: is it a BlueBubbles server?", c.server.Host())
	}
	return envelope.Data, nil
}

// clean is what a server says, for people: short, in one line, and without the
// password, which it may repeat.
func (c *channel) clean(text string) string {
	text = chat.OneLine(text)
	for _, secret := range []string{c.Password, url.QueryEscape(c.Password), c.secret} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return strings.ToValidUTF8(text[:min(len(text), 200)], "")
}

// file opens an attachment.
func (c *channel) file(ctx context.Context, guid string) (io.ReadCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	answer, err := c.ask(ctx, http.MethodGet, nil, url.Values{"original": {"true"}}, "attachment", guid, "download")
	if err != nil {
		cancel()
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		_, err := c.open(answer)
		answer.Body.Close()
		cancel()
		if err == nil {
			err = errors.New("the server has no such file")
		}
		return nil, err
	}
	return download{io.LimitReader(answer.Body, maxFile), answer.Body, cancel}, nil
}

// download is a body, whose request ends when it is closed.
type download struct {
	io.Reader
	body   io.Closer
	cancel context.CancelFunc
}

func (d download) Close() error {
	defer d.cancel()
	return d.body.Close()
}
