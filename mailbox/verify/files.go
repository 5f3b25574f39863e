package verify

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// What is said of an entry of the quarantine that has no reason.
const noReason = "is missing"

// look says what is wrong with a file or folder by itself, whose task is looked at
// apart; info is nil if there is none. The name of a quarantine entry stands for its
// reason too.
func (v *run) look(file string) (info fs.FileInfo, found []Finding, err error) {
	info, err = os.Lstat(v.path(file))
	if gone(err) != nil {
		return nil, nil, err
	}
	if err != nil {
		info = nil
	}
	l, dir := &list{}, path.Dir(file)
	if k := v.fold.files[file]; k != nil {
		l.seq, l.id = k.seq, k.task
	}
	if info != nil && !foreign(dir) {
		if what := v.shape(info); what != "" {
			l.found = append(l.found, Finding{Invariant: 14, File: file, What: what})
		}
	}
	switch {
	case dir == "decisions", dir == "changes", said(file) && (info == nil || !info.IsDir()):
		err = v.record(l, file)
	case dir == quarantine:
		err = v.entry(l, file)
	case info == nil:
		return nil, nil, nil
	case dir == staging && !v.due:
		l.add(13, file, "is staged, and no transition is at it")
	case dir == leases:
		v.lease(l, file)
	case dir == task.ArtifactsDir, path.Dir(dir) == archive && info.IsDir():
		v.attempt(l, file, info)
	}
	return info, l.found, err
}

// said tells whether a file lies where messages do.
func said(file string) bool { return strings.HasPrefix(file, "channels/") }

// record: each decision, change and message has the bytes that its last line recorded.
func (v *run) record(l *list, file string) error {
	last := v.fold.files[file]
	now, err := home.Look(v.path(file))
	switch {
	case err != nil:
		return err
	case last == nil && now.There && (said(file) || strings.HasSuffix(file, ".md")):
		l.add(12, file, noLineKnows)
	case last == nil:
	case !now.There:
		l.add(12, file, "the file is gone; seq %d recorded it", last.seq)
	case now.Hash != last.sha.String():
		l.add(12, file, "its bytes are not those that seq %d recorded", last.seq)
	default:
		v.mu.Lock()
		defer v.mu.Unlock()
		v.r.Records++
	}
	return nil
}

// entry: each entry of the quarantine has its reason and a line that names it, and
// each entry that a line names is still what it was. Of an entry its bytes count:
// not its mode, owner and times, which are as it came, nor the bytes of what was no
// regular file, was too large to be hashed, or could be written by others when it was
// put there. Of a reason all counts.
func (v *run) entry(l *list, file string) error {
	k := v.fold.files[file]
	sum, err := home.HashKeptAt(v.path(file))
	there, unreadable := !errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrPermission)
	if err != nil && there && !unreadable {
		return err
	}
	why, err := v.reason(file, k)
	if err != nil {
		return err
	}
	counts := k != nil && k.hashed && !k.shared
	switch {
	case k == nil && there:
		l.add(13, file, noLineNames)
	case k == nil && why != noReason:
		l.add(13, file+home.ReasonSuffix, noEntry)
	case k == nil:
	case !there && !k.hashed:
		v.note("the quarantine entry %s is gone; it was no regular file, and a backup leaves such out", path.Base(file))
	case !there:
		l.add(13, file, "the entry is gone; seq %d put it there", k.seq)
	case counts && unreadable:
		l.add(13, file, "cannot be read: permission denied")
	case counts && sum != k.sha.String():
		l.add(13, file, "its bytes are not those that seq %d names", k.seq)
	case why != "":
		l.add(13, file+home.ReasonSuffix, "%s", why)
	}
	return nil
}

// reason says what is wrong with the reason of an entry.
func (v *run) reason(entry string, k *kept) (what string, err error) {
	name := v.path(entry + home.ReasonSuffix)
	info, err := os.Lstat(name)
	if err == nil {
		if what = v.shape(info); what != "" {
			return what, nil
		}
	}
	data, err := durable.Read(name, task.MaxTask)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noReason, nil
	case errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooLarge):
		return "is no reason file", nil
	case err != nil:
		return "", err
	}
	var r home.Reason
	if err := schemas.Decode(data, &r); err != nil {
		return "is no reason: " + err.Error(), nil
	}
	switch {
	case r.Entry != path.Base(entry) || k != nil && k.hashed && r.SHA256 != k.sha.String():
		return "speaks of another entry", nil
	case k != nil && k.noted && sha256.Sum256(data) != k.why:
		return fmt.Sprintf("its bytes are not those that seq %d names", k.seq), nil
	}
	return "", nil
}

// lease: each lease belongs to a task in progress.
func (v *run) lease(l *list, file string) {
	name := path.Base(file)
	if leased, err := home.Leased(v.dir, name); leased && err == nil {
		return
	}
	id, _ := home.LeaseOf(name)
	if t := v.fold.tasks[id.Fold()]; t != nil {
		l.seq, l.id = t.seq, t.id
	}
	l.add(13, file, "is the lease of no task in progress")
}

// attempt: what lies among the artifacts is the folder of an attempt, or of what came
// with a task. One of an attempt that its task does not name is what a process left
// that died before its line.
func (v *run) attempt(l *list, file string, info fs.FileInfo) {
	id, epoch, ok := task.AttemptOf(path.Base(file))
	if t := v.fold.tasks[id.Fold()]; !ok || !info.IsDir() || t == nil || t.id != id || epoch > t.epoch || epoch == 0 && !t.attached {
		l.add(15, file, noArtifacts)
	}
}
