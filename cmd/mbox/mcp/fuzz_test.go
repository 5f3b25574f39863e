package mcp

import (
	"encoding/json"
	"slices"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
)

// Whatever the arguments are, a tool does not panic; what it refuses has written nothing,
// and a tool that reads never writes.
func FuzzArguments(f *testing.F) {
	box := newBox(f, mailbox.Options{})
	s := as(box, "coder")
	p := connect(f, s, nil)
	tools := p.tools()
	for i := range tools {
		for _, arguments := range []string{`{}`, `null`, `[]`, `{"id":"x"}`, `{"id":"x","token":"y","output":1}`, `{"title":1}`, `{"id":"../x"}`, `{"id":"` + "\\ud800" + `"}`, `{"n":1e999}`} {
			f.Add(byte(i), []byte(arguments))
		}
	}
	f.Add(byte(slices.Index(tools, "tail_ledger")), []byte(`{"n":200,"before":9007199254740993}`))
	reads := connect(f, New(Options{Box: box, Reader: true}), nil).tools()
	f.Fuzz(func(t *testing.T, which byte, arguments []byte) {
		if !json.Valid(arguments) {
			return // not a message
		}
		tool := tools[int(which)%len(tools)]
		before := lines(t, box)
		r, err := p.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
		if err != nil {
			t.Fatalf("%s %s: %v", tool, arguments, err)
		}
		if after := lines(t, box); after != before && (r.IsError || slices.Contains(reads, tool)) {
			t.Errorf("%s %s has written %d lines: %s", tool, arguments, after-before, textOf(r))
		}
	})
}

func lines(t *testing.T, box *mailbox.Box) int64 {
	for line, err := range box.Ledger().Backward() {
		if err != nil {
			t.Fatal(err)
		}
		return line.Seq
	}
	return 0
}
