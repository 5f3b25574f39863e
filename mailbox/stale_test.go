package mailbox

import (
	"os"
	"testing"

	"mbox/audit"
	"mbox/mailbox/home"
)

// Intent records are not flushed, and neither are renames: after a power cut a
// record may stand that was blanked long ago, and an old version of a file lie
// where it once lay (btrfs brings both back). The old line must not be finished
// over a newer one.
func TestRule05_StaleIntent(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "x")
	pending, err := os.ReadFile(b.pending("x.json"))
	must(t, err)
	before := b.ledger.End()
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	claim := home.Intent{Kind: "task", Name: "x", TX: c.Task.Mbox.TX, At: before}
	must(t, c.Complete(t.Context(), Result{Output: []byte(`"done"`)}))

	must(t, os.WriteFile(b.pending("x.json"), pending, 0o600))
	b.slot(t, home.Shard("x"), claim.Encode())
	must(t, os.Remove(home.Private(b.home, "boot"))) // another boot
	_, err = Recover(t.Context(), b.Home(), b.Options(), RecoverOptions{})
	must(t, err)
	mustScan(t, b)
	whole(t, b.Home())
	for _, e := range lines(t, b, "x") {
		if e.Event == audit.ErrorEvent {
			t.Errorf("a task that was never lost: %s", e.Action)
		}
	}
	if at := said(t, b, "x"); at != Completed {
		t.Errorf("it is %s", at)
	}
}
