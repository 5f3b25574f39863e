// Package lease tells who works on tasks, and whether they live.
//
// A lease file, .mbox/leases/<id>.<first 32 hex digits of the token's SHA-256>,
// is made and locked before the claim's line, under the task's shard. The worker
// alone has it open, so its flock lasts as long as the worker lives, and the
// kernel frees it when that has died. It is tested only under the shard. Its
// first line and its mtime are the last sign of life, by two clocks of which the milder
// one counts. That of the line, which counts in its boot, stands while the machine
// sleeps, and nobody sets it: so neither a closed lid nor a clock that is put forward ends
// the work of who lives. Older versions know the mtime alone.
//
// The processes that do the work hold a shared flock on another file, which is
// empty and that nobody reads: .mbox/children/, under the same name. Of the lease
// itself they inherit nothing: who has a descriptor can free its lock, and write
// what mbox would believe. A dead worker's task is handed out again when both are
// free, after what was left has been ended, or at the deadline.
package lease

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// Leases tells who works on tasks, and whether they live.
type Leases struct {
	dir              string
	writer           audit.Writer
	boot             string
	start, namespace string // of this process
	now              func() time.Time
	awake            func() time.Duration
	lasts            time.Duration
	mode             durable.Mode
}

// New returns those of the home dir, as this process sees and makes them. One
// that it makes lasts so long without a sign of life. awake is how long the machine
// has been awake in this boot, and now the wall clock.
func New(dir string, writer audit.Writer, boot string, now func() time.Time, awake func() time.Duration, lasts time.Duration, m durable.Mode) *Leases {
	return &Leases{
		dir: dir, writer: writer, boot: boot, start: home.StartTime(os.Getpid()), namespace: home.PIDNamespace(),
		now: now, awake: awake, lasts: lasts, mode: m,
	}
}

func (l *Leases) note() home.Note {
	return home.Note{PID: l.writer.PID, Start: l.start, Boot: l.boot, Namespace: l.namespace, Host: l.writer.Host}
}

// Here tells whether the note's processes are those that this process sees.
func (l *Leases) Here(n *home.Note) bool {
	return n != nil && n.Boot == l.boot && n.Namespace == l.namespace
}

// Begin makes a claim's lease file and locks it.
func (l *Leases) Begin(id task.ID, token string) (*durable.Lock, error) {
	note, err := l.note().Line()
	if err != nil {
		return nil, err
	}
	path := home.LeasePath(l.dir, home.LeaseName(id, token))
	if err := durable.Stage(path, append(home.Sign(l.awake()), note...), durable.None); err != nil {
		return nil, err
	}
	lock := durable.NewLock(path)
	if err := lock.Try(); err != nil {
		return nil, err
	}
	return lock, nil
}

// Verdict on a lease.
type Verdict int

const (
	Held Verdict = iota // somebody lives and the deadline is to come
	Lost                // the holder has died
	Hung                // the deadline has passed
)

// Judge tells how the lease of an in-progress task stands. Under the task's
// shard, so that a claim that is just being made is not judged. A lock that is
// held is the truth, whatever else is said: only what is left of a dead worker
// does not count, if it can be ended from here.
func (l *Leases) Judge(t *task.Task) (Verdict, *home.Note, error) {
	of := t.Mbox.Lease
	if of == nil {
		return Lost, nil, nil
	}
	name := home.LeaseName(t.ID, of.Token)
	f, err := durable.OpenFile(home.LeasePath(l.dir, name), os.O_RDWR)
	if home.NoLock(err) {
		if l.now().After(of.Deadline.Time) {
			return Hung, nil, nil
		}
		return Held, nil, nil
	}
	if err != nil {
		return Held, nil, err
	}
	defer f.Close() // closing ours does not touch the holder's lock
	info, err := f.Stat()
	if err != nil {
		return Held, nil, err
	}
	note := home.ReadNote(f, info.Size())
	held, err := home.Locked(f.Name())
	if err == nil && !held {
		held, err = home.Locked(home.ChildPath(l.dir, name))
		held = held && !l.canEnd(note)
	}
	switch {
	case err != nil:
		return Held, note, err
	case !held:
		return Lost, note, nil
	}
	silent, err := l.silence(f, info.ModTime(), note, true)
	if err == nil && silent > l.lasts && l.now().After(of.Deadline.Time) {
		return Hung, note, nil
	}
	return Held, note, err
}

// silence is how long ago the last sign of life was, by the clock that is milder. One
// from the future is one from now, and is made one if that is asked: who can write it
// puts his end off by one lease.
func (l *Leases) silence(f *os.File, touched time.Time, n *home.Note, mend bool) (silent time.Duration, err error) {
	if silent = l.now().Sub(touched); silent < 0 && mend {
		err = durable.Touch(f.Name(), l.now())
	}
	if at, ok := home.ReadSign(f); ok && n != nil && n.Boot == l.boot {
		signed := l.awake() - at
		if signed < 0 && mend {
			err = errors.Join(err, durable.WriteAt(f, home.Sign(l.awake()), 0))
		}
		silent = min(silent, signed)
	}
	return max(silent, 0), err
}

// LastSeen is the last sign of life of who holds the claim's lease, by the wall
// clock; false if none can be seen.
func (l *Leases) LastSeen(t *task.Task, n *home.Note) (time.Time, bool) {
	f, info, err := durable.OpenRegular(home.LeasePath(l.dir, home.LeaseName(t.ID, t.Mbox.Lease.Token)))
	if err != nil {
		return time.Time{}, false
	}
	defer f.Close()
	silent, err := l.silence(f, info.ModTime(), n, false)
	return l.now().Add(-silent), err == nil
}

// canEnd tells whether the note names a process that lives, and that this one
// can see.
func (l *Leases) canEnd(n *home.Note) bool {
	return l.Here(n) && n.Child > 1 && n.ChildStart != "" && home.StartTime(n.Child) == n.ChildStart
}

// endTime is how long a process may take to end what it has started.
const endTime = time.Second

// EndChild ends what still works on a task whose lease is over, so that two
// attempts never run side by side.
func (l *Leases) EndChild(n *home.Note) error {
	if !l.canEnd(n) {
		return nil
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} { // it may have been stopped
		if err := signal(n.Child, s); err != nil {
			return err
		}
	}
	for end := time.Now().Add(endTime); l.canEnd(n); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return signal(n.Child, syscall.SIGKILL)
		}
	}
	return nil
}

// freed waits a moment for the end of all that works on a task, and tells whether
// it has come. What has left the process that was to end it may live on.
func (l *Leases) freed(t *task.Task) (bool, error) {
	of := t.Mbox.Lease
	if of == nil {
		return true, nil
	}
	for end := time.Now().Add(endTime); ; time.Sleep(time.Millisecond) {
		lives, err := home.Locked(home.ChildPath(l.dir, home.LeaseName(t.ID, of.Token)))
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

// Drop takes the claim's lease file away, if it has one. Under the task's
// shard.
func (l *Leases) Drop(id task.ID, token string) error {
	if token == "" {
		return nil
	}
	return l.remove(home.LeaseName(id, token))
}

// remove removes the lease last: while it is there the other one is
// looked for.
func (l *Leases) remove(name string) error {
	if err := durable.RemoveIfThere(home.ChildPath(l.dir, name)); err != nil {
		return err
	}
	return durable.RemoveIfThere(home.LeasePath(l.dir, name))
}

// DropOthers removes the lease files of a task but for that of its present
// claim. Under the task's shard. Where the task cannot be read, nobody knows
// which lease is that: then all stay.
func (l *Leases) DropOthers(id task.ID) error {
	names, err := home.LeaseNames(l.dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		whose, _ := home.LeaseOf(name)
		return whose != id || !home.IsLease(l.dir, name)
	})
	if len(names) == 0 {
		return nil
	}
	f, err := home.Read(l.dir, task.InProgress, filepath.Join(home.Folder(l.dir, task.InProgress, time.Time{}), id.File()))
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
		if err := l.remove(name); err != nil {
			return err
		}
	}
	return nil
}

// End ends what still works on a task whose lease is over. The lease counts as
// held while that cannot be ended and its deadline is to come.
func (l *Leases) End(t *task.Task) (Verdict, error) {
	v, note, err := l.Judge(t)
	if err != nil || v == Held {
		return Held, err
	}
	if err := l.EndChild(note); err != nil {
		return Held, err
	}
	free, err := l.freed(t)
	if err != nil || !free && v == Lost {
		return Held, err
	}
	return v, nil
}

// NoteOf reads the note of a claim's lease, without touching its lock; nil if there
// is none.
func (l *Leases) NoteOf(t *task.Task) *home.Note {
	f, info, err := durable.OpenRegular(home.LeasePath(l.dir, home.LeaseName(t.ID, t.Mbox.Lease.Token)))
	if err != nil {
		return nil // the claim has ended, or has no process
	}
	defer f.Close()
	return home.ReadNote(f, info.Size())
}

// Hold makes the file that the processes inherit which are to do the work. They
// cannot write to it.
func (l *Leases) Hold(id task.ID, token string) (*os.File, error) {
	path := home.ChildPath(l.dir, home.LeaseName(id, token))
	f, err := durable.Create(path)
	if errors.Is(err, fs.ErrNotExist) { // a home without the folder: it is made when it is needed
		if err = durable.MkdirAll(filepath.Dir(path), l.mode); err == nil {
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
	return f, durable.Share(f)
}

// Started notes the process that ends whatever works on the task, at once, when it
// gets SIGTERM.
func (l *Leases) Started(id task.ID, token string, child int) error {
	n := l.note()
	n.Child, n.ChildStart = child, home.StartTime(child)
	return home.AddNote(home.LeasePath(l.dir, home.LeaseName(id, token)), n)
}

// Renew is a sign of life.
func (l *Leases) Renew(id task.ID, token string) error {
	f, err := durable.OpenFile(home.LeasePath(l.dir, home.LeaseName(id, token)), os.O_WRONLY)
	if err == nil {
		err = errors.Join(durable.WriteAt(f, home.Sign(l.awake()), 0), durable.Touch(f.Name(), l.now()))
		f.Close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the claim is over, as its next verb tells
	}
	return err
}
