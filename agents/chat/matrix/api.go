package matrix

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

const (
	callTime  = 30 * time.Second
	maxAnswer = 32 << 20
	maxWords  = 300 // bytes of what a server says about an error
	limitWait = 5 * time.Second
)

// ask is a request below /_matrix.
type ask struct {
	method string
	path   []string
	query  url.Values
	in     any           // the body, as JSON; nil for none
	most   int64         // bytes of the answer; 0 is maxAnswer
	time   time.Duration // 0 is callTime
}

func get(query url.Values, path ...string) ask {
	return ask{method: http.MethodGet, path: client(path...), query: query}
}

func client(path ...string) []string { return append([]string{"client", "v3"}, path...) }

// fault is an error that the server tells.
type fault struct {
	host   string
	status int
	Code   string `json:"errcode"`
	Text   string `json:"error"`
	After  int64  `json:"retry_after_ms"`
}

func (e *fault) Error() string {
	if e.Code == "" {
		return fmt.Sprintf("%s answers %d", e.host, e.status)
	}
	return fmt.Sprintf("%s answers %d %.64q: %.*q", e.host, e.status, e.Code, maxWords, e.Text)
}

// Is tells whose fault it is. A proxy may answer, too, and has none of these codes.
func (e *fault) Is(target error) bool {
	switch e.Code {
	case "M_UNKNOWN_TOKEN", "M_MISSING_TOKEN", "M_USER_DEACTIVATED", "M_USER_LOCKED":
		return target == chat.ErrSetup
	}
	return false
}

// says tells whether an error is the server's with one of these codes.
func says(err error, codes ...string) bool {
	var f *fault
	if errors.As(err, &f) {
		for _, code := range codes {
			if f.Code == code {
				return true
			}
		}
	}
	return false
}

// lenient reads what a server hands on of strangers: only what is no JSON is wrong.
func lenient(data []byte, out any) error {
	return json.Unmarshal(data, out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// call does a request as who we are.
func (c *channel) call(ctx context.Context, a ask, out any) error {
	who, err := c.enter(ctx)
	if err != nil {
		return err
	}
	return c.judge(who, c.do(ctx, who.Token, a, out))
}

// judge forgets a login that has ended where we can log in again.
func (c *channel) judge(who login, err error) error {
	if c.Password == "" || !says(err, "M_UNKNOWN_TOKEN", "M_MISSING_TOKEN") {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.who == who {
		c.who = login{}
	}
	return fmt.Errorf("the login has ended, and is made again: %s", err) // not ErrSetup any more
}

// do does a request with a token, and reads the answer into out, if that is not nil.
func (c *channel) do(ctx context.Context, token string, a ask, out any) error {
	var body []byte
	if a.in != nil {
		var err error
		if body, err = json.Marshal(a.in); err != nil {
			return fmt.Errorf("%w: %w", err, chat.ErrRefused)
		}
	}
	return c.exchange(ctx, token, a, body, "application/json", out)
}

// exchange is do with a body that is no JSON.
func (c *channel) exchange(ctx context.Context, token string, a ask, body []byte, kind string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(a.time, callTime))
	defer cancel()
	answer, err := c.send(ctx, token, a, body, kind)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	data, err := c.read(answer, cmp.Or(a.most, maxAnswer))
	if err != nil || out == nil {
		return err
	}
	if err := lenient(data, out); err != nil {
		return fmt.Errorf("%s: an answer that is none of Matrix: %w", c.server.Host(), err)
	}
	return nil
}

// read reads an answer whole.
func (c *channel) read(answer *http.Response, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = errTooMuch
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.server.Host(), err)
	}
	return data, nil
}

var errTooMuch = errors.New("an answer that is too long")

// send sends a request. Who gets an answer closes its body.
func (c *channel) send(ctx context.Context, token string, a ask, body []byte, kind string) (*http.Response, error) {
	r := c.server.Request(ctx, a.method, body, append([]string{"_matrix"}, a.path...)...)
	r.URL.RawQuery = a.query.Encode()
	if body != nil {
		r.Header.Set("Content-Type", kind)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.server.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		defer answer.Body.Close()
		return nil, c.faultOf(answer)
	}
	return answer, nil
}

func (c *channel) faultOf(answer *http.Response) error {
	f := &fault{}
	data, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if lenient(data, f) != nil {
		f = &fault{}
	}
	f.host, f.status = c.server.Host(), answer.StatusCode
	if f.status == http.StatusTooManyRequests || f.Code == "M_LIMIT_EXCEEDED" {
		pause := min(time.Duration(max(f.After, 0)), 24*time.Hour/time.Millisecond) * time.Millisecond
		return &chat.WaitError{For: cmp.Or(pause, web.Pause(answer), limitWait), Err: f}
	}
	return f
}
