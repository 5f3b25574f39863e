package mailbox

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// A lease file, .mbox/leases/<id>.<first 32 hex digits of the token's SHA-256>,
// is made and locked before the claim's line, under the task's shard. The worker
// alone has it open, so its flock lasts as long as the worker lives, and the
// kernel frees it when that has died. It is tested only under the shard. Its
// mtime is the last sign of life.
//
// The processes that do the work hold a shared flock on another file, which is
// empty and that nobody reads: .mbox/children/, under the same name. Of the lease
// itself they inherit nothing: who has a descriptor can free its lock, and write
// what mbox would believe. A dead worker's task is handed out again when both are
// free, after what was left has been ended, or at the deadline.

// leaseNote is what a lease file holds: who works on the task. The numbers of
// processes mean something only in their boot and PID namespace.
type leaseNote struct {
	PID        int    `json:"pid"`   // the worker
	Start      string `json:"start"` // its start time, against reuse of the pid
	Child      int    `json:"child"` // the process to end so that all ends that works on the task; 0 if none yet
	ChildStart string `json:"child_start"`
	Boot       string `json:"boot"`
	Namespace  string `json:"pid_namespace"` // "" where there are none
	Host       string `json:"host"`          // for people
}

// leaseName is the name of a lease file. It tells nobody the token.
func leaseName(id ID, token string) string {
	sum := sha256.Sum256([]byte(token))
	return string(id) + "." + hex.EncodeToString(sum[:16])
}

func (b *Box) leasePath(name string) string { return privatePath(b.home, "leases", name) }

func (b *Box) childPath(name string) string { return privatePath(b.home, "children", name) }

func (b *Box) leaseNote() leaseNote {
	return leaseNote{PID: b.writer.PID, Start: b.start, Boot: b.boot, Namespace: b.namespace, Host: b.writer.Host}
}

// here tells whether the note's processes are those that this process sees.
func (b *Box) here(n *leaseNote) bool {
	return n != nil && n.Boot == b.boot && n.Namespace == b.namespace
}

// lease is a lease file and its lock, which no other process has open.
type lease struct {
	*os.File
	lock *durable.Lock
}

// makeLease makes the claim's lease file and locks it.
func (b *Box) makeLease(c *Claim) (*lease, error) {
	f, err := durable.Create(b.leasePath(leaseName(c.ID(), c.token)))
	if err == nil {
		err = writeNote(f, b.leaseNote())
	}
	l := &lease{File: f}
	if err == nil {
		l.lock, err = durable.TryLock(f.Name())
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

func (l *lease) Close() error { return errors.Join(l.lock.Unlock(), l.File.Close()) }

// writeNote adds a note: the last line counts.
func writeNote(f *os.File, n leaseNote) error {
	data, err := schemas.Canonical(n)
	if err != nil {
		return err
	}
	return durable.Append(f, append(data, '\n'))
}

// again repeats a system call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Hold makes the file that the processes inherit that are to do the work: while
// one of them has it open, the task is handed out again only when they have been
// ended, or at the deadline. They cannot write to it. nil for a claim without a
// lease file. The caller closes it.
func (c *Claim) Hold() (*os.File, error) {
	if c.lease == nil {
		return nil, nil
	}
	path := c.box.childPath(leaseName(c.ID(), c.token))
	f, err := durable.Create(path)
	if errors.Is(err, fs.ErrNotExist) { // a home without the folder: it is made when it is needed
		if err = durable.MkdirAll(filepath.Dir(path), c.box.o.Sync); err == nil {
			f, err = durable.Create(path)
		}
	}
	if err != nil {
		return nil, err
	}
	f.Close()
	if f, err = durable.OpenFile(path, os.O_RDONLY); err != nil {
		return nil, err
	}
	err = again(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) })
	if err != nil {
		err = &fs.PathError{Op: "flock", Path: path, Err: err}
	}
	return f, err
}

// Started records the process that ends whatever works on the task, at once,
// when it gets SIGTERM.
func (c *Claim) Started(child int) error {
	if c.lease == nil {
		return nil
	}
	n := c.box.leaseNote()
	n.Child, n.ChildStart = child, startTime(child)
	return writeNote(c.lease.File, n)
}

// Renew is a sign of life: it moves the lease's end to one lease time from now.
func (c *Claim) Renew() error {
	if c.lease == nil {
		return nil
	}
	return signOfLife(c.lease.File, c.box.now())
}

func signOfLife(lease *os.File, at time.Time) error {
	seen := unix.NsecToTimeval(at.UnixNano())
	err := again(func() error { return unix.Futimes(int(lease.Fd()), []unix.Timeval{seen, seen}) })
	if err != nil {
		return &fs.PathError{Op: "utimes", Path: lease.Name(), Err: err}
	}
	return nil
}

// verdict on a lease.
type verdict int

const (
	leaseHeld verdict = iota // somebody lives and the deadline is to come
	leaseLost                // the holder has died
	leaseHung                // the deadline has passed
)

// judge tells how the lease of an in-progress task stands. Under the task's
// shard, so that a claim that is just being made is not judged. A lock that is
// held is the truth, whatever else is said: only what is left of a dead worker
// does not count, if it can be ended from here.
func (b *Box) judge(t *Task) (verdict, *leaseNote, error) {
	l := t.Mbox.Lease
	if l == nil {
		return leaseLost, nil, nil
	}
	name := leaseName(t.ID, l.Token)
	f, err := durable.OpenFile(b.leasePath(name), os.O_RDWR)
	if noLock(err) {
		return b.byDeadline(l.Deadline.Time), nil, nil
	}
	if err != nil {
		return leaseHeld, nil, err
	}
	defer f.Close() // closing ours does not touch the holder's lock
	info, err := f.Stat()
	if err != nil {
		return leaseHeld, nil, err
	}
	note := readNote(f, info.Size())
	held, err := locked(f.Name())
	if err == nil && !held {
		held, err = locked(b.childPath(name))
		held = held && !b.canEnd(note)
	}
	switch {
	case err != nil:
		return leaseHeld, note, err
	case !held:
		return leaseLost, note, nil
	}
	seen, err := b.lastSeen(f, info.ModTime())
	if err != nil {
		return leaseHeld, note, err
	}
	until := seen.Add(b.o.Lease)
	if l.Deadline.After(until) {
		until = l.Deadline.Time
	}
	return b.byDeadline(until), note, nil
}

// lastSeen is the last sign of life. One from the future becomes one from now: a
// clock that is put back ends nobody who lives, and who can set the file's time
// puts his end off by one lease.
func (b *Box) lastSeen(lease *os.File, seen time.Time) (time.Time, error) {
	now := b.now()
	if !seen.After(now) {
		return seen, nil
	}
	return now, signOfLife(lease, now)
}

// locked tells whether somebody holds a lock on the lease file, or that of the
// claim's children.
func locked(path string) (bool, error) {
	l, err := durable.TryLock(path)
	switch {
	case err == nil:
		return false, l.Unlock()
	case errors.Is(err, ErrBusy):
		return true, nil
	case noLock(err):
		return false, nil
	}
	return false, err
}

// noLock tells from the error of opening a lease file, or that of its children,
// that there is none to be asked: it is not there, or the children have made it
// something else. No task of others waits for that.
func noLock(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, fs.ErrPermission)
}

func (b *Box) byDeadline(until time.Time) verdict {
	if b.now().After(until) {
		return leaseHung
	}
	return leaseHeld
}

func readNote(f *os.File, size int64) *leaseNote {
	data := make([]byte, min(size, 4<<10))
	if _, err := f.ReadAt(data, size-int64(len(data))); err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	n := new(leaseNote)
	if schemas.Decode([]byte(lines[len(lines)-1]), n) != nil {
		return nil
	}
	return n
}

// canEnd tells whether the note names a process that lives, and that this one
// can see.
func (b *Box) canEnd(n *leaseNote) bool {
	return b.here(n) && n.Child > 1 && n.ChildStart != "" && startTime(n.Child) == n.ChildStart
}

// endTime is how long a process may take to end what it has started.
const endTime = time.Second

// endChild ends what still works on a task whose lease is over, so that two
// attempts never run side by side.
func (b *Box) endChild(n *leaseNote) error {
	if !b.canEnd(n) {
		return nil
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} { // it may have been stopped
		if err := signal(n.Child, s); err != nil {
			return err
		}
	}
	for end := time.Now().Add(endTime); b.canEnd(n); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return signal(n.Child, syscall.SIGKILL)
		}
	}
	return nil
}

// freed waits a moment for the end of all that works on a task, and tells whether
// it has come. What has left the process that was to end it may live on.
func (b *Box) freed(t *Task) (bool, error) {
	l := t.Mbox.Lease
	if l == nil {
		return true, nil
	}
	for end := time.Now().Add(endTime); ; time.Sleep(time.Millisecond) {
		lives, err := locked(b.childPath(leaseName(t.ID, l.Token)))
		if err != nil || !lives || time.Now().After(end) {
			return !lives, err
		}
	}
}

func signal(pid int, s syscall.Signal) error {
	err := syscall.Kill(pid, s)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("process %d of a lost worker: %w", pid, err)
	}
	return nil
}

// dropLease takes the claim's lease file away, if it has one. Under the task's
// shard.
func (b *Box) dropLease(id ID, token string) error {
	if token == "" {
		return nil
	}
	return b.dropLeaseFiles(leaseName(id, token))
}

// dropLeaseFiles removes the lease last: while it is there the other one is
// looked for.
func (b *Box) dropLeaseFiles(name string) error {
	if err := removeIfThere(b.childPath(name)); err != nil {
		return err
	}
	return removeIfThere(b.leasePath(name))
}

// leaseOf tells from the name of a lease file whose it is.
func leaseOf(name string) (ID, bool) {
	id, _, ok := cutLast(name, ".")
	return ID(id), ok && id != ""
}

// isLease tells whether what bears a name in .mbox/leases can be a lease file.
// What cannot is a stranger's: recovery puts it into quarantine.
func (b *Box) isLease(name string) bool {
	_, sum, _ := cutLast(name, ".")
	_, err := hex.DecodeString(sum)
	info, gone := os.Lstat(b.leasePath(name))
	return err == nil && len(sum) == 32 && (gone != nil || !info.IsDir())
}

// leases are the names of all that lies in .mbox/leases.
func (b *Box) leases() ([]string, error) { return listNames(privatePath(b.home, "leases")) }

// leased tells whether a lease file is that of its task's present claim.
func (b *Box) leased(name string) (bool, error) {
	id, _ := leaseOf(name)
	f, err := b.read(id, InProgress, b.path("tasks", string(InProgress), id.File()))
	if err != nil && f == nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return err == nil && f.task.Mbox.Lease != nil && leaseName(id, f.task.Mbox.Lease.Token) == name, nil
}

// dropOtherLeases removes the lease files of a task but for that of its present
// claim. Under the task's shard. Where the task cannot be read, nobody knows
// which lease is that: then all stay.
func (b *Box) dropOtherLeases(id ID) error {
	names, err := b.leases()
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { of, _ := leaseOf(name); return of != id || !b.isLease(name) })
	if len(names) == 0 {
		return nil
	}
	f, err := b.read(id, InProgress, b.path("tasks", string(InProgress), id.File()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if f != nil {
			return nil // a stranger's file, which verify names
		}
		return err
	}
	for _, name := range names {
		if f != nil && f.task.Mbox.Lease != nil && leaseName(id, f.task.Mbox.Lease.Token) == name {
			continue
		}
		if err := b.dropLeaseFiles(name); err != nil {
			return err
		}
	}
	return nil
}
