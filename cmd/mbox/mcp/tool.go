package mcp

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
	"mbox/schemas"
)

// tool is what is told of a tool besides its arguments and results.
type tool struct {
	name, title, about string
	reads              bool // it changes nothing
	keyed              bool // to call it again is safe with a key alone
}

// add adds a tool. Its schemas are those of In and Out.
func add[In, Out any](s *Server, t tool, do func(context.Context, *sdk.CallToolRequest, In) (Out, error)) {
	in, out := shapeOf(reflect.TypeFor[In]()), shapeOf(reflect.TypeFor[Out]())
	no := false
	described := &sdk.Tool{
		Name: t.name, Title: t.title, Description: t.about, InputSchema: in.source, OutputSchema: out.source,
		Annotations: &sdk.ToolAnnotations{ReadOnlyHint: t.reads, IdempotentHint: !t.keyed, DestructiveHint: &no, OpenWorldHint: &no},
	}
	s.mcp.AddTool(described, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		arguments := req.Params.Arguments
		if len(arguments) == 0 || string(arguments) == "null" {
			arguments = []byte("{}")
		}
		var given In
		err := in.schema.Validate(arguments)
		if err == nil {
			err = schemas.Decode(arguments, &given)
		}
		if err != nil {
			return s.refused(err), nil
		}
		result, err := do(ctx, req, given)
		if err != nil {
			return s.refused(err), nil
		}
		return answer(result)
	})
}

// answer carries a result twice, as clients of before structured content need it.
func answer(v any) (*sdk.CallToolResult, error) {
	data, err := encode(v)
	if err != nil {
		return nil, err
	}
	return &sdk.CallToolResult{Content: said(string(data)), StructuredContent: data}, nil
}

func said(text string) []sdk.Content { return []sdk.Content{&sdk.TextContent{Text: text}} }

func encode(v any) (jsontext.Value, error) { return json.Marshal(v, json.Deterministic(true)) }

// shape is a Go type as a JSON Schema, to be shown and to be held against arguments.
type shape struct {
	source jsontext.Value
	schema *schemas.Schema
}

var shapes sync.Map // reflect.Type → *shape; one server is made for each identity

func shapeOf(t reflect.Type) *shape {
	if known, ok := shapes.Load(t); ok {
		return known.(*shape)
	}
	source, err := schemas.Of(reflect.Zero(t).Interface())
	if err != nil {
		panic(err) // the types are those below
	}
	schema, err := schemas.Compile(source)
	if err != nil {
		panic(err)
	}
	known, _ := shapes.LoadOrStore(t, &shape{bytes.TrimSpace(source), schema})
	return known.(*shape)
}

// maxError is how much of an error a client is told, in runes.
const maxError = 2000

// refused tells a model what is wrong, and what it can do.
func (s *Server) refused(err error) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: said(s.problem(err)), IsError: true}
}

func (s *Server) problem(err error) string {
	text := schemas.Sentence(strings.ReplaceAll(err.Error(), "\n", "; "), maxError)
	if next := s.next(err); next != "" {
		text += "\nnext: " + schemas.Sentence(next, maxError)
	}
	return text
}

// advised is an error with the step that helps.
type advised struct {
	error
	next string
}

func (e *advised) Unwrap() error { return e.error }

// next is the step that helps: a tool where one does, else what the command line says.
func (s *Server) next(err error) string {
	var own *advised
	var bad *schemas.Error
	switch {
	case errors.As(err, &own):
		return own.next
	case errors.Is(err, mailbox.ErrCommitted):
	case errors.Is(err, mailbox.ErrPaused):
		return "go on with what you have claimed; claim_task with wait_seconds waits for the end of the pause, which a person can bring about"
	case errors.Is(err, mailbox.ErrEmpty):
		return "claim_task with wait_seconds waits for a task; list_tasks with state pending shows who they are for"
	case errors.Is(err, mailbox.ErrNotFound):
		return "list_tasks shows the tasks that you may see"
	case errors.Is(err, mailbox.ErrConflict):
		return "get_task tells the state that the task is in"
	case errors.As(err, &bad):
		return "call the tool again with that put right; its input schema tells what it takes"
	}
	if s.o.Hint == nil {
		return ""
	}
	return s.o.Hint(err)
}
