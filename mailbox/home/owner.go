package home

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mbox/mailbox/durable"
)

// OwnerError says that a mailbox, or the folder for one, belongs to another user
// than the one who asks. What that one writes, root above all, the owner could
// neither read nor lock: the mailbox would be shut for him.
type OwnerError struct {
	Path  string
	Owner int // the user's number
}

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s: it belongs to user %d, this is user %d", e.Path, e.Owner, os.Geteuid())
}

// CheckOwner returns an OwnerError where the mailbox in dir is not the user's own.
func CheckOwner(dir string) error {
	path := Private(dir)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) { // nobody else is let in, or .mbox is lost
		path = dir
		info, err = os.Lstat(path)
	}
	if err != nil {
		return nil //nolint:nilerr // there is no mailbox, and whoever reads its VERSION says so
	}
	return owned(path, info)
}

// CheckPlace returns an OwnerError where a mailbox that is made in dir would lie
// in a folder of somebody else: dir itself or, for root, the one that is to hold it.
func CheckPlace(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	for path := dir; ; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		switch {
		case err == nil && (path == dir || os.Geteuid() == 0):
			return owned(path, info)
		case err == nil || path == filepath.Dir(path):
			return nil
		}
	}
}

func owned(path string, info fs.FileInfo) error {
	if owner := int(durable.StatOf(info).Uid); owner != os.Geteuid() {
		return &OwnerError{path, owner}
	}
	return nil
}
