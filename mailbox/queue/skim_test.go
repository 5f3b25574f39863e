package queue

import (
	"cmp"
	"reflect"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/task"
)

// asLine is the line that the ledger has of an entry, but for its chain.
func asLine(t testing.TB, e audit.Entry) *audit.Line {
	t.Helper()
	none := audit.Genesis("none")
	e.Seq, e.V, e.Prev, e.Checksum = max(e.Seq, 1), audit.Format, none, none
	e.TS = cmp.Or(e.TS, "2026-02-16T10:30:00.123Z")
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	line := &audit.Line{Raw: raw, Seq: e.Seq}
	if err := line.Sound(); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return line
}

// checkSkimmed holds the skim of a line to what decoding makes of it.
func checkSkimmed(t testing.TB, line audit.Line) (skimmed bool) {
	t.Helper()
	var fast, slow skimmer
	got := *fast.of(line)
	slow.begin(line)
	e, err := line.Decode()
	if err != nil {
		t.Fatal(err)
	}
	if m, ok := task.MoveOf(&e); ok {
		slow.last.decoded(m)
	}
	want := slow.last
	if string(got.key) == string(want.key) {
		got.key = want.key
	}
	if got.ID != task.ID(e.Task()) || string(got.event) != string(e.Event) || got.agent != e.Agent || !got.at.Equal(e.Time()) {
		t.Fatalf("%s: %+v", line.Raw, got)
	}
	if got.moves == want.moves && !got.moves { // the rest counts for nothing
		return false
	}
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\nskimmed %+v\ndecoded %+v", line.Raw, got, want)
	}
	fast.begin(line)
	return fast.skim(line)
}

const skimDetails = `{"after":"sha256:00000000000000000000000000000000000000000000000000000000000000ff","attempt":0,"before":null,"epoch":0,"from":null,"host":"vm","key":"sha256:k","pid":1,"queue":{"asked":"sha256:00000000000000000000000000000000000000000000000000000000000000ee","created":"2026-02-16T10:30:00.12Z","max_attempts":3,"priority":"high","target":"coder","type":"thinking"},"reason":"submitted","request":"sha256:r","revision":1,"to":"pending","tx":"0123456789abcdef0123456789abcdef","uid":0}`

// TestRule32_SkimOfMoves puts values that mbox does not write into every member of a
// move and of its queue: the skim is what decoding says, or leaves it to that.
func TestRule32_SkimOfMoves(t *testing.T) {
	id := "t1"
	line := func(details string) audit.Line {
		value := jsontext.Value(details)
		if err := value.Canonicalize(); err != nil {
			t.Fatalf("%s: %v", details, err)
		}
		return *asLine(t, audit.Entry{Agent: "coder", Event: audit.TaskCreated, TaskID: &id, Details: value})
	}
	if !checkSkimmed(t, line(skimDetails)) {
		t.Error("what mbox writes is left to the decoder")
	}
	for _, details := range []string{`{"to":null,"tx":"a"}`, `{"tx":"a","x":{"to":"pending"}}`, `{"tx":"a","x":"\"to\":"}`} {
		checkSkimmed(t, line(details))
	}
	values := []string{`null`, `0`, `-1`, `1.5`, `1e3`, `9007199254740993`, `""`, `"x"`, `"a\"b"`, `"pending"`, `"nowhere"`, `true`, `[]`, `{}`, `{"to":"failed"}`, `"2026-02-30T10:30:00Z"`, `"2026-02-16T10:30:00.1Z"`, `"2026-02-16T10:30:00.1234Z"`, `"2026-02-16T10:30:00+01:00"`, `"0000-02-16T10:30:00Z"`, `["a"]`, `{"entry":"x"}`}
	var members, queue map[string]jsontext.Value
	_ = json.Unmarshal([]byte(skimDetails), &members)
	_ = json.Unmarshal(members["queue"], &queue)
	for _, name := range []string{"after", "attempt", "before", "claim", "epoch", "from", "host", "key", "pid", "queue", "reason", "request", "revision", "to", "tx", "uid", "until", "root", "spent", "kept", "adopted", "dropped", "found", "checks", "fields", "unknown"} {
		was := members[name]
		for _, value := range append(values, "") {
			members[name] = jsontext.Value(value)
			if value == "" {
				delete(members, name)
			}
			checkSkimmed(t, line(string(audit.Details(members))))
		}
		if members[name] = was; was == nil {
			delete(members, name)
		}
	}
	for _, name := range []string{"asked", "created", "max_attempts", "priority", "target", "type", "action", "not_before", "deadline", "depends_on", "parent", "born", "waits_for", "join", "unknown"} {
		was := queue[name]
		for _, value := range append(values, "") {
			queue[name] = jsontext.Value(value)
			if value == "" {
				delete(queue, name)
			}
			members["queue"] = audit.Details(queue)
			checkSkimmed(t, line(string(audit.Details(members))))
		}
		if queue[name] = was; was == nil {
			delete(queue, name)
		}
	}
}

// FuzzSkim does the same with any details.
func FuzzSkim(f *testing.F) {
	f.Add([]byte(skimDetails))
	f.Add([]byte(`{"to":null,"tx":"a"}`))
	f.Add([]byte(`{"queue":{"to":"pending"},"tx":"a"}`))
	f.Fuzz(func(t *testing.T, details []byte) {
		value, id := jsontext.Value(details).Clone(), "t1"
		if value.Kind() != '{' || value.Canonicalize() != nil || len(value) > audit.MaxLine/2 {
			return
		}
		checkSkimmed(t, *asLine(t, audit.Entry{Agent: "coder", Event: audit.TaskCreated, TaskID: &id, Details: value}))
	})
}
