package verify

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// list is what is wrong with one thing, of which the line at seq tells.
type list struct {
	seq   int64
	id    task.ID
	found []Finding
}

func (l *list) add(invariant int, file, format string, args ...any) {
	l.found = append(l.found, Finding{Invariant: invariant, File: file, Seq: l.seq, Task: l.id, What: fmt.Sprintf(format, args...)})
}

// visitTask looks at one file in a folder of tasks.
func (v *run) visitTask(file string, folder task.State) error {
	if task.Ignored(path.Base(file)) {
		return nil
	}
	key := idOf(file)
	t := v.fold.tasks[key]
	if t == nil || t.file() != file {
		v.mu.Lock()
		defer v.mu.Unlock()
		if t == nil && folder == task.Pending {
			v.drops = append(v.drops, file)
		} else {
			v.strays[key] = append(v.strays[key], file)
		}
		return nil
	}
	found, err := v.check(file, t)
	if err != nil {
		return gone(err) // if it has moved on, it was not seen
	}
	t.seen = len(found) == 0
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.r.Tasks++; v.r.Tasks%500 == 0 {
		v.o.Progress(v.r.Tasks, max(v.total, v.r.Tasks))
	}
	return nil
}

// waiting tells how many of the names in pending that no line knew are no task yet.
func (v *run) waiting() error {
	if err := v.advance(); err != nil {
		return err
	}
	n := 0
	for _, file := range v.drops {
		is, err := v.there(file)
		if err != nil {
			return err
		}
		if t := v.fold.tasks[idOf(file)]; is && (t == nil || t.id.File() != path.Base(file)) {
			n++
		}
	}
	if n > 0 {
		v.note("%d dropped file%s in tasks/pending not admitted yet", n, map[bool]string{true: " is", false: "s are"}[n == 1])
	}
	return nil
}

// check tells what is wrong with the file of a task that lies where it should.
func (v *run) check(file string, t *history) ([]Finding, error) {
	l := &list{seq: t.seq, id: t.id}
	parsed, hash, err := v.read(l, file, t, v.o.Deep)
	if err != nil || len(l.found) > 0 {
		return l.found, err
	}
	if hash != t.after {
		l.add(6, file, "its bytes are not those that seq %d names: edited by hand", t.seq)
	}
	if parsed == nil {
		return l.found, nil
	}
	if tx, _ := task.TxIn([]byte(`"` + parsed.Mbox.TX + `"`)); tx != t.tx {
		l.add(6, file, "mbox.tx is not that of seq %d", t.seq)
	}
	if parsed.ID != t.id {
		l.add(2, file, "its id is %s", schemas.Quote(string(parsed.ID)))
	}
	state := t.state
	if state == task.Archived {
		state = parsed.Result.Status
	}
	if state != parsed.Result.Status || !state.Terminal() && t.state == task.Archived {
		l.add(3, file, "result.status is %s in tasks/%s", schemas.Quote(string(parsed.Result.Status)), t.state)
	}
	if what := parsed.Lacks(state); what != "" {
		l.add(4, file, "%s", what)
	}
	if what := parsed.Audit.Strays(state); what != "" {
		l.add(5, file, "%s", what)
	}
	return l.found, v.artifacts(l, file, parsed)
}

// read opens a task file. parsed is nil if it cannot be decoded; then, if its
// bytes are not the ledger's either, that is told by the hash alone. Nor is it
// decoded if its bytes are the ledger's and it names no artifacts, unless deep.
func (v *run) read(l *list, file string, t *history, deep bool) (parsed *task.Task, hash task.Digest, err error) {
	data, err := durable.Read(v.path(file), task.MaxTask)
	switch {
	case errors.Is(err, durable.ErrNotRegular):
		l.add(14, file, "is no regular file")
	case errors.Is(err, durable.ErrTooLarge):
		l.add(6, file, "has more than %d bytes, which no task of mbox has", task.MaxTask)
	case errors.Is(err, fs.ErrPermission):
		l.add(14, file, "cannot be read: permission denied")
	case err != nil:
		return nil, hash, err
	}
	if err != nil {
		return nil, hash, nil
	}
	hash = sha256.Sum256(data)
	if hash == t.after && !deep && bytes.Contains(data, noArtifactsNamed) && !bytes.Contains(data, attachmentsNamed) {
		return nil, hash, nil
	}
	parsed = new(task.Task)
	if err = schemas.Decode(data, parsed); err == nil {
		err = parsed.Sound()
	}
	if err == nil {
		return parsed, hash, nil
	}
	if hash == t.after {
		l.add(2, file, "is no valid task: %s", err)
	}
	return nil, hash, nil
}

// noArtifactsNamed is how a task file has it that its result has no artifacts. At
// this depth no other member stands that has the name, and in a text no line ends.
var noArtifactsNamed = []byte("\n    \"artifacts\": [],\n")

// attachmentsNamed is how it names files that came with it.
var attachmentsNamed = []byte("\n    \"attachments\": [")

// keptIn is the folder below which mbox keeps what came with the task of this file:
// in the archive it lies beside what the attempts left.
func keptIn(file string, t *task.Task) string {
	if home.StateAt("", file) != task.Archived {
		return task.ArtifactsDir
	}
	for i := range t.Result.Artifacts {
		if folder, own := t.Keeps(i); own && strings.HasPrefix(folder, archive+"/") {
			return path.Dir(folder)
		}
	}
	return path.Dir(file)
}

// artifacts says what is wrong with the files that a task names as its artifacts, or
// as what came with it:
// each has the bytes that the task names, and nothing else lies beside them. The
// first versions of mbox left them in the agent's home, where they are the
// agent's to change.
func (v *run) artifacts(l *list, file string, parsed *task.Task) error {
	named, folders, all := map[string]bool{}, map[string]bool{}, *parsed
	all.Result.Artifacts = slices.Concat(parsed.Result.Artifacts, parsed.Attached(keptIn(file, parsed)))
	for i, a := range all.Result.Artifacts {
		folder, own := all.Keeps(i)
		if _, kept := a.KeptIn(); !kept {
			v.note("artifacts of older tasks lie in the homes of their agents, who can change them: they are not compared")
			continue
		}
		now, err := artifact.Now(v.ctx, v.dir, a)
		switch {
		case errors.Is(err, fs.ErrPermission):
			l.add(15, a.Path, "the artifact cannot be read: permission denied")
		case err != nil:
			return err
		case !own:
			l.add(15, file, "names %s as its artifact, which is none of its own", a.Path)
		case now.Path == "":
			l.add(15, a.Path, "the artifact is gone, or is no regular file")
		case now.Size != a.Size:
			l.add(15, a.Path, "the artifact has %d bytes, and its task names %d", now.Size, a.Size)
		case now.SHA256 != a.SHA256:
			l.add(15, a.Path, "the artifact's bytes are not those that its task names")
		}
		if named[a.Path] = true; own {
			folders[folder] = true
		}
	}
	for folder := range folders {
		err := filepath.WalkDir(v.path(folder), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return gone(err)
			}
			if path, err = filepath.Rel(v.dir, path); err == nil && !named[filepath.ToSlash(path)] {
				l.add(15, filepath.ToSlash(path), noArtifact)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// suspects looks again at each task that looked wrong, and at those whose file was
// not seen.
func (v *run) suspects() error {
	for _, key := range slices.Sorted(maps.Keys(v.strays)) {
		err := v.locked(key, v.halfway, func() error { return v.judge(v.fold.tasks[key], v.strays[key]) })
		if err != nil {
			return err
		}
	}
	return nil
}

// judge looks for the task's file in every folder, and where one was seen, and says
// what is wrong. No line knows the files if t is nil.
func (v *run) judge(t *history, files []string) error {
	right := ""
	if t != nil {
		right = t.file()
		for _, s := range task.Folders {
			files = append(files, "tasks/"+string(s)+"/"+t.id.File())
		}
		files = append(files, right)
	}
	var there []string
	for _, file := range files {
		is, err := v.there(file)
		if err != nil {
			return err
		}
		if is && file != "" && !slices.Contains(there, file) {
			there = append(there, file)
		}
	}
	for _, file := range there {
		var found []Finding
		var err error
		switch {
		case t == nil:
			v.add(Finding{Invariant: 8, File: file, Task: task.ID(task.TrimJSON(path.Base(file))), What: noLineKnows})
		case file == right:
			found, err = v.check(file, t)
		default:
			found, err = v.misplaced(file, t, slices.Contains(there, right))
		}
		if gone(err) != nil {
			return err
		}
		v.add(found...)
	}
	if right != "" && len(there) == 0 {
		v.add(Finding{Invariant: 8, File: right, Seq: t.seq, Task: t.id, What: fmt.Sprintf(fileGone+"; seq %d put it there", t.seq)})
	}
	return nil
}

// misplaced tells of a file of the task that lies where it should not; second tells
// that another one lies where it should.
func (v *run) misplaced(file string, t *history, second bool) ([]Finding, error) {
	l := &list{seq: t.seq, id: t.id}
	parsed, hash, err := v.read(l, file, t, true)
	if err != nil {
		return nil, err
	}
	read, right := len(l.found) == 0, t.file()
	switch {
	case second || path.Base(file) != t.id.File():
		l.add(1, file, secondFile+"%s, which lies in %s", t.id, task.FolderName(t.state))
		return l.found, nil
	case right == "":
		l.add(7, file, "seq %d left no file of it: the task is %s", t.seq, map[task.State]string{task.None: "given up", task.Pruned: "pruned"}[t.state])
		return l.found, nil
	}
	l.add(7, file, "seq %d left it in %s: moved by hand", t.seq, strings.TrimPrefix(path.Dir(right), "tasks/"))
	if s := home.StateAt("", file); parsed != nil && parsed.Result.Status != s && s != task.Archived {
		l.add(3, file, "result.status is %q in tasks/%s", parsed.Result.Status, s)
	}
	if read && hash != t.after {
		l.add(6, file, "its bytes are not those that seq %d names: edited by hand", t.seq)
	}
	return l.found, nil
}
