package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"mbox/schemas"
)

func schemaOf(t *testing.T, names ...string) ([]byte, *schemas.Schema) {
	t.Helper()
	source, err := Schema(names)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schemas.Compile(source)
	if err != nil {
		t.Fatalf("%v\n%s", err, source)
	}
	return source, s
}

// What llama.cpp's grammars can do, and nothing else: no references, closed
// objects, bounded texts and lists.
func TestSchemaIsForModels(t *testing.T) {
	source, _ := schemaOf(t, Names()...)
	if again, _ := schemaOf(t, Names()...); !bytes.Equal(source, again) {
		t.Error("the schema is not always the same")
	}
	var doc any
	if err := json.Unmarshal(source, &doc); err != nil {
		t.Fatal(err)
	}
	objects := 0
	var walk func(at string, v any)
	walk = func(at string, v any) {
		schema, ok := v.(map[string]any)
		if !ok {
			t.Errorf("%s is no schema: %v", at, v)
			return
		}
		for key := range schema {
			if !slices.Contains([]string{"type", "properties", "required", "additionalProperties", "items", "anyOf", "maxItems", "maxLength", "minLength", "minimum", "maximum", "enum", "const", "description"}, key) {
				t.Errorf("%s has %s", at, key)
			}
		}
		switch {
		case schema["anyOf"] != nil:
			for i, branch := range schema["anyOf"].([]any) {
				walk(fmt.Sprintf("%s/%d", at, i), branch)
			}
		case schema["const"] != nil, schema["enum"] != nil:
		case schema["type"] == "string":
			if n, ok := schema["maxLength"].(float64); !ok || n > modelText {
				t.Errorf("%s has no bound: %v", at, schema)
			}
		case schema["type"] == "integer":
			least, low := schema["minimum"].(float64)
			if most, high := schema["maximum"].(float64); !low || !high || most < least {
				t.Errorf("%s has no bounds: %v", at, schema)
			}
		case schema["type"] == "array":
			if n, ok := schema["maxItems"].(float64); !ok || n > MaxActions {
				t.Errorf("%s has no bound: %v", at, schema)
			}
			walk(at+"[]", schema["items"])
		case schema["type"] == "object":
			objects++
			if schema["additionalProperties"] != false {
				t.Errorf("%s is open", at)
			}
			for name, field := range schema["properties"].(map[string]any) {
				walk(at+"."+name, field)
			}
		default:
			t.Errorf("%s takes anything: %v", at, schema)
		}
	}
	walk("$", doc)
	if objects < 10 {
		t.Errorf("only %d objects", objects)
	}
}

func TestSchemaHasOnlyWhatIsNamed(t *testing.T) {
	source, s := schemaOf(t, "read_file", "file_check")
	if strings.Contains(string(source), "write_file") || strings.Contains(string(source), "delegate") {
		t.Errorf("%s", source)
	}
	for text, good := range map[string]bool{
		`{"actions":[` + readA + `],"answer":""}`: true,
		`{"actions":[],"answer":"x"}`:             true,
		`{"actions":[` + readA + `]}`:             false,
		`{"actions":[{"action":"write_file","params":{"path":"a.txt","content":""}}],"answer":""}`: false,
		`{"actions":[{"action":"read_file","params":{"path":"a","x":1}}],"answer":""}`:             false,
		`{"actions":[{"action":"read_file","params":{}}],"answer":""}`:                             false,
		`{"actions":[{"action":"http_check","params":{"url":"http://a.example"}}],"answer":""}`:    false,
		`{"actions":[{"action":"delegate","params":{"role":"a","title":"x"}}],"answer":""}`:        false,
		`{"actions":[` + strings.TrimSuffix(strings.Repeat(readA+",", 17), ",") + `],"answer":""}`: false,
		`{"actions":[` + readA + `],"answer":"` + strings.Repeat("a", modelText+1) + `"}`:          false,
		`{"actions":[{"action":"read_file","params":{"path":"a"},"note":"x"}],"answer":""}`:        false,
	} {
		if err := s.Validate([]byte(text)); (err == nil) != good {
			t.Errorf("%.100s: %v", text, err)
		}
	}
	if _, err := Schema([]string{"read_fil"}); !errors.As(err, new(*Unknown)) {
		t.Error(err)
	}
	if _, only := schemaOf(t); only.Validate([]byte(`{"answer":"x"}`)) != nil || only.Validate([]byte(`{"actions":[],"answer":"x"}`)) == nil {
		t.Error("without actions there is only an answer")
	}
}

// Whatever fits the schema is a reply that parses.
func TestSchemaFitsParser(t *testing.T) {
	source, s := schemaOf(t, Names()...)
	var doc map[string]any
	if err := json.Unmarshal(source, &doc); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	kinds := map[string]int{}
	for range 500 {
		text, err := json.Marshal(generate(r, doc))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		reply, err := ParseReply(string(text))
		if e := new(schemas.Error); errors.As(err, &e) && strings.Contains(e.Path, "params.name") || errors.As(err, &e) && strings.Contains(e.Path, "params.after") {
			continue // labels are no matter of a schema
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		for _, a := range reply.Actions {
			kinds[a.Name()]++
			_ = a.Validate(Limits{})
		}
	}
	if len(kinds) != len(Names()) {
		t.Errorf("only %v", kinds)
	}
}

// generate is what a random model would write: a value that fits a schema.
func generate(r *rand.Rand, schema map[string]any) any {
	switch {
	case schema["const"] != nil:
		return schema["const"]
	case schema["enum"] != nil:
		values := schema["enum"].([]any)
		return values[r.IntN(len(values))]
	case schema["anyOf"] != nil:
		branches := schema["anyOf"].([]any)
		return generate(r, branches[r.IntN(len(branches))].(map[string]any))
	case schema["type"] == "string":
		least, _ := schema["minLength"].(float64)
		text := make([]rune, int(least)+r.IntN(12))
		for i := range text {
			text[i] = []rune("ab/.:{}[]\"\\\n\u202e😀$#!")[r.IntN(16)]
		}
		return string(text)
	case schema["type"] == "integer":
		least, most := int(schema["minimum"].(float64)), int(schema["maximum"].(float64))
		return least + r.IntN(most-least+1)
	case schema["type"] == "array":
		out := make([]any, r.IntN(4))
		for i := range out {
			out[i] = generate(r, schema["items"].(map[string]any))
		}
		return out
	}
	out := map[string]any{}
	required, _ := schema["required"].([]any)
	for name, field := range schema["properties"].(map[string]any) {
		if slices.Contains(required, any(name)) || r.IntN(2) == 0 {
			out[name] = generate(r, field.(map[string]any))
		}
	}
	return out
}

func BenchmarkSchema(b *testing.B) {
	for b.Loop() {
		if _, err := Schema(Names()); err != nil {
			b.Fatal(err)
		}
	}
}
