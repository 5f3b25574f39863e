package home

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
)

// Folders of a home, parents first.
var Folders = []string{
	"tasks/pending", "tasks/in-progress", "tasks/completed", "tasks/failed", "tasks/quarantine", "tasks/archive", task.ArtifactsDir,
	"audit/shared", "decisions", "changes", "memory/context", "agents",
	".mbox/tmp", ".mbox/locks", ".mbox/leases", ".mbox/keys",
}

// Private is a path below .mbox.
func Private(home string, parts ...string) string {
	return filepath.Join(append([]string{home, ".mbox"}, parts...)...)
}

// MakeFolders makes the folders whose names begin so, where they are missing.
func MakeFolders(dir, prefix string, m durable.Mode) error {
	for _, f := range Folders {
		if !strings.HasPrefix(f, prefix) {
			continue
		}
		if err := durable.MkdirAll(filepath.Join(dir, f), m); err != nil {
			return err
		}
	}
	return nil
}

// ProbeRenames refuses a file system on which the renames that mbox rests on do
// not work.
func ProbeRenames(dir string) (err error) {
	a, b := Private(dir, "tmp", "probe~a"), Private(dir, "tmp", "probe~b")
	defer func() { err = errors.Join(err, durable.RemoveIfThere(a), durable.RemoveIfThere(b)) }()
	for _, p := range []string{a, b} {
		if err := errors.Join(durable.RemoveIfThere(p), durable.Stage(p, nil, durable.None)); err != nil {
			return err
		}
	}
	if err := durable.Move(a, b); err == nil || unsupported(err) {
		return fmt.Errorf("%s: %w: a rename that must not replace a file answers %v", dir, ErrFileSystem, err)
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err = durable.Exchange(a, b); unsupported(err) {
		return fmt.Errorf("%s: %w: %w", dir, ErrFileSystem, err)
	}
	return err
}

// unsupported tells whether the system does not know such a rename.
func unsupported(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP)
}

// MakeSalt makes the salt, where it is missing.
func MakeSalt(dir string, m durable.Mode) error {
	err := durable.Stage(Private(dir, "keys", "salt"), []byte(RandomHex(saltBytes)+"\n"), m)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return durable.SyncDir(Private(dir, "keys"), m)
}

// MakeVersion makes a home of what is there: the boot record, then VERSION.
func MakeVersion(dir, id string, boot Boot, m durable.Mode) error {
	if err := WriteBoot(dir, boot, m); err != nil {
		return err
	}
	return WriteVersion(dir, id, m)
}

// RandomHex is so many random bytes, in hex.
func RandomHex(bytes int) string {
	b := make([]byte, bytes)
	rand.Read(b) // never fails (crypto/rand)
	return hex.EncodeToString(b)
}

// CheckFileSystem refuses file systems where flock and rename promise less, and
// such where the rename flags are missing.
func CheckFileSystem(dir string, networkToo bool) error {
	name, network, err := durable.FileSystem(dir)
	if err != nil {
		return err
	}
	if network && !networkToo {
		return fmt.Errorf("%s: %w: it is on %s, where locks and renames promise less", dir, ErrFileSystem, name)
	}
	return nil
}

const saltBytes = 32

// Salt reads the salt of the mailbox in dir, for hashes of what may not stand in
// the ledger itself. Where it is missing, or not as MakeSalt makes one, the error
// matches ErrSalt.
func Salt(dir string) ([]byte, error) {
	path := Private(dir, "keys", "salt")
	salt, err := durable.Read(path, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", ErrSalt, err)
	}
	if err != nil {
		return nil, err
	}
	salt = bytes.TrimSuffix(salt, []byte("\n")) // which an editor may have taken
	if n, err := hex.Decode(make([]byte, len(salt)), salt); err != nil || n != saltBytes {
		return nil, fmt.Errorf("%w: %s is damaged", ErrSalt, path)
	}
	return append(salt, '\n'), nil
}

// Folder is where a task in the state lies. For archived tasks it is the
// month's folder, named by the time of the line that archived them.
func Folder(home string, s task.State, archivedAt time.Time) string {
	if s == task.Archived {
		return filepath.Join(home, "tasks", "archive", archivedAt.UTC().Format("2006-01"))
	}
	return filepath.Join(home, "tasks", string(s))
}

// CheckVacant returns an error that matches ErrLost where a folder without a
// mailbox holds a ledger or tasks.
func CheckVacant(dir string) error {
	for _, f := range Folders {
		if f != "audit/shared" && !strings.HasPrefix(f, "tasks/") {
			continue
		}
		names, err := durable.Names(filepath.Join(dir, f))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if !strings.HasPrefix(name, ".") {
				return fmt.Errorf("%s: %w: .mbox/VERSION is gone, and %s/%s is here", dir, ErrLost, f, name)
			}
		}
	}
	return nil
}

// Identity is the id of the mailbox in dir, as VERSION has it, or the ledger.
func Identity(dir string) (string, error) {
	v, err := ReadVersion(dir)
	if !errors.Is(err, ErrLost) {
		return v.MailboxID, err
	}
	id, why := audit.Identity(dir, "")
	if id == "" {
		return "", fmt.Errorf("%w: %w", err, why)
	}
	return id, nil
}

// Months lists the archive's folders, the youngest first.
func Months(home string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(home, "tasks", "archive"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	slices.Reverse(out)
	return out, nil
}
