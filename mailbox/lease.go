package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// A lease file, .mbox/leases/<id>.<token>, is made and locked before the
// claim's line, under the task's shard. The flock belongs to the open file, so
// it lasts as long as the worker or any child that inherited the descriptor
// lives, and the kernel frees it when the last of them has died. It is tested
// only under the shard. Its mtime is the last sign of life.
//
// gofrs/flock is not used here, because its Unlock would free a child's lock
// with the parent's.

// leaseNote is what a lease file holds: who works on the task, for whoever has
// to kill a lost worker's process group.
type leaseNote struct {
	PID     int    `json:"pid"`   // the worker
	Start   string `json:"start"` // its start time, against reuse of the pid
	Group   int    `json:"group"` // the child's process group; 0 if none yet
	Host    string `json:"host"`
	Boot    string `json:"boot"`
	Started string `json:"group_start"` // start time of the group's leader
}

func (b *Box) leasePath(id ID, token string) string {
	return privatePath(b.home, "leases", string(id)+"."+token)
}

// makeLease makes the claim's lease file and locks it.
func (b *Box) makeLease(c *Claim) (*os.File, error) {
	note, err := schemas.Canonical(leaseNote{PID: b.writer.PID, Start: b.start, Host: b.host, Boot: b.boot})
	if err != nil {
		return nil, err
	}
	note = slices.Concat([]byte{'\n'}, note, []byte{'\n'}) // what stands before it may have no newline
	f, err := durable.CreateSpare(b.spareLease(c.ID()), b.leasePath(c.ID(), c.token), 4<<10, note)
	if err != nil {
		return f, err
	}
	return f, flockNow(f)
}

// writeLease adds a note: the last line counts.
func (b *Box) writeLease(f *os.File, n leaseNote) error {
	data, err := schemas.Canonical(n)
	if err != nil {
		return err
	}
	return durable.Append(f, append(data, '\n'))
}

// spareLease is where the lease file of a claim that has ended waits to be used
// again: one for a shard.
func (b *Box) spareLease(id ID) string {
	return privatePath(b.home, "spare", fmt.Sprintf("lease-%02x", shardOf(string(id))))
}

// spareTasks are where the earlier versions of a shard's tasks wait to be used
// again. The tasks of the shard before take from there, so that a file is never
// used twice for one task while a power cut can still lose its renames: then it
// lies under its old name with what was written into it last, and a task's own
// name is where recovery asks whether a transition took place (see standing).
func (b *Box) spareTasks(shard int) []string {
	names := make([]string, 4)
	for i := range names {
		names[i] = privatePath(b.home, "spare", fmt.Sprintf("task-%02x-%d", shard, i))
	}
	return names
}

func flockNow(f *os.File) error {
	err := again(func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
	if err != nil {
		return &fs.PathError{Op: "flock", Path: f.Name(), Err: err}
	}
	return nil
}

// again repeats a system call that a signal interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// LeaseFile is the locked lease file, to be handed to the process that does the
// work; nil for a claim without one.
func (c *Claim) LeaseFile() *os.File { return c.lease }

// Started records the process group of the child that does the work.
func (c *Claim) Started(group int) error {
	if c.lease == nil {
		return nil
	}
	return c.box.writeLease(c.lease, leaseNote{
		PID: c.box.writer.PID, Start: c.box.start, Group: group, Started: startTime(group),
		Host: c.box.host, Boot: c.box.boot,
	})
}

// Renew is a sign of life: it moves the lease's end to one lease time from now.
func (c *Claim) Renew() error {
	if c.lease == nil {
		return nil
	}
	now := unix.NsecToTimeval(c.box.now().UnixNano())
	err := again(func() error { return unix.Futimes(int(c.lease.Fd()), []unix.Timeval{now, now}) })
	if err != nil {
		return &fs.PathError{Op: "utimes", Path: c.lease.Name(), Err: err}
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
// shard, so that a claim that is just being made is not judged.
func (b *Box) judge(t *Task) (verdict, *leaseNote, error) {
	l := t.Mbox.Lease
	if l == nil {
		return leaseLost, nil, nil
	}
	f, err := durable.OpenFile(b.leasePath(t.ID, l.Token), os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
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
	switch err := flockNow(f); {
	case err == nil:
		return leaseLost, note, nil
	case !errors.Is(err, unix.EWOULDBLOCK):
		return leaseHeld, note, err
	}
	if note != nil && note.Boot == b.boot && note.PID != 0 && startTime(note.PID) != note.Start {
		return leaseLost, note, nil // the worker is gone, its children are not
	}
	until := info.ModTime().Add(b.o.Lease)
	if l.Deadline.After(until) {
		until = l.Deadline.Time
	}
	return b.byDeadline(until), note, nil
}

func (b *Box) byDeadline(until time.Time) verdict {
	if b.now().After(until) {
		return leaseHung
	}
	return leaseHeld
}

func readNote(f *os.File, size int64) *leaseNote {
	data := make([]byte, min(size, 1<<16))
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

// killGroup kills what is left of a lost worker's process group, so that two
// attempts never run side by side. A group whose leader's pid now belongs to
// another process is left alone.
func (b *Box) killGroup(n *leaseNote) error {
	if n == nil || n.Group <= 1 || n.Boot != b.boot || n.Host != b.host {
		return nil
	}
	if now := startTime(n.Group); now != "" && now != n.Started {
		return nil
	}
	err := syscall.Kill(-n.Group, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("process group %d of a lost worker: %w", n.Group, err)
	}
	return nil
}

// dropLease takes the claim's lease file away, if it has one. Under the task's
// shard.
func (b *Box) dropLease(id ID, token string) error {
	if token == "" {
		return nil
	}
	err := durable.Spare(b.leasePath(id, token), b.spareLease(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// leaseOf splits the name of a lease file.
func leaseOf(name string) (ID, string, bool) {
	id, token, ok := cutLast(name, ".")
	return ID(id), token, ok && id != ""
}

func (b *Box) leases() ([]string, error) {
	d, err := os.Open(privatePath(b.home, "leases"))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// dropOtherLeases removes the lease files of a task but for that of its present
// claim. Under the task's shard. Where the task cannot be read, nobody knows
// which lease is that: then all stay.
func (b *Box) dropOtherLeases(id ID) error {
	names, err := b.leases()
	if err != nil {
		return err
	}
	var others []string
	for _, name := range names {
		if of, token, ok := leaseOf(name); ok && of == id {
			others = append(others, token)
		}
	}
	if len(others) == 0 {
		return nil
	}
	f, err := b.read(id, InProgress, b.path("tasks", string(InProgress), id.file()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if f != nil {
			return nil // a stranger's file, which verify names
		}
		return err
	}
	for _, token := range others {
		if f != nil && f.task.Mbox.Lease != nil && f.task.Mbox.Lease.Token == token {
			continue
		}
		if err := b.dropLease(id, token); err != nil {
			return err
		}
	}
	return nil
}
