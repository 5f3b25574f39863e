package mailbox

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"mbox/audit"
)

// The disk has, behind the lines that the journal covers, a hole and behind it a
// whole line: of the task whose content is only in the journal. That line was
// never flushed, and must not keep the content from coming back.
func TestRule16_UncoveredLineBehindAHole(t *testing.T) {
	b := journaledBox(t)
	home := b.Home()
	submitted(t, b)
	covered := b.ledger.End()
	second := request("second")
	second.ID = "t2"
	_, err := b.Submit(t.Context(), second)
	must(t, err)
	hole := b.ledger.End()
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	if c.ID() != "t1" {
		t.Fatalf("%s was claimed", c.ID())
	}
	ledger, journal := onlyLedger(t, home), audit.JournalPath(home)
	must(t, b.Close())

	spoil(t, ledger, func(data []byte) { clear(data[covered.Offset : hole.Offset-100]) })
	spoil(t, journal, func(data []byte) { clear(data[bytes.Index(data, []byte("~"))/4096*4096+4096:]) })
	must(t, os.Remove(b.path("tasks", "in-progress", "t1.json")))
	must(t, os.Remove(b.path("tasks", "pending", "t2.json")))
	must(t, os.WriteFile(b.path("tasks", "pending", "t1.json"), nil, 0o600))
	anotherBoot(t, home)

	b, err = Open(t.Context(), home, Options{})
	must(t, err)
	defer b.Close()
	if _, state, err := b.Task(t.Context(), "t1"); err != nil || state != Pending {
		t.Errorf("t1 is %q: %v", state, err)
	}
	if _, _, err := b.Task(t.Context(), "t2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("t2, which was never acknowledged: %v", err)
	}
	whole(t, home)
}

func spoil(t *testing.T, path string, how func(data []byte)) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	how(data)
	must(t, os.WriteFile(path, data, 0o600))
}
