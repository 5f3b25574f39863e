package telegram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

const (
	callTime  = 30 * time.Second
	pollTime  = 50 * time.Second // that the server waits for an update
	fileTime  = 5 * time.Minute
	maxAnswer = 16 << 20 // of 50 updates, each with two messages of 4096 characters, escaped
	maxFile   = 20 << 20 // the server hands over no more
	maxPause  = 24 * time.Hour
)

// envelope is what any answer is.
type envelope struct {
	OK          bool           `json:"ok"`
	Result      jsontext.Value `json:"result"`
	Code        int            `json:"error_code"`
	Description string         `json:"description"`
	Parameters  struct {
		RetryAfter int64 `json:"retry_after"`
		MigrateTo  int64 `json:"migrate_to_chat_id"`
	} `json:"parameters"`
}

// refusal is what the server says where it does not do what it was asked for.
type refusal struct {
	code    int
	text    string
	migrate int64 // the group's new number; 0 for none
}

func (e *refusal) Error() string {
	if e.code == http.StatusUnauthorized || e.code == http.StatusNotFound {
		return fmt.Sprintf("the server answers %d: %s: the token is not valid; @BotFather gives a new one (/token)", e.code, e.text)
	}
	return fmt.Sprintf("the server answers %d: %s", e.code, e.text)
}

// Is sorts refusals: of the token, and of what was asked for.
func (e *refusal) Is(target error) bool {
	switch e.code {
	case http.StatusUnauthorized, http.StatusNotFound: // the second is for a token that is none
		return target == chat.ErrSetup
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return target == chat.ErrRefused
	}
	return false
}

// call asks with JSON, and reads the result into out, unless that is nil.
func (c *channel) call(ctx context.Context, most time.Duration, method string, in, out any) error {
	if in == nil {
		in = struct{}{}
	}
	body, err := json.Marshal(in, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", method, err, chat.ErrRefused)
	}
	return c.post(ctx, most, method, "application/json", body, out)
}

func (c *channel) post(ctx context.Context, most time.Duration, method, kind string, body []byte, out any) error {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	r := c.server.Request(ctx, http.MethodPost, body, "bot"+c.Token, method)
	r.Header.Set("Content-Type", kind)
	answer, err := c.server.Do(r)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer answer.Body.Close()
	result, err := c.open(answer)
	if err == nil && out != nil {
		if err = json.Unmarshal(result, out, jsontext.AllowInvalidUTF8(true)); err != nil {
			err = fmt.Errorf("%s: what it answers is not what the Bot API does: %s", c.server.Host(), c.hide(err.Error()))
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", method, err)
	}
	return err
}

// open opens the envelope of an answer. Only what is one is a refusal: a proxy on the
// way says nothing about the message.
func (c *channel) open(answer *http.Response) (jsontext.Value, error) {
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.server.Host(), err)
	}
	if len(text) > maxAnswer {
		return nil, fmt.Errorf("%s: an answer of more than %d bytes", c.server.Host(), maxAnswer)
	}
	var e envelope
	err = json.Unmarshal(text, &e, jsontext.AllowInvalidUTF8(true))
	switch {
	case err == nil && e.OK:
		return e.Result, nil
	case answer.StatusCode == http.StatusTooManyRequests || e.Code == http.StatusTooManyRequests:
		return nil, &chat.WaitError{For: pause(answer, &e), Err: &refusal{code: http.StatusTooManyRequests, text: c.hide(e.Description)}}
	case err != nil || e.Code == 0:
		return nil, fmt.Errorf("%s: it answers %d, and not as the Bot API does", c.server.Host(), answer.StatusCode)
	}
	return nil, &refusal{e.Code, c.hide(e.Description), e.Parameters.MigrateTo}
}

// pause is what the server asks for, at least a second and at most a day.
func pause(answer *http.Response, e *envelope) time.Duration {
	if s := e.Parameters.RetryAfter; s > 0 {
		return time.Duration(min(s, int64(maxPause/time.Second))) * time.Second
	}
	return max(web.Pause(answer), time.Second)
}

// hide is what a server says, for people: without the token, which it may repeat.
func (c *channel) hide(text string) string {
	return clean(strings.ReplaceAll(text, c.Token, "…"))
}

// clean makes a text short, and one line of what can be printed.
func clean(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "")))
	return strings.ToValidUTF8(text[:min(len(text), 200)], "")
}

// file opens a file that a message brought.
func (c *channel) file(ctx context.Context, id string) (io.ReadCloser, error) {
	var at struct {
		Path string `json:"file_path"`
	}
	if err := c.call(ctx, callTime, "getFile", map[string]any{"file_id": id}, &at); err != nil {
		return nil, err
	}
	path := append([]string{"file", "bot" + c.Token}, strings.Split(at.Path, "/")...)
	for _, part := range path {
		if part == "" || part == "." || part == ".." {
			return nil, errors.New("the server names no file that can be fetched (one of your own: run it without --local)")
		}
	}
	ctx, cancel := context.WithTimeout(ctx, fileTime)
	answer, err := c.server.Do(c.server.Request(ctx, http.MethodGet, nil, path...))
	if err != nil {
		cancel()
		return nil, fmt.Errorf("file: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		cancel()
		return nil, fmt.Errorf("file: %s answers %d", c.server.Host(), answer.StatusCode)
	}
	return &download{http.MaxBytesReader(nil, answer.Body, maxFile), cancel}, nil
}

// download is a body, whose request ends when it is closed. A file that is too long
// ends with an error.
type download struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (d *download) Close() error {
	defer d.cancel()
	return d.ReadCloser.Close()
}

// whole reads a file of ours.
func whole(ctx context.Context, f *chat.File) ([]byte, error) {
	r, err := f.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b bytes.Buffer
	n, err := b.ReadFrom(io.LimitReader(r, Kind.Limits.File+1))
	if err == nil && n > Kind.Limits.File {
		err = fmt.Errorf("a file of more than %d bytes: %w", Kind.Limits.File, chat.ErrRefused)
	}
	return b.Bytes(), err
}
