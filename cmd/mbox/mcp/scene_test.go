package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/mailboxtest"
)

// homeVariable makes this test's program a server over stdin and stdout: what mbox mcp is.
const homeVariable, agentVariable = "MBOX_MCP_TEST_HOME", "MBOX_AGENT"

func TestMain(m *testing.M) {
	if home := os.Getenv(homeVariable); home != "" {
		if err := serveHome(home); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func serveHome(home string) error {
	ctx := context.Background()
	box, err := mailbox.Open(ctx, home, mailbox.Options{Sync: durable.None})
	if err != nil {
		return err
	}
	defer box.Close()
	return New(Options{Box: box, Agent: os.Getenv(agentVariable)}).Serve(ctx, os.Stdin, os.Stdout)
}

func newBox(t testing.TB, o mailbox.Options) *mailbox.Box {
	t.Helper()
	return mailboxtest.New(t, o)
}

// peer is a client of the SDK's, connected to a server of one identity.
type peer struct {
	t testing.TB
	*sdk.ClientSession
	out map[string]*jsonschema.Schema // of each tool
}

func connect(t testing.TB, s *Server, o *sdk.ClientOptions) *peer {
	t.Helper()
	theirs, ours := sdk.NewInMemoryTransports()
	serving, err := s.mcp.Connect(t.Context(), theirs, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := dial(t, ours, o)
	t.Cleanup(func() { p.Close(); serving.Wait() })
	return p
}

func dial(t testing.TB, over sdk.Transport, o *sdk.ClientOptions) *peer {
	t.Helper()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(), over, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t, session, map[string]*jsonschema.Schema{}}
	tools, err := session.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools.Tools {
		p.out[tool.Name] = compile(t, tool.Name, tool.OutputSchema)
		compile(t, tool.Name, tool.InputSchema)
	}
	return p
}

// compile reads a schema with a validator that others keep.
func compile(t testing.TB, name string, source any) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	if err := c.AddResource(name, source); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(name)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return schema
}

// raw calls a tool. A result has to be what the tool's schema says, twice.
func (p *peer) raw(ctx context.Context, tool string, arguments any) (*sdk.CallToolResult, error) {
	p.t.Helper()
	r, err := p.CallTool(ctx, &sdk.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil || r.IsError {
		return r, err
	}
	text := textOf(r)
	same, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		p.t.Fatalf("%s: %v in %s", tool, err, text)
	}
	if err := p.out[tool].Validate(same); err != nil {
		p.t.Errorf("%s answers %s: %v", tool, text, err)
	}
	var compact bytes.Buffer
	structured, _ := json.Marshal(r.StructuredContent)
	if err := json.Compact(&compact, structured); err != nil || !sameJSON(compact.String(), text) {
		p.t.Errorf("%s: structured %s, text %s", tool, structured, text)
	}
	return r, nil
}

func sameJSON(a, b string) bool {
	var one, other any
	return json.Unmarshal([]byte(a), &one) == nil && json.Unmarshal([]byte(b), &other) == nil && fmt.Sprint(one) == fmt.Sprint(other)
}

func textOf(r *sdk.CallToolResult) string {
	if len(r.Content) != 1 {
		return ""
	}
	text, _ := r.Content[0].(*sdk.TextContent)
	return text.Text
}

type args map[string]any

// call calls a tool that has to succeed, and reads its result.
func call[T any](p *peer, tool string, a args) T {
	p.t.Helper()
	var out T
	r, err := p.raw(p.t.Context(), tool, a)
	if err != nil {
		p.t.Fatalf("%s %v: %v", tool, a, err)
	}
	if r.IsError {
		p.t.Fatalf("%s %v: %s", tool, a, textOf(r))
	}
	if err := json.Unmarshal([]byte(textOf(r)), &out); err != nil {
		p.t.Fatalf("%s %v: %v", tool, a, err)
	}
	return out
}

// refuse calls a tool that has to refuse, and say these words.
func (p *peer) refuse(tool string, a args, words ...string) {
	p.t.Helper()
	r, err := p.raw(p.t.Context(), tool, a)
	if err != nil || !r.IsError {
		p.t.Fatalf("%s %v: %v, %+v", tool, a, err, r)
	}
	for _, word := range words {
		if !strings.Contains(textOf(r), word) {
			p.t.Errorf("%s %v says %q, without %q", tool, a, textOf(r), word)
		}
	}
}

func (p *peer) read(uri string) (string, error) {
	r, err := p.ReadResource(p.t.Context(), &sdk.ReadResourceParams{URI: uri})
	if err != nil {
		return "", err
	}
	return r.Contents[0].Text, nil
}
