package mailbox

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mbox/audit"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// seedTasks are texts from which fuzzing of tasks begins.
var seedTasks = []string{
	titled(""),
	titled(`,"id":"drop"`),
	meta(`"action":{"name":"write_file","params":{"path":"a"}},"depends_on":["other-1"],"not_before":"2020-01-01T00:00:00+02:00","max_attempts":7,"idempotency_key":"k","labels":{"a":1}`),
	titled(`,"created":"9999-12-31T23:59:59-01:00"`),
	titled(`,"created":"2020-02-29T23:59:60.1234567891Z","source":{"agent":"bridge:x","session":"s"}`),
	inContext(`[1.50,2e3,-0,"\ud83d\ude42",null,{"":[]}]`),
	`{"task":{"title":"x","context":{"conversation_summary":"s","relevant_files":["a"],"constraints":null}}}`,
	`{"id":"t1","version":1,"created":"2026-01-01T00:00:00Z","updated":"2026-01-01T00:00:00.123Z","source":{"agent":"human"},"task":{"type":"other","priority":"normal","title":"x","description":""},"assignment":{"target_agent":"any","picked_up_by":"coder","picked_up_at":"2026-01-01T00:00:00Z"},"result":{"status":"completed","output":{"a":[1]},"artifacts":[{"path":"p","size":1,"sha256":"sha256:0000000000000000000000000000000000000000000000000000000000000000"}],"error":null},"audit":{"state_changes":[{"from":"pending","to":"in-progress","by":"coder","at":"2026-01-01T00:00:00Z","reason":"r"}]},"mbox":{"tx":"00","revision":2,"attempt":1,"max_attempts":3,"epoch":1,"lease":{"token":"t","host":"h","deadline":"2026-01-01T00:15:00Z"},"progress":{"at":"2026-01-01T00:00:00Z","percent":40,"message":"m"}}}`,
	`{"task":{"Title":"x"}}`,
	`[]`,
	`{"task":`,
}

// FuzzParseDrop: what is refused is refused with a path and a code; what is
// taken is written such that it reads the same, as the drop that it was and as
// the task that it becomes.
func FuzzParseDrop(f *testing.F) {
	for _, text := range seedTasks {
		f.Add("drop.json", []byte(text))
	}
	f.Add("", []byte(seedTasks[0]))
	f.Add("a name\n.json", []byte(seedTasks[0]))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		if len(data) <= 128<<10 {
			bounded(t, "it", mostAllocated, func() { taskCost(data) })
		}
		drop, err := task.ParseDrop(name, data)
		if err == nil {
			err = drop.Validate()
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		again, err := schemas.Encode(drop)
		must(t, err)
		if len(again) > MaxTask {
			return
		}
		same, err := task.ParseDrop(name, again)
		if err != nil {
			t.Fatalf("its own encoding is refused: %v\n%s", err, again)
		}
		checkSame(t, drop, same)
		must(t, same.Validate())

		drop.Complete(time.Unix(1e9, 0), time.Unix(2e9, 0), "unknown", 3)
		becomes, err := schemas.Encode(drop)
		must(t, err)
		if len(becomes) > MaxTask {
			return
		}
		read := new(Task)
		if err := schemas.Decode(becomes, read); err != nil {
			t.Fatalf("the task that it becomes cannot be read: %v\n%s", err, becomes)
		}
		checkSame(t, drop, read)
		if drop.AskedHash() != read.AskedHash() {
			t.Error("what was asked is not the same when it is read again")
		}
	})
}

func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var bad *schemas.Error
	if !errors.As(err, &bad) {
		t.Fatalf("%T: %v", err, err)
	}
	if bad.Path == "" || bad.Code == "" || bad.Problem == "" {
		t.Errorf("it does not say all: %+v", bad)
	}
	if text := err.Error(); !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == '\u202e' }) {
		t.Errorf("not fit for a terminal: %q", text)
	}
}

// checkSame compares by what is written: raw JSON may differ in white space.
func checkSame(t *testing.T, a, b *Task) {
	t.Helper()
	one, err := schemas.Encode(a)
	must(t, err)
	two, err := schemas.Encode(b)
	must(t, err)
	if !bytes.Equal(one, two) {
		t.Errorf("read again it is another:\n%s\n%s", one, two)
	}
}

// FuzzTaskFile: whatever lies in a folder is read, or refused, and what can be
// saved of it for an answer is a task.
func FuzzTaskFile(f *testing.F) {
	for _, text := range seedTasks {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed := new(Task)
		if err := schemas.Decode(data, parsed); err != nil {
			checkRefusal(t, err)
		} else if text, err := schemas.Encode(parsed); err == nil && len(text) <= MaxTask {
			again := new(Task)
			if err := schemas.Decode(text, again); err != nil {
				t.Fatalf("its own encoding is refused: %v\n%s", err, text)
			}
			checkSame(t, parsed, again)
			if parsed.AskedHash() != again.AskedHash() {
				t.Error("what was asked is not the same when it is read again")
			}
			parsed.Audit.Trim()
			_, _ = parsed.Validate(), parsed.Forged()
		}
		var rest *Task
		most := uint64(mostForLargest)
		if len(data) <= 128<<10 {
			most = mostAllocated
		}
		bounded(t, "saving it", most, func() { rest = task.Salvage("drop", data) })
		if err := errors.Join(rest.Validate(), rest.Forged()); err != nil {
			t.Errorf("what was saved of it is no task: %v", err)
		}
		rest.Complete(time.Unix(1e9, 0), time.Unix(2e9, 0), "unknown", 3)
		text, err := schemas.Encode(rest)
		must(t, err)
		if err := schemas.Decode(text, new(Task)); err != nil && len(text) <= MaxTask {
			t.Errorf("what was saved of it cannot be read: %v\n%s", err, text)
		}
	})
}

// FuzzIntent: a record is read, or it is damaged; what is written is read
// as it was, and fits in its place.
func FuzzIntent(f *testing.F) {
	d := home.Intent{Kind: "task", Name: "t1", TX: "00", At: audit.Position{File: "2026-01-01.jsonl", Offset: 1, Seq: 2, Checksum: "sha256:00"}, PID: 3}
	f.Add(d.Encode(), "t1", int64(7))
	f.Add([]byte(strings.Repeat(" ", home.SlotSize-1)+"\n"), "a b\n\x1b", int64(-1))
	f.Add([]byte("intent task \"t1\" 00 - 0 0  1 00000000\n"), strings.Repeat("\x01", 255), int64(1<<40))
	f.Add([]byte("intent drop "+strings.Repeat("\xff", home.SlotSize-64)+" 00 - 0 0 - 1 00000000\n"), "x", int64(0))
	f.Add([]byte{}, "\xff\xfe\u202e\U000e0001", int64(0))
	f.Fuzz(func(t *testing.T, record []byte, name string, offset int64) {
		if got, set, err := home.DecodeIntent(record); err == nil && set {
			checkIntent(t, got)
		}
		if len(name) > 255 { // no file name is longer
			name = name[:255]
		}
		checkIntent(t, home.Intent{Kind: "drop", Name: name, TX: strings.Repeat("f", 32), At: audit.Position{
			File: "2026-01-01.jsonl", Offset: offset, Seq: offset, Checksum: audit.Hash(nil),
		}, PID: 1 << 22})
	})
}

func checkIntent(t *testing.T, d home.Intent) {
	t.Helper()
	text := d.Encode()
	if len(text) != home.SlotSize && len(d.Name) <= 255 && len(d.Kind+d.TX+d.At.File+d.At.Checksum) < 300 {
		t.Errorf("%d bytes for a name of %d", len(text), len(d.Name))
	}
	got, set, err := home.DecodeIntent(text)
	if err != nil || !set || got != d {
		t.Errorf("%+v was read as %+v: %v", d, got, err)
	}
}
