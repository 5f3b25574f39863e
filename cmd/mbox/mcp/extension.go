package mcp

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
	"mbox/schemas"
)

// The Tasks extension of revision 2026-07-28 (SEP-2663). A client that declares it with a
// call of send_task or wait_for_task gets, instead of the result, the mailbox's task as a
// task of the extension, and asks tasks/get for it until it has ended. It is declared by
// each request anew, and only there.
//
//	mailbox                        extension
//	pending, in-progress           working
//	pending, to be approved        input_required, and the client is asked for nothing
//	completed                      completed
//	failed                         completed, with isError
//	failed with code "cancelled"   cancelled
//
// A task's id is no secret: what the client may see is judged with every request. Nothing
// is approved or cancelled by MCP, so tasks/update and tasks/cancel acknowledge, as the
// extension allows, and change nothing.
const tasksExtension = "io.modelcontextprotocol/tasks"

// What the extension and its results are called.
const (
	resultTask     = "task"
	resultComplete = "complete"
	pollMillis     = 1000
)

type taskParams struct {
	sdk.ParamsBase
	TaskID mailbox.ID `json:"taskId"`
}

type taskResult struct {
	sdk.ResultBase
	ResultType    string       `json:"resultType"`
	TaskID        mailbox.ID   `json:"taskId"`
	Status        string       `json:"status"`
	StatusMessage string       `json:"statusMessage,omitempty"`
	CreatedAt     mailbox.Time `json:"createdAt"`
	LastUpdatedAt mailbox.Time `json:"lastUpdatedAt"`
	TTL           *int64       `json:"ttlMs"` // null: tasks are kept
	Poll          int          `json:"pollIntervalMs"`
	// InputRequests of a task that waits for an approval: it is an operator who is asked.
	InputRequests *struct{}      `json:"inputRequests,omitempty"`
	Result        jsontext.Value `json:"result,omitempty"`
}

type acknowledgement struct {
	sdk.ResultBase
	ResultType string `json:"resultType"`
}

func (s *Server) addExtension() {
	s.mcp.AddReceivingMiddleware(s.following)
	err := errors.Join(
		sdk.AddReceivingCustomMethod(s.mcp, "tasks/get", s.getTask),
		sdk.AddReceivingCustomMethod(s.mcp, "tasks/update", s.acknowledge),
		sdk.AddReceivingCustomMethod(s.mcp, "tasks/cancel", s.acknowledge),
	)
	if err != nil {
		panic(err) // none is a method of the protocol
	}
}

type followKey struct{}

// followed tells whether the client of the call follows the task by itself.
func followed(ctx context.Context) bool { return ctx.Value(followKey{}) != nil }

// declares tells whether a request declares the extension.
func declares(meta map[string]any) bool {
	capabilities, _ := meta[sdk.MetaKeyClientCapabilities].(map[string]any)
	extensions, _ := capabilities["extensions"].(map[string]any)
	_, ok := extensions[tasksExtension].(map[string]any)
	return ok
}

// following answers calls of clients that declare the extension with the task itself,
// unless it has ended already.
func (s *Server) following(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		call, ok := req.(*sdk.CallToolRequest)
		if !ok || call.Params == nil || !declares(call.Params.Meta) || call.Params.Name != "send_task" && call.Params.Name != "wait_for_task" {
			return next(ctx, method, req)
		}
		result, err := next(context.WithValue(ctx, followKey{}, true), method, req)
		called, ok := result.(*sdk.CallToolResult)
		if err != nil || !ok || called.IsError {
			return result, err
		}
		var made outcome
		if data, ok := called.StructuredContent.(jsontext.Value); !ok || json.Unmarshal(data, &made) != nil || made.Ended || made.ID == "" {
			return result, nil
		}
		return s.asTask(ctx, made.ID, resultTask)
	}
}

func (s *Server) getTask(ctx context.Context, _ *sdk.ServerSession, p *taskParams) (*taskResult, error) {
	if err := s.mayFollow(p); err != nil {
		return nil, err
	}
	if err := s.tidy(ctx); err != nil {
		return nil, s.wire(err)
	}
	return s.asTask(ctx, p.TaskID, resultComplete)
}

func (s *Server) acknowledge(ctx context.Context, _ *sdk.ServerSession, p *taskParams) (*acknowledgement, error) {
	if err := s.mayFollow(p); err != nil {
		return nil, err
	}
	if _, _, err := s.task(ctx, p.TaskID); err != nil {
		return nil, s.wire(err)
	}
	return &acknowledgement{ResultType: resultComplete}, nil
}

// mayFollow refuses a request that does not declare the extension.
func (s *Server) mayFollow(p *taskParams) error {
	switch {
	case p == nil:
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "params are missing: want taskId"}
	case declares(p.Meta):
		return nil
	}
	return &jsonrpc.Error{
		Code: sdk.CodeMissingRequiredClientCapabilities, Message: "missing required client capability",
		Data: []byte(`{"requiredCapabilities":{"extensions":{"` + tasksExtension + `":{}}}}`),
	}
}

// wire is an error of the protocol, as the extension names it.
func (s *Server) wire(err error) error {
	code := int64(jsonrpc.CodeInternalError)
	var bad *schemas.Error
	if errors.Is(err, mailbox.ErrNotFound) || errors.As(err, &bad) {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: s.problem(err)}
}

func (s *Server) asTask(ctx context.Context, id mailbox.ID, kind string) (*taskResult, error) {
	t, state, err := s.task(ctx, id)
	if err != nil {
		return nil, s.wire(err)
	}
	r := &taskResult{
		ResultType: kind, TaskID: t.ID, Status: "working", StatusMessage: standing(t, state),
		CreatedAt: t.Created, LastUpdatedAt: t.Updated, Poll: pollMillis,
	}
	if state == mailbox.Archived {
		state = t.Result.Status
	}
	switch {
	case state == mailbox.Pending:
		err = s.approvalOf(ctx, t, r)
	case state == mailbox.Completed, state == mailbox.Failed && !cancelled(t):
		r.Status = "completed"
		r.Result, err = s.resultOf(t, state)
	case state == mailbox.Failed:
		r.Status, r.StatusMessage = "cancelled", schemas.Sentence(t.Result.Error.Message, maxError)
	}
	if err != nil {
		return nil, s.wire(err)
	}
	return r, nil
}

func cancelled(t *mailbox.Task) bool {
	return t.Result.Error != nil && t.Result.Error.Code == "cancelled"
}

// approvalOf says so where a pending task waits for an operator.
func (s *Server) approvalOf(ctx context.Context, t *mailbox.Task, r *taskResult) error {
	if needs := s.o.Box.Options().Approval; needs == nil || needs(t) == "" {
		return nil
	}
	w, err := s.o.Box.Why(ctx, t.ID)
	if err != nil || w.Approve == "" {
		return err
	}
	r.Status, r.InputRequests = "input_required", &struct{}{}
	r.StatusMessage = fmt.Sprintf("it waits for an operator: mbox approve %s", t.ID)
	return nil
}

// resultOf is what the call that made or waited for the task would have answered.
func (s *Server) resultOf(t *mailbox.Task, state mailbox.State) (jsontext.Value, error) {
	data, err := encode(s.outcomeOf(t, state))
	if err != nil {
		return nil, err
	}
	return encode(map[string]any{
		"resultType": resultComplete, "isError": state == mailbox.Failed, "structuredContent": data,
		"content": []any{map[string]string{"type": "text", "text": string(data)}},
	})
}
