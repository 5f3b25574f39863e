package action

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

const (
	readA  = `{"action":"read_file","params":{"path":"a.txt"}}`
	checkB = `{"action":"file_check","params":{"path":"b[1].txt"}}`
)

// told is what a reply comes down to: its actions' names and its answer.
func told(r Reply) string {
	var names []string
	for _, a := range r.Actions {
		names = append(names, a.Name())
	}
	return strings.Join(names, ",") + "|" + r.Answer
}

func TestParseReply(t *testing.T) {
	for text, want := range map[string]string{
		readA:                            "read_file|",
		"[" + readA + "," + checkB + "]": "read_file,file_check|",
		`{"actions":[` + readA + `],"answer":"done"}`:             "read_file|done",
		`{"actions":[` + readA + `]}`:                             "read_file|",
		`{"answer":"done"}`:                                       "|done",
		`{"actions":[],"answer":"no"}`:                            "|no",
		`[]`:                                                      "|",
		" \n" + readA + "\n":                                      "read_file|",
		"Sure! " + readA + " That is all.":                        "read_file|",
		"```json\n" + readA + "\n```":                             "read_file|",
		"```\n[" + readA + ",\n" + checkB + "]\n```":              "read_file,file_check|",
		"Here it is: " + readA:                                    "read_file|",
		"Sure " + checkB:                                          "file_check|", // the widest [...] is [1]
		`Sure {"actions":[` + readA + `],"answer":"done"} bye`:    "read_file|done",
		"A set {curly} and [" + readA + "] then":                  "read_file|",
		`As you said "now": I do {"answer":"x"}`:                  "|x",
		"\ufeff" + readA:                                          "read_file|",
		`"` + "quoted" + `" and {"answer":"y"}`:                   "|y",
		`{"action":"delegate","params":{"role":"a","title":"x"}}`: "delegate|",
	} {
		got, err := ParseReply(text)
		if err != nil || told(got) != want {
			t.Errorf("%s: %s, %v, want %s", text, told(got), err, want)
		}
	}
}

// No part of a reply that was cut off, or that is broken, is taken for it.
func TestParseReplyNotJSON(t *testing.T) {
	whole := `{"actions":[` + readA + `,` + checkB + `],"answer":"done"}`
	texts := []string{
		"", "   ", "no", "null", "true", "1", `"` + "text" + `"`, "$[", "{", "}{", "][",
		readA + readA, "[" + readA + "] [" + readA + "]", readA + "," + readA,
		"[" + readA + "," + checkB, "Sure: [" + readA + "," + `{"action":"fi`,
		`{action: "read_file"}`, `{'action':'read_file'}`, readA[:len(readA)-2],
		`Sure {"actions": ` + readA + `, "answer": "cut`, `Well {"actions":[` + readA + `],"answer":"c`,
		"[" + readA + " " + checkB + "]", readA + "]", readA + "}", "," + readA, "[" + readA,
		`{"answer":"run [] now`, `Sure {"answer":"run [] now`, `{"answer":"see [` + readA + `] now`,
	}
	for i := range whole {
		texts = append(texts, whole[:i], "Sure! "+whole[:i])
	}
	list := "[" + readA + "," + checkB + "]"
	for i := range list {
		texts = append(texts, list[:i], "Sure! "+list[:i])
	}
	for _, text := range texts {
		if got, err := ParseReply(text); !errors.Is(err, ErrNotJSON) {
			t.Errorf("%s: %s, %v", text, told(got), err)
		}
	}
}

func TestParseReplyInvalid(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(readA+",", MaxActions+1), ",")
	for _, c := range []struct{ text, path, code string }{
		{`{}`, "actions", schemas.CodeMissingField},
		{`{"params":{}}`, "params", schemas.CodeUnknownField},
		{`{"action":"read_file"}`, "params", schemas.CodeMissingField},
		{`{"action":"","params":{}}`, "action", schemas.CodeMissingField},
		{`{"action":1,"params":{}}`, "action", schemas.CodeWrongType},
		{`{"action":"read_file","params":{"path":1}}`, "params.path", schemas.CodeWrongType},
		{`{"action":"read_file","params":{"path":"a"},"why":"x"}`, "why", schemas.CodeUnknownField},
		{`{"action":"read_file","action":"read_file","params":{"path":"a"}}`, "action", schemas.CodeDuplicateKey},
		{`Sure {"action":"read_file","params":{"path":"a","path":"b"}} bye`, "params.path", schemas.CodeDuplicateKey},
		{`[` + readA + `,{"action":"read_file","params":{}}]`, "$[1].params.path", schemas.CodeMissingField},
		{`[1]`, "$[0]", schemas.CodeWrongType},
		{`[[` + readA + `]]`, "$[0]", schemas.CodeWrongType},
		{`{"actions":[` + readA + `,{"action":"read_file","params":{"x":1}}]}`, "actions[1].params.x", schemas.CodeUnknownField},
		{`{"actions":{}}`, "actions", schemas.CodeWrongType},
		{`{"actions":[],"answer":1}`, "answer", schemas.CodeWrongType},
		{`{"actions":[],"extra":1}`, "extra", schemas.CodeUnknownField},
		{"[" + many + "]", "$", schemas.CodeTooLong},
		{`{"actions":[` + many + "]}", "actions", schemas.CodeTooLong},
		{strings.Repeat("[", 40) + strings.Repeat("]", 40), "$" + strings.Repeat("[0]", 32), schemas.CodeTooDeep},
	} {
		_, err := ParseReply(c.text)
		wantFault(t, c.text, err, c.path, c.code, "")
		if errors.Is(err, ErrNotJSON) {
			t.Errorf("%.100s: counts as no JSON", c.text)
		}
	}
	if r, err := ParseReply("[" + strings.TrimSuffix(strings.Repeat(readA+",", MaxActions), ",") + "]"); err != nil || len(r.Actions) != MaxActions {
		t.Errorf("%d actions: %v", MaxActions, err)
	}
}

func TestParseReplyUnknown(t *testing.T) {
	for text, path := range map[string]string{
		`{"action":"readfile","params":{}}`:                                     "action",
		`[` + readA + `,{"action":"readfile","params":{}}]`:                     "$[1].action",
		`{"actions":[{"action":"readfile","params":{}}]}`:                       "actions[0].action",
		`{"action":"delegate","params":{"role":"a","task":"readfile"}}`:         "params.task",
		`[{"action":"delegate","params":{"role":"a","task":"readfile"}}]`:       "$[0].params.task",
		`{"actions":[{"action":"delegate","params":{"role":"a","task":"r3"}}]}`: "actions[0].params.task",
	} {
		_, err := ParseReply(text)
		var u *Unknown
		if !errors.As(err, &u) || u.Path != path {
			t.Errorf("%s: %v, want %s", text, err, path)
		}
	}
}

// The names of delegations lead backwards, so that none waits for itself.
func TestParseReplyLabels(t *testing.T) {
	d := func(rest string) string {
		return `{"action":"delegate","params":{"role":"coder","title":"x"` + rest + `}}`
	}
	good := "[" + d(`,"name":"a"`) + "," + d(`,"name":"b","after":["a","task-2026-01-01-001"]`) + "," + d(`,"after":["b","a"]`) + "]"
	if _, err := ParseReply(good); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ text, path string }{
		{"[" + d(`,"name":"a"`) + "," + d(`,"name":"a"`) + "]", "$[1].params.name"},
		{"[" + d(`,"name":"a","after":["b"]`) + "," + d(`,"name":"b"`) + "]", "$[0].params.after[0]"},
		{`{"actions":[` + d(`,"name":"a","after":["x","a"]`) + "]}", "actions[0].params.after[1]"},
	} {
		_, err := ParseReply(c.text)
		wantFault(t, c.text, err, c.path, schemas.CodeBadValue, "")
	}
}

// Whatever a model writes is a reply or a named refusal, and a reply of known
// actions that is written as JSON again is the same reply.
func FuzzParseReply(f *testing.F) {
	entries, err := os.ReadDir("testdata/replies")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		text, err := os.ReadFile("testdata/replies/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		var r Reply
		var err error
		cheap(t, text, func() { r, err = ParseReply(text) })
		if err != nil {
			var invalid *schemas.Error
			var unknown *Unknown
			if !errors.Is(err, ErrNotJSON) && !errors.As(err, &invalid) && !errors.As(err, &unknown) {
				t.Fatalf("%q: %T %v", text, err, err)
			}
			if len(r.Actions) > 0 || r.Answer != "" {
				t.Fatalf("%q: %v beside %s", text, err, told(r))
			}
			return
		}
		if len(r.Actions) > MaxActions {
			t.Fatalf("%q: %d actions", text, len(r.Actions))
		}
		again, err := ParseReply(written(t, r))
		if err != nil || told(again) != told(r) {
			t.Fatalf("%q: %s, again %s, %v", text, told(r), told(again), err)
		}
	})
}

func written(t *testing.T, r Reply) string {
	var items []string
	for _, a := range r.Actions {
		_ = a.Validate(Limits{}) // it may say no, but not panic
		params, err := schemas.Encode(a)
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, fmt.Sprintf(`{"action":%q,"params":%s}`, a.Name(), params))
	}
	answer, err := jsontext.AppendQuote(nil, r.Answer)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"actions":[%s],"answer":%s}`, strings.Join(items, ","), answer)
}
