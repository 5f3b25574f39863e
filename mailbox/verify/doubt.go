package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
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
// it holds its shard until then. So what belongs to a shard and looks wrong is looked
// at again under the shard's lock, with the ledger read to its end. If the shard has
// a record then, a process has died, and what lies there has to be one of the stages
// in which a transition can stop.
//
// What belongs to no one shard (staged files, quarantine entries) is looked at
// again after the intent records were read: whoever had put it there, or was
// about to, had its record intent then, or is done by now.

// verifyWait is how long to wait at most for the lock of something that looks
// wrong. A transition holds it for milliseconds.
const verifyWait = 3 * time.Second

func (v *run) wait() time.Duration { return min(verifyWait, v.o.Wait) }

// awaitRecovery waits until no full recovery is at work, for that puts things
// right without saying so in an intent record.
func (v *run) awaitRecovery() error {
	lock, err := durable.AcquireLock(v.ctx, home.LockPath(v.dir, "recovery"), v.o.Wait)
	if errors.Is(err, durable.ErrBusy) {
		return fmt.Errorf("a recovery is at work: %w", err)
	}
	if err == nil {
		lock.Unlock()
	}
	return nil // a missing lock file is told by missing
}

// locked looks again at what belongs to the shard of a task or a record, under its
// lock, when no full recovery is at work, without settling what a dead holder left:
// what his intent record explains is not looked at. Where the lock file is missing,
// or may not be opened for writing (a read-only file system), there is nothing to hold.
func (v *run) locked(name string, explains func(home.Intent) (bool, error), again func() error) error {
	if err := v.awaitRecovery(); err != nil {
		return err
	}
	number := home.Shard(name)
	lock, err := durable.AcquireLock(v.ctx, home.LockPath(v.dir, home.ShardName(number)), v.wait())
	if errors.Is(err, durable.ErrBusy) {
		return fmt.Errorf("something looks wrong and cannot be told from work under way: %w%s", err, v.intents.Holder(number))
	}
	if err == nil {
		defer lock.Unlock()
	}
	if err := v.advance(); err != nil {
		return err
	}
	all, err := v.records()
	if err != nil {
		return err
	}
	for _, s := range all {
		if s.Number != number || s.Damaged != nil || idOf(s.Name) != idOf(name) {
			continue
		}
		if ok, err := explains(s.Intent); ok || err != nil {
			return err
		}
	}
	return again()
}

// verdicts looks again at each file that looked wrong by itself.
func (v *run) verdicts() error {
	for _, file := range slices.Sorted(maps.Keys(v.doubts)) {
		if err := v.verdict(file); err != nil {
			return err
		}
	}
	return v.ctx.Err()
}

func (v *run) verdict(file string) error {
	name, dir := path.Base(file), path.Dir(file)
	again := func() error {
		_, found, err := v.look(file)
		told := func(f Finding) bool { return f.Invariant == 14 && f.File == file } // with its task
		if !slices.ContainsFunc(v.r.Findings, told) {
			v.add(found...)
		}
		return err
	}
	if said(file) {
		name, dir = task.TrimJSON(name), "channels"
	}
	switch dir {
	case "decisions", "changes", "channels":
		return v.locked(name, func(d home.Intent) (bool, error) { return v.replacing(file, d) }, again)
	case leases:
		id, _ := home.LeaseOf(name)
		return v.locked(string(id), func(d home.Intent) (bool, error) { return d.Kind == "task", nil }, again)
	case "tasks/pending":
		return v.pending(file, again)
	}
	if err := v.awaitRecovery(); err != nil {
		return err
	}
	if owned, err := v.anybody(func(d home.Intent) bool { return d.Owns(name) }); owned || err != nil {
		return err
	}
	if err := v.advance(); err != nil {
		return err
	}
	return again()
}

// pending looks again at a file in pending. What a dropper left there is his until it
// is the task that the ledger knows, and its admission is done.
func (v *run) pending(file string, again func() error) error {
	key := idOf(file)
	if v.fold.tasks[key] == nil {
		return nil
	}
	none := func(home.Intent) (bool, error) { return false, nil }
	return v.locked(key, none, func() error {
		t := v.fold.tasks[key]
		now, err := home.Look(v.path(file))
		if err != nil || t.file() != file || now.Hash != t.after.String() {
			return err
		}
		return again()
	})
}

// records are all intent records that stand. While one is written, half of it may be
// seen: then they are read again. That the file of them is missing, or unfit, is told
// by missing and by its shape; that one is damaged, by interruptions.
func (v *run) records() (all []home.Slot, err error) {
	for range 5 {
		all, err = v.intents.Filled()
		if !slices.ContainsFunc(all, func(s home.Slot) bool { return s.Damaged != nil }) {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, durable.ErrNotRegular) {
		return nil, nil
	}
	return all, err
}

// anybody tells whether there is such a transaction under way, or interrupted.
func (v *run) anybody(such func(home.Intent) bool) (bool, error) {
	all, err := v.records()
	return slices.ContainsFunc(all, func(s home.Slot) bool { return s.Damaged == nil && such(s.Intent) }), err
}

// inFlight tells whether somebody has begun to write at p or before and is not
// done.
func (v *run) inFlight(p audit.Position) bool {
	is, err := v.anybody(func(d home.Intent) bool { return !p.Before(d.At) })
	return is && err == nil
}

// interruptions tells of each intent record whose holder has died.
func (v *run) interruptions() error {
	all, err := v.records()
	for _, s := range all {
		lock, busy := durable.TryLock(home.LockPath(v.dir, home.ShardName(s.Number)))
		if errors.Is(busy, durable.ErrBusy) {
			continue // at work
		}
		err = errors.Join(err, v.interruption(s.Number))
		if busy == nil {
			lock.Unlock()
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
	lines, err := d.Lines(v.ledger, d.TX)
	if err != nil {
		return err
	}
	end := "interrupted; the next command finishes it"
	if len(lines) == 0 {
		end = "begun and never committed; the next command takes it back"
	}
	what := map[string]string{"task": "transition", "record": "writing", "drop": "quarantining", "note": "noting"}[d.Kind]
	v.note("the %s of %s was %s", what, d.Name, end)
	return nil
}

// halfway tells whether what lies there is a stage in which the transition of a
// dead process can have stopped: then the next holder of its shard finishes it. If
// nothing was committed all has to be as it was before.
func (v *run) halfway(d home.Intent) (bool, error) {
	lines, err := d.Lines(v.ledger, d.TX)
	for _, e := range lines {
		if m, ok := task.MoveOf(&e); ok {
			return v.stage(task.ID(e.Task()), m, e.Time())
		}
		if told := audit.MembersOf(e.Details, nil); d.Kind == "drop" && told.Get("entry") != nil {
			return v.aside(told.Text("entry"), told.Text("place"))
		}
	}
	return false, err
}

// stage tells whether the content of a committed move is staged or in place,
// and beside it lies nothing but what the move replaces.
func (v *run) stage(id task.ID, m *task.Move, at time.Time) (bool, error) {
	in := func(s task.State) string { return filepath.Join(home.Folder(v.dir, s, at), id.File()) }
	staged := home.StagedPath(v.dir, string(id), m.TX)
	mine := []string{staged, in(m.Leaves()), in(m.Enters())}
	if m.Dropped != "" {
		mine = append(mine, v.path("tasks/pending/"+m.DropName()))
	}
	places := []string{staged, in(task.Archived)}
	for _, s := range task.Folders {
		places = append(places, in(s))
	}
	there := m.Enters() == task.None
	for _, path := range places {
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
	for _, file := range []string{quarantine + "/" + entry, staging + "/" + entry, from} {
		if is, err := v.there(file); is || err != nil {
			return is, err
		}
	}
	return false, nil
}

// replacing tells whether a record that is not in place is staged, and what lies
// in its place is the one before.
func (v *run) replacing(file string, d home.Intent) (bool, error) {
	staged, err := home.Look(home.StagedPath(v.dir, d.Name, d.TX))
	if err != nil {
		return false, err
	}
	now, err := home.Look(v.path(file))
	if err != nil {
		return false, err
	}
	lines, err := d.Lines(v.ledger, d.TX)
	for _, e := range lines {
		told := audit.MembersOf(e.Details, nil)
		if told.Text("file") == file && told.Text("sha256") == staged.Hash && (!now.There || now.Hash == told.Text("before")) {
			return true, nil
		}
	}
	return false, err
}
