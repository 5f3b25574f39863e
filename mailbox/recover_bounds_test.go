package mailbox

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/home"
)

// A recovery looks into every shard's lock file. What it finds in the place of
// one neither holds it up nor has an end that it waits for.
func TestRecoverBoundsLocks(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	must(t, unix.Mkfifo(pipe, 0o600))
	for what, replace := range map[string]func(path string) error{
		"a symlink to a FIFO": func(path string) error { return os.Symlink(pipe, path) },
		"a FIFO":              func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a sparse file":       func(path string) error { return errors.Join(put(path, " "), os.Truncate(path, 1<<40)) },
	} {
		b := homes{}.open(t, Options{})
		sent(t, b, "x")
		must(t, b.Close())
		path := home.LockPath(b.home, home.ShardName(3))
		if what == "a sparse file" {
			path = home.IntentsPath(b.home)
		}
		must(t, errors.Join(os.Remove(path), replace(path)))
		ended := make(chan error, 1)
		go func() {
			_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{})
			if err == nil { // it had no use for the lock
				_, err = opened(t, b.home, b.o).lockShardNumber(t.Context(), 3)
			}
			ended <- err
		}()
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("%s was taken for a lock file", what)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%s holds the recovery up", what)
		}
	}
}
