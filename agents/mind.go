package agents

import (
	"context"
	"time"
)

// Brain is what an agent thinks with: a model behind Ollama or behind an
// OpenAI-compatible server, or any command. It may be used by many goroutines.
type Brain interface {
	// Think asks for one reply. It returns a reply that is whole, or an error,
	// which is a *BrainError where the brain is at fault; ctx's error once ctx
	// has ended. It never returns part of a reply.
	Think(ctx context.Context, t Thought) (Reply, error)
	// Ready returns nil if a thought would be taken up now, and else a
	// *BrainError that tells why not (busy, down, no model). It costs no model
	// call, and answers within some seconds.
	Ready(ctx context.Context) error
}

// Thought is one question.
type Thought struct {
	Messages  []Message
	Schema    []byte // JSON Schema of the reply; nil: free text
	MaxTokens int    // of the reply; 0: 2048
	Heard     func() // called for everything that comes in: a sign of life
}

// Message is a part of the conversation. Role is system, user or assistant.
type Message struct {
	Role    string
	Content string
}

// Reply is a whole reply.
type Reply struct {
	Text   string
	Model  string        // that answered: the fallback's name where that one did
	Tokens int64         // of prompt and reply; 0 where the brain does not tell
	Took   time.Duration // of the call

	Provider      string // as OpenTelemetry's conventions name it; "" where they have no name
	Input, Output int64  // of Tokens; 0 where the brain does not tell
}

// Fault is a kind of failure of a brain; each has its own retry rule.
type Fault string

const (
	BrainBusy      Fault = "brain_busy"      // its queue is full, or it is loading: given back, no attempt is burnt
	BrainDown      Fault = "brain_down"      // it cannot be reached, or died: given back, no attempt is burnt
	NoModel        Fault = "no_model"        // the model is not there: given back; doctor and alarms name the pull
	ReplyCut       Fault = "reply_cut"       // the reply ended without its end mark: tried again at once, then burns an attempt
	ReplyTooLong   Fault = "reply_too_long"  // it ran into max_tokens: burns an attempt
	ReplyEmpty     Fault = "reply_empty"     // burns an attempt
	BrainRefused   Fault = "brain_refused"   // it says that the request is wrong (4xx): final
	BrainTimeout   Fault = "brain_timeout"   // it took longer than the role allows: burns an attempt
	BrainCommand   Fault = "brain_command"   // an exec brain's command failed: burns an attempt
	ReplyNotJSON   Fault = "reply_not_json"  // no actions can be read out of it: burns an attempt
	ReplyNotValid  Fault = "reply_not_valid" // not what the schema asks for: burns an attempt
	ReplyForbidden Fault = "reply_forbidden" // an action that the agent may not do: burns an attempt
)

// BrainError is a failure of a brain.
type BrainError struct {
	Fault Fault
	Text  string        // what happened, one line, nothing of the reply's content
	Hint  string        // the command that helps, where there is one
	Delay time.Duration // when to try again; 0: the caller's choice
}

func (e *BrainError) Error() string {
	text := string(e.Fault) + ": " + e.Text
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}
