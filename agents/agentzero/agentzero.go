// Package agentzero has tasks done by an Agent Zero, by its external API: one
// message in a context of its own for each attempt, which is ended afterwards.
//
// The call is synchronous, and names its context only with the answer. So an attempt
// that is cut short cannot stop what Agent Zero does: the context ends when its
// lifetime is over. What was sent and not answered burns the attempt; what never
// arrived, or came too early, gives the task back.
package agentzero

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"mbox/agents"
	"mbox/agents/brain"
	"mbox/schemas"
)

// Bounds of a call.
const (
	maxAnswer    = 8 << 20 // bytes
	maxContext   = 200     // characters of a context's id
	lifetime     = 1       // hours that a context lives that nobody ends
	endTime      = 10 * time.Second
	keyRest      = 5 * time.Minute
	defaultRest  = 30 * time.Second
	longestRest  = time.Hour
	messageCall  = "api_message"
	terminateEnd = "api_terminate_chat"
)

// Agent is an Agent Zero behind a server.
type Agent struct {
	message, terminate string
	key                brain.Key
	client             *http.Client
}

// New makes an agent. The address is the whole URL of api_message, whose path differs
// between versions. Nothing is asked. A key goes in the clear only to this machine.
func New(address string, key brain.Key) (*Agent, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("agentzero: url is no plain address of http or https") // the cause may hold a password
	}
	if path.Base(u.Path) != messageCall {
		return nil, errors.New("agentzero: url does not end in /" + messageCall)
	}
	if u.Scheme == "http" && !isLocal(u.Hostname()) {
		return nil, errors.New("agentzero: the key would be sent in the clear: want https")
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	if u.Scheme == "http" { // and localhost may be anywhere
		dialer.Control = brain.OnlyLocal
	}
	end := *u
	end.Path, end.RawPath = path.Join(path.Dir(u.Path), terminateEnd), ""
	return &Agent{
		message: u.String(), terminate: end.String(), key: key,
		client: &http.Client{
			// A key is not carried on to where a server points.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			Transport: &http.Transport{
				DialContext:         dialer.DialContext,
				TLSHandshakeTimeout: 10 * time.Second, MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true,
			},
		},
	}, nil
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Here is false: it has folders of its own.
func (*Agent) Here() bool { return false }

// Work has Agent Zero do a task.
func (g *Agent) Work(ctx context.Context, j *agents.Job) agents.Done {
	var answer struct {
		Context  string  `json:"context_id"`
		Response *string `json:"response"`
	}
	data, failed := g.call(ctx, g.message, map[string]any{"message": j.Prompt, "lifetime_hours": lifetime})
	if failed != nil {
		if d, stopped := agents.TimedOut(ctx); stopped {
			return d
		}
		return *failed
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return agents.Failed("agentzero_answer", "its answer is not as its API says")
	}
	if id := answer.Context; id != "" && len(id) <= maxContext {
		if err := g.end(context.WithoutCancel(ctx), id); err != nil {
			fmt.Fprintf(j.Log(), "the context %s could not be ended: %v\n", g.words(id), err)
		}
	}
	if answer.Response == nil {
		return agents.Failed("agentzero_answer", "its answer has no response")
	}
	output, err := schemas.Encode(strings.ToValidUTF8(g.redact(*answer.Response), "\uFFFD"))
	if err != nil {
		return agents.Failed("agentzero_answer", "%v", err)
	}
	return agents.Done{Output: output}
}

// end ends a context.
func (g *Agent) end(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	if _, failed := g.call(ctx, g.terminate, map[string]any{"context_id": id}); failed != nil {
		return errors.New(failed.Release + failed.Message)
	}
	return nil
}

// call posts to the API. What comes back is the answer to a status of 200, or what
// another one means for the task.
func (g *Agent) call(ctx context.Context, address string, body any) ([]byte, *agents.Done) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, fails("agentzero_request", "%v", err)
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(data))
	if err != nil {
		return nil, fails("agentzero_request", "the address cannot be asked")
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "mbox")
	r.Header.Set("X-API-KEY", string(g.key))
	resp, err := g.client.Do(r)
	if err != nil {
		return nil, g.unanswered(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, g.status(resp)
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, g.unanswered(err)
	case len(answer) > maxAnswer:
		return nil, fails("agentzero_answer", "its answer has more than %d bytes", maxAnswer)
	}
	return answer, nil
}

func fails(code, format string, a ...any) *agents.Done {
	d := agents.Failed(code, format, a...)
	return &d
}

// unanswered is a call without an answer: before it was sent nothing has been done.
func (g *Agent) unanswered(err error) *agents.Done {
	var asked *url.Error
	if errors.As(err, &asked) {
		err = asked.Err // without the address
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return &agents.Done{Release: "agentzero cannot be reached: " + g.words(dial.Err.Error()), Delay: defaultRest}
	}
	return fails("agentzero_cut", "the call broke off: %s", g.words(err.Error()))
}

// status is what a status other than 200 means.
func (g *Agent) status(resp *http.Response) *agents.Done {
	said, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // it only explains
	text := fmt.Sprintf("status %d: %s", resp.StatusCode, g.words(string(said)))
	d := fails("agentzero_failed", "%s", text)
	switch code := resp.StatusCode; {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		// What the server says may hold a part of the key. No task is at fault.
		return &agents.Done{Release: fmt.Sprintf("agentzero does not take the key (status %d)", code), Delay: keyRest}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable, code == http.StatusBadGateway:
		return &agents.Done{Release: fmt.Sprintf("agentzero is busy (status %d)", code), Delay: rest(resp.Header.Get("Retry-After"))}
	case code == http.StatusNotFound:
		d = fails("agentzero_refused", "%s: is url the whole address of %s, as this version has it?", text, messageCall)
		d.Final = true
	case code < 500:
		d.Code, d.Final = "agentzero_refused", true
	}
	return d
}

// redact takes the key out of a server's words: it may have told it to its model.
func (g *Agent) redact(text string) string {
	if g.key == "" {
		return text
	}
	return strings.ReplaceAll(text, string(g.key), g.key.String())
}

// words are a server's, on one line and without the key.
func (g *Agent) words(text string) string {
	return schemas.Sentence(strings.TrimSpace(g.redact(text)), 300)
}

// rest reads how long a server wants to be left alone.
func rest(header string) time.Duration {
	if n, err := strconv.Atoi(header); err == nil && n > 0 && n <= int(longestRest/time.Second) {
		return time.Duration(n) * time.Second
	}
	return defaultRest
}
