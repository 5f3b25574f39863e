package audit

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"syscall"

	"mbox/mailbox/durable"
)

// SealedError says that files of the ledger had to be written over or renamed, and
// that the system refuses it, as it does where they are append-only. Once they are
// not, the same call finishes what it began.
type SealedError struct {
	Files []string // paths
	err   error
}

func (e *SealedError) Error() string { return fmt.Sprintf("%v, as for an append-only file", e.err) }

func (e *SealedError) Unwrap() error { return e.err }

// refused makes a SealedError of the answer to a change that such files refuse.
func refused(err error, files ...string) error {
	if errors.Is(err, syscall.EPERM) {
		return &SealedError{files, err}
	}
	return err
}

// Files are the paths of the ledger's files, oldest first.
func Files(home string) ([]string, error) {
	names, err := dayFiles(sharedDir(home))
	return below(sharedDir(home), names), err
}

func below(dir string, names []string) []string {
	paths := slices.Clone(names)
	for i, name := range names {
		paths[i] = filepath.Join(dir, name)
	}
	return paths
}

// sealOlder makes the files before the newest append-only, as far as this process
// may. Each was flushed before a younger one was begun, so that recovery finds
// every line in its place and writes to none of them. Under the lock.
func (l *chain) sealOlder() {
	if !l.seals {
		return
	}
	files, _ := Files(l.home) // what is left open mbox doctor names
	for _, path := range files {
		if is, _ := durable.Sealed(path); !is && filepath.Base(path) < l.head.File {
			_ = durable.Seal(path)
		}
	}
}
