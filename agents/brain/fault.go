package brain

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/ollama/ollama/api"

	"mbox/agents"
)

// fault is a failure, and whether another model might do.
type fault struct {
	err   *agents.BrainError
	model bool
}

func because(e *agents.BrainError) *fault { return &fault{err: e} }

func cut(text string) *agents.BrainError {
	return &agents.BrainError{Fault: agents.ReplyCut, Text: text}
}

func refused(text string) *agents.BrainError {
	return &agents.BrainError{Fault: agents.BrainRefused, Text: text}
}

// fault tells what an error of Ollama's client means.
func (o *Ollama) fault(err error, model string, seen *witness) *fault {
	var status api.StatusError
	var auth api.AuthorizationError
	switch {
	case errors.As(err, &status):
		return o.statusFault(status, model)
	case errors.As(err, &auth):
		return because(refused("the server wants a sign-in"))
	case isTransport(err):
		return because(down(o.server.url, err))
	case seen.broken != nil:
		return because(cut("the connection broke inside the reply"))
	}
	return because(cut(inside(err.Error())))
}

// inside is what can be said of an error that came inside a reply. Only words
// that are known to be the server's own are repeated: of a line that was cut in
// the middle the client makes an error too, and that is the reply's content.
func inside(text string) string {
	for _, known := range []string{
		"an error was encountered while running the model",
		"model runner has unexpectedly stopped",
		"error reading llm response",
		"unexpected server status",
	} {
		if strings.HasPrefix(text, known) {
			return line(text)
		}
	}
	return "the server reported an error inside the reply; its log tells more"
}

func (o *Ollama) statusFault(e api.StatusError, model string) *fault {
	text := line(e.ErrorMessage)
	switch code := e.StatusCode; {
	case code == http.StatusNotFound:
		o.server.tags.forget()
		return &fault{missing(model), true}
	case code == http.StatusServiceUnavailable, code == http.StatusTooManyRequests,
		code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return because(&agents.BrainError{Fault: agents.BrainBusy, Text: text})
	case code == http.StatusBadGateway:
		return because(&agents.BrainError{Fault: agents.BrainDown, Text: text})
	case code >= 500:
		return internal(text, model)
	}
	refusal := refused(text)
	if strings.Contains(text, "context length") {
		refusal.Hint = "shorten the prompt, or raise num_ctx"
	}
	return because(refusal)
}

// internal sorts the answers with status 500: Ollama uses it for the request's
// faults as well. What is not known burns an attempt: it may be the prompt that
// breaks the server.
func internal(text, model string) *fault {
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(text, part) {
				return true
			}
		}
		return false
	}
	switch {
	case has("more system memory", "allocate memory", "commit memory", "memory layout", "failed to load"):
		return &fault{&agents.BrainError{
			Fault: agents.BrainDown, Text: text, Delay: time.Minute, Hint: "name a smaller model in fallback of its [roles.NAME] in mbox.toml",
		}, true}
	case has("unable to load model", "may be incompatible", "unknown model architecture", "error loading model"):
		return &fault{&agents.BrainError{Fault: agents.NoModel, Text: text, Hint: pullHint(model)}, true}
	case has("JSON schema in format", "invalid format", "invalid option", "option \"", "parse grammar"):
		return because(refused(text))
	case has("timed out waiting", "loading model"):
		return because(&agents.BrainError{Fault: agents.BrainBusy, Text: text})
	case has("runner process has terminated", "runner process no longer running", "error starting runner"):
		return &fault{&agents.BrainError{Fault: agents.BrainDown, Text: text}, true}
	}
	return because(cut("the server failed: " + text))
}

// isTransport tells whether the server could not be talked to, from an answer
// that is an error.
func isTransport(err error) bool {
	var u *url.Error
	return errors.As(err, &u)
}

// down is a server that cannot be reached.
func down(u *url.URL, err error) *agents.BrainError {
	for _, ours := range []error{errRedirect, errNotLocal} {
		if errors.Is(err, ours) {
			return refused(u.Host + ": " + ours.Error())
		}
	}
	return &agents.BrainError{Fault: agents.BrainDown, Text: u.Host + ": " + network(err)}
}

func missing(model string) *agents.BrainError {
	return &agents.BrainError{
		Fault: agents.NoModel, Text: fmt.Sprintf("the model %s is not installed", line(model)), Hint: pullHint(model),
	}
}

func pullHint(model string) string {
	return fmt.Sprintf("run ollama pull %s, or mbox doctor --pull", line(model))
}
