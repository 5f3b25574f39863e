package agents

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"mbox/mailbox"
)

// How long models and actions took is kept where that is wanted, and nowhere else; no
// text of the model is in it.
func TestMeasures(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{
		&BrainError{Fault: ReplyCut, Text: "SECRET"},
		func(context.Context) (Reply, error) {
			return Reply{Text: `{"actions":[{"action":"write_file","params":{"path":"SECRET.md","content":"SECRET"}}]}`, Model: "qwen3:4b", Provider: "ollama", Tokens: 7, Input: 5, Output: 2}, nil
		},
	}
	id := c.send("coder", "Write", nil)
	w := c.member("coder")
	w.Measure = true
	c.once(w)
	all, err := Measures(c.box, "coder", id, 1)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []Measure{
		{Kind: SaidModel, Error: "reply_cut"},
		{Kind: SaidModel, Name: "qwen3:4b", Provider: "ollama", Input: 5, Output: 2},
		{Kind: SaidAction, Name: "write_file", Status: "written"},
	} {
		got := all[i]
		if got.Ended.IsZero() || got.Took < 0 {
			t.Errorf("%+v", got)
		}
		if got.Ended, got.Took = want.Ended, 0; got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for _, s := range c.logged() {
		if s.Kind != SaidReply && strings.Contains(s.Text, "SECRET") {
			t.Errorf("%+v", s)
		}
	}
	quiet := c.send("coder", "Act", act("write_file", `{"path":"b.md","content":"x"}`))
	c.works("coder")
	if _, err := Measures(c.box, "coder", quiet, 1); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("measured although nobody wants it: %v", err)
	}
	if _, state := c.task(quiet); state != mailbox.Completed {
		t.Errorf("%s is %s", quiet, state)
	}
}
