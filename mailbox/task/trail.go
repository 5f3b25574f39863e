package task

import (
	"cmp"
	"fmt"

	"mbox/schemas"
)

// Strays says where the trail is no path of the automaton from pending to s.
func (t Trail) Strays(s State) string {
	at := Pending
	for i, c := range t.StateChanges {
		switch {
		case c.From != at || !StepInFile(c.From, c.To):
			return fmt.Sprintf("audit.state_changes[%d] goes from %s to %s, and the task was %s", i, schemas.Quote(string(c.From)), schemas.Quote(string(c.To)), at)
		case c.By == "" || c.At.IsZero() || c.Reason == "":
			return fmt.Sprintf("audit.state_changes[%d] does not say by whom, when or why", i)
		}
		at = c.To
	}
	if at != s {
		return fmt.Sprintf("audit.state_changes end in %s", schemas.Quote(string(at)))
	}
	return ""
}

// StateReason is never empty: a state change always says why.
func StateReason(why string) string { return cmp.Or(OneLine(why), "no reason given") }

// maxTrail bounds the trail in a task file that is given back again and again,
// in bytes. The ledger has all of it.
const maxTrail = 8 << 10

// Trim drops the oldest rounds (from pending back to pending) of a long trail.
func (t *Trail) Trim() {
	for t.size() > maxTrail {
		cut := 1
		for cut < len(t.StateChanges) && t.StateChanges[cut].From != Pending {
			cut++
		}
		if cut == len(t.StateChanges) {
			return
		}
		t.StateChanges = t.StateChanges[cut:]
	}
}

// size is about what the trail takes in the file.
func (t *Trail) size() int {
	n := 0
	for _, c := range t.StateChanges {
		n += 200 + len(c.Reason) + len(c.By)
	}
	return n
}

// StepInFile tells whether any event makes the step, so that a file may have it.
func StepInFile(from, to State) bool {
	for event := range Moves {
		if Allowed(event, from, to, false) {
			return true
		}
	}
	return false
}
