package task

import (
	"slices"
	"strings"

	"mbox/audit"
)

// What people call a task whose file alone tells less than they want to know.
const (
	Cancelled  = "cancelled"             // lies in failed: somebody ended it
	Rejected   = "rejected"              // lies in failed: a drop with a wrong field
	Unverified = "completed, unverified" // by no check: none was asked for, or it was moved by hand
)

// Passed begins the reason of a completion whose result has passed checks; their names
// follow.
const Passed = "Completed, and has passed "

// Called is what people call the state of a task whose file lies in a folder; of one in
// the archive also how it ended.
func (t *Task) Called(lies State) string {
	switch {
	case lies == Archived && t.Result.Status.Terminal():
		return string(lies) + ", " + t.Called(t.Result.Status)
	case lies == Completed && !t.Verified():
		return Unverified
	case lies != Failed || t.Result.Error == nil:
		return string(lies)
	}
	changes := t.Audit.StateChanges
	switch n := len(changes); {
	case t.Result.Error.Code == Cancelled:
		return Cancelled
	case n > 0 && changes[n-1].By == audit.MboxAgent && changes[n-1].From == Pending && strings.HasPrefix(changes[n-1].Reason, "rejected: "):
		return Rejected
	}
	return string(lies)
}

// Verified tells whether the result of a completed task has passed a check.
func (t *Task) Verified() bool {
	for _, c := range slices.Backward(t.Audit.StateChanges) {
		if c.To == Completed {
			return strings.HasPrefix(c.Reason, Passed)
		}
	}
	return false
}
