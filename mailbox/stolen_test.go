package mailbox

import (
	"errors"
	"os"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/durable"
)

// Who moves a task by hand between a claim's line and its rename has it: the
// claim says that there was nothing, and a line tells who gave it up.
func TestRule08_StolenClaim(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	place := b.path("tasks", "in-progress", "x.json")
	moved := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpMove && !moved && strings.HasSuffix(path, "x.json") {
			moved = os.Rename(b.pending("x.json"), place) == nil
		}
		return true, nil
	})
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	remove()
	if !moved {
		t.Fatal("nobody moved it")
	}
	if !errors.Is(err, ErrEmpty) {
		t.Errorf("the claim: %v %v", c, err)
	}
	e, m, err := b.ledger.LastMove("x")
	must(t, err)
	if e.Event != audit.Reconcile || !m.Adopted || m.Enters() != InProgress {
		t.Errorf("its last line: %s %+v", e.Event, m)
	}
	if task, state, err := b.Task(t.Context(), "x"); err != nil || state != InProgress || task.Mbox.Epoch != 2 {
		t.Errorf("%s, %+v: %v", state, task, err)
	}
	whole(t, b.home)
}
