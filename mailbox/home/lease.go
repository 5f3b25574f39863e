package home

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"mbox/mailbox/task"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Note is what a lease file holds: who works on the task. The numbers of
// processes mean something only in their boot and PID namespace.
type Note struct {
	PID        int    `json:"pid"`   // the worker
	Start      string `json:"start"` // its start time, against reuse of the pid
	Child      int    `json:"child"` // the process to end so that all ends that works on the task; 0 if none yet
	ChildStart string `json:"child_start"`
	Boot       string `json:"boot"`
	Namespace  string `json:"pid_namespace"` // "" where there are none
	Host       string `json:"host"`          // for people
}

// LeaseName is the name of a lease file. It tells nobody the token.
func LeaseName(id task.ID, token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(id) + "." + hex.EncodeToString(sum[:16])
}

// LeasePath is a lease file's place.
func LeasePath(home, name string) string { return Private(home, "leases", name) }

// ChildPath is the place of the file that the processes of a claim hold.
func ChildPath(home, name string) string { return Private(home, "children", name) }

// signHead begins the first line of a lease file, the last sign of life of its worker: how
// many ms the machine had been awake then, in as many bytes each time. Older versions
// wrote none, and read of a lease file the last line alone.
const signHead, signDigits = `{"awake":`, 16

// Sign is that line.
func Sign(awake time.Duration) []byte {
	return fmt.Appendf(nil, "%s%*d}\n", signHead, signDigits, awake.Milliseconds())
}

// ReadSign reads it; false where there is none.
func ReadSign(f *os.File) (awake time.Duration, ok bool) {
	line := make([]byte, len(signHead)+signDigits+2)
	if _, err := f.ReadAt(line, 0); err != nil {
		return 0, false
	}
	digits, ok := strings.CutPrefix(string(line), signHead)
	ms, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(digits, "}\n")), 10, 64)
	return time.Duration(ms) * time.Millisecond, ok && err == nil
}

// Line is how the note stands in a lease file, of which the last line counts.
func (n Note) Line() ([]byte, error) {
	data, err := schemas.Canonical(n)
	return append(data, '\n'), err
}

// AddNote adds a note to a lease file.
func AddNote(lease string, n Note) error {
	note, err := n.Line()
	if err != nil {
		return err
	}
	f, err := durable.OpenFile(lease, os.O_WRONLY|os.O_APPEND)
	if err != nil {
		return err
	}
	defer f.Close()
	return durable.Append(f, note)
}

// Locked tells whether somebody holds a lock on the lease file, or that of the
// claim's children.
func Locked(path string) (bool, error) {
	l, err := durable.TryLock(path)
	switch {
	case err == nil:
		return false, l.Unlock()
	case errors.Is(err, durable.ErrBusy):
		return true, nil
	case NoLock(err):
		return false, nil
	}
	return false, err
}

// NoLock tells from the error of opening a lease file, or that of its children,
// that there is none to be asked: it is not there, or the children have made it
// something else. No task of others waits for that.
func NoLock(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, fs.ErrPermission)
}

// ReadNote reads the last note of a lease file; nil if there is none.
func ReadNote(f *os.File, size int64) *Note {
	data := make([]byte, min(size, 4<<10))
	if _, err := f.ReadAt(data, size-int64(len(data))); err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	n := new(Note)
	if schemas.Decode([]byte(lines[len(lines)-1]), n) != nil {
		return nil
	}
	return n
}

// LeaseOf tells from the name of a lease file whose it is.
func LeaseOf(name string) (task.ID, bool) {
	id, _, ok := CutLast(name, ".")
	return task.ID(id), ok && id != ""
}

// Leased tells whether a lease file is that of its task's present claim.
func Leased(home, name string) (bool, error) {
	id, _ := LeaseOf(name)
	f, err := Read(home, task.InProgress, filepath.Join(home, "tasks", string(task.InProgress), id.File()))
	if err != nil && f == nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return err == nil && f.Task.Mbox.Lease != nil && LeaseName(id, f.Task.Mbox.Lease.Token) == name, nil
}

// IsLease tells whether what bears a name in .mbox/leases can be a lease file.
// What cannot is a stranger's: recovery puts it into quarantine.
func IsLease(home, name string) bool {
	_, sum, _ := CutLast(name, ".")
	_, err := hex.DecodeString(sum)
	info, gone := os.Lstat(LeasePath(home, name))
	return err == nil && len(sum) == 32 && (gone != nil || !info.IsDir())
}

// LeaseNames are the names of all that lies in .mbox/leases; none where that is gone.
func LeaseNames(home string) ([]string, error) {
	names, err := durable.Names(Private(home, "leases"))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return names, err
}
