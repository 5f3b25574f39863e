package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/schemas"
)

// Format is how a command writes on stdout what it does and what came of it.
type Format string

// The formats. Of lines of JSON an agent's last message is the result, and what it
// does meanwhile is progress; a line that is no event of the format is prose, and is
// the result where no event has one. Events that are not known are ignored.
const (
	FormatJSON   Format = "json"         // the result: JSON if it is strict JSON, else text
	FormatLines  Format = "lines"        // the result as text, and each line of it a progress
	FormatClaude Format = "jsonl:claude" // claude -p --output-format stream-json --verbose
	FormatCodex  Format = "jsonl:codex"  // codex exec --json
	FormatGemini Format = "jsonl:gemini" // gemini --output-format stream-json
)

// Formats are the names of all formats.
func Formats() []string {
	return []string{string(FormatJSON), string(FormatLines), string(FormatClaude), string(FormatCodex), string(FormatGemini)}
}

const (
	maxEvent   = 4 << 20 // bytes of a line that is read as an event
	maxMessage = 1 << 20 // bytes of a message of many parts
	maxNews    = 200     // characters of a progress
)

// recital reads what a command writes on stdout in a format of lines. What it is
// told is untrusted: it is bounded, and no line of it is an error.
type recital struct {
	format   Format
	prose    *output                  // what is no event
	hide     func(text string) string // takes secrets out, before a text is cut or escaped
	progress func(mailbox.Progress)

	line  []byte // that has not ended
	spare int64  // bytes of it that were too many

	text   []byte    // the agent's last message
	result string    // what it said at its end
	fault  string    // why it failed, in its own words; "" if it did not
	spent  bool      // its account has nothing left
	resets time.Time // until when; zero: it does not tell
}

// Write never fails.
func (r *recital) Write(p []byte) (int, error) {
	if r.format == FormatLines {
		r.prose.Write(p)
	}
	r.prose.heard()
	n := len(p)
	for len(p) > 0 {
		part, rest, ended := bytes.Cut(p, []byte("\n"))
		keep := part[:min(len(part), maxEvent-len(r.line))]
		r.line = append(r.line, keep...)
		r.spare += int64(len(part) - len(keep))
		if ended {
			r.flush()
		}
		p = rest
	}
	return n, nil
}

// flush takes a line.
func (r *recital) flush() {
	line, spare := r.line, r.spare
	r.line, r.spare = r.line[:0], 0
	if spare > 0 {
		line = []byte(withoutBegun(r.hide, string(line)))
	}
	switch {
	case r.format == FormatLines:
		r.news(string(line))
	case spare > 0 || !r.event(line):
		r.prose.Write(append(line, '\n'))
		r.prose.cut += spare
	}
	if cap(r.line) > maxRemark {
		r.line = nil
	}
}

// end takes a last line without a newline in: half an event is prose.
func (r *recital) end() {
	if len(r.line) > 0 {
		r.flush()
	}
}

// value is the result.
func (r *recital) value() (jsontext.Value, error) {
	switch {
	case r.result != "":
		return asValue([]byte(r.result))
	case len(r.text) > 0:
		return asValue(r.text)
	}
	return r.prose.value()
}

// news passes on what the agent does now.
func (r *recital) news(text string) {
	if text = strings.TrimSpace(text); text != "" {
		r.progress(mailbox.Progress{Message: schemas.Sentence(r.hide(text), maxNews)})
	}
}

// says takes a message of the agent.
func (r *recital) says(text string) {
	r.text = append(r.text[:0], text...)
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	r.news(first)
}

// fails takes an agent's word that it has failed.
func (r *recital) fails(words ...string) {
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	r.fault = schemas.Sentence(r.hide(strings.Join(words, ": ")), maxTail)
	if r.fault == "" {
		r.fault = "it says that it has failed"
	}
}

// event reads a line as an event of the format; false if it is none.
func (r *recital) event(line []byte) bool {
	switch r.format {
	case FormatClaude:
		return r.claude(line)
	case FormatCodex:
		return r.codex(line)
	case FormatGemini:
		return r.gemini(line)
	}
	return false
}

// decode reads what a line has of an event. A field of another type than it is
// known to have is not there.
func decode(line []byte, event any) bool {
	var other *json.UnmarshalTypeError
	err := json.Unmarshal(line, event)
	return bytes.HasPrefix(bytes.TrimSpace(line), []byte("{")) && (err == nil || errors.As(err, &other))
}

// claude reads an event of Claude Code: system, assistant, user, rate_limit_event,
// and at the end result. The same result is all that --output-format json writes.
func (r *recital) claude(line []byte) bool {
	var e struct {
		Type, Subtype, Result string
		Failed                bool     `json:"is_error"`
		Errors                []string `json:"errors"`
		Message               struct{ Content json.RawMessage }
		Limit                 struct {
			Status string
			Resets int64 `json:"resetsAt"`
		} `json:"rate_limit_info"`
	}
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	switch e.Type {
	case "assistant":
		var parts []struct{ Type, Text, Name string }
		if len(e.Message.Content) <= maxMessage { // taken apart it is many times as much
			_ = json.Unmarshal(e.Message.Content, &parts)
		}
		for _, part := range parts {
			switch part.Type {
			case "text":
				r.says(part.Text)
			case "tool_use":
				r.news("uses " + part.Name)
			}
		}
	case "rate_limit_event":
		r.spent = e.Limit.Status == "rejected"
		if r.spent && e.Limit.Resets > 0 {
			r.resets = time.Unix(e.Limit.Resets, 0)
		}
	case "result":
		r.result = e.Result
		if e.Failed || e.Subtype != "" && e.Subtype != "success" {
			r.fails(append([]string{e.Subtype, e.Result}, e.Errors...)...)
		}
	}
	return true
}

// codex reads an event of codex exec. An error by itself is told of while it tries
// again: only a turn that failed is a failure.
func (r *recital) codex(line []byte) bool {
	var e struct {
		Type, Message string
		Item          struct{ Type, Text, Command, Tool, Query string }
		Error         struct{ Message string }
	}
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	switch e.Type + " " + e.Item.Type {
	case "item.completed agent_message":
		r.says(e.Item.Text)
	case "item.started command_execution":
		r.news("runs " + e.Item.Command)
	case "item.started mcp_tool_call":
		r.news("uses " + e.Item.Tool)
	case "item.started web_search", "item.completed web_search":
		r.news("searches " + e.Item.Query)
	case "item.completed file_change":
		r.news("changes files")
	case "error ":
		r.news(e.Message)
	case "turn.completed ":
		r.fault = ""
	case "turn.failed ":
		r.fails(e.Error.Message)
	}
	return true
}

// gemini reads an event of Gemini CLI. A message comes in pieces; the one after the
// last tool is the result.
func (r *recital) gemini(line []byte) bool {
	var e struct {
		Type, Role, Content, Status, Message string
		Tool                                 string `json:"tool_name"`
		Error                                struct{ Type, Message string }
	}
	if !decode(line, &e) || e.Type == "" {
		return false
	}
	switch {
	case e.Type == "message" && e.Role == "assistant":
		if len(r.text)+len(e.Content) <= maxOutput {
			r.text = append(r.text, e.Content...)
		}
	case e.Type == "tool_use":
		r.text = r.text[:0]
		r.news("uses " + e.Tool)
	case e.Type == "error":
		r.news(e.Message)
	case e.Type == "result" && e.Status == "error":
		r.fails(e.Error.Type, e.Error.Message)
	}
	return true
}
