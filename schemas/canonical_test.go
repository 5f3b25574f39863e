package schemas

import (
	"math"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"
)

func TestCanonical(t *testing.T) {
	tests := []struct {
		name string
		in   any
		want string
	}{
		{"sorted, no space", map[string]any{"b": 1, "a": []any{true, nil}, "B": "x"}, `{"B":"x","a":[true,null],"b":1}`},
		{"order of RFC 8785 section 3.2.3", jsontext.Value(`{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}`), "{\"\\r\":2,\"1\":4,\"\u0080\":6,\"ö\":7,\"€\":1,\"😀\":5,\"\ufb33\":3}"},
		{"strings", "\b\t\n\f\r\x00\x1f\"\\/<>&\u2028\x7f", `"\b\t\n\f\r\u0000\u001f\"\\/<>&` + "\u2028\x7f" + `"`},
		{"escapes undone", jsontext.Value(`"\u0041\/\u00e9"`), `"A/é"`},
		{"limits", []int64{1<<53 - 1, -(1<<53 - 1), 0}, `[9007199254740991,-9007199254740991,0]`},
		{"minus nothing", jsontext.Value(`[ -0 ]`), `[0]`},
		{"whole float", 3.0, `3`},
		{"order of fields", struct {
			Z int `json:"z"`
			A int `json:"a"`
		}{1, 2}, `{"a":2,"z":1}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Canonical(test.in)
			if err != nil || string(got) != test.want {
				t.Errorf("got  %s (%v)\nwant %s", got, err, test.want)
			}
			if err := CheckCanonical(got); err != nil {
				t.Errorf("its own form: %v", err)
			}
		})
	}
}

func TestCanonicalRefuses(t *testing.T) {
	nested := jsontext.Value(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1))
	tests := []struct {
		name       string
		in         any
		code, path string
	}{
		{"2^53", map[string]any{"a": []int64{1, 1 << 53}}, CodeBadValue, "a[1]"},
		{"-2^53", int64(-1 << 53), CodeBadValue, "$"},
		{"fraction", map[string]float64{"n": 0.5}, CodeBadValue, "n"},
		{"written as a fraction", jsontext.Value(`[1.0]`), CodeBadValue, "$[0]"},
		{"written with an exponent", jsontext.Value(`{"e":{"5":1E3}}`), CodeBadValue, `e["5"]`},
		{"just over, rounding to less", jsontext.Value(`9007199254740991.4`), CodeBadValue, "$"},
		{"twenty digits", jsontext.Value(`18446744073709551615`), CodeBadValue, "$"},
		{"many digits", jsontext.Value(strings.Repeat("9", 200)), CodeBadValue, "$"},
		{"NaN", []float64{math.NaN()}, CodeBadValue, "$[0]"},
		{"duplicate", map[string]any{"x": jsontext.Value(`{"a":1,"a":1}`)}, CodeBadValue, "x"},
		{"broken UTF-8", map[string]string{"x": "\xff"}, CodeBadValue, "x"},
		{"no JSON at all", func() {}, CodeBadValue, "$"},
		{"too deep", nested, CodeTooDeep, "$" + strings.Repeat("[0]", MaxDepth)},
		{"too large", strings.Repeat("x", MaxSize), CodeTooLarge, "$"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := Canonical(test.in)
			if e := refusal(t, err); e.Code != test.code || e.Path != test.path {
				t.Errorf("got %s at %s (%v), want %s at %s", e.Code, e.Path, e, test.code, test.path)
			}
			if got != nil {
				t.Errorf("and %s", got)
			}
		})
	}
}

func TestCheckCanonicalRefuses(t *testing.T) {
	tests := []struct{ in, code string }{
		{``, CodeEmpty},
		{` `, CodeEmpty},
		{`{"a":1`, CodeTruncated},
		{"{}\n", CodeBadValue},
		{` {}`, CodeBadValue},
		{`{"a": 1}`, CodeBadValue},
		{`{"b":1,"a":1}`, CodeBadValue},
		{`{"a":1,"a":1}`, CodeDuplicateKey},
		{`{"a":"\u0041"}`, CodeBadValue},
		{`{"a":"\/"}`, CodeBadValue},
		{`-0`, CodeBadValue},
		{`1.0`, CodeBadValue},
		{`0.1`, CodeBadValue},
		{`1e1`, CodeBadValue},
		{`9007199254740992`, CodeBadValue},
		{`9007199254740993`, CodeBadValue},
		{`{}{}`, CodeTrailingData},
		{"\"\xff\"", CodeInvalidUTF8},
		{"\ufeff{}", CodeBOM},
		{strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1), CodeTooDeep},
	}
	for _, test := range tests {
		if e := refusal(t, CheckCanonical([]byte(test.in))); e.Code != test.code {
			t.Errorf("%q: %s (%v), want %s", test.in, e.Code, e, test.code)
		}
	}
}

// CheckCanonical only looks: a ledger's buffer must come out as it went in.
func TestCheckCanonicalLeavesBytesAlone(t *testing.T) {
	for _, in := range []string{`{"b":1,"a":1}`, `{"a":"\u0041"}`, `{"a":1}`} {
		data := []byte(in)
		_ = CheckCanonical(data)
		if string(data) != in {
			t.Errorf("%s became %s", in, data)
		}
	}
}

func TestEncode(t *testing.T) {
	got, err := Encode(map[string]any{"b": []int{}, "a": "<é&>\u2028", "c": map[string]any{"n": nil}})
	want := "{\n  \"a\": \"<é&>\u2028\",\n  \"b\": [],\n  \"c\": {\n    \"n\": null\n  }\n}\n"
	if err != nil || string(got) != want {
		t.Errorf("got %q (%v), want %q", got, err, want)
	}
	deep := jsontext.Value(strings.Repeat("[", MaxDepth+1) + strings.Repeat("]", MaxDepth+1))
	if e := refusal(t, second(Encode(deep))); e.Code != CodeTooDeep {
		t.Errorf("too deep: %v", e)
	}
	if e := refusal(t, second(Encode(map[string]any{"a": []any{"x\xff"}}))); e.Path != "a[0]" {
		t.Errorf("broken UTF-8: %v", e)
	}
}

func second(_ []byte, err error) error { return err }

// What Canonical writes is canonical, and means what went in.
func TestCanonicalProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := tree(3).Draw(t, "value")
		out, err := Canonical(in)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckCanonical(out); err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		pretty, err := Encode(jsontext.Value(out))
		if err != nil {
			t.Fatal(err)
		}
		again, err := Canonical(jsontext.Value(pretty))
		if err != nil || string(again) != string(out) {
			t.Fatalf("%s became %s (%v)", out, again, err)
		}
	})
}

// tree draws any JSON value that has a canonical form.
func tree(depth int) *rapid.Generator[any] {
	leaf := rapid.OneOf(
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.Int64Range(-maxInteger, maxInteger).AsAny(),
	)
	if depth == 0 {
		return leaf
	}
	return rapid.OneOf(leaf,
		rapid.SliceOfN(tree(depth-1), 0, 4).AsAny(),
		rapid.MapOfN(rapid.String(), tree(depth-1), 0, 4).AsAny(),
	)
}

func FuzzCheckCanonical(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[]}`, `{"b":1,"a":1}`, `-0`, `9007199254740993`, `{"é":"\u0000"}`, `[1.0,1e5]`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := string(data)
		err := CheckCanonical(data)
		if string(data) != before {
			t.Fatalf("%q became %q", before, data)
		}
		out, canonErr := Canonical(jsontext.Value(data))
		switch {
		case err == nil && (canonErr != nil || string(out) != before):
			t.Fatalf("%q passes, but its form is %q (%v)", before, out, canonErr)
		case err != nil:
			refusal(t, err)
			if canonErr == nil && string(out) == before {
				t.Fatalf("%q is its own form, but: %v", before, err)
			}
		}
	})
}

const ledgerLine = `{"action":"picked up task-2026-02-16-001","agent":"agentzero","details":{"after":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","attempt":1,"before":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","epoch":1,"from":"pending","host":"box","pid":4711,"reason":"Picked up for processing","revision":2,"to":"in-progress","tx":"0123456789abcdef0123456789abcdef","uid":1000},"event":"task_picked","prev":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","seq":42,"session":null,"task_id":"task-2026-02-16-001","ts":"2026-02-16T10:30:00.000Z","v":1}`

func BenchmarkCheckCanonical(b *testing.B) {
	data := []byte(ledgerLine)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := CheckCanonical(data); err != nil {
			b.Fatal(err)
		}
	}
}
