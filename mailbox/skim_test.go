package mailbox

import (
	"cmp"
	"testing"

	"github.com/go-json-experiment/json"

	"mbox/audit"
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

// lineOf is the last line with the event; nil if there is none.
func lineOf(t testing.TB, b *Box, event audit.Event) *audit.Entry {
	t.Helper()
	for line, err := range b.ledger.Backward() {
		if err != nil {
			t.Fatal(err)
		}
		if line.Event() == event {
			e, err := line.Decode()
			if err != nil {
				t.Fatal(err)
			}
			return &e
		}
	}
	return nil
}
