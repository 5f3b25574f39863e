package mailbox

import (
	"testing"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/verify"
)

// What a recovery that was killed had staged is no fault: the next command goes
// on with it. Without one it is.
func TestVerifyStagedByARecovery(t *testing.T) {
	b := realBox(t, durable.None)
	sent(t, b, "x")
	must(t, b.Close())
	must(t, put(home.StagedPath(b.home, "x", home.RandomHex(16)), "{}"))
	faults := func() int {
		t.Helper()
		r, err := verify.Home(t.Context(), b.home, verify.Options{Deep: true})
		must(t, err)
		return len(r.Findings)
	}
	if n := faults(); n != 1 {
		t.Errorf("%d faults, want 1", n)
	}
	must(t, b.markRecovery())
	if n := faults(); n != 0 {
		t.Errorf("%d faults while a recovery is due", n)
	}
	b, err := Open(t.Context(), b.home, b.o)
	must(t, err)
	must(t, b.Close())
	if n := faults(); n != 0 {
		t.Errorf("%d faults after it", n)
	}
}
