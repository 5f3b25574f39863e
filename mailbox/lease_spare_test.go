package mailbox

import (
	"os"
	"testing"
)

// The note of a lease is read whatever its file held in an earlier life: a line
// that a full disk has cut off, too.
func TestLeaseNoteInASpare(t *testing.T) {
	b := newBox(t, Options{})
	submitted(t, b)
	must(t, os.WriteFile(b.spareLease("t1"), []byte(`{"pid":1,"sta`), 0o600))
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder", Process: true})
	must(t, err)
	defer c.Close()
	info, err := c.lease.Stat()
	must(t, err)
	if n := readNote(c.lease, info.Size()); n == nil || n.PID != os.Getpid() {
		t.Errorf("the note is %+v", n)
	}
}
