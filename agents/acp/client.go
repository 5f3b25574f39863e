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
	maxCalls = 256       // tool calls
	maxField = 1 << 20   // bytes of one thing about a tool call
	maxKept  = 4 << 20   // bytes of all that is known of tool calls
	maxText  = 8 << 20   // bytes of a message
	maxFiles = 1000      // that were changed
	maxAsked = 128 << 10 // bytes of a request's parameters, and of a plan, but of a file's text
)

// handle does what the program asks its client for, as long as the session lasts.
func (s *session) handle(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	if !s.enter() {
		return nil, sdk.NewRequestCancelled(nil)
	}
	defer s.working.Done()
	switch {
	case method == sdk.ClientMethodSessionUpdate:
		s.update(params)
		s.frames.handled()
		return nil, nil
	case len(params) > maxAsked && method != sdk.ClientMethodFsWriteTextFile:
		return nil, &sdk.RequestError{Code: -32603, Message: "the request is too long"}
	}
	return s.serve(ctx, method, params)
}

// enter begins a handler, if the session is not over.
func (s *session) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.working.Add(1)
	return true
}

// serve answers a request.
func (s *session) serve(ctx context.Context, method string, params json.RawMessage) (any, *sdk.RequestError) {
	switch method {
	case sdk.ClientMethodFsReadTextFile:
		return answer(params, s.readFile)
	case sdk.ClientMethodFsWriteTextFile:
		return answer(params, s.writeFile)
	case sdk.ClientMethodSessionRequestPermission:
		return answer(params, s.permission)
	case sdk.ClientMethodTerminalCreate:
		return answer(params, s.createTerminal)
	case sdk.ClientMethodTerminalOutput:
		return answer(params, s.terminalOutput)
	case sdk.ClientMethodTerminalWaitForExit:
		return answer(params, func(r sdk.WaitForTerminalExitRequest) (any, error) { return s.waitForTerminal(ctx, r) })
	case sdk.ClientMethodTerminalKill:
		return answer(params, func(r sdk.KillTerminalRequest) (any, error) { return struct{}{}, s.killTerminal(r.TerminalId, false) })
	case sdk.ClientMethodTerminalRelease:
		return answer(params, func(r sdk.ReleaseTerminalRequest) (any, error) { return struct{}{}, s.killTerminal(r.TerminalId, true) })
	}
	return nil, sdk.NewMethodNotFound(schemas.Sentence(method, 80))
}

// answer reads a request and answers it. What is refused is told as a sentence.
func answer[T any](params json.RawMessage, do func(T) (any, error)) (any, *sdk.RequestError) {
	var request T
	if err := json.Unmarshal(params, &request); err != nil {
		return nil, sdk.NewInvalidParams(nil)
	}
	done, err := do(request)
	if err != nil {
		return nil, &sdk.RequestError{Code: -32603, Message: schemas.Sentence(err.Error(), 500)}
	}
	return done, nil
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
func (s *session) writeFile(r struct{ Path, Content string }) (any, error) {
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
	call, err := s.known(id)
	if err != nil {
		return nil, err
	}
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

// errTooLong refuses what nobody could look through.
var errTooLong = errors.New("a request that is too long cannot be approved")

// known is what is known of a tool call.
func (s *session) known(id string) (map[string]any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[string]any{}
	c := s.calls[id]
	if c == nil {
		return all, nil
	}
	if c.cut {
		return nil, errTooLong
	}
	size := 0
	for key, value := range c.fields {
		if size += len(value); size > maxAsked {
			return nil, errTooLong
		}
		all[key] = value
	}
	whole, err := json.Marshal(all)
	return object(whole), err
}

// object reads a JSON object, with its numbers as they are written; all else is an
// empty one.
func object(raw json.RawMessage) map[string]any {
	var m map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&m) != nil || m == nil {
		return map[string]any{}
	}
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

// update is what a session tells of itself. What one kind has as an object, another has
// as a list, and what is large is not taken apart before it has to be.
type update struct {
	Kind    string          `json:"sessionUpdate"`
	ID      string          `json:"toolCallId"`
	Status  string          `json:"status"`
	Entries json.RawMessage `json:"entries"`
	Content json.RawMessage `json:"content"`

	Title     json.RawMessage `json:"title"`
	Sort      json.RawMessage `json:"kind"`
	Locations json.RawMessage `json:"locations"`
	Input     json.RawMessage `json:"rawInput"`
}

// fields are what is kept of a tool call.
func (u *update) fields() map[string]json.RawMessage {
	return map[string]json.RawMessage{"title": u.Title, "kind": u.Sort, "locations": u.Locations, "rawInput": u.Input, "content": u.Content}
}

// loosely reads JSON as far as it is as it should be: what has another type is left out.
func loosely(raw json.RawMessage, v any) {
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, v)
	}
}

// update takes what the session tells of itself.
func (s *session) update(params json.RawMessage) {
	var n struct{ Update json.RawMessage }
	loosely(params, &n)
	var u update
	loosely(n.Update, &u)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch u.Kind {
	case "agent_message_chunk":
		var chunk struct{ Text string }
		if loosely(u.Content, &chunk); s.text.Len()+len(chunk.Text) <= maxText {
			s.text.WriteString(chunk.Text)
		}
	case "tool_call":
		if s.text.Len() > 0 {
			s.said = s.text.String()
			s.text.Reset()
		}
		var title string
		loosely(u.Title, &title)
		s.called(&u)
		s.job.Progress(nil, title)
	case "tool_call_update":
		s.called(&u)
	case "plan":
		if len(u.Entries) <= maxAsked {
			s.plan(u.Entries)
		}
	}
}

// call is what is known of a tool call, in the program's words.
type call struct {
	fields map[string]json.RawMessage
	cut    bool // not all of it
}

// called keeps what is known of a tool call until that is over: a request for a
// permission may name no more than its id.
func (s *session) called(u *update) {
	if u.ID == "" || len(u.ID) > 200 {
		return
	}
	c := s.calls[u.ID]
	if c == nil {
		if len(s.order) == maxCalls {
			s.forget(s.order[0])
		}
		c = &call{fields: map[string]json.RawMessage{}}
		s.calls[u.ID], s.order = c, append(s.order, u.ID)
	}
	for key, value := range u.fields() {
		if len(value) > 0 {
			s.keep(c, key, value)
		}
	}
	switch u.Status {
	case "completed":
		s.edited(c)
		s.forget(u.ID)
	case "failed":
		s.forget(u.ID)
	}
}

// keep keeps a field of a tool call. Where all together become too much the oldest
// calls keep nothing.
func (s *session) keep(c *call, key string, value json.RawMessage) {
	s.kept -= len(c.fields[key])
	delete(c.fields, key)
	if len(value) > maxField {
		c.cut = true
		return
	}
	c.fields[key] = value
	s.kept += len(value)
	for i := 0; s.kept > maxKept; i++ {
		s.empty(s.calls[s.order[i]])
	}
}

func (s *session) empty(c *call) {
	for _, value := range c.fields {
		s.kept -= len(value)
	}
	c.cut = c.cut || len(c.fields) > 0
	clear(c.fields)
}

func (s *session) forget(id string) {
	s.empty(s.calls[id])
	delete(s.calls, id)
	s.order = slices.DeleteFunc(s.order, func(other string) bool { return other == id })
}

// edited keeps the files that a tool call says to have changed.
func (s *session) edited(c *call) {
	var kind string
	if loosely(c.fields["kind"], &kind); !slices.Contains([]string{"edit", "delete", "move"}, kind) {
		return
	}
	for _, list := range []string{"locations", "content"} {
		var items []struct{ Path string }
		loosely(c.fields[list], &items)
		for _, item := range items[:min(len(items), maxFiles)] {
			if item.Path != "" {
				s.changed(item.Path)
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
func (s *session) plan(entries json.RawMessage) {
	var list []struct{ Status, Content string }
	loosely(entries, &list)
	now, done := "", 0
	for _, entry := range list {
		switch entry.Status {
		case "completed":
			done++
		case "in_progress":
			now = entry.Content
		}
	}
	if len(list) > 0 {
		percent := 100 * done / len(list)
		s.job.Progress(&percent, now)
	}
}
