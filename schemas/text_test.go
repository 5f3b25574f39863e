package schemas

import (
	"bytes"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

func TestSentence(t *testing.T) {
	tests := []struct {
		in   string
		max  int
		want string
	}{
		{"plain text, \u00e9\u4e16\u754c \u0645\u0631\u062d\u0628\u0627", 80, "plain text, \u00e9\u4e16\u754c \u0645\u0631\u062d\u0628\u0627"},
		{"two\nlines\r\n\ttab", 80, `two\nlines\r\n\ttab`},
		{"\x1b[31mred\x1b[0m\a\x00\x7f", 80, `\x1b[31mred\x1b[0m\x07\x00\x7f`},
		{"a\u202eb\u2066c\u200bd\ufeffe\u0085f\u2028", 80, `a\u202eb\u2066c\u200bd\ufeffe\u0085f\u2028`},
		{"tag \U000e0041 filler \u3164", 80, `tag \U000e0041 filler \u3164`},
		{"bad \xff\xc3", 80, `bad \xff\xc3`},
		{"real \ufffd", 80, "real \ufffd"},
		{`back\slash "quoted"`, 80, `back\slash "quoted"`},
		{"exactly", 7, "exactly"},
		{"too long", 7, "too lo…"},
		{"äöüß", 3, "äö…"},
		{"ab\x1bc", 5, "ab…"},
		{"ab\x1b", 6, `ab\x1b`},
		{"x", 1, "x"},
		{"xy", 1, "…"},
		{"x", 0, ""},
		{"x", -1, ""},
		{"", 5, ""},
	}
	for _, test := range tests {
		if got := Sentence(test.in, test.max); got != test.want {
			t.Errorf("Sentence(%q, %d) = %q, want %q", test.in, test.max, got, test.want)
		}
	}
}

func TestSentenceProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.String().Draw(t, "text")
		max := rapid.IntRange(0, 40).Draw(t, "max")
		got := Sentence(in, max)
		if !utf8.ValidString(got) || utf8.RuneCountInString(got) > max || strings.ContainsFunc(got, hidden) {
			t.Fatalf("Sentence(%q, %d) = %q", in, max, got)
		}
		if again := Sentence(got, max); again != got {
			t.Fatalf("%q is not stable: %q", got, again)
		}
	})
}

func TestSafeJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a\n\x1b\x7f\u009b\u202e\u2066\u200b\ufeff\U000e0041\"\\é☂")))).Draw(t, "text")
		data, err := Encode(map[string]string{"k": in, in: "v"})
		if err != nil {
			t.Skip("no JSON")
		}
		safe := SafeJSON(data)
		if bytes.ContainsFunc(safe, func(r rune) bool { return r != '\n' && hidden(r) }) {
			t.Fatalf("%q is not fit for a terminal", safe)
		}
		was, is := map[string]string{}, map[string]string{}
		if err := errors.Join(json.Unmarshal(data, &was), json.Unmarshal(safe, &is)); err != nil || !maps.Equal(was, is) {
			t.Fatalf("%q is another value than %q: %v", safe, data, err)
		}
	})
	if safe := string(SafeJSON([]byte("{\"a\": \"\x9b31m\"}"))); safe != `{"a": "\ufffd31m"}` {
		t.Errorf("a byte that some terminals obey: %q", safe)
	}
	if plain := []byte("{\"a\": 1}\n"); &SafeJSON(plain)[0] != &plain[0] {
		t.Error("what is safe is copied")
	}
}

func TestSuggest(t *testing.T) {
	among := []string{"id", "version", "priority", "depends_on", "max_attempts", "low", "high", "in-progress"}
	tests := []struct{ word, want string }{
		{"prority", "priority"},
		{"hihg", "high"},
		{"PRIORITY", "priority"},
		{"dependsOn", "depends_on"},
		{"depend", "depends_on"},
		{"prio", "priority"},
		{"priority_level", "priority"},
		{"in_progress", "in-progress"},
		{"maxattempts", "max_attempts"},
		{"lo", "low"},
		{"i", "id"},
		{"ix", "id"},
		{"xyz", ""},
		{"zz", ""},
		{"", ""},
		{"colour", ""},
		{strings.Repeat("priority", 1000), ""},
	}
	for _, test := range tests {
		if got := Suggest(test.word, among); got != test.want {
			t.Errorf("Suggest(%q) = %q, want %q", test.word, got, test.want)
		}
	}
	if got := Suggest("ab", []string{"ac", "ad"}); got != "ac" {
		t.Errorf("of two that are equally near: %q, want the first", got)
	}
	if got := Suggest("x", nil); got != "" {
		t.Errorf("among none: %q", got)
	}
}

func TestErrorText(t *testing.T) {
	tests := []struct {
		e    Error
		want string
	}{
		{Error{File: "pending/x.json", Path: "task.priority", Problem: `"hihg" is not allowed`, Want: "one of low, normal, high, urgent"}, `pending/x.json: task.priority: "hihg" is not allowed; want one of low, normal, high, urgent`},
		{Error{Path: "task.prority", Problem: "unknown field", Want: `did you mean "priority"?`}, `task.prority: unknown field; did you mean "priority"?`},
		{Error{File: "pending/\x1b[2J", Path: "$", Problem: "is empty"}, `pending/\x1b[2J: is empty`},
		{Error{Problem: "is empty"}, "is empty"},
	}
	for _, test := range tests {
		if got := test.e.Error(); got != test.want {
			t.Errorf("got  %s\nwant %s", got, test.want)
		}
	}
}

func TestAgo(t *testing.T) {
	now := time.Now()
	for want, d := range map[string]time.Duration{
		"5s": 5 * time.Second, "3m": 200 * time.Second, "47h": 47 * time.Hour, "3d": 75 * time.Hour, "in 10m": -10 * time.Minute,
	} {
		if got := Ago(now.Add(-d), now); got != want {
			t.Errorf("%v ago: %s, want %s", d, got, want)
		}
	}
}

// Times in a text are those of this machine's zone for a person; what is no time stays.
func TestLocalTimes(t *testing.T) {
	at := time.Date(2026, 2, 16, 23, 30, 1, 5e8, time.UTC)
	want := at.Local().Format("2006-01-02 15:04:05")
	for text, is := range map[string]string{
		"since 2026-02-16T23:30:01.500Z, by x":         "since " + want + ", by x",
		"2026-02-16T23:30:01Z":                         want,
		"2026-13-16T23:30:01Z":                         "2026-13-16T23:30:01Z",
		"12026-02-16T23:30:01Z":                        "12026-02-16T23:30:01Z",
		"on 2026-02-16":                                "on 2026-02-16",
		"2026-02-16T23:30:01Z 2026-02-16T23:30:01.5Z.": want + " " + want + ".",
		"(2026-02-16T23:30:01Z): x":                    "(" + want + "): x",
		"open a-2026-02-16T23:30:01Z.tar":              "open a-2026-02-16T23:30:01Z.tar",
		"open 2026-02-16T23:30:01Z.tar":                "open 2026-02-16T23:30:01Z.tar",
		`such as "2026-02-16T23:30:01Z"`:               `such as "2026-02-16T23:30:01Z"`,
	} {
		if got := LocalTimes(text); got != is {
			t.Errorf("%q became %q, want %q", text, got, is)
		}
	}
}

// A tail is the end of all that was written, whatever the sizes of the pieces.
func TestTail(t *testing.T) {
	for _, pieces := range [][]string{{"0123456789"}, {"0", "12345678", "9"}, {"0123456", "789"}, {"", "012345", "6789", ""}} {
		tail := Tail{Most: 4}
		for _, p := range pieces {
			if n, err := tail.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatalf("%d, %v", n, err)
			}
		}
		if tail.String() != "6789" {
			t.Errorf("%q end with %q", pieces, tail.String())
		}
	}
}
