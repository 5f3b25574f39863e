package delegation

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"pgregory.net/rapid"

	"mbox/audit"
	"mbox/schemas"
)

func TestRedact(t *testing.T) {
	for _, c := range []struct{ name, params, keys, summary, hashes string }{
		{"nothing", ``, ``, `{}`, ``},
		{"an empty object", `{}`, ``, `{}`, ``},
		{
			"a file", `{"path":"notes/today.md","content":"häuser","mode":384,"append":false,"owner":null}`,
			`append content mode owner path`,
			`{"append":"<boolean>","content":"<redacted:6>","mode":"<number>","owner":"<null>","path":"<string:14>"}`, `content`,
		},
		{
			"keys that are sensitive in whatever case", `{"Password":"a","myApiKeys":["x"],"TEMPLATE":{"a":1},"max_tokens":7,"private_key":null}`,
			`Password TEMPLATE max_tokens myApiKeys private_key`,
			`{"Password":"<redacted:1>","TEMPLATE":"<redacted:7>","max_tokens":"<redacted:1>","myApiKeys":"<redacted:5>","private_key":"<redacted:4>"}`,
			`Password TEMPLATE max_tokens myApiKeys private_key`,
		},
		{
			"nested", `{"a":{"b":{"secret":"x","n":1}},"list":[{"token":"y"},"plain",[]]}`,
			`a list`, `{"a":{"b":{"n":"<number>","secret":"<redacted:1>"}},"list":"<array:3>"}`, `a.b.secret list[0].token`,
		},
		{
			"too deep", `{"a":{"b":{"c":{"d":{"e":{"f":1,"token":"x"}}}}}}`,
			`a`, `{"a":{"b":{"c":{"d":{"e":"<object:2>"}}}}}`, ``,
		},
		{
			"keys that are none", `{"my password is hunter2":1,"sk-0123456789abcdef":2,"4111111111111111":3,"a\u202eb":4,"":5,"ü":6}`,
			`<key:0> <key:16> <key:19> <key:1> <key:22> <key:3>`,
			`{"<key:0>":"<number>","<key:16>":"<number>","<key:19>":"<number>","<key:1>":"<number>","<key:22>":"<redacted:1>","<key:3>":"<number>"}`,
			`<key:22>`,
		},
		{"keys that become the same", `{"1":"a","2":"b"}`, `<key:1> <key:1>#2`, `{"<key:1>":"<string:1>","<key:1>#2":"<string:1>"}`, ``},
		{"paths that become the same", `{"a":{"key":1},"a.key":2}`, `a a.key`, `{"a":{"key":"<redacted:1>"},"a.key":"<redacted:1>"}`, `a.key a.key#2`},
		{"an array", `[{"token":"x"}]`, ``, `{"$":"<array:1>"}`, `$[0].token`},
		{"a string", `"AKIAABCDEFGHIJKLMNOP"`, ``, `{"$":"<redacted:20>"}`, `$`},
		{"a string with space around it", " \"secrets\"\n", ``, `{"$":"<string:7>"}`, ``},
		{"no JSON", `{"a":`, ``, `{"$":"<invalid:5>"}`, ``},
		{"a key twice", `{"a":1,"a":2}`, ``, `{"$":"<invalid:13>"}`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys, summary, hashes := Redact(jsontext.Value(c.params), []byte("salt"))
			if got := strings.Join(keys, " "); got != c.keys {
				t.Errorf("keys %q, want %q", got, c.keys)
			}
			if string(summary) != c.summary {
				t.Errorf("summary\n%s, want\n%s", summary, c.summary)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(hashes)), " "); got != c.hashes {
				t.Errorf("hashes of %q, want %q", got, c.hashes)
			}
		})
	}
}

// However wide and deep a payload is, what is told of it stays short, and says
// that there is more.
func TestRedactIsBounded(t *testing.T) {
	for _, size := range []int{5, 20, 38} {
		keys, summary, hashes := Redact(jsontext.Value(audit.Details(wide(500, size))), nil)
		var shape map[string]any
		if err := json.Unmarshal(summary, &shape); err != nil {
			t.Fatal(err)
		}
		if n := len(keys); n > maxMembers+1 || len(shape) != n || !strings.HasPrefix(keys[0], "<more:") {
			t.Errorf("%d keys, from %q on", n, keys[0])
		}
		if n := strings.Count(string(summary), `":`) - strings.Count(string(summary), `"<more:`); n != maxShape {
			t.Errorf("a summary of %d members", n)
		}
		paths := slices.Collect(maps.Keys(hashes))
		if longest := slices.MaxFunc(paths, func(a, b string) int { return len(a) - len(b) }); len(paths) != maxHashes || len(longest) > maxPath {
			t.Errorf("%d hashes, the longest path is %q", len(paths), longest)
		}
	}
	flat := map[string]int{}
	for i := range 100 {
		flat[fmt.Sprintf("n%02d", i)] = i
	}
	keys, _, _ := Redact(jsontext.Value(audit.Details(flat)), nil)
	if len(keys) != maxMembers+1 || keys[0] != "<more:68>" || keys[maxMembers] != "n31" {
		t.Errorf("of a hundred keys %q", keys)
	}
}

// A hash is that of the salt, the word payload and the value, so that another
// program can compare it.
func TestRedactHashes(t *testing.T) {
	_, _, hashes := Redact(jsontext.Value(`{"content":"h\u00e4user","keys":{"b":1, "a":1.0}}`), []byte("salt"))
	want := map[string]string{"content": audit.Hash([]byte("saltpayload\nhäuser")), "keys": audit.Hash([]byte("saltpayload\n" + `{"a":1,"b":1}`))}
	if !maps.Equal(hashes, want) {
		t.Errorf("hashes %v, want %v", hashes, want)
	}
	_, _, other := Redact(jsontext.Value(`{"content":"häuser"}`), []byte("pepper"))
	if other["content"] == hashes["content"] {
		t.Error("another salt gives the same hash")
	}
}

func TestLooksSecret(t *testing.T) {
	run := func(n int) string {
		b := make([]byte, n)
		_, _ = rand.Read(b)
		return hex.EncodeToString(b)
	}
	secrets := []string{
		"-----BEGIN OPENSSH PRIVATE KEY-----\nb3Blb\n-----END OPENSSH PRIVATE KEY-----", "x\n-----BEGIN RSA PRIVATE KEY-----",
		"sk-ant-api03-abcdefghij", "sk-proj-0123456789ab", "ghp_0123456789abcdef", "github_pat_0123456789abcdef",
		"AKIAIOSFODNN7EXAMPLE", "xoxb-1234567890-abc", "glpat-0123456789abcdef", "AIzaSyA0123456789abcdefghijk",
		"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig", "Authorization: Bearer abcdef123", "basic dXNlcjpwYXNz",
		"postgres://user:pass@db/x", "https://token@example.org/", "PASSWORD=hunter2", `{"api_key": "x"}`, "db_password:hunter2",
		run(16), "say " + run(32) + " twice", "AGE-SECRET-KEY-1QQQQQQQQQQ", "c29tZSBsb25nIGJhc2U2NCB0ZXh0IHRoYXQgZ29lcyBvbg==",
	}
	for _, s := range secrets {
		if !looksSecret(s) {
			t.Errorf("%q does not look like a secret", s)
		}
		if got := withoutSecrets("it said " + s + " and more"); !strings.Contains(got, "<redacted:") {
			t.Errorf("%q is left: %q", s, got)
		}
	}
	for _, s := range []string{
		"", "notes/today.md", "write a note and check that it is there", "http://127.0.0.1:8080/health", "task-2026-02-16-001",
		"params.token: unknown field", "you@example.org", "3.14159", "the basic idea", "task-sk-1",
	} {
		if looksSecret(s) || withoutSecrets(s) != s {
			t.Errorf("%q looks like a secret: %q", s, withoutSecrets(s))
		}
	}
	own := "approval names sha256:" + run(32) + " of summarise-the-readme-for-the-weekly-report-2026-02-16"
	if got := withoutSecrets(own); got != own {
		t.Errorf("a reason of mbox is blacked out: %q", got)
	}
}

// told is everything that Redact gives but for its own words and hashes.
func told(keys []string, summary jsontext.Value, hashes map[string]string) string {
	text := strings.Join(keys, "\n") + "\n" + string(summary) + "\n" + strings.Join(slices.Sorted(maps.Keys(hashes)), "\n")
	return ownWords.ReplaceAllString(text, "")
}

var (
	ownWords    = regexp.MustCompile(`<(?:(?:string|redacted|array|object|key|more|invalid):\d+|number|boolean|null|more)>`)
	anyRedacted = regexp.MustCompile(`<redacted:\d+>`)
	plainHash   = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// No six bytes of any value get through, wherever it lies. The alphabets of
// keys and values have nothing in common, so that what is found is a leak.
func TestRedactLeaksNothing(t *testing.T) {
	value := rapid.OneOf(
		rapid.StringOfN(rapid.RuneFrom([]rune("ABCXYZ @/+=-äß漢🙂\n\"\\")), 6, 60, -1),
		rapid.SampledFrom([]string{"AKIAIOSFODNNEXAMPLE", "-----BEGIN PRIVATE KEY-----", "SK-ABC", "BEARER ABCDEFGH"}),
	)
	key := rapid.OneOf(rapid.StringMatching(`[a-f_]{1,8}`), rapid.SampledFrom([]string{"content", "my_token", "apikey"}))
	var doc func(depth int) *rapid.Generator[any]
	doc = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{value.AsAny()}
		if depth > 0 {
			kinds = append(kinds, rapid.MapOfN(key, doc(depth-1), 0, 4).AsAny(), rapid.SliceOfN(doc(depth-1), 0, 4).AsAny())
		}
		return rapid.OneOf(kinds...)
	}
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.MapOfN(key, doc(4), 1, 6).Draw(t, "params")
		params := audit.Details(v)
		text := told(Redact(params, []byte("salt")))
		for _, leaf := range leaves(v) {
			for i := range len(leaf) - 5 {
				if strings.Contains(text, leaf[i:i+6]) {
					t.Fatalf("%q of a value is told: %s", leaf[i:i+6], text)
				}
			}
		}
	})
}

func leaves(v any) (texts []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case map[string]any:
		for _, member := range v {
			texts = append(texts, leaves(member)...)
		}
	case []any:
		for _, item := range v {
			texts = append(texts, leaves(item)...)
		}
	}
	return texts
}

// FuzzRedact: what is told of a payload is bounded JSON for the ledger, and
// depends on nothing of its values but their kind and size: those of a payload
// with other values in the same places are told the same.
func FuzzRedact(f *testing.F) {
	for _, seed := range []string{
		`{"path":"a","content":"secret text","n":1.5,"ok":true}`, `{"a":{"b":[{"token":"x"},null,1e300]}}`, `[[[["x"]]]]`,
		`{"ghp_0123456789abcdef":"sk-0123456789abcdef","\u0000":"\ud83d\ude42"}`, `"x"`, `{"a":1,"a":2}`, `{"key":{"deep":[1,2,{"x":"y"}]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Add([]byte(strings.Repeat(`{"a":`, 40) + `"x"` + strings.Repeat(`}`, 40)))
	f.Add([]byte(audit.Details(wide(200, 40))))
	f.Fuzz(func(t *testing.T, data []byte) {
		keys, summary, hashes := Redact(data, []byte("salt"))
		if !slices.IsSorted(keys) || schemas.CheckCanonical(summary) != nil || summary.Kind() != '{' {
			t.Fatalf("keys %q, summary %s", keys, summary)
		}
		if n := len(told(keys, summary, hashes)); n > 24<<10 || len(summary) > 16<<10 || len(hashes) > maxHashes {
			t.Fatalf("%d bytes told, a summary of %d, %d hashes", n, len(summary), len(hashes))
		}
		for path, hash := range hashes {
			if !plainHash.MatchString(hash) || !utf8.ValidString(path) || len(path) > maxPath {
				t.Fatalf("hash %q of %q", hash, path)
			}
		}
		if twin := twinOf(data); twin != nil {
			shown, same := shape(keys, summary, hashes), shape(Redact(twin, []byte("salt")))
			if shown != same {
				t.Fatalf("other values are told in another way:\n%s\n%s", shown, same)
			}
		}
	})
}

// shape is what is told but for the sizes of what is sensitive.
func shape(keys []string, summary jsontext.Value, hashes map[string]string) string {
	return fmt.Sprintf("%q %s %q", keys, anyRedacted.ReplaceAllString(string(summary), "<redacted>"), slices.Sorted(maps.Keys(hashes)))
}

// wide is an object with many members, whose names have so many characters, and
// objects with something sensitive in each.
func wide(members, size int) map[string]any {
	v := map[string]any{}
	for i := range members {
		name := fmt.Sprintf("g_%0*d", size-2, i)
		v[name] = map[string]any{"token": "x", "b": []any{map[string]any{"secret": i}}, name: map[string]any{name: map[string]any{name: map[string]any{"secret": i}}}}
	}
	return v
}

// twinOf is a payload with other values: what looks like a secret is another
// one, any other string one of the same length.
func twinOf(data []byte) jsontext.Value {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return nil
	}
	return audit.Details(other(v))
}

func other(v any) any {
	switch v := v.(type) {
	case string:
		if looksSecret(v) {
			return "AKIAIOSFODNN7EXAMPLE"
		}
		return strings.Repeat("~", utf8.RuneCountInString(v))
	case float64:
		return 7
	case bool:
		return !v
	case map[string]any:
		for name, member := range v {
			v[name] = other(member)
		}
	case []any:
		for i, item := range v {
			v[i] = other(item)
		}
	}
	return v
}
