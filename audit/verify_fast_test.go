package audit

import (
	"bytes"
	"reflect"
	"slices"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// checkFast holds what the fast way makes of a proven line to what strict
// decoding makes of it: the same verdict, the same entry, the same members.
func checkFast(t testing.TB, raw []byte, l *parsed) {
	t.Helper()
	line := Line{Raw: raw, Seq: l.seq, Checksum: string(l.sum), Members: l.members}
	v := &verification{agents: map[string]string{}}
	v.at.Checksum = string(l.prev)
	copy(v.second[:], "2026-02-16T10:30:00.") // that a ts in it takes the shorter way
	var fast Entry
	quick := v.read(l, &line, &fast)
	strict, slow := strictly(&line)
	if (quick == nil) != (slow == nil) {
		t.Fatalf("%q: fast %v, strict %v", raw, quick, slow)
	}
	if quick != nil {
		return
	}
	strict.Details = slices.Clip(strict.Details)
	if !reflect.DeepEqual(fast, strict) {
		t.Fatalf("%q:\nfast   %+v\nstrict %+v", raw, fast, strict)
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(strict.Details, &members); err != nil || len(members) != len(l.members) {
		t.Fatalf("%q: %v: %d members, want %d", raw, err, len(l.members), len(members))
	}
	for _, m := range line.Members {
		if !bytes.Equal(m.Value(raw), members[string(m.Key(raw))]) {
			t.Fatalf("%q: %s is %s, want %s", raw, m.Key(raw), m.Value(raw), members[string(m.Key(raw))])
		}
	}
}

// TestReadMutations puts bytes and longer texts to every place of a line, and
// makes its checksum right afterwards.
func TestReadMutations(t *testing.T) {
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

// TestParseFlips flips every byte of a line that is proven: neither way takes
// it, and both say the same.
func TestParseFlips(t *testing.T) {
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
