// Package brain holds what agents think with: [Ollama], [OpenAI] (any server that
// speaks its protocol) and [Exec] (any command). Each is an agents.Brain.
//
// # What holds
//
// A reply is whole or it is an error. A stream that ends without its end mark
// (done with the reason stop; a finish_reason and [DONE]; exit 0) is ReplyCut,
// whatever the transport says: Ollama's own client calls a stream that was cut a
// success. An error names its fault, which is its retry rule, and repeats nothing
// of a reply, a prompt or a key.
//
// Brains of one process that use the same server share what they know of it: how
// many thoughts are in flight, which models it has, and that it is to be left
// alone for a while. So Ready costs nothing most of the time, and one failure of
// a server holds back every agent that would run into it; that of a model, which is too
// large or dies, the agent that thinks with it alone.
//
// A server of models is on this machine, unless the configuration says otherwise;
// no redirect is followed, and no proxy asked for what is local.
package brain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"mbox/agents"
)

// Kinds of brains, as a configuration writes them.
const (
	KindNone   = "none"
	KindOllama = "ollama"
	KindOpenAI = "openai"
	KindExec   = "exec"
)

// Options make a brain. What does not belong to its kind is an error, but for
// the zero value, which is the default.
type Options struct {
	// Of ollama and openai.
	URL         string  // of the server; openai: to its /v1. ollama's default: see [Endpoint]
	Model       string  // name or name:tag; ollama: "auto" is the first that is installed
	Temperature float64 // 0: the likeliest token each time; below 0: the server's own

	// Parallel is how many thoughts may be at the server at once, counting those
	// of all brains of this process that use it; of exec: of this brain. 0: one
	// for ollama, which is its OLLAMA_NUM_PARALLEL, four for openai, any number
	// for exec.
	Parallel int

	// Of ollama.
	Fallback       []string       // models to take, in this order, where Model is not there or too large
	NumCtx         int            // tokens of prompt and reply together; 0: 8192. A prompt that does not fit is refused, never cut
	NumThread      int            // threads of the model; 0: the server's choice
	KeepAlive      *time.Duration // how long the model stays loaded; below 0: for ever; nil: the server's choice
	Think          string         // on, off, low, medium, high; "": the model's choice
	AllowRemoteLLM bool           // the server may be another machine

	// Of openai.
	Key        Key  // sent as bearer token; "": none
	FreeFormat bool // send no response_format: the server does not know json_schema

	// Of exec.
	Command string                                      // run by /bin/sh -c
	Dir     string                                      // where; "": where mbox is
	Env     []string                                    // NAME=VALUE, and nothing besides
	Wrap    func(*exec.Cmd) error                       // called before each start, to confine it
	Unlock  func(ctx context.Context) ([]string, error) // called before each start: NAME=VALUE, besides and before Env
	Grace   time.Duration                               // between SIGTERM and SIGKILL when a thought is given up; 0: 2s
}

// New makes a brain of the kind. For none it is nil, and so is the error.
func New(kind string, o Options) (agents.Brain, error) {
	switch kind {
	case KindNone:
		return nil, o.check(kind)
	case KindOllama:
		return orNil(NewOllama(o))
	case KindOpenAI:
		return orNil(NewOpenAI(o))
	case KindExec:
		return orNil(NewExec(o))
	}
	return nil, fmt.Errorf("brain %q is unknown: want ollama, openai, exec or none", kind)
}

// orNil keeps a nil pointer from becoming an interface that is not nil.
func orNil[B agents.Brain](b B, err error) (agents.Brain, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

// check finds what is wrong, or does not belong to the kind.
func (o Options) check(kind string) error {
	var faults []error
	servers, local, other, command := []string{KindOllama, KindOpenAI}, []string{KindOllama}, []string{KindOpenAI}, []string{KindExec}
	for _, option := range []struct {
		name  string
		given bool
		of    []string
	}{
		{"url", o.URL != "", servers},
		{"model", o.Model != "", servers},
		{"temperature", o.Temperature != 0, servers},
		{"parallel", o.Parallel != 0, []string{KindOllama, KindOpenAI, KindExec}},
		{"fallback", len(o.Fallback) > 0, local},
		{"num_ctx", o.NumCtx != 0, local},
		{"num_thread", o.NumThread != 0, local},
		{"keep_alive", o.KeepAlive != nil, local},
		{"think", o.Think != "", local},
		{"allow_remote_llm", o.AllowRemoteLLM, local},
		{"key", o.Key != "", other},
		{"free_format", o.FreeFormat, other},
		{"command", o.Command != "", command},
		{"dir", o.Dir != "", command},
		{"env", len(o.Env) > 0, command},
		{"wrap", o.Wrap != nil, command},
		{"unlock", o.Unlock != nil, command},
		{"grace", o.Grace != 0, command},
	} {
		if option.given && !slices.Contains(option.of, kind) {
			faults = append(faults, fmt.Errorf("%s is no option of a brain of kind %s, but of %s",
				option.name, kind, strings.Join(option.of, " and ")))
		}
	}
	for name, n := range map[string]int{"parallel": o.Parallel, "num_ctx": o.NumCtx, "num_thread": o.NumThread, "grace": int(o.Grace)} {
		if n < 0 {
			faults = append(faults, fmt.Errorf("%s is %d: want 0 or more", name, n))
		}
	}
	if o.Temperature > 2 {
		faults = append(faults, fmt.Errorf("temperature is %g: want at most 2", o.Temperature))
	}
	return errors.Join(faults...)
}

const (
	defaultTokens = 2048    // of a reply
	maxReply      = 4 << 20 // bytes of a server's reply; a token has far fewer than 100
)

// tokens is the limit of a thought.
func tokens(t agents.Thought) int {
	if t.MaxTokens > 0 {
		return t.MaxTokens
	}
	return defaultTokens
}

// heard is called for everything that comes in.
func heard(t agents.Thought) {
	if t.Heard != nil {
		t.Heard()
	}
}

// whole is a reply's last check.
func whole(r agents.Reply) (agents.Reply, error) {
	if strings.TrimSpace(r.Text) == "" {
		return agents.Reply{}, &agents.BrainError{Fault: agents.ReplyEmpty, Text: "the reply is empty"}
	}
	return r, nil
}

// asks refuses a thought that no server could take.
func asks(t agents.Thought) error {
	if len(t.Messages) == 0 {
		return &agents.BrainError{Fault: agents.BrainRefused, Text: "the thought has no messages"}
	}
	if t.Schema != nil && !json.Valid(t.Schema) {
		return &agents.BrainError{Fault: agents.BrainRefused, Text: "the thought's schema is no JSON"}
	}
	return nil
}

func tooLong(limit int) *agents.BrainError {
	return &agents.BrainError{
		Fault: agents.ReplyTooLong, Text: fmt.Sprintf("the reply does not fit into %d tokens", limit),
		Hint: "raise the role's max_tokens, or num_ctx, or ask for less",
	}
}
