package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
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

func (b *Box) leaseNote() home.Note {
	return home.Note{PID: b.writer.PID, Start: b.start, Boot: b.boot, Namespace: b.namespace, Host: b.writer.Host}
}

// here tells whether the note's processes are those that this process sees.
func (b *Box) here(n *home.Note) bool {
	return n != nil && n.Boot == b.boot && n.Namespace == b.namespace
}

// makeLease makes the claim's lease file and locks it.
func (b *Box) makeLease(c *Claim) (*durable.Lock, error) {
	note, err := b.leaseNote().Line()
	if err != nil {
		return nil, err
	}
	path := home.LeasePath(b.home, home.LeaseName(c.ID(), c.token))
	if err := durable.Stage(path, note, durable.None); err != nil {
		return nil, err
	}
	lock := durable.NewLock(path)
	if err := lock.Try(); err != nil {
		return nil, err
	}
	return lock, nil
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
	path := home.ChildPath(c.box.home, home.LeaseName(c.ID(), c.token))
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
	n.Child, n.ChildStart = child, home.StartTime(child)
	return home.AddNote(c.lease.Path(), n)
}

// Renew is a sign of life: it moves the lease's end to one lease time from now.
func (c *Claim) Renew() error {
	if c.lease == nil {
		return nil
	}
	err := signOfLife(c.lease.Path(), c.box.now())
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the claim is over, as its next verb tells
	}
	return err
}

func signOfLife(lease string, at time.Time) error {
	seen := unix.NsecToTimespec(at.UnixNano())
	err := again(func() error {
		return unix.UtimesNanoAt(unix.AT_FDCWD, lease, []unix.Timespec{seen, seen}, unix.AT_SYMLINK_NOFOLLOW)
	})
	if err != nil {
		return &fs.PathError{Op: "utimes", Path: lease, Err: err}
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
func (b *Box) judge(t *Task) (verdict, *home.Note, error) {
	l := t.Mbox.Lease
	if l == nil {
		return leaseLost, nil, nil
	}
	name := home.LeaseName(t.ID, l.Token)
	f, err := durable.OpenFile(home.LeasePath(b.home, name), os.O_RDWR)
	if home.NoLock(err) {
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
	note := home.ReadNote(f, info.Size())
	held, err := home.Locked(f.Name())
	if err == nil && !held {
		held, err = home.Locked(home.ChildPath(b.home, name))
		held = held && !b.canEnd(note)
	}
	switch {
	case err != nil:
		return leaseHeld, note, err
	case !held:
		return leaseLost, note, nil
	}
	seen, err := b.lastSeen(f.Name(), info.ModTime())
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
func (b *Box) lastSeen(lease string, seen time.Time) (time.Time, error) {
	now := b.now()
	if !seen.After(now) {
		return seen, nil
	}
	return now, signOfLife(lease, now)
}

func (b *Box) byDeadline(until time.Time) verdict {
	if b.now().After(until) {
		return leaseHung
	}
	return leaseHeld
}

// canEnd tells whether the note names a process that lives, and that this one
// can see.
func (b *Box) canEnd(n *home.Note) bool {
	return b.here(n) && n.Child > 1 && n.ChildStart != "" && home.StartTime(n.Child) == n.ChildStart
}

// endTime is how long a process may take to end what it has started.
const endTime = time.Second

// endChild ends what still works on a task whose lease is over, so that two
// attempts never run side by side.
func (b *Box) endChild(n *home.Note) error {
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
		lives, err := home.Locked(home.ChildPath(b.home, home.LeaseName(t.ID, l.Token)))
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
	return b.dropLeaseFiles(home.LeaseName(id, token))
}

// dropLeaseFiles removes the lease last: while it is there the other one is
// looked for.
func (b *Box) dropLeaseFiles(name string) error {
	if err := durable.RemoveIfThere(home.ChildPath(b.home, name)); err != nil {
		return err
	}
	return durable.RemoveIfThere(home.LeasePath(b.home, name))
}

// dropOtherLeases removes the lease files of a task but for that of its present
// claim. Under the task's shard. Where the task cannot be read, nobody knows
// which lease is that: then all stay.
func (b *Box) dropOtherLeases(id ID) error {
	names, err := home.LeaseNames(b.home)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { of, _ := home.LeaseOf(name); return of != id || !home.IsLease(b.home, name) })
	if len(names) == 0 {
		return nil
	}
	f, err := home.Read(b.home, InProgress, b.path("tasks", string(InProgress), id.File()))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		if f != nil {
			return nil // a stranger's file, which verify names
		}
		return err
	}
	for _, name := range names {
		if f != nil && f.Task.Mbox.Lease != nil && home.LeaseName(id, f.Task.Mbox.Lease.Token) == name {
			continue
		}
		if err := b.dropLeaseFiles(name); err != nil {
			return err
		}
	}
	return nil
}
