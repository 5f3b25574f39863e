package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// allRecords checks that each decision and change has the bytes that its last
// line recorded.
func (v *run) allRecords() error {
	files := map[string]bool{}
	for _, folder := range []string{"decisions", "changes"} {
		names, err := durable.Names(v.path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".md") {
				files[folder+"/"+name] = true
			}
		}
	}
	for file := range v.fold.records {
		files[file] = true
	}
	for file := range files {
		good, err := v.record(file)
		if err != nil {
			return err
		}
		if good {
			v.r.Records++
		}
	}
	return v.ctx.Err()
}

// record gives the verdict on one record, at the second look under its lock.
func (v *run) record(file string) (good bool, err error) {
	what, _, err := v.recordFault(file)
	if what == "" || err != nil {
		return what == "", err
	}
	name := file[strings.Index(file, "/")+1:]
	unlock, err := v.hold(home.Shard(name))
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := v.advance(); err != nil {
		return false, err
	}
	what, seq, err := v.recordFault(file)
	if what == "" || err != nil {
		return what == "", err
	}
	d, set, err := v.intentOf(home.Shard(name))
	if err != nil {
		return false, err
	}
	if set && d.Kind == "record" && d.Name == name {
		if ok, err := v.staging(file, d); ok || err != nil {
			return ok, err
		}
	}
	v.fault(Finding{Invariant: 12, File: file, Seq: seq, What: what})
	return false, nil
}

func (v *run) recordFault(file string) (what string, seq int64, err error) {
	last := v.fold.records[file]
	now, err := home.Look(v.path(file))
	switch {
	case err != nil:
		return "", 0, err
	case last == nil && now.There:
		return noLineKnows, 0, nil
	case last == nil:
		return "", 0, nil
	case !now.There:
		return fmt.Sprintf("the file is gone; seq %d recorded it", last.seq), last.seq, nil
	case now.Hash != last.sha.String():
		return fmt.Sprintf("its bytes are not those that seq %d recorded", last.seq), last.seq, nil
	}
	return "", 0, nil
}

// staging tells whether a record that is not in place is staged, and what lies
// in its place is the one before.
func (v *run) staging(file string, d home.Intent) (bool, error) {
	staged, err := home.Look(home.StagedPath(v.dir, d.Name, d.TX))
	if err != nil {
		return false, err
	}
	now, err := home.Look(v.path(file))
	if err != nil {
		return false, err
	}
	lines, err := d.Lines(v.lines, d.TX)
	if err != nil {
		return false, err
	}
	for _, e := range lines {
		var r struct {
			File   string `json:"file"`
			SHA256 string `json:"sha256"`
			Before string `json:"before"`
		}
		if e.Detail(&r) == nil && r.File == file && staged.Hash == r.SHA256 && (!now.There || now.Hash == r.Before) {
			return true, nil
		}
	}
	return false, nil
}

// quarantine checks that each entry has its reason and a line that names it,
// and that each entry that a line names is still what it was. Of an entry its
// bytes count: not its mode, owner and times, which are as it came, nor the bytes
// of what was no regular file, had more than maxHashed bytes, or could be written
// by others when it was put there. Of a reason all counts.
func (v *run) quarantine() error {
	names, err := durable.Names(v.path("tasks", "quarantine"))
	if errors.Is(err, fs.ErrNotExist) {
		names, err = nil, nil
	}
	if err != nil {
		return err
	}
	if err := v.advance(); err != nil {
		return err
	}
	entries := map[string]bool{}
	for _, name := range names {
		entries[strings.TrimSuffix(name, home.ReasonSuffix)] = true
	}
	for name := range v.fold.entries {
		entries[name] = true
	}
	sorted := make([]string, 0, len(entries))
	for name := range entries {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	for _, name := range sorted {
		if err := v.entry(name); err != nil {
			return err
		}
		if err := v.ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// entry gives the verdict on one entry: what looks wrong is looked at again once
// it is known that nobody is at it.
func (v *run) entry(name string) error {
	f, err := v.entryFault(name)
	if f == nil || err != nil {
		return err
	}
	owned, err := v.owned(name)
	if owned || err != nil {
		return err
	}
	if err := v.advance(); err != nil {
		return err
	}
	if f, err = v.entryFault(name); f == nil || err != nil {
		return err
	}
	v.fault(*f)
	return nil
}

func (v *run) entryFault(name string) (*Finding, error) {
	f := &Finding{Invariant: 13, File: "tasks/quarantine/" + name}
	e := v.fold.entries[name]
	if e != nil {
		f.Seq, f.Task = e.seq, e.task
	}
	sum, there, err := v.kept(name)
	unreadable := errors.Is(err, fs.ErrPermission)
	if err != nil && !unreadable {
		return nil, err
	}
	why, err := v.reason(name)
	if err != nil {
		return nil, err
	}
	switch {
	case e == nil && there:
		f.What = noLineNames
	case e == nil && why != missing:
		f.File, f.What = f.File+home.ReasonSuffix, noEntry
	case e == nil:
		return nil, nil
	case !there && !e.regular:
		v.note("the quarantine entry %s is gone; it was no regular file, and a backup leaves such out", name)
		return nil, nil
	case !there:
		f.What = fmt.Sprintf("the entry is gone; seq %d put it there", e.seq)
	case e.regular && !e.shared && unreadable:
		f.What = "cannot be read: permission denied"
	case e.regular && !e.shared && sum != e.sha.String():
		f.What = fmt.Sprintf("its bytes are not those that seq %d names", e.seq)
	case why != "":
		f.File, f.What = f.File+home.ReasonSuffix, why
	default:
		return nil, nil
	}
	return f, nil
}

// kept looks at an entry: there, and its hash where it is a regular file that is
// not too large to have one.
func (v *run) kept(name string) (sum string, there bool, err error) {
	path := v.path("tasks", "quarantine", name)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return "", true, err
	}
	f, info, err := durable.OpenRegular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if errors.Is(err, durable.ErrNotRegular) {
		return "", true, nil
	}
	if err != nil {
		return "", true, err
	}
	defer f.Close()
	sum, err = home.HashKept(f, info)
	return sum, true, err
}

const missing = "is missing"

// reason says what is wrong with an entry's reason file.
func (v *run) reason(entry string) (what string, err error) {
	data, err := durable.Read(v.path("tasks", "quarantine", entry+home.ReasonSuffix), task.MaxTask)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missing, nil
	case errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooLarge):
		return "is no reason file", nil
	case err != nil:
		return "", err
	}
	var r home.Reason
	if err := schemas.Decode(data, &r); err != nil {
		return "is no reason: " + err.Error(), nil
	}
	e := v.fold.entries[entry]
	info, err := os.Lstat(v.path("tasks", "quarantine", entry+home.ReasonSuffix))
	switch {
	case err == nil && info.Mode() != durable.FileMode:
		return fmt.Sprintf("mode is %04o, not %04o", info.Mode().Perm(), durable.FileMode), nil
	case r.Entry != entry || e != nil && e.regular && r.SHA256 != e.sha.String():
		return "speaks of another entry", nil
	case e != nil && e.noted && audit.Hash(data) != e.why.String():
		return fmt.Sprintf("its bytes are not those that seq %d names", e.seq), nil
	}
	return "", nil
}

// staged checks that no staged file lies about that nobody is at, nor a recovery
// that is due.
func (v *run) staged() error {
	if v.due {
		return nil
	}
	names, err := home.StagedNames(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		owned, err := v.owned(name)
		if err != nil {
			return err
		}
		if _, gone := os.Lstat(home.Private(v.dir, "tmp", name)); owned || errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		v.fault(Finding{Invariant: 13, File: ".mbox/tmp/" + name, What: "is staged, and no transition is at it"})
	}
	return nil
}

// leases checks that each lease belongs to a task in progress.
func (v *run) leases() error {
	names, err := home.LeaseNames(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if v.leased(name) {
			continue
		}
		if err := v.lease(name); err != nil {
			return err
		}
	}
	return nil
}

// leased tells whether a task in progress has this lease.
func (v *run) leased(name string) bool {
	present, err := home.Leased(v.dir, name)
	return err == nil && present
}

// lease gives the verdict on a lease that looked stray, under its task's lock.
func (v *run) lease(name string) error {
	id, _ := home.LeaseOf(name)
	unlock, err := v.hold(home.Shard(string(id)))
	if err != nil {
		return err
	}
	defer unlock()
	_, err = os.Lstat(home.LeasePath(v.dir, name))
	if errors.Is(err, fs.ErrNotExist) || v.leased(name) {
		return nil
	}
	d, set, err := v.intentOf(home.Shard(string(id)))
	if err != nil {
		return err
	}
	if set && d.Kind == "task" && task.ID(d.Name) == id {
		return nil
	}
	f := Finding{Invariant: 13, File: ".mbox/leases/" + name, What: "is the lease of no task in progress"}
	if err := v.advance(); err != nil {
		return err
	}
	if t := v.fold.tasks.of(id.Fold()); t != nil {
		f.Task, f.Seq = t.id, t.seq
	}
	v.fault(f)
	return nil
}
