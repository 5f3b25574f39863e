package schemas

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"pgregory.net/rapid"
)

// A validator that others keep says the same about every document: the schemas
// are the published ones and one with each keyword that Compile knows.
func TestValidateAsOthersDo(t *testing.T) {
	sources := map[string][]byte{"letter": schemaOf(t, letter{})}
	files, err := filepath.Glob("*.schema.json")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		if sources[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	sources["reply"] = []byte(`{"type":"object","properties":{"actions":{"type":"array","maxItems":3,"items":{"anyOf":[
		{"type":"object","properties":{"action":{"const":"read"},"path":{"type":"string","minLength":1}},"required":["action","path"],"additionalProperties":false},
		{"type":"object","properties":{"action":{"const":"wait"},"for":{"type":"number","minimum":0.5}},"required":["action"],"additionalProperties":false}]}}},"required":["actions"]}`)
	for name, source := range sources {
		t.Run(name, func(t *testing.T) {
			ours, err := Compile(source)
			if err != nil {
				t.Fatal(err)
			}
			theirs := compileElsewhere(t, source)
			rapid.Check(t, func(t *rapid.T) { sameVerdict(t, ours, theirs) })
		})
	}
}

func schemaOf(t *testing.T, v any) []byte {
	t.Helper()
	source, err := Of(v)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

type elsewhere struct {
	*jsonschema.Schema
	source map[string]any
}

func compileElsewhere(t *testing.T, source []byte) elsewhere {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(source))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("https://mbox.invalid/x.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("https://mbox.invalid/x.json")
	if err != nil {
		t.Fatal(err)
	}
	return elsewhere{s, doc.(map[string]any)}
}

func sameVerdict(t *rapid.T, ours *Schema, theirs elsewhere) {
	data, err := json.Marshal(theirs.document(t, theirs.source))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	verdict, own := theirs.Validate(doc), ours.Validate(data)
	if (verdict == nil) != (own == nil) {
		t.Fatalf("%s\nours: %v\ntheirs: %v", data, own, verdict)
	}
	if own == nil {
		return
	}
	if places := faultsOf(data, verdict.(*jsonschema.ValidationError)); !slices.Contains(places, own.(*Error).Path) {
		t.Fatalf("%s\nours: %v\nnone of %q\n%v", data, own, places, verdict)
	}
}

// faultsOf are the paths of all that the other validator finds wrong.
func faultsOf(data []byte, e *jsonschema.ValidationError) []string {
	var pointer jsontext.Pointer
	for _, token := range e.InstanceLocation {
		pointer = pointer.AppendToken(token)
	}
	path := pathIn(data, pointer)
	var out []string
	switch k := e.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, key := range k.Properties {
			out = append(out, member(path, key))
		}
	case *kind.Required:
		for _, key := range k.Missing {
			out = append(out, member(path, key))
		}
	default:
		out = append(out, path)
	}
	for _, cause := range e.Causes {
		out = append(out, faultsOf(data, cause)...)
	}
	return out
}

// document draws what fits a schema, nearly: at each place something else may
// stand in its stead.
func (e elsewhere) document(t *rapid.T, schema any) any {
	s, _ := schema.(map[string]any)
	if rapid.IntRange(0, 19).Draw(t, "astray") == 0 || s == nil {
		return rapid.SampledFrom([]any{nil, true, "", "x", 0, -1, 1.5, json.Number("3.0"), []any{}, []any{"x"}, map[string]any{}, map[string]any{"x": 1}}).Draw(t, "other")
	}
	for _, key := range []string{"oneOf", "anyOf", "enum"} {
		if list, ok := s[key].([]any); ok {
			one := rapid.SampledFrom(list).Draw(t, key)
			if key == "enum" {
				return one
			}
			return e.document(t, one)
		}
	}
	if ref, ok := s["$ref"].(string); ok {
		return e.document(t, e.source["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")])
	}
	if s["const"] != nil {
		return s["const"]
	}
	switch s["type"] {
	case "string":
		return text(t, s)
	case "integer", "number":
		near := rapid.SampledFrom([]any{s["minimum"], s["maximum"], json.Number("7")}).Draw(t, "near")
		n, _ := near.(json.Number)
		f, _ := n.Float64()
		return f + rapid.SampledFrom([]float64{0, 0, 1, -1, 0.5}).Draw(t, "off")
	case "array":
		return rapid.Map(rapid.IntRange(0, 4), func(n int) []any {
			out := []any{}
			for range n {
				out = append(out, e.document(t, s["items"]))
			}
			return out
		}).Draw(t, "items")
	case "object":
		return e.object(t, s)
	}
	return rapid.SampledFrom([]any{nil, "x", 5}).Draw(t, "any")
}

func (e elsewhere) object(t *rapid.T, s map[string]any) map[string]any {
	out := map[string]any{}
	fields, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	for _, key := range sortedKeys(fields) {
		few := 3 // of what may be left out, so that documents stay small
		if slices.Contains(required, any(key)) {
			few = 40
		}
		if rapid.IntRange(0, few).Draw(t, key) != 0 == (few == 40) {
			out[key] = e.document(t, fields[key])
		}
	}
	if rapid.IntRange(0, 9).Draw(t, "stranger") == 0 {
		out["stranger"] = e.document(t, s["additionalProperties"])
	}
	return out
}

func sortedKeys(m map[string]any) []string {
	var out []string
	for key := range m {
		out = append(out, key)
	}
	slices.Sort(out)
	return out
}

// text draws a string whose length is about a bound, or of a form.
func text(t *rapid.T, s map[string]any) string {
	forms := []string{
		"2026-02-28", "2026-02-28T10:00:00Z", "2026-02-28T10:00:00.5+01:00", "2026-13-01", "2026-02-28T25:00:00Z", "now", "",
		"ab-12", "coder", "bridge:mail", "Not a name", "decision-2026-02-28-001", "change-2026-02-28-001", strings.Repeat("a", 64),
	}
	for _, key := range []string{"minLength", "maxLength"} {
		if n, ok := s[key].(json.Number); ok {
			n, _ := n.Int64()
			forms = append(forms, strings.Repeat("é", int(n)), strings.Repeat("é", int(n)+1), strings.Repeat("é", max(int(n)-1, 0)))
		}
	}
	return rapid.SampledFrom(forms).Draw(t, "text")
}
