package mailbox

import (
	"os"
	"strings"
	"testing"
)

// TestMain puts the thousands of homes of the fault tests on tmpfs where there
// is one; what is on a real disk is tested with the real binary.
// The test binary is also what TestLinearizable runs many of: a client process.
func TestMain(m *testing.M) {
	if text := os.Getenv(asClient); text != "" {
		os.Exit(runClient(text))
	}
	if strings.HasPrefix(os.TempDir(), "/dev/shm/") {
		os.Exit(m.Run()) // somebody has seen to it, and to what a death leaves
	}
	if dir, err := os.MkdirTemp("/dev/shm", "mbox-test-"); err == nil {
		os.Setenv("TMPDIR", dir)
		code := m.Run()
		os.RemoveAll(dir)
		os.Exit(code)
	}
	os.Exit(m.Run())
}
