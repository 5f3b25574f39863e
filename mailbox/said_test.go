package mailbox

import (
	"errors"
	"fmt"
	"os"
	"testing"
)

// bytesRead is how much this process has read so far.
func bytesRead(t *testing.T) (n int64) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skipf("SKIPPED: /proc/self/io is missing: %v", err)
	}
	_, err = fmt.Sscanf(string(data), "rchar: %d", &n)
	must(t, err)
	return n
}

// A verb whose claim is over reads the ledger back to its task's creation, not to
// its beginning: it holds the task's lock meanwhile.
func TestStaleVerbReadsItsTaskOnly(t *testing.T) {
	b := newBox(t, Options{})
	for range 1000 {
		_, err := b.Submit(t.Context(), request("old"))
		must(t, err)
	}
	task := request("young")
	task.Task.Priority = "urgent"
	_, err := b.Submit(t.Context(), task)
	must(t, err)
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, c.Release(t.Context(), "once", 0))
	before := bytesRead(t)
	if err := c.Release(t.Context(), "twice", 0); !errors.Is(err, ErrStale) {
		t.Errorf("a second release: %v", err)
	}
	if read := bytesRead(t) - before; read > 300_000 {
		t.Errorf("a stale verb read %d bytes", read)
	}
	if err := c.Release(t.Context(), "once", 0); err != nil {
		t.Errorf("the first release again: %v", err)
	}
}
