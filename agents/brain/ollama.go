package brain

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"mbox/agents"
)

// Ollama thinks with a model of an Ollama server.
type Ollama struct {
	o      Options
	server *server
	api    *api.Client
	keep   *api.Duration
	think  *api.ThinkValue
	absent rest // the last of its models cannot be loaded, or died
}

const defaultContext = 8192

// NewOllama makes a brain. It asks the server nothing.
func NewOllama(o Options) (*Ollama, error) {
	err := o.check(KindOllama)
	if o.Model == "" {
		err = errors.Join(err, errors.New("model is missing: name one, or \"auto\" for the first that is installed"))
	}
	address, _, endpointErr := Endpoint(o.URL, os.Getenv, o.AllowRemoteLLM)
	think, thinkErr := thinkValue(o.Think)
	if err = errors.Join(err, endpointErr, thinkErr); err != nil {
		return nil, err
	}
	if o.NumCtx == 0 {
		o.NumCtx = defaultContext
	}
	o.Parallel = max(o.Parallel, 1)
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	var keep *api.Duration
	if o.KeepAlive != nil {
		keep = &api.Duration{Duration: *o.KeepAlive}
	}
	s := serverAt(KindOllama, u, !o.AllowRemoteLLM)
	return &Ollama{o: o, server: s, api: api.NewClient(u, s.http), keep: keep, think: think}, nil
}

func thinkValue(s string) (*api.ThinkValue, error) {
	switch s {
	case "":
		return nil, nil
	case "on", "off":
		return &api.ThinkValue{Value: s == "on"}, nil
	case "low", "medium", "high":
		return &api.ThinkValue{Value: s}, nil
	}
	return nil, fmt.Errorf("think: %q is none of on, off, low, medium, high", s)
}

// URL is the server's address.
func (o *Ollama) URL() string { return o.server.url.String() }

// Think implements agents.Brain. It waits for its turn at the server.
func (o *Ollama) Think(ctx context.Context, t agents.Thought) (agents.Reply, error) {
	if err := asks(t); err != nil {
		return agents.Reply{}, err
	}
	giveBack, err := o.server.turns.take(ctx, o.o.Parallel)
	if err != nil {
		return agents.Reply{}, err
	}
	defer giveBack()
	list, err := o.models(ctx, listLife, nil)
	if err != nil {
		return agents.Reply{}, err
	}
	choice := o.choose(list)
	if len(choice) == 0 {
		return agents.Reply{}, o.noModel()
	}
	for i, model := range choice {
		reply, fault := o.chat(ctx, model, t)
		switch {
		case ctx.Err() != nil:
			return agents.Reply{}, ctx.Err()
		case fault == nil:
			o.server.rest.end()
			o.absent.end()
			return whole(reply)
		case !fault.model:
			return agents.Reply{}, o.server.rest.failed(fault.err)
		case i == len(choice)-1: // other models may do
			return agents.Reply{}, o.absent.failed(fault.err)
		}
	}
	panic("unreachable: the last choice returns")
}

var errTooMuch = errors.New("more than any reply has")

// chat asks one model.
func (o *Ollama) chat(ctx context.Context, model string, t agents.Thought) (agents.Reply, *fault) {
	var text strings.Builder
	var last api.ChatResponse
	seen, begun := &witness{}, time.Now()
	err := o.api.Chat(seen.watch(ctx), o.request(model, t), func(r api.ChatResponse) error {
		heard(t)
		if text.Len()+len(r.Message.Content) > maxReply {
			return errTooMuch // ends the stream, and the server's work
		}
		text.WriteString(r.Message.Content)
		last = r
		return nil
	})
	switch {
	case errors.Is(err, errTooMuch), err == nil && last.Done && last.DoneReason == "length":
		return agents.Reply{}, because(tooLong(tokens(t)))
	case err != nil:
		return agents.Reply{}, o.fault(err, model, seen)
	case seen.broken != nil:
		return agents.Reply{}, because(cut("the connection broke inside the reply"))
	case !last.Done:
		return agents.Reply{}, because(cut("the reply ended without its end mark"))
	case last.DoneReason != "stop":
		return agents.Reply{}, because(cut("the reply ended for another reason than its end: " + line(last.DoneReason)))
	}
	return agents.Reply{
		Text: text.String(), Model: model, Took: time.Since(begun),
		Tokens: int64(last.PromptEvalCount) + int64(last.EvalCount),
		Input:  int64(last.PromptEvalCount), Output: int64(last.EvalCount), Provider: "ollama",
	}, nil
}

// request has truncate and shift off: an agent whose instructions were cut away
// in silence does something else than it was told.
func (o *Ollama) request(model string, t agents.Thought) *api.ChatRequest {
	options := map[string]any{"num_ctx": o.o.NumCtx, "num_predict": tokens(t)}
	if o.o.Temperature >= 0 {
		options["temperature"] = o.o.Temperature
	}
	if o.o.NumThread > 0 {
		options["num_thread"] = o.o.NumThread
	}
	no := false
	r := &api.ChatRequest{
		Model: model, Format: t.Schema, Options: options,
		KeepAlive: o.keep, Think: o.think, Truncate: &no, Shift: &no,
	}
	for _, m := range t.Messages {
		r.Messages = append(r.Messages, api.Message{Role: m.Role, Content: m.Content})
	}
	return r
}

// Ready implements agents.Brain. It asks the server for its models, at most
// every two seconds for all brains together, and for nothing else.
func (o *Ollama) Ready(ctx context.Context) error {
	if err := o.absent.now(time.Now()); err != nil {
		return err
	}
	if err := o.server.ready(o.o.Parallel); err != nil {
		return err
	}
	list, err := o.models(ctx, listLife, &o.server.rest)
	if err != nil {
		return err
	}
	if len(o.choose(list)) == 0 {
		return o.noModel()
	}
	return nil
}
