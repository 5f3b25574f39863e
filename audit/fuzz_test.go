package audit

import (
	"bytes"
	"math"
	"testing"

	"mbox/schemas"
)

// closed is a body (an entry without its checksum) with the right checksum, so
// that fuzzing gets behind it.
func closed(body []byte) []byte {
	sum := Hash(body)
	raw := append(bytes.Clone(body[:len(body)-1]), suffixKey...)
	return append(append(raw, sum...), `"}`...)
}

// FuzzLine: a line is read or refused; one that is valid is written as it was,
// and what is taken out of it without parsing is what parsing gives.
func FuzzLine(f *testing.F) {
	id, session := "task-2026-02-16-001", "agent:pi \"x\"\u2028\x7f"
	for _, e := range []Entry{
		{Agent: "coder", Event: TaskPicked, Action: "coder picked task-2026-02-16-001", TaskID: &id, Details: Details(map[string]any{"to": "in-progress", "n": 1})},
		{Agent: "bridge:x", Event: ErrorEvent, Action: "\x00\x1f\" \\ / é ☂ 🙂", Session: &session, Details: Details(map[string]any{"prev": `,"prev":"`, "é": nil, "z": []any{true, math.Copysign(0, -1), 1e21}})},
	} {
		e.TS, e.Seq, e.Prev, e.V = "2026-02-16T10:30:00.123Z", 1, Genesis("id"), Format
		raw, err := e.encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(bytes.Clone(raw[:len(raw)-suffixSize]), '}'))
		f.Add(raw)
	}
	f.Add([]byte(`{"action":"","agent":"a","details":{},"event":"error","prev":"x","seq":01,"session":null,"task_id":null,"ts":"2026-02-16T10:30:00.123Z","v":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		bounded(t, "it", func() {
			check(t, data)
			if len(data) > 0 {
				check(t, closed(data))
			}
		})
	})
}

func check(t *testing.T, raw []byte) {
	t.Helper()
	seq, prev, sum, err := skim(raw)
	line := Line{Raw: raw, Seq: seq, Checksum: sum}
	_ = line.Agent()
	_, _ = line.Decode()
	if err != nil {
		return
	}
	e, err := line.Decode()
	if err != nil || line.Strict() != nil {
		return
	}
	if e.Seq != seq || e.Prev != prev || e.Checksum != sum {
		t.Errorf("skimmed %d %s %s, parsed %+v", seq, prev, sum, e)
	}
	if bytes.ContainsAny([]byte(e.Agent), `"\`) {
		return // no name of an agent has these
	}
	if line.Agent() != e.Agent && schemas.Sentence(e.Agent, 1000) == e.Agent {
		t.Errorf("agent %q, parsed %q", line.Agent(), e.Agent)
	}
	again, err := e.encode()
	if err != nil || !bytes.Equal(again, raw) {
		t.Errorf("a valid line is written in another way: %v\n%s\n%s", err, raw, again)
	}
}

// FuzzHead: a head record is read or not; what is written is read as it was.
func FuzzHead(f *testing.F) {
	h := Head{File: "2026-02-16.jsonl", Dev: 1, Ino: 2, Length: 3, Seq: 4, Checksum: Genesis("id"), Boot: "boot-1"}
	f.Add(h.encode(), int64(1), uint64(2))
	f.Add(Head{Checksum: "x", Boot: "y"}.encode(), int64(-1), uint64(1<<63))
	f.Add([]byte("head - 0 0 0 0 a b 00000000\n"), int64(1<<62), uint64(0))
	f.Fuzz(func(t *testing.T, record []byte, n int64, u uint64) {
		if got, ok := decodeHead(record); ok {
			checkHead(t, got)
		}
		checkHead(t, Head{File: "2026-02-16.jsonl", Dev: u, Ino: u, Length: n, Seq: n, Checksum: Genesis("id"), Boot: "9f0e"})
		checkHead(t, Head{Length: n, Seq: n, Checksum: Genesis("id"), Boot: "9f0e"})
	})
}

func checkHead(t *testing.T, h Head) {
	t.Helper()
	record := h.encode()
	if len(record) != headSize {
		t.Errorf("%d bytes", len(record))
	}
	if got, ok := decodeHead(record); !ok || got != h {
		t.Errorf("%+v was read as %+v, %v", h, got, ok)
	}
}
