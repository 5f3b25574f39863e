package audit

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// checkSkim holds what a skim takes out of a line, proven or not, to what the JSON
// decoder makes of it: the same verdict, the same entry, the same members.
func checkSkim(t testing.TB, raw []byte, l *parsed) {
	t.Helper()
	line := Line{Raw: raw, Seq: l.seq, Checksum: string(l.sum), parts: l}
	want, bad := decode(raw)
	if (line.Sound() == nil) != (bad == nil) || l.proven && bad != nil {
		t.Fatalf("%q: skimmed %v, decoded %v, proven %v", raw, line.Sound(), bad, l.proven)
	}
	if bad != nil {
		return
	}
	if l.seq != want.Seq || string(l.prev) != want.Prev || string(l.sum) != want.Checksum {
		t.Fatalf("%q: %d %s %s, want %+v", raw, l.seq, l.prev, l.sum, want)
	}
	want.Details = slices.Clip(want.Details)
	e, err := line.Decode()
	if e.Details = slices.Clip(e.Details); err != nil || !reflect.DeepEqual(e, want) {
		t.Fatalf("%q: %v\nskimmed %+v\ndecoded %+v", raw, err, e, want)
	}
	if line.Agent() != want.Agent || line.Event() != want.Event || line.Task() != want.Task() || !line.Time().Equal(want.Time()) {
		t.Fatalf("%q: %s %s %q %s, want %+v", raw, line.Agent(), line.Event(), line.Task(), line.Time(), want)
	}
	if line.Of(want.Task()) != (want.Task() != "") || line.Of(want.Task()+"x") || line.Of("") {
		t.Fatalf("%q: of its task %v, of another %v", raw, line.Of(want.Task()), line.Of(want.Task()+"x"))
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(want.Details, &members); err != nil {
		t.Fatal(err)
	}
	for _, m := range line.Members() {
		if !bytes.Equal(m.Value, members[string(m.Name)]) {
			t.Fatalf("%q: %s is %s, want %s", raw, m.Name, m.Value, members[string(m.Name)])
		}
	}
	if n := len(line.Members()); n != len(members) {
		t.Fatalf("%q: %d members, want %d", raw, n, len(members))
	}
	for key, value := range members {
		if text := ""; json.Unmarshal(value, &text) == nil && line.Text(key) != text {
			t.Fatalf("%q: %s is %q, want %q", raw, key, line.Text(key), text)
		}
	}
}

// checkForm holds what verify asks of a line to the strict verdict.
func checkForm(t testing.TB, raw []byte, l *parsed) {
	t.Helper()
	slow := schemas.CheckCanonical(append(bytes.Clone(raw[:len(raw)-suffixSize]), '}'))
	if slow == nil {
		_, slow = decode(raw)
	}
	if quick := (Line{Raw: raw, parts: l}).Strict(); (quick == nil) != (slow == nil) {
		t.Fatalf("%q: fast %v, strict %v", raw, quick, slow)
	}
}

// TestRule32_ReadMutations puts bytes and longer texts to every place of a line, and
// makes its checksum right afterwards.
func TestRule32_ReadMutations(t *testing.T) {
	id, session := "task-2026-02-16-001", "agent:pi:x"
	bodies := [][]byte{}
	for i, event := range Events {
		e := Entry{
			TS: "2026-02-16T10:30:00.123Z", Seq: int64(i + 1), Prev: Genesis("id"), V: Format, Agent: "bridge:coder", Event: event, Action: "coder picked " + id,
			Details: Details(map[string]any{"after": Hash(nil), "epoch": 1, "from": nil, "queue": map[string]any{"a": []any{1, "x"}, "b": true}, "tx": "0123"}),
		}
		if i%2 == 0 {
			e.TaskID, e.Session = &id, &session
		}
		raw, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, append(bytes.Clone(raw[:len(raw)-suffixSize]), '}'))
	}
	for _, body := range bodies {
		if !checkProof(t, body) {
			t.Errorf("not proven: %s", body)
		}
	}
	pieces := []string{``, `"`, `\`, `\"`, `\u000b`, `\b`, `,`, `:`, `}`, `]`, `{}`, `00`, `-0`, `1e3`, `9007199254740992`, `null`, "\xc3", "é", ` `, `"a":1,`, `A`, `\u0041`, "\u2028"}
	for _, c := range "\x00\b\n\x1f !#/019AZ[az{~\x7f" {
		pieces = append(pieces, string(c))
	}
	taken := 0
	for at := range len(bodies[0]) - 1 {
		for i, piece := range pieces {
			body := bodies[i%2] // one has an id and a session, one has not
			for drop := range 2 {
				if at < len(body)-1 && checkProof(t, slices.Concat(body[:at], []byte(piece), body[at+drop:])) {
					taken++
				}
			}
		}
	}
	if taken < 5000 {
		t.Errorf("only %d of the mutations were proven", taken)
	}
}

// TestRule32_ParseFlips flips every byte of a line that is proven: neither way takes
// it, and both say the same.
func TestRule32_ParseFlips(t *testing.T) {
	id := "task-2026-02-16-001"
	e := Entry{TS: "2026-02-16T10:30:00.123Z", Seq: 7, Prev: Genesis("id"), V: Format, Agent: "coder", Event: TaskPicked, Action: "coder picked " + id, TaskID: &id, Details: Details(ThisWriter())}
	good, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	var l parsed
	if err := l.parse(good); err != nil || !l.proven {
		t.Fatalf("%v: proven %v", err, l.proven)
	}
	for at := range good {
		for _, flip := range []byte{1, 0x20, 0x80} {
			raw := bytes.Clone(good)
			raw[at] ^= flip
			_, _, _, want := skim(raw)
			if err := l.parse(raw); err == nil || err != want {
				t.Errorf("%q: %v, want %v", raw, err, want)
			}
		}
	}
}

// TestRule32_ByPosition has lines whose text and details hold what looks like other
// members, in canonical form and not: what a skim says of them is what decoding says.
func TestRule32_ByPosition(t *testing.T) {
	const fake = `,"agent":"other","event":"audit_repaired","prev":"sha256:0","seq":9,"task_id":"other","to":"pending","tx":"0"`
	action, _ := jsontext.AppendQuote(nil, "x"+fake)
	head, tail := `{"action":`+string(action)+`,"agent":"coder","details":`, `,"event":"error","prev":"`+Genesis("id")+`","seq":7,"session":null,"task_id":"mine","ts":"2026-02-16T10:30:00.123Z","v":1}`
	for _, row := range []struct {
		name, body string
		proven     bool
	}{
		{"text", head + `{"a":` + string(action) + `}` + tail, true},
		{"details", head + `{"agent":"other","event":"audit_repaired","tx":"t","z":{"seq":1,"to":"pending","tx":"u"}}` + tail, true},
		{"a list", head + `{"a":[{"task_id":"other","to":"pending"}]}` + tail, true},
		{"a space", head + `{"a": {"to":"pending"}}` + tail, false},
		{"order", head + `{"tx":"t","event":"audit_repaired","a":"b"}` + tail, false},
		{"an escape", head + `{"\u0061":{"to":"pending"}}` + tail, false},
		{"a key", head + `{"é":{"to":"pending"},"tx":"t"}` + tail, false},
		{"a key twice", head + `{"tx":"t","tx":"u"}` + tail, false},
		{"a task in escapes", strings.Replace(head+`{}`+tail, `"mine"`, `"mi\u006ee"`, 1), false},
		{"the end first", `{"v":1,"ts":"2026-02-16T10:30:00.123Z",` + strings.TrimPrefix(strings.Replace(head+`{"tx":"t"}`+tail, `,"ts":"2026-02-16T10:30:00.123Z","v":1`, ``, 1), `{`), false},
		{"another event", strings.Replace(head+`{}`+tail, `"event":"error"`, `"event":"errors"`, 1), false},
	} {
		if proven := checkProof(t, []byte(row.body)); proven != row.proven {
			t.Errorf("%s: proven %v, want %v", row.name, proven, row.proven)
		}
	}
}

// What the fast way proves, the slow way finds true.
func FuzzParseLine(f *testing.F) {
	f.Add(plainBody(f))
	f.Add([]byte(`{"action":"\u001f\b\"\\","agent":"a","details":{"a":[],"b":{},"c":[1,-2,null,true,false,"x"]},"event":"error","prev":"sha256:0000000000000000000000000000000000000000000000000000000000000000","seq":1,"session":null,"task_id":null,"ts":"2026-02-16T10:30:00.000Z","v":1}`))
	f.Fuzz(func(t *testing.T, body []byte) { checkProof(t, body) })
}

// checkProof holds the fast way to the slow one on one body.
func checkProof(t testing.TB, body []byte) (proven bool) {
	if len(body) == 0 || body[len(body)-1] != '}' || bytes.IndexByte(body, '\n') >= 0 {
		return false
	}
	raw := append(append(bytes.Clone(body[:len(body)-1]), suffixKey...), Hash(body)+`"}`...)
	before := bytes.Clone(raw)
	var l parsed
	err := l.parse(raw)
	if !bytes.Equal(raw, before) {
		t.Fatal("the line was changed")
	}
	if _, bad := decode(raw); err != nil && bad == nil {
		t.Fatalf("%q: decoded, but %v", raw, err)
	}
	if err != nil {
		return false
	}
	checkForm(t, raw, &l)
	checkSkim(t, raw, &l)
	if l.proven {
		if err := schemas.CheckCanonical(body); err != nil {
			t.Fatalf("%q: proven, but %v", raw, err)
		}
		var fields map[string]any
		if err := json.Unmarshal(raw, &fields); err != nil || len(fields) != 11 {
			t.Fatalf("%q: %v %v", raw, fields, err)
		}
	}
	return l.proven
}

func TestRule32_ParseLineMutations(t *testing.T) {
	body := plainBody(t)
	body = bytes.Replace(body, []byte("\u00e9\":true"), []byte("z\":true"), 1) // a key beyond ASCII takes the slow way
	if !checkProof(t, body) {
		t.Error("a plain line is not proven")
	}
	r, proven := rand.New(rand.NewPCG(1, 2)), 0
	pieces := []string{`"`, `\`, `\u001f`, `\u0008`, `\n`, `\/`, `,`, `:`, `{`, `}`, `[`, `]`, `{}`, `[]`, `0`, `-0`, `-`, `1e3`, `9007199254740992`, `null`, "\x00", "\x7f", "\xff", "é", "😀", " ", `"a":1,`, `,"v":1`, `"é":1,`}
	for range 30000 {
		m := bytes.Clone(body)
		for range 1 + r.IntN(2) {
			at := r.IntN(len(m) - 1)
			m = slices.Concat(m[:at], []byte(pieces[r.IntN(len(pieces))]), m[at+r.IntN(2):])
		}
		if checkProof(t, m) {
			proven++
		}
	}
	if proven < 1000 {
		t.Errorf("only %d of the mutations were proven", proven)
	}
}

// plainBody is a line without its checksum.
func plainBody(t testing.TB) []byte {
	id, session := "task-2026-02-16-001", "agent:pi:dm:+123"
	e := Entry{
		TS: "2026-02-16T10:30:00.000Z", Seq: 1, Prev: Genesis("id"), V: Format,
		Agent: "coder", Event: PolicyDenied, Action: "coder may not write_file \"x\"\n\u00e9\u2028", TaskID: &id, Session: &session,
		Details: Details(map[string]any{"tx": "0123", "uid": 1, "pid": 2, "host": "h", "list": []int{-1, 0}, "\u00e9": true, "none": nil}),
	}
	raw, err := e.encode()
	if err != nil {
		t.Fatal(err)
	}
	return append(bytes.Clone(raw[:len(raw)-suffixSize]), '}')
}
