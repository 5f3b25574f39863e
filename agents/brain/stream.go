package brain

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"mbox/agents"
)

// stream reads a completion as it comes, as server-sent events (WHATWG HTML,
// "Server-sent events"): lines "data: {…}" and at the end "data: [DONE]".
type stream struct {
	heard func()
	key   Key
	limit int // tokens, for the error

	text   strings.Builder
	model  string
	tokens int64 // input and output, as the server adds them up
	input  int64
	output int64
	finish string
}

// chunk is an event, and a whole document too: there the delta is a message.
type chunk struct {
	Model   string `json:"model"`
	Choices []struct {
		Delta   content `json:"delta"`
		Message content `json:"message"`
		Finish  string  `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Total  int64 `json:"total_tokens"`
		Input  int64 `json:"prompt_tokens"`
		Output int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`
}

type content struct {
	Content string `json:"content"`
}

const maxEvent = 1 << 20 // bytes of one line

func (s *stream) events(from io.Reader) *agents.BrainError {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 16<<10), maxEvent)
	for lines.Scan() {
		s.heard()
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue // an empty line, a comment, another field
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			return s.end()
		}
		if fault := s.take(data); fault != nil {
			return fault
		}
	}
	if lines.Err() != nil {
		return cut("the connection broke inside the reply")
	}
	return cut("the reply ended without [DONE]")
}

// document reads a completion that comes at once.
func (s *stream) document(from io.Reader) *agents.BrainError {
	data, err := io.ReadAll(io.LimitReader(from, 2*maxReply))
	s.heard()
	if err != nil {
		return cut("the connection broke inside the reply")
	}
	if fault := s.take(data); fault != nil {
		return fault
	}
	return s.end()
}

func (s *stream) take(data []byte) *agents.BrainError {
	var c chunk
	var syntax *json.SyntaxError
	switch err := json.Unmarshal(data, &c); {
	case errors.As(err, &syntax):
		return cut("the reply was cut inside an event, or is no completion")
	case err != nil:
		return cut("the reply is no completion")
	case len(c.Error) > 0 && string(c.Error) != "null":
		return cut("the server reported an error inside the reply; its log tells more")
	}
	if c.Model != "" {
		s.model = c.Model
	}
	s.tokens = max(s.tokens, c.Usage.Total)
	s.input, s.output = max(s.input, c.Usage.Input), max(s.output, c.Usage.Output)
	if len(c.Choices) == 0 {
		return nil
	}
	choice := c.Choices[0]
	if s.text.Len()+len(choice.Delta.Content)+len(choice.Message.Content) > maxReply {
		return tooLong(s.limit)
	}
	s.text.WriteString(choice.Delta.Content)
	s.text.WriteString(choice.Message.Content)
	if choice.Finish != "" {
		s.finish = choice.Finish
	}
	return nil
}

// end judges the reason that the server gave.
func (s *stream) end() *agents.BrainError {
	switch s.finish {
	case "stop":
		return nil
	case "length":
		return tooLong(s.limit)
	case "content_filter":
		return refused("the server's content filter stopped the reply")
	case "":
		return cut("the reply ended without a finish_reason")
	}
	return cut("the reply ended for another reason than its end: " + s.key.scrub(s.finish))
}
