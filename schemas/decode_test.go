package schemas

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

// note is a small stand-in for a task file.
type note struct {
	ID    string         `json:"id,omitzero"`
	Task  noteTask       `json:"task"`
	Mbox  *noteBox       `json:"mbox,omitzero"`
	Raw   jsontext.Value `json:"raw,omitzero"`
	Any   any            `json:"any,omitzero"`
	Since time.Time      `json:"since,omitzero"`
}

type noteTask struct {
	Title    string            `json:"title,omitzero"`
	Priority priority          `json:"priority,omitzero"`
	Labels   map[string]string `json:"labels,omitzero"`
}

type noteBox struct {
	DependsOn []string `json:"depends_on,omitzero"`
	Attempt   int      `json:"attempt,omitzero"`
	Percent   int8     `json:"percent,omitzero"`
	Epoch     uint64   `json:"epoch,omitzero"`
	Urgent    bool     `json:"urgent,omitzero"`
	Notes     []note   `json:"notes,omitzero"`
	Lease     lease    `json:"lease,omitzero"`
	Stops     stops    `json:"stops,omitzero"`
	Careless  careless `json:"careless,omitzero"`
	Packed    packed   `json:"packed,omitzero"`
	Wait      pause    `json:"wait,omitzero"`
	Blob      []byte   `json:"blob,omitzero"`
	Share     float32  `json:"share,omitzero"`
	Tries     uint8    `json:"tries,omitzero"`
	Next      *string  `json:"next,omitzero"`
	Pair      [2]int   `json:"pair,omitzero"`
	Untagged  string
	Skipped   int `json:"-"`
}

type priority string

func (p *priority) UnmarshalText(text []byte) error {
	switch *p = priority(text); *p {
	case "low", "normal", "high":
		return nil
	}
	return &Error{Problem: Quote(string(text)) + " is not allowed", Want: "one of low, normal, high", Code: CodeBadValue}
}

// lease reads itself, as a type with a rule of its own would.
type lease struct{ host string }

func (l *lease) UnmarshalJSON(data []byte) error {
	var in struct {
		Host string `json:"host"`
	}
	err := Decode(data, &in)
	l.host = in.Host
	return err
}

func (l lease) MarshalJSON() ([]byte, error) { return Canonical(map[string]string{"host": l.host}) }

// stops reads itself too, as a list.
type stops []int

func (s *stops) UnmarshalJSON(data []byte) error { return Decode(data, (*[]int)(s)) }

// careless repeats what it reads.
type careless string

func (c *careless) UnmarshalText(text []byte) error {
	return &Error{Problem: "no " + string(text)}
}

// packed is a document inside a string.
type packed string

func (p *packed) UnmarshalText(text []byte) error {
	*p = packed(text)
	return Decode(text, new(lease))
}

func TestDecodeRefuses(t *testing.T) {
	deep := strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth)
	tests := []struct {
		name, in, code, path, text string
	}{
		{"nothing", "", CodeEmpty, "$", "is empty; want a JSON document"},
		{"white space", " \r\n\t", CodeEmpty, "$", "is empty; want a JSON document"},
		{"byte order mark", "\ufeff{}", CodeBOM, "$", "begins with a byte order mark; want plain UTF-8"},
		{"zeros of a power cut", "\x00\x00\x00", CodeNotJSON, "$", `is no JSON: invalid character '\x00' at start of value (line 1, column 1)`},
		{"half a document", `{"task":{"title":"x`, CodeTruncated, "task.title", "task.title: the input ends here, inside a value"},
		{"half a rune", "{\"task\":{\"title\":\"\xe2\x82", CodeTruncated, "task.title", ""},
		{"half an escape", `{"id":"\u00`, CodeTruncated, "id", ""},
		{"half a pair", `{"id":"\ud83d\ude`, CodeTruncated, "id", ""},
		{"half a literal", `{"raw":tru`, CodeTruncated, "raw", ""},
		{"half a number", `{"raw":-`, CodeTruncated, "raw", ""},
		{"half an array", `{"mbox":{"depends_on":["a",`, CodeTruncated, "mbox.depends_on", ""},
		{"half, after a stranger", `{"bogus":1,"task":`, CodeTruncated, "task", ""},
		{"comma", "{\"id\":\"x\",\n }", CodeNotJSON, "$", `is no JSON: invalid character ',' at start of value (line 1, column 10)`},
		{"comment", "{\n  // hi\n}", CodeNotJSON, "$", `is no JSON: invalid character '/' at start of value (line 2, column 3)`},
		{"control character", "{\"id\":\"a\nb\"}", CodeNotJSON, "id", ""},
		{"bad escape", `{"id":"\x"}`, CodeNotJSON, "id", ""},
		{"unquoted key", `{id:1}`, CodeNotJSON, "$", ""},
		{"number as key", `{1:2}`, CodeNotJSON, "$", ""},
		{"NaN", `{"raw":NaN}`, CodeNotJSON, "raw", ""},
		{"two documents", "{}\n{}", CodeTrailingData, "$", "more data after the end of the document (line 2, column 1)"},
		{"zero after the end", "{}\x00", CodeTrailingData, "$", ""},
		{"bracket after the end", "{}}", CodeTrailingData, "$", ""},
		{"broken byte after the end", "{} \xff", CodeTrailingData, "$", "more data after the end of the document (line 1, column 4)"},
		{"broken byte", "{\"task\":{\"title\":\"a\xffb\"}}", CodeInvalidUTF8, "task.title", "task.title: invalid UTF-8 (line 1, column 20)"},
		{"broken byte in a key", "{\"task\":{\"a\xff\":1}}", CodeInvalidUTF8, "task", ""},
		{"broken byte, raw", "{\"raw\":{\"x\":[\"\xc0\xaf\"]}}", CodeInvalidUTF8, "raw.x[0]", ""},
		{"surrogate as bytes", "{\"id\":\"\xed\xa0\x80\"}", CodeInvalidUTF8, "id", ""},
		{"lone high surrogate", `{"id":"\ud83dx"}`, CodeInvalidUTF8, "id", "id: half of a surrogate pair (line 1, column 8)"},
		{"lone low surrogate", `{"raw":["\udc00"]}`, CodeInvalidUTF8, "raw[0]", ""},
		{"surrogate in a key", `{"raw":{"\uD800":1}}`, CodeInvalidUTF8, "raw", ""},
		{"duplicate key", `{"id":"a","id":"b"}`, CodeDuplicateKey, "id", "id: duplicate key"},
		{"duplicate by escape", `{"id":"a","\u0069d":"b"}`, CodeDuplicateKey, "id", ""},
		{"duplicate in an array", `{"mbox":{"notes":[{},{"id":"a","id":"b"}]}}`, CodeDuplicateKey, "mbox.notes[1].id", ""},
		{"duplicate, raw", `{"raw":{"0":[{"1":{"a":1,"a":1}}]}}`, CodeDuplicateKey, `raw["0"][0]["1"].a`, ""},
		{"duplicate in a map", `{"task":{"labels":{"we ird":"","we ird":""}}}`, CodeDuplicateKey, `task.labels["we ird"]`, ""},
		{"too deep", `{"raw":` + deep + `}`, CodeTooDeep, "raw" + strings.Repeat(".a", MaxDepth-1), ""},
		{"too deep and half", strings.Repeat("[", 100_000), CodeTooDeep, "$" + strings.Repeat("[0]", MaxDepth), ""},
		{"too large", `"` + strings.Repeat("x", MaxSize-1) + `"`, CodeTooLarge, "$", "has 1048577 bytes; want at most 1048576"},
		{"huge exponent", `{"raw":{"n":1e999999999}}`, CodeBadValue, "raw.n", "raw.n: 1e999999999 is out of range; want a number that a double can hold, in at most 64 characters"},
		{"tiny exponent", `{"raw":[0.001e-999999999]}`, CodeBadValue, "raw[0]", ""},
		{"endless number", `{"raw":0.` + strings.Repeat("1", 100) + `}`, CodeBadValue, "raw", ""},
		{"unknown field", `{"colour":1}`, CodeUnknownField, "colour", "colour: unknown field; want one of id, task, mbox, raw, any, since"},
		{"typing error", `{"task":{"prority":"high"}}`, CodeUnknownField, "task.prority", `task.prority: unknown field; did you mean "priority"?`},
		{"wrong case", `{"Task":{}}`, CodeWrongCase, "Task", `Task: wrong case; want "task"`},
		{"wrong case below", `{"mbox":{"notes":[{"ID":"x"}]}}`, CodeWrongCase, "mbox.notes[0].ID", ""},
		{"wrong case beside the right one", `{"id":"a","Id":"b"}`, CodeWrongCase, "Id", ""},
		{"hostile key", "{\"\u202e]\\n\\u001b[31m\":1}", CodeUnknownField, `$["\u202e]\n\x1b[31m"]`, ""},
		{"not an object", `[]`, CodeWrongType, "$", "is an array; want an object"},
		{"null", ` null `, CodeWrongType, "$", "is null; want an object"},
		{"number for a string", `{"id":7}`, CodeWrongType, "id", "id: is a number; want a string"},
		{"object for an array", `{"mbox":{"depends_on":{}}}`, CodeWrongType, "mbox.depends_on", "mbox.depends_on: is an object; want an array"},
		{"number in an array of strings", `{"mbox":{"depends_on":["a","b",3]}}`, CodeWrongType, "mbox.depends_on[2]", ""},
		{"string for a bool", `{"mbox":{"urgent":"yes"}}`, CodeWrongType, "mbox.urgent", "mbox.urgent: is a string; want true or false"},
		{"string for a number", `{"mbox":{"attempt":"1"}}`, CodeWrongType, "mbox.attempt", "mbox.attempt: is a string; want an integer"},
		{"number for a text", `{"task":{"priority":1}}`, CodeWrongType, "task.priority", "task.priority: is a number; want a string"},
		{"fraction", `{"mbox":{"attempt":1.5}}`, CodeBadValue, "mbox.attempt", "mbox.attempt: 1.5 is not allowed; want an integer"},
		{"too big", `{"mbox":{"percent":128}}`, CodeBadValue, "mbox.percent", "mbox.percent: 128 is not allowed; want an integer from -128 to 127"},
		{"negative", `{"mbox":{"epoch":-1}}`, CodeBadValue, "mbox.epoch", "mbox.epoch: -1 is not allowed; want an integer from 0"},
		{"no time", `{"since":"yesterday"}`, CodeBadValue, "since", `since: "yesterday" is no time; want a time such as "2026-02-16T10:30:00Z"`},
		{"own error of a type", `{"task":{"priority":"hihg"}}`, CodeBadValue, "task.priority", `task.priority: "hihg" is not allowed; want one of low, normal, high`},
		{"own decoding of a type", `{"mbox":{"lease":{"Host":"x"}}}`, CodeWrongCase, "mbox.lease.Host", `mbox.lease.Host: wrong case; want "host"`},
		{"field without a tag", `{"mbox":{"untagged":1}}`, CodeWrongCase, "mbox.untagged", `mbox.untagged: wrong case; want "Untagged"`},
		{"field that is kept out", `{"mbox":{"Skipped":1}}`, CodeUnknownField, "mbox.Skipped", `mbox.Skipped: unknown field`},
		{"own decoding, strange key", `{"mbox":{"lease":{"we ird":1}}}`, CodeUnknownField, `mbox.lease["we ird"]`, `mbox.lease["we ird"]: unknown field; want host`},
		{"own decoding, list", `{"mbox":{"notes":[{"mbox":{"stops":[1,"x"]}}]}}`, CodeWrongType, "mbox.notes[0].mbox.stops[1]", ""},
		{"own error of a careless type", `{"mbox":{"careless":"\n\u202e"}}`, CodeBadValue, "mbox.careless", `mbox.careless: no \n\u202e`},
		{"document in a string, cut short", `{"mbox":{"packed":"{\"host\":"}}`, CodeBadValue, "mbox.packed.host", ""},
		{"own plain error", `{"mbox":{"wait":"soon"}}`, CodeBadValue, "mbox.wait", ""},
		{"bytes", `{"mbox":{"blob":[]}}`, CodeWrongType, "mbox.blob", "mbox.blob: is an array; want a string in base64"},
		{"no base64", `{"mbox":{"blob":"?"}}`, CodeBadValue, "mbox.blob", ""},
		{"float", `{"mbox":{"share":true}}`, CodeWrongType, "mbox.share", "mbox.share: is true; want a number"},
		{"float out of range", `{"mbox":{"share":1e39}}`, CodeBadValue, "mbox.share", "mbox.share: 1e39 is not allowed; want a number"},
		{"small unsigned", `{"mbox":{"tries":256}}`, CodeBadValue, "mbox.tries", "mbox.tries: 256 is not allowed; want an integer from 0 to 255"},
		{"behind a pointer", `{"mbox":{"next":7}}`, CodeWrongType, "mbox.next", "mbox.next: is a number; want a string"},
		{"array of fixed length", `{"mbox":{"pair":[1]}}`, CodeBadValue, "mbox.pair", ""},
		{"own decoding, wrong type", `{"mbox":{"lease":[]}}`, CodeWrongType, "mbox.lease", "mbox.lease: is an array; want an object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			e := refusal(t, Decode([]byte(test.in), new(note)))
			if e.Code != test.code || e.Path != test.path {
				t.Errorf("got %s at %s (%v), want %s at %s", e.Code, e.Path, e, test.code, test.path)
			}
			if test.text != "" && e.Error() != test.text {
				t.Errorf("got  %s\nwant %s", e, test.text)
			}
		})
	}
}

func TestDecodeAccepts(t *testing.T) {
	for _, in := range []string{
		`{}`, " {}\r\n", `{"id":null,"task":null}`,
		`{"id":"\ud83d\ude00 \u0000","raw":{"Raw":1,"raw":2,"n":9007199254740993}}`,
		`{"any":{"deep":[{"er":[0e999999999,-0.0,1e308]}]}}`,
		`{"raw":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`,
		`{"mbox":{"lease":{"host":"h"},"epoch":18446744073709551615,"percent":-128}}`,
		`{"since":"2026-02-16T10:30:00.123Z"}`,
	} {
		if err := Decode([]byte(in), new(note)); err != nil {
			t.Errorf("%s: %v", in, err)
		}
	}
	exact := `"` + strings.Repeat("x", MaxSize-2) + `"`
	if err := Decode([]byte(exact), new(string)); err != nil {
		t.Errorf("a document of exactly MaxSize: %v", err)
	}
	for _, open := range []any{new(any), new(jsontext.Value), new(*note)} {
		if err := Decode([]byte("null"), open); err != nil {
			t.Errorf("null into %T: %v", open, err)
		}
	}
}

func TestDecodeKeepsRawBytes(t *testing.T) {
	var got note
	if err := Decode([]byte(`{"raw": {"b" : 1.50, "a":[ ]} }`), &got); err != nil {
		t.Fatal(err)
	}
	if want := `{"b" : 1.50, "a":[ ]}`; string(got.Raw) != want {
		t.Errorf("raw value is %s, want %s", got.Raw, want)
	}
}

func TestDecodeWantsPointer(t *testing.T) {
	for _, v := range []any{nil, note{}, (*note)(nil)} {
		var e *Error
		if err := Decode([]byte("{}"), v); err == nil || errors.As(err, &e) {
			t.Errorf("Decode into %T: %v, want a plain error", v, err)
		}
	}
}

// Every beginning of a good document is told from a bad one, because a file
// that is still being written is waited for.
func TestDecodePrefixes(t *testing.T) {
	whole := `{"id":"é\ud83d\ude00€","task":{"title":"\"\\","labels":{"a":"b"}},"raw":[true,false,null,-1.5e+3,{}],"mbox":{"attempt":12}}`
	if err := Decode([]byte(whole), new(note)); err != nil {
		t.Fatal(err)
	}
	for n := 1; n < len(whole); n++ {
		if e := refusal(t, Decode([]byte(whole[:n]), new(note))); e.Code != CodeTruncated {
			t.Errorf("%q: %s (%v), want %s", whole[:n], e.Code, e, CodeTruncated)
		}
	}
}

func TestDecodeAnyBytes(t *testing.T) {
	pieces := rapid.SampledFrom([]string{
		"{", "}", "[", "]", ",", ":", `"`, `"id"`, `"ID"`, `"task"`, `"raw"`, `"a"`, "null", "tru", "true", "0", "-", "1e9",
		`\ud800`, `\u202e`, "\xff", "\xe2\x82", "\x00", "\n", " ", "\ufeff", "\u202e", "é",
	})
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(pieces, 0, 30).Draw(t, "pieces"), "")
		checkDecode(t, []byte(in))
	})
}

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"task":{"title":"x"}}`, `{"raw":{"a":1,"a":2}}`, "\ufeff{}", `{"ID":1}`, `{"any":1e400}`, "{\"id\":\"\xff\"}", `{"raw":[[["\ud800"]]]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) { checkDecode(t, data) })
}

// checkDecode holds what is true of any input: a clean error, or a value that
// can be written and read again.
func checkDecode(t rapid.TB, data []byte) {
	var first, second note
	if err := Decode(data, &first); err != nil {
		refusal(t, err)
		return
	}
	out, err := Encode(first)
	if err != nil {
		t.Fatalf("%q was read but not written: %v", data, err)
	}
	if err := Decode(out, &second); err != nil {
		t.Fatalf("%q became %q: %v", data, out, err)
	}
	if again, err := Encode(second); err != nil || string(again) != string(out) {
		t.Fatalf("%q became %q, then %q (%v)", data, out, again, err)
	}
}

// refusal demands that err is an Error that is fit to be shown.
func refusal(t rapid.TB, err error) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want an *Error", err, err)
	}
	if e.Code == "" || e.Path == "" || e.Problem == "" || e.File != "" {
		t.Fatalf("incomplete: %#v", e)
	}
	text := e.Error()
	bad := func(r rune) bool { return !unicode.IsPrint(r) && !unicode.Is(unicode.Zs, r) }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, bad) || len(text) > 8192 {
		t.Fatalf("not fit to be shown: %q", text)
	}
	return e
}

func BenchmarkDecode(b *testing.B) {
	var in strings.Builder
	in.WriteString(`{"id":"task-2026-02-16-001","task":{"title":"t","priority":"high","labels":{}},"raw":{`)
	for i := range 100 {
		fmt.Fprintf(&in, `"key%d":["value",%d,{"nested":true}],`, i, i)
	}
	in.WriteString(`"end":null}}`)
	data := []byte(in.String())
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := Decode(data, new(note)); err != nil {
			b.Fatal(err)
		}
	}
}
