package brain

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"mbox/agents"
)

// OpenAI thinks with a model behind a server that speaks OpenAI's chat
// completions: OpenAI itself, llama.cpp, vLLM, Ollama's /v1 and others.
type OpenAI struct {
	o      Options
	server *server
	absent rest // the model is not there, or the key is not taken
}

const (
	defaultParallel = 4
	keyHint         = "look at key_file or key_env"
)

// NewOpenAI makes a brain. It asks the server nothing.
func NewOpenAI(o Options) (*OpenAI, error) {
	err := o.check(KindOpenAI)
	if o.Model == "" {
		err = errors.Join(err, errors.New("model is missing"))
	}
	u, local, urlErr := openAIAddress(o.URL)
	if err = errors.Join(err, urlErr); err != nil {
		return nil, err
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	return &OpenAI{o: o, server: serverAt(KindOpenAI, u, local)}, nil
}

func openAIAddress(address string) (u *url.URL, local bool, err error) {
	if address == "" {
		return nil, false, errors.New("url is missing: it is where chat/completions is, such as http://127.0.0.1:8080/v1")
	}
	if u, err = parseAddress(address); err != nil {
		return nil, false, fmt.Errorf("url: %w", err)
	}
	local = isLocal(u.Hostname())
	if !local && u.Scheme != "https" {
		return nil, false, fmt.Errorf("url: %s is not this machine: want https, for the prompt and the key go there", u.Host)
	}
	return u, local, nil
}

// completion is a request. Servers other than OpenAI know max_tokens only.
type completion struct {
	Model          string          `json:"model"`
	Messages       []spoken        `json:"messages"`
	Stream         bool            `json:"stream"`
	StreamOptions  map[string]bool `json:"stream_options"`
	MaxTokens      int             `json:"max_tokens,omitzero"`
	MaxCompletion  int             `json:"max_completion_tokens,omitzero"`
	Temperature    *float64        `json:"temperature,omitempty"`
	ResponseFormat *responseFormat `json:"response_format,omitempty"`
}

type spoken struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type responseFormat struct {
	Type   string `json:"type"`
	Schema struct {
		Name   string          `json:"name"`
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

func (o *OpenAI) request(t agents.Thought) completion {
	r := completion{Model: o.o.Model, Stream: true, StreamOptions: map[string]bool{"include_usage": true}}
	for _, m := range t.Messages {
		r.Messages = append(r.Messages, spoken(m))
	}
	if o.server.url.Hostname() == "api.openai.com" {
		r.MaxCompletion = tokens(t)
	} else {
		r.MaxTokens = tokens(t)
	}
	if o.o.Temperature >= 0 {
		r.Temperature = &o.o.Temperature
	}
	if t.Schema != nil && !o.o.FreeFormat {
		f := &responseFormat{Type: "json_schema"}
		f.Schema.Name, f.Schema.Schema = "reply", t.Schema
		r.ResponseFormat = f
	}
	return r
}

// Think implements agents.Brain. It waits for its turn at the server.
func (o *OpenAI) Think(ctx context.Context, t agents.Thought) (agents.Reply, error) {
	if err := asks(t); err != nil {
		return agents.Reply{}, err
	}
	giveBack, err := o.server.turns.take(ctx, o.o.Parallel)
	if err != nil {
		return agents.Reply{}, err
	}
	defer giveBack()
	reply, fault := o.chat(ctx, t)
	switch {
	case ctx.Err() != nil:
		return agents.Reply{}, ctx.Err()
	case fault == nil:
		o.server.rest.end()
		o.absent.end()
		return whole(reply)
	case fault.Fault == agents.NoModel, fault.Hint == keyHint:
		fault.Delay = o.absent.begin(time.Now(), fault)
		return agents.Reply{}, fault
	}
	return agents.Reply{}, o.server.rest.failed(fault)
}

func (o *OpenAI) chat(ctx context.Context, t agents.Thought) (agents.Reply, *agents.BrainError) {
	begun := time.Now()
	data, err := json.Marshal(o.request(t))
	if err != nil { // the schema is no JSON
		return agents.Reply{}, refused("the request: " + line(err.Error()))
	}
	resp, err := o.send(ctx, http.MethodPost, "chat/completions", data)
	if err != nil {
		return agents.Reply{}, down(o.server.url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return agents.Reply{}, o.statusFault(resp)
	}
	s := &stream{heard: func() { heard(t) }, key: o.o.Key, limit: tokens(t)}
	read := s.events
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		read = s.document // a server that does not stream
	}
	if fault := read(resp.Body); fault != nil {
		return agents.Reply{}, fault
	}
	model := s.model
	if model == "" {
		model = o.o.Model
	}
	return agents.Reply{Text: s.text.String(), Model: line(model), Tokens: s.tokens, Took: time.Since(begun), Provider: "openai", Input: s.input, Output: s.output}, nil
}

func (o *OpenAI) send(ctx context.Context, method, path string, data []byte) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, o.server.url.JoinPath(path).String(), bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream, application/json")
	r.Header.Set("User-Agent", "mbox")
	if data != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if o.o.Key != "" {
		r.Header.Set("Authorization", "Bearer "+string(o.o.Key))
	}
	return o.server.http.Do(r)
}

// statusFault tells what a status other than 200 means.
func (o *OpenAI) statusFault(resp *http.Response) *agents.BrainError {
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // it only explains
	code := resp.StatusCode
	text := fmt.Sprintf("status %d", code)
	said := errorText(data)
	if said != "" {
		text += ": " + o.o.Key.scrub(said)
	}
	switch {
	case code == http.StatusUnauthorized:
		// What the server says may hold a part of the key. No task is at fault.
		return &agents.BrainError{Fault: agents.BrainDown, Text: "status 401: the server does not take the key", Hint: keyHint}
	case code == http.StatusNotFound && said != "":
		return &agents.BrainError{Fault: agents.NoModel, Text: text, Hint: "does the server have the model " + line(o.o.Model) + "?"}
	case code == http.StatusNotFound:
		return &agents.BrainError{Fault: agents.BrainRefused, Text: text, Hint: "does url end as the server wants it, such as /v1?"}
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable,
		code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout, code == 529:
		return &agents.BrainError{Fault: agents.BrainBusy, Text: text, Delay: retryAfter(resp.Header.Get("Retry-After"))}
	case code == http.StatusBadGateway:
		return &agents.BrainError{Fault: agents.BrainDown, Text: text}
	case code >= 500:
		return cut("the server failed: " + text)
	}
	return refused(text)
}

// errorText finds the message in the forms that servers give it.
func errorText(data []byte) string {
	var answer struct {
		Error   json.RawMessage `json:"error"`
		Message string          `json:"message"`
	}
	if json.Unmarshal(data, &answer) != nil {
		return ""
	}
	var object struct {
		Message string `json:"message"`
	}
	var text string
	switch {
	case json.Unmarshal(answer.Error, &object) == nil && object.Message != "":
		return object.Message
	case json.Unmarshal(answer.Error, &text) == nil && text != "":
		return text
	}
	return answer.Message
}

// retryAfter reads the header's two forms, seconds and a date.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return min(time.Duration(min(seconds, 1<<20))*time.Second, maxRest)
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, min(time.Until(at), maxRest))
	}
	return 0
}

// Ready implements agents.Brain. It asks the server for its models, at most
// every two seconds for all brains together; that it answers is enough, since not
// every server lists what it has.
func (o *OpenAI) Ready(ctx context.Context) error {
	if err := o.absent.now(time.Now()); err != nil {
		return err
	}
	if err := o.server.ready(o.o.Parallel); err != nil {
		return err
	}
	_, err := o.server.tags.ask(ctx, listLife, &o.server.rest, func(asked context.Context) ([]api.ListModelResponse, error) {
		return nil, o.list(ctx, asked)
	})
	var e *agents.BrainError
	if errors.As(err, &e) && e.Hint == keyHint {
		e.Delay = o.absent.begin(time.Now(), e)
	}
	return err
}

// list asks for the models, and makes nothing of them. asked is ctx with a limit.
func (o *OpenAI) list(ctx, asked context.Context) error {
	resp, err := o.send(asked, http.MethodGet, "models", nil)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		return o.server.rest.failed(down(o.server.url, err))
	}
	defer resp.Body.Close()
	switch e := o.statusFault(resp); {
	case e.Hint == keyHint:
		return e
	case resp.StatusCode >= 500 && e.Fault == agents.ReplyCut:
		e.Fault = agents.BrainDown
		return o.server.rest.failed(e)
	case resp.StatusCode >= 500, resp.StatusCode == http.StatusTooManyRequests:
		return o.server.rest.failed(e)
	}
	return nil
}
