package acp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	sdk "github.com/coder/acp-go-sdk"

	"mbox/agents"
	"mbox/schemas"
)

// Bounds of what is kept of a session.
const (
	maxCalls = 256     // tool calls
	maxText  = 8 << 20 // bytes of a message
	maxFiles = 1000    // that were changed
)

// handle does what the program asks its client for.
func (s *session) handle(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	switch method {
	case sdk.ClientMethodSessionUpdate:
		s.update(params)
		s.frames.handled()
		return nil, nil
	case sdk.ClientMethodFsReadTextFile:
		return reply(params, s.readFile)
	case sdk.ClientMethodFsWriteTextFile:
		return reply(params, s.writeFile)
	case sdk.ClientMethodSessionRequestPermission:
		return reply(params, s.permission)
	case sdk.ClientMethodTerminalCreate:
		return reply(params, s.createTerminal)
	case sdk.ClientMethodTerminalOutput:
		return reply(params, s.terminalOutput)
	case sdk.ClientMethodTerminalWaitForExit:
		return reply(params, func(r sdk.WaitForTerminalExitRequest) (any, error) { return s.waitForTerminal(ctx, r) })
	case sdk.ClientMethodTerminalKill:
		return reply(params, func(r sdk.KillTerminalRequest) (any, error) { return struct{}{}, s.killTerminal(r.TerminalId, false) })
	case sdk.ClientMethodTerminalRelease:
		return reply(params, func(r sdk.ReleaseTerminalRequest) (any, error) { return struct{}{}, s.killTerminal(r.TerminalId, true) })
	}
	return nil, sdk.NewMethodNotFound(schemas.Sentence(method, 80))
}

// reply reads a request and answers it. What is refused is told as a sentence.
func reply[T any](params json.RawMessage, do func(T) (any, error)) (any, *sdk.RequestError) {
	var request T
	if err := json.Unmarshal(params, &request); err != nil {
		return nil, sdk.NewInvalidParams(nil)
	}
	answer, err := do(request)
	if err != nil {
		return nil, &sdk.RequestError{Code: -32603, Message: schemas.Sentence(err.Error(), 500)}
	}
	return answer, nil
}

// readFile reads a text as read_file does. Lines count from 1.
func (s *session) readFile(r sdk.ReadTextFileRequest) (any, error) {
	text, err := s.job.Read(r.Path)
	if err != nil {
		return nil, s.wants(err)
	}
	if r.Line != nil || r.Limit != nil {
		lines := strings.SplitAfter(text, "\n")
		from := 0
		if r.Line != nil {
			from = min(max(*r.Line-1, 0), len(lines))
		}
		lines = lines[from:]
		if r.Limit != nil {
			lines = lines[:min(max(*r.Limit, 0), len(lines))]
		}
		text = strings.Join(lines, "")
	}
	return sdk.ReadTextFileResponse{Content: text}, nil
}

// writeFile writes a text as write_file does.
func (s *session) writeFile(r sdk.WriteTextFileRequest) (any, error) {
	if err := s.job.Write(r.Path, r.Content); err != nil {
		return nil, s.wants(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed(r.Path)
	return struct{}{}, nil
}

// wants ends the session where a person has to be asked first.
func (s *session) wants(err error) error {
	var ask *agents.AskError
	if errors.As(err, &ask) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.wish == nil {
			s.wish = &ask.Wish
			s.stop()
		}
	}
	return err
}

// permission answers with what a person has said about exactly this request. The
// tool call's own id says nothing, and neither does its status.
func (s *session) permission(r struct {
	ToolCall json.RawMessage        `json:"toolCall"`
	Options  []sdk.PermissionOption `json:"options"`
},
) (any, error) {
	asked := object(r.ToolCall)
	id, _ := asked["toolCallId"].(string)
	call := map[string]any{}
	s.mu.Lock()
	maps.Copy(call, s.calls[id])
	s.mu.Unlock()
	maps.Copy(call, asked)
	title, _ := call["title"].(string)
	for _, key := range []string{"toolCallId", "status", "_meta", "sessionUpdate", "rawOutput"} {
		delete(call, key)
	}
	if len(call) == 0 {
		return nil, errors.New("a request that names nothing cannot be approved")
	}
	request, err := json.Marshal(call)
	if err != nil {
		return nil, err
	}
	err = s.job.May(title, request)
	var waits *agents.AskError
	switch {
	case errors.As(err, &waits):
		_ = s.wants(err)
		return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}, nil
	case err != nil:
		return answerWith(r.Options, sdk.PermissionOptionKindRejectOnce), nil
	}
	return answerWith(r.Options, sdk.PermissionOptionKindAllowOnce), nil
}

// object reads a JSON object, with its numbers as they are written; nil for all else.
func object(raw json.RawMessage) (m map[string]any) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	_ = d.Decode(&m)
	return m
}

// answerWith chooses the option of a kind; without one the request is cancelled, since
// nobody has allowed, or refused, more than this once.
func answerWith(options []sdk.PermissionOption, kind sdk.PermissionOptionKind) sdk.RequestPermissionResponse {
	for _, o := range options {
		if o.Kind == kind {
			return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeSelected(o.OptionId)}
		}
	}
	return sdk.RequestPermissionResponse{Outcome: sdk.NewRequestPermissionOutcomeCancelled()}
}

// update takes what the session tells of itself.
func (s *session) update(params json.RawMessage) {
	var n struct{ Update json.RawMessage }
	if json.Unmarshal(params, &n) != nil {
		return
	}
	update := object(n.Update)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch kind, _ := update["sessionUpdate"].(string); kind {
	case "agent_message_chunk":
		content, _ := update["content"].(map[string]any)
		if text, _ := content["text"].(string); len(s.text)+len(text) <= maxText {
			s.text += text
		}
	case "tool_call", "tool_call_update":
		s.called(update)
		if title, _ := update["title"].(string); kind == "tool_call" {
			if s.text != "" {
				s.said, s.text = s.text, ""
			}
			s.job.Progress(nil, title)
		}
	case "plan":
		s.plan(update["entries"])
	}
}

// called keeps what is known of a tool call: a request for a permission may name no
// more than its id.
func (s *session) called(update map[string]any) {
	id, _ := update["toolCallId"].(string)
	if id == "" || len(id) > 200 {
		return
	}
	known := s.calls[id]
	if known == nil {
		if len(s.order) == maxCalls {
			delete(s.calls, s.order[0])
			s.order = s.order[1:]
		}
		known = map[string]any{}
		s.calls[id] = known
		s.order = append(s.order, id)
	}
	for _, key := range []string{"title", "kind", "locations", "rawInput", "content"} {
		if value, there := update[key]; there {
			known[key] = value
		}
	}
	if status, _ := update["status"].(string); status == "completed" {
		s.edited(known)
	}
}

// edited keeps the files that a tool call says to have changed.
func (s *session) edited(call map[string]any) {
	if kind, _ := call["kind"].(string); !slices.Contains([]string{"edit", "delete", "move"}, kind) {
		return
	}
	for _, list := range []any{call["locations"], call["content"]} {
		items, _ := list.([]any)
		for _, item := range items {
			fields, _ := item.(map[string]any)
			if path, _ := fields["path"].(string); path != "" {
				s.changed(path)
			}
		}
	}
}

// changed keeps the name of a file. It is the program's word: what is there, the
// workspace tells.
func (s *session) changed(path string) {
	if rest, ok := strings.CutPrefix(filepath.Clean(path), s.job.Workspace+"/"); ok {
		path = rest
	}
	if path = schemas.Sentence(path, 400); len(s.files) < maxFiles && !slices.Contains(s.files, path) {
		s.files = append(s.files, path)
	}
}

// plan tells how far the agent's plan is.
func (s *session) plan(entries any) {
	list, _ := entries.([]any)
	now, done := "", 0
	for _, item := range list {
		entry, _ := item.(map[string]any)
		switch status, _ := entry["status"].(string); status {
		case "completed":
			done++
		case "in_progress":
			now, _ = entry["content"].(string)
		}
	}
	if len(list) > 0 {
		percent := 100 * done / len(list)
		s.job.Progress(&percent, now)
	}
}
