package verify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox/home"
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

// verify takes a delegation line as the ledger's type writes it, and none that
// does not say who, what request and which decision.
func TestDelegation(t *testing.T) {
	whole := delegation.Details{RequestID: 1771237800123456, FromAgent: "coordinator", ToAgent: "coder", Task: "write_file", Decision: delegation.Delivered}
	for _, c := range []struct{ name, old, new, want string }{
		{"whole", "", "", ""},
		{"nobody handed it", `"from_agent":"coordinator"`, `"from_agent":""`, "from_agent"},
		{"to nobody", `"to_agent":"coder"`, `"to_agent":""`, "to_agent"},
		{"to a number", `"to_agent":"coder"`, `"to_agent":7`, "to_agent"},
		{"no request", `"request_id":`, `"request":`, "request_id"},
		{"no decision", `"decision":"delivered"`, `"verdict":"delivered"`, "decision"},
		{"a strange decision", `"decision":"delivered"`, `"decision":"maybe"`, "decision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFold()
			e := whole.Entry("coordinator", "a")
			changed := strings.Replace(string(e.Details), c.old, c.new, 1)
			if c.old != "" && changed == string(e.Details) {
				t.Fatalf("%s is not in %s", c.old, e.Details)
			}
			e.Details = []byte(changed)
			if err := e.Details.Canonicalize(); err != nil {
				t.Fatal(err)
			}
			_, what := f.line(asLine(t, e))
			if c.want == "" && what != "" || !strings.Contains(what, c.want) {
				t.Errorf("verify says %q of %s, want %q", what, e.Details, c.want)
			}
		})
	}
}

// FuzzEntryName: an entry of the quarantine has a name that verify takes, whatever
// the file was called.
func FuzzEntryName(f *testing.F) {
	for _, name := range []string{"a.json", "my task (2).json", "a\nb", "\u202ea", strings.Repeat("é", 125), "\xff", ".json", "a~b~c", "~", "a/b", "\x00", ""} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		fold, entry := newFold(), home.EntryName(name, strings.Repeat("0", 32))
		if what := fold.enter(&audit.Line{}, audit.Members{{Name: []byte("entry"), Value: []byte(`"` + entry + `"`)}, {Name: []byte("sha256"), Value: []byte(`""`)}}); what != "" {
			t.Errorf("%q goes to quarantine as %q: %s", name, entry, what)
		}
	})
}

// BenchmarkFold is what a line costs beyond the proof of the ledger.
func BenchmarkFold(b *testing.B) {
	f := newFold()
	created := task.Move{
		TX: strings.Repeat("0", 32), To: task.Field(task.Pending), After: task.Field(audit.Hash(nil)), Revision: 1, Reason: "submitted",
		Writer: audit.ThisWriter(), Queue: &task.Envelope{Target: "any", Type: "x", Priority: "normal"}, Request: audit.Hash(nil),
	}
	lines := make([]*audit.Line, 10000)
	for i := range lines {
		id := fmt.Sprintf("task-2026-02-16-%06d", i)
		e := audit.Entry{Agent: "human", Event: audit.TaskCreated, TaskID: &id, Seq: int64(i + 1), TS: "2026-02-16T10:30:00.123Z", Details: audit.Details(created)}
		if err := e.Details.Canonicalize(); err != nil {
			b.Fatal(err)
		}
		lines[i] = asLine(b, e)
	}
	n := 0
	for b.Loop() {
		if n++; n%len(lines) == 0 {
			f = newFold()
		}
		if _, what := f.line(lines[n%len(lines)]); what != "" {
			b.Fatal(what)
		}
	}
}
