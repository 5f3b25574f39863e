package mailbox

import (
	"errors"
	"os"
	"testing"
	"time"

	records "mbox/audit/record"
)

func decision(id string) records.Decision {
	return records.Decision{ID: id, Agent: "coder", Context: "c", Options: []string{"a"}, Decision: "d"}
}

// TestRecordNumbers removes records by hand: the ledger tells which numbers were
// used, and none of them is given out a second time, to anybody.
func TestRecordNumbers(t *testing.T) {
	c := newClock()
	c.at.Store(time.Date(2026, 2, 16, 10, 0, 0, 0, time.UTC).UnixNano())
	b := homes{}.open(t, c.options())
	decide := func(id, want string) {
		t.Helper()
		if got, err := b.Decide(t.Context(), decision(id)); err != nil || got != want {
			t.Errorf("made %s (%v), want %s", got, err, want)
		}
	}
	remove := func(name string) {
		t.Helper()
		must(t, os.Remove(b.path(name)))
	}
	for _, want := range []string{"decision-2026-02-16-001", "decision-2026-02-16-002", "decision-2026-02-16-003"} {
		decide("", want)
	}
	remove("decisions/decision-2026-02-16-003.md")
	decide("", "decision-2026-02-16-004") // not 003: the last was removed
	remove("decisions/decision-2026-02-16-004.md")
	remove("decisions/decision-2026-02-16-001.md")
	remove("decisions/decision-2026-02-16-002.md")
	decide("", "decision-2026-02-16-005") // with an empty folder
	for _, id := range []string{"decision-2026-02-16-002", "decision-2026-02-16-005"} {
		if _, err := b.Decide(t.Context(), decision(id)); !errors.Is(err, ErrConflict) {
			t.Errorf("%s a second time: %v", id, err)
		}
	}
	decide("decision-2026-02-16-1200", "decision-2026-02-16-1200")
	remove("decisions/decision-2026-02-16-1200.md")
	decide("", "decision-2026-02-16-1201")
	must(t, put(b.path("decisions/decision-2026-02-16-1300.md"), "by hand"))
	decide("", "decision-2026-02-16-1301")
	c.turn(24 * time.Hour)
	decide("", "decision-2026-02-17-001") // each day begins anew, and so does each folder
	id, err := b.Change(t.Context(), records.Change{Agent: "coder", Type: "code", Description: "d", Rationale: "r", Before: "b", After: "a", Rollback: "r", Verification: "v"})
	if err != nil || id != "change-2026-02-17-001" {
		t.Errorf("%s: %v", id, err)
	}
}
