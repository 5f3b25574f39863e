package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// While verify reads, everything is at work. These rules tell what is on its way
// from what is wrong:
//
// A process blanks its intent record only when the ledger and the tree agree, and
// it holds its shard until then. So a task that looks wrong is looked
// at again under its shard's lock, with the ledger read to its end. If the
// shard has a record then, a process has died, and what lies there has to
// be one of the stages in which a transition can stop.
//
// What belongs to no one shard (staged files, quarantine entries) is looked at
// again after the intent records were read: whoever had put it there, or was
// about to, had its record intent then, or is done by now.

// suspects looks again at each task that looked wrong, and at those whose file
// was not seen.
func (v *run) suspects() error {
	for t := range v.fold.tasks.all() {
		key := t.id.Fold()
		if _, doubted := v.doubts[key]; !doubted && !t.seen && t.dir() != "" {
			v.doubts[key] = nil
		}
	}
	keys := make([]string, 0, len(v.doubts))
	for key := range v.doubts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := v.lookAgain(key, v.doubts[key]); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain gives the verdict on one task.
func (v *run) lookAgain(key string, seen []place) error {
	unlock, err := v.hold(home.Shard(key))
	if err != nil {
		return err
	}
	defer unlock()
	if err := v.advance(); err != nil {
		return err
	}
	d, set, err := v.intentOf(home.Shard(key))
	if err != nil {
		return err
	}
	if set && (d.Kind == "task" && task.ID(d.Name).Fold() == key || d.Kind == "drop" && task.ID(task.TrimJSON(d.Name)).Fold() == key) {
		if ok, err := v.halfway(d); ok || err != nil {
			return err
		}
	}
	t := v.fold.tasks.of(key)
	if t == nil {
		return v.unknown(seen)
	}
	return v.judge(t, seen)
}

// unknown tells of files that no line knows.
func (v *run) unknown(seen []place) error {
	for _, at := range seen {
		if _, err := os.Lstat(v.path(at.path())); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		v.fault(Finding{Invariant: 8, File: at.path(), Task: task.ID(task.TrimJSON(at.name)), What: noLineKnows})
	}
	return nil
}

// judge opens the task's name in every folder and says what is wrong.
func (v *run) judge(t *lineage, seen []place) error {
	place := place{dir: t.dir(), name: t.id.File(), state: t.state}
	places := v.everywhere(t)
	for _, at := range seen {
		if !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	there, elsewhere := false, 0
	for _, at := range places {
		if _, err := os.Lstat(v.path(at.path())); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		if at == place {
			there = true
		} else {
			elsewhere++
		}
	}
	if there {
		faults, err := v.check(place, t)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, f := range faults {
			v.fault(f)
		}
	}
	for _, at := range places {
		if at != place {
			if err := v.misplaced(t, at, there); err != nil {
				return err
			}
		}
	}
	if !there && elsewhere == 0 && place.dir != "" {
		v.fault(Finding{Invariant: 8, File: place.path(), Seq: t.seq, Task: t.id, What: fmt.Sprintf("the file is gone; seq %d put it there", t.seq)})
	}
	return nil
}

// everywhere lists the places where a file of the task could lie.
func (v *run) everywhere(t *lineage) []place {
	var out []place
	for _, s := range task.Folders {
		out = append(out, place{dir: "tasks/" + string(s), name: t.id.File(), state: s})
	}
	if t.state == task.Archived {
		out = append(out, place{dir: t.dir(), name: t.id.File(), state: task.Archived})
	}
	return out
}

// misplaced tells of a file of the task that lies where it should not.
func (v *run) misplaced(t *lineage, at place, second bool) error {
	bad := func(invariant int, format string, args ...any) {
		v.fault(Finding{Invariant: invariant, File: at.path(), Seq: t.seq, Task: t.id, What: fmt.Sprintf(format, args...)})
	}
	parsed, hash, faults, err := v.open(at, t, true)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, f := range faults {
		v.fault(f)
	}
	if second || at.name != t.id.File() {
		bad(1, "a second file of task %s, which lies in %s", t.id, task.FolderName(t.state))
		return nil
	}
	if t.dir() == "" {
		bad(7, "seq %d left no file of it: the task is %s", t.seq, map[task.State]string{task.None: "given up", task.Pruned: "pruned"}[t.state])
		return nil
	}
	bad(7, "seq %d left it in %s: moved by hand", t.seq, strings.TrimPrefix(t.dir(), "tasks/"))
	if parsed != nil && parsed.Result.Status != at.state && at.state != task.Archived {
		bad(3, "result.status is %q in tasks/%s", parsed.Result.Status, at.state)
	}
	if hash != t.after && len(faults) == 0 {
		bad(6, "its bytes are not those that seq %d names: edited by hand", t.seq)
	}
	return nil
}

// hold takes a shard's lock, when no full recovery is at work, without settling
// what a dead holder left. Where the lock file is missing, or may not be opened
// for writing (a read-only file system), there is nothing to hold.
func (v *run) hold(number int) (unlock func(), err error) {
	if err := v.awaitRecovery(); err != nil {
		return nil, err
	}
	lock, err := durable.AcquireLock(v.ctx, home.LockPath(v.dir, home.ShardName(number)), v.wait())
	if errors.Is(err, durable.ErrBusy) {
		return nil, fmt.Errorf("something looks wrong and cannot be told from work under way: %w%s", err, v.intents.Holder(number))
	}
	if err != nil {
		return func() {}, nil //nolint:nilerr // see above; home names a missing lock file
	}
	return func() { lock.Unlock() }, nil
}

// intentOf reads a shard's intent record. Without the lock half of it may be seen
// while it is written: then it is read again.
func (v *run) intentOf(number int) (d home.Intent, set bool, err error) {
	for range 5 {
		d, set, err = v.intents.Read(number)
		if !errors.Is(err, home.ErrDamagedIntent) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if noIntents(err) || errors.Is(err, home.ErrDamagedIntent) {
		return home.Intent{}, false, nil // home and interruptions tell it
	}
	return d, set, err
}

// noIntents tells of an error that there is no file of intent records: shapes or home
// tell of it.
func noIntents(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, durable.ErrNotRegular)
}

// atWork reads all intent records.
func (v *run) atWork() (out []home.Intent, err error) {
	all, err := v.intents.Filled()
	for _, s := range all {
		d, set := s.Intent, true
		if s.Damaged != nil { // or half written
			if d, set, err = v.intentOf(s.Number); err != nil {
				return nil, err
			}
		}
		if set {
			out = append(out, d)
		}
	}
	if noIntents(err) {
		err = nil
	}
	return out, err
}

// inFlight tells whether somebody has begun to write at p or before and is not
// done.
func (v *run) inFlight(p audit.Position) bool {
	all, err := v.atWork()
	return err == nil && slices.ContainsFunc(all, func(d home.Intent) bool { return !p.Before(d.At) })
}

// owned tells whether any transaction that is under way, or was interrupted,
// owns the name. A full recovery is awaited.
func (v *run) owned(name string) (bool, error) {
	if err := v.awaitRecovery(); err != nil {
		return false, err
	}
	all, err := v.atWork()
	return slices.ContainsFunc(all, func(d home.Intent) bool { return d.Owns(name) }), err
}

// interruptions tells of each intent record whose holder has died.
func (v *run) interruptions() error {
	all, err := v.intents.Filled()
	if noIntents(err) {
		return nil
	}
	for _, s := range all {
		lock, err := durable.TryLock(home.LockPath(v.dir, home.ShardName(s.Number)))
		if errors.Is(err, durable.ErrBusy) {
			continue // at work
		}
		free := err == nil
		err = v.interruption(s.Number)
		if free {
			lock.Unlock()
		}
		if err != nil {
			return err
		}
	}
	return err
}

func (v *run) interruption(number int) error {
	d, set, err := v.intents.Read(number)
	if errors.Is(err, home.ErrDamagedIntent) {
		v.note("an intent record is damaged; the next command recovers everything")
		return nil
	}
	if err != nil || !set {
		return err
	}
	written, err := v.written(d)
	if err != nil {
		return err
	}
	what := map[string]string{"task": "transition", "record": "writing", "drop": "quarantining", "note": "noting"}[d.Kind]
	if written {
		v.note("the %s of %s was interrupted; the next command finishes it", what, d.Name)
	} else {
		v.note("the %s of %s was begun and never committed; the next command takes it back", what, d.Name)
	}
	return nil
}

// written tells whether the ledger has a line of the record's transaction.
func (v *run) written(d home.Intent) (bool, error) {
	lines, err := d.Lines(v.lines, d.TX)
	return len(lines) > 0, err
}

// halfway tells whether what lies there is a stage in which the transition of a
// dead process can have stopped: then the next holder of its shard finishes it.
func (v *run) halfway(d home.Intent) (bool, error) {
	lines, err := d.Lines(v.lines, d.TX)
	if err != nil || len(lines) == 0 {
		return false, err // nothing was committed: all has to be as it was before
	}
	for _, e := range lines {
		if m, ok := task.MoveOf(&e); ok {
			return v.stage(task.ID(e.Task()), m, e.Time())
		}
		var a struct {
			Entry string `json:"entry"`
			Place string `json:"place"`
		}
		if d.Kind == "drop" && e.Detail(&a) == nil {
			return v.aside(a.Entry, a.Place)
		}
	}
	return false, nil
}

// stage tells whether the content of a committed move is staged or in place,
// and beside it lies nothing but what the move replaces.
func (v *run) stage(id task.ID, m *task.Move, at time.Time) (bool, error) {
	paths := []string{home.StagedPath(v.dir, string(id), m.TX)}
	for _, s := range append(slices.Clone(task.Folders), task.Archived) {
		paths = append(paths, home.Folder(v.dir, s, at)+"/"+id.File())
	}
	mine := []string{paths[0], home.Folder(v.dir, m.Leaves(), at) + "/" + id.File(), home.Folder(v.dir, m.Enters(), at) + "/" + id.File()}
	if m.Dropped != "" {
		mine = append(mine, v.path("tasks", string(task.Pending), m.Dropped))
	}
	there := m.Enters() == task.None
	for _, path := range paths {
		s, err := home.Look(path)
		switch {
		case err != nil:
			return false, err
		case !s.There:
		case !slices.Contains(mine, path):
			return false, nil
		case s.Hash == task.HashOf(m.After):
			there = true
		case !m.Replaces(s.Hash):
			return false, nil
		}
	}
	return there, nil
}

// aside tells whether a file that goes to quarantine is on its way.
func (v *run) aside(entry, from string) (bool, error) {
	for _, path := range []string{v.path("tasks", "quarantine", entry), home.Private(v.dir, "tmp", entry), v.path(from)} {
		if _, err := os.Lstat(path); err == nil {
			return true, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	return false, nil
}
