package schemas

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// letter is a stand-in for what mbox publishes schemas of.
type letter struct {
	ID       string            `json:"id" jsonschema:"pattern=^[a-z]+-[0-9]{1\\,3}$,description=Its name"`
	Kind     string            `json:"kind,omitzero" jsonschema:"enum=research,enum=action,enum=a & <b>"`
	Priority string            `json:"priority,omitzero" jsonschema:"enum=low,enum=high"`
	By       *string           `json:"by" jsonschema:"nullable,minLength=2,maxLength=5"`
	At       time.Time         `json:"at,omitzero"`
	Wait     pause             `json:"wait,omitzero"`
	Labels   map[string]string `json:"labels,omitzero"`
	Context  jsontext.Value    `json:"context,omitzero" jsonschema:"description=Anything"`
	Epoch    uint64            `json:"epoch,omitzero"`
	Percent  int               `json:"percent,omitzero" jsonschema:"minimum=0,maximum=100"`
	Tags     []string          `json:"tags,omitzero" jsonschema:"maxItems=2"`
	Address  address           `json:"address,omitzero"`
	Replies  []letter          `json:"replies,omitzero"`
}

type address struct {
	Street string `json:"street"`
	House  int    `json:"house,omitzero"`
}

// pause writes itself as text, though it is a number.
type pause time.Duration

func (p pause) MarshalText() ([]byte, error) { return []byte(time.Duration(p).String()), nil }

func (p *pause) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*p = pause(d)
	return err
}

func compileOf(t testing.TB, v any) *Schema {
	t.Helper()
	text, err := Of(v)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Compile(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return s
}

func TestValidate(t *testing.T) {
	s := compileOf(t, letter{})
	good := `"id":"ab-12","by":null`
	tests := []struct{ name, in, code, path, text string }{
		{"good", `{` + good + `}`, "", "", ""},
		{"all of it", `{"id":"ab-12","by":"bob","kind":"a & <b>","at":"2026-02-16T10:30:00Z","wait":"5s","labels":{"any key":"x"},"context":[{"a":null}],"epoch":18446744073709551615,"percent":100,"tags":["a","b"],"address":{"street":""},"replies":[{` + good + `}]}`, "", "", ""},
		{"syntax first", `{` + good + `,"id":"x-1"}`, CodeDuplicateKey, "id", ""},
		{"half", `{` + good + `,"tags":["a`, CodeTruncated, "tags[0]", ""},
		{"huge number", `{` + good + `,"percent":1e999999999}`, CodeBadValue, "percent", ""},
		{"enum", `{` + good + `,"priority":"hihg"}`, CodeBadValue, "priority", `priority: "hihg" is not allowed; want one of low, high`},
		{"enum with strange values", `{` + good + `,"kind":1}`, CodeWrongType, "kind", `kind: is a number; want a string`},
		{"missing", `{"by":null}`, CodeMissingField, "id", "id: missing"},
		{"missing below", `{` + good + `,"address":{"house":1}}`, CodeMissingField, "address.street", ""},
		{"unknown", `{` + good + `,"adress":{}}`, CodeUnknownField, "adress", `adress: unknown field; did you mean "address"?`},
		{"unknown, below, by reference", `{"id":"a-1","replies":[{` + good + `,"prority":"low"}]}`, CodeUnknownField, "replies[0].prority", `replies[0].prority: unknown field; did you mean "priority"?`},
		{"unknown before missing", `{"idd":"ab-12","by":null}`, CodeUnknownField, "idd", `idd: unknown field; did you mean "id"?`},
		{"wrong case", `{` + good + `,"Tags":[]}`, CodeWrongCase, "Tags", `Tags: wrong case; want "tags"`},
		{"pattern", `{"id":"AB","by":null}`, CodeBadValue, "id", `id: "AB" is not allowed; want text that matches ^[a-z]+-[0-9]{1,3}$`},
		{"nullable, wrong type", `{"id":"ab-12","by":5}`, CodeWrongType, "by", `by: is a number; want a string or null`},
		{"nullable, too long", `{"id":"ab-12","by":"robert"}`, CodeTooLong, "by", `by: has 6 characters; want at most 5`},
		{"too short", `{"id":"ab-12","by":"b"}`, CodeBadValue, "by", `by: has 1 characters; want at least 2`},
		{"format", `{` + good + `,"at":"now"}`, CodeBadValue, "at", `at: "now" is not allowed; want text in the format date-time`},
		{"boolean", `{` + good + `,"wait":true}`, CodeWrongType, "wait", `wait: is a boolean; want a string`},
		{"text type", `{` + good + `,"wait":5}`, CodeWrongType, "wait", `wait: is a number; want a string`},
		{"map value", `{` + good + `,"labels":{"we ird":1}}`, CodeWrongType, `labels["we ird"]`, ""},
		{"number as key", `{` + good + `,"labels":{"0":1}}`, CodeWrongType, `labels["0"]`, ""},
		{"unsigned", `{` + good + `,"epoch":-1}`, CodeBadValue, "epoch", "epoch: -1 is too small; want at least 0"},
		{"maximum", `{` + good + `,"percent":100.5}`, CodeWrongType, "percent", "percent: is a number; want an integer"},
		{"maximum, integer", `{` + good + `,"percent":101}`, CodeBadValue, "percent", "percent: 101 is too large; want at most 100"},
		{"too many", `{` + good + `,"tags":["a","b","c"]}`, CodeTooLong, "tags", "tags: has 3 items; want at most 2"},
		{"item", `{` + good + `,"tags":["a",null]}`, CodeWrongType, "tags[1]", "tags[1]: is null; want a string"},
		{"deepest of two", `{"id":"AB","by":null,"address":{"street":1}}`, CodeWrongType, "address.street", ""},
		{"hostile value", "{" + good + `,"priority":"` + "\u202e\\u001b[31m" + strings.Repeat("x", 200) + `"}`, CodeBadValue, "priority", `priority: "\u202e\x1b[31m` + strings.Repeat("x", 65) + `…" is not allowed; want one of low, high`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for range 5 { // the library walks over maps: the answer must not depend on it
				checkAnswer(t, s.Validate([]byte(test.in)), test.code, test.path, test.text)
			}
		})
	}
}

func checkAnswer(t *testing.T, err error, code, path, text string) {
	t.Helper()
	if code == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	e := refusal(t, err)
	if e.Code != code || e.Path != path {
		t.Errorf("got %s at %s (%v), want %s at %s", e.Code, e.Path, e, code, path)
	}
	if text != "" && e.Error() != text {
		t.Errorf("got  %s\nwant %s", e, text)
	}
}

func TestValidateAlternatives(t *testing.T) {
	s, err := Compile([]byte(`{"properties":{
		"action":{"oneOf":[
			{"type":"object","properties":{"name":{"const":"write"},"path":{"type":"string"},"text":{"type":"string"}},"required":["name","path"],"additionalProperties":false},
			{"type":"object","properties":{"name":{"const":"check"},"url":{"type":"string"}},"required":["name","url"],"additionalProperties":false}]},
		"limit":{"anyOf":[{"type":"integer","minimum":1},{"enum":["none"]}]},
		"either":{"oneOf":[{"minimum":1},{"maximum":5}]},
		"never":false,
		"names":{"enum":["a b","","c",null,2,true]},
		"open":{"properties":{"n":true},"additionalProperties":{"type":"number","minimum":0.5}},
		"day":{"format":"date"},
		"count":{"type":"integer"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ in, code, path, text string }{
		{`{"action":{"name":"write","path":"x"}}`, "", "", ""},
		{`{"action":{"name":"write","path":1}}`, CodeWrongType, "action.path", ""},
		{`{"action":{"name":"check"}}`, CodeMissingField, "action.url", ""},
		{`{"action":{"name":"write","path":"x","txet":"y"}}`, CodeUnknownField, "action.txet", `action.txet: unknown field; did you mean "text"?`},
		{`{"action":{"name":"bash"}}`, CodeBadValue, "action.name", ""},
		{`{"action":"write"}`, CodeWrongType, "action", "action: is a string; want an object"},
		{`{"limit":0}`, CodeBadValue, "limit", ""},
		{`{"limit":"non"}`, CodeBadValue, "limit", `limit: "non" is not allowed; want none`},
		{`{"either":3}`, CodeBadValue, "either", "either: can be read in two ways; want what matches one form only"},
		{`{"never":3}`, CodeBadValue, "never", "never: is not allowed"},
		{`{"names":"x"}`, CodeBadValue, "names", `names: "x" is not allowed; want one of "a b", "", c, null, 2, true`},
		{`{"names":{}}`, CodeBadValue, "names", "names: this object is not allowed; want one of \"a b\", \"\", c, null, 2, true"},
		{`{"names":[]}`, CodeBadValue, "names", ""},
		{`{"names":null}`, "", "", ""},
		{`{"names":2.0}`, "", "", ""},
		{`{"names":false}`, CodeBadValue, "names", ""},
		{`{"names":1.50}`, CodeBadValue, "names", "names: 1.50 is not allowed; want one of \"a b\", \"\", c, null, 2, true"},
		{`{"open":{"n":"x","m":0.5}}`, "", "", ""},
		{`{"open":{"m":0.25}}`, CodeBadValue, "open.m", "open.m: 0.25 is too small; want at least 0.5"},
		{`{"day":"2026-02-28"}`, "", "", ""},
		{`{"day":"2026-02-29"}`, CodeBadValue, "day", `day: "2026-02-29" is not allowed; want text in the format date`},
		{`{"day":"2026-02-28T10:00:00Z"}`, CodeBadValue, "day", ""},
		{`{"count":3.0}`, "", "", ""},
		{`{"count":30e-1}`, "", "", ""},
		{`{"count":9007199254740993.5}`, CodeWrongType, "count", ""},
	}
	for _, test := range tests {
		t.Run(test.in, func(t *testing.T) {
			checkAnswer(t, s.Validate([]byte(test.in)), test.code, test.path, test.text)
		})
	}
}

func TestCompileRefuses(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"type":"string"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, schema := range map[string]string{
		"file reference":     `{"$ref":"file://` + secret + `"}`,
		"relative reference": `{"$ref":"secret.json"}`,
		"network reference":  `{"$ref":"https://example.com/x.json"}`,
		"unknown dialect":    `{"$schema":"https://example.com/x.json"}`,
		"dangling":           `{"$ref":"#/$defs/none"}`,
		"wrong type":         `{"type":"text"}`,
		"other format":       `{"format":"email"}`,
		"keyword not known":  `{"properties":{"a":{"not":{}}}}`,
		"several types":      `{"type":["string","null"]}`,
		"array to choose":    `{"enum":[[1]]}`,
		"number as constant": `{"const":1}`,
		"null for a schema":  `{"properties":{"a":null}}`,
		"reference to top":   `{"$ref":"#"}`,
		"endless":            `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`,
		"bad pattern":        `{"pattern":"("}`,
		"duplicate":          `{"type":"string","type":"null"}`,
		"half":               `{"type":`,
		"not a schema":       `[]`,
	} {
		s, err := Compile([]byte(schema))
		if e := refusal(t, err); s != nil {
			t.Errorf("%s: compiled, and %v", name, e)
		}
	}
}

func TestOf(t *testing.T) {
	got, err := Of(address{})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "properties": {
    "street": {
      "type": "string"
    },
    "house": {
      "type": "integer"
    }
  },
  "additionalProperties": false,
  "type": "object",
  "required": [
    "street"
  ]
}
`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
	if pointer, err := Of(&address{}); err != nil || string(pointer) != want {
		t.Errorf("of a pointer: %s (%v)", pointer, err)
	}
}

func TestOfIsSteady(t *testing.T) {
	first, err := Of(letter{})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if again, err := Of(letter{}); err != nil || string(again) != string(first) {
			t.Fatalf("differs: %v\n%s", err, again)
		}
	}
	text := string(first)
	for _, gone := range []string{"$id", "mbox/", `\u0026`} {
		if strings.Contains(text, gone) {
			t.Errorf("%s stands in\n%s", gone, text)
		}
	}
	if !strings.Contains(text, `"#/$defs/letter"`) || !strings.Contains(text, `"letter": {`) {
		t.Errorf("a type that contains itself lost its definition:\n%s", text)
	}
}

// What Encode writes of a type's zero value, the type's schema allows.
func TestOfAllowsZeroValues(t *testing.T) {
	for _, v := range []any{address{}, letter{ID: "a-1"}} {
		out, err := Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := compileOf(t, v).Validate(out); err != nil {
			t.Errorf("%T: %v in\n%s", v, err, out)
		}
	}
}

func TestOfTwoTypesOfOneName(t *testing.T) {
	type address struct {
		Planet string `json:"planet"`
	}
	got, err := Of(struct {
		Here  address `json:"here"`
		There letter  `json:"there"` // has the other address
	}{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"$ref": "#/$defs/address"`, `"$ref": "#/$defs/mbox.schemas.address"`, `"planet"`, `"street"`} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestOfRefuses(t *testing.T) {
	for _, v := range []any{nil, func() {}, struct{ C chan int }{}} {
		if got, err := Of(v); err == nil {
			t.Errorf("%T has the schema %s", v, got)
		}
	}
}

func FuzzValidate(f *testing.F) {
	s := compileOf(f, letter{})
	for _, seed := range []string{`{"id":"ab-12","by":null}`, `{"id":"AB","by":5,"Tags":[]}`, `{"percent":1e300,"epoch":0e99999}`, `[]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := s.Validate(data); err != nil {
			refusal(t, err)
			return
		}
		if err := Decode(data, new(letter)); err != nil && !errorIsValue(err) {
			t.Fatalf("%q is valid but not read: %v", data, err)
		}
	})
}

// errorIsValue tells what a schema cannot know: how large a Go integer is, how
// it is written, and what a duration looks like.
func errorIsValue(err error) bool {
	e, ok := err.(*Error)
	return ok && e.Code == CodeBadValue
}

func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`{"type":"object"}`, `{"$ref":"#"}`, `{"pattern":"("}`, `{"$id":"file:///etc","$ref":"passwd"}`, `true`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Compile(data)
		if err != nil {
			refusal(t, err)
			return
		}
		if err := s.Validate([]byte(`{"a":[1,"x"]}`)); err != nil {
			refusal(t, err)
		}
	})
}

func BenchmarkValidate(b *testing.B) {
	s := compileOf(b, letter{})
	data := []byte(`{"id":"ab-12","by":"bob","kind":"action","tags":["a","b"],"address":{"street":"x"},"replies":[{"id":"a-1","by":null}]}`)
	for b.Loop() {
		if err := s.Validate(data); err != nil {
			b.Fatal(err)
		}
	}
}
