package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// walk looks at every file in the folders of tasks, on all cores. What is not as
// the ledger has it is only a doubt yet: it may have moved on since the ledger was
// read.
func (v *run) walk() error {
	total := int64(0)
	for t := range v.fold.tasks.all() {
		if t.dir() != "" {
			total++
		}
	}
	places, err := v.folders()
	if err != nil {
		return err
	}
	for _, at := range places {
		names, err := durable.Names(v.path(at.dir))
		if errors.Is(err, fs.ErrNotExist) {
			continue // home tells it
		}
		if err != nil {
			return err
		}
		err = onAllCores(v.ctx, names, func(name string) error {
			at := at
			at.name = name
			return v.file(at, total)
		})
		if err != nil {
			return err
		}
	}
	v.o.Progress(v.r.Tasks, max(total, v.r.Tasks))
	return v.sortDrops()
}

// onAllCores calls do for each name, and returns the first error.
func onAllCores(ctx context.Context, names []string, do func(name string) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(len(names), runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := next.Add(1); i <= int64(len(names)) && ctx.Err() == nil; i = next.Add(1) {
				if err := do(names[i-1]); err != nil {
					stop(err)
				}
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}

// folders lists the folders in which tasks lie.
func (v *run) folders() ([]place, error) {
	var out []place
	for _, s := range task.Folders {
		out = append(out, place{dir: "tasks/" + string(s), state: s})
	}
	months, err := home.Months(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	for _, m := range months {
		out = append(out, place{dir: "tasks/archive/" + m, state: task.Archived})
	}
	return out, err
}

// file looks at one file.
func (v *run) file(at place, total int64) error {
	if _, _, ok := task.AttemptOf(at.name); task.Ignored(at.name) || ok && v.isFolder(at) {
		return nil // a folder is seen to by strangeArtifacts
	}
	key := task.ID(task.TrimJSON(at.name)).Fold()
	t := v.fold.tasks.of(key)
	if t == nil || t.dir() != at.dir || t.id.File() != at.name {
		v.mu.Lock()
		defer v.mu.Unlock()
		if t == nil && at.state == task.Pending {
			v.drops = append(v.drops, at.name)
		} else {
			v.doubts[key] = append(v.doubts[key], at)
		}
		return nil
	}
	faults, err := v.check(at, t)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has moved on: suspects finds that it was not seen
	}
	if err != nil {
		return err
	}
	t.seen = len(faults) == 0
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.r.Tasks++; v.r.Tasks%500 == 0 {
		v.o.Progress(v.r.Tasks, max(total, v.r.Tasks))
	}
	return nil
}

func (v *run) isFolder(at place) bool {
	info, err := os.Lstat(v.path(at.path()))
	return at.state == task.Archived && err == nil && info.IsDir()
}

// sortDrops keeps those of the unknown names in pending that are no task by now.
func (v *run) sortDrops() error {
	if len(v.drops) == 0 {
		return nil
	}
	if err := v.advance(); err != nil {
		return err
	}
	v.drops = slices.DeleteFunc(v.drops, func(name string) bool {
		t := v.fold.tasks.of(task.ID(task.TrimJSON(name)).Fold())
		_, err := os.Lstat(v.path("tasks", string(task.Pending), name))
		return t != nil && t.id.File() == name || err != nil
	})
	return nil
}

// check tells what is wrong with the file of a task that lies where it should.
func (v *run) check(at place, t *lineage) ([]Finding, error) {
	parsed, hash, faults, err := v.open(at, t, v.o.Deep)
	if err != nil || len(faults) > 0 {
		return faults, err
	}
	bad := func(invariant int, format string, args ...any) {
		faults = append(faults, Finding{Invariant: invariant, File: at.path(), Seq: t.seq, Task: t.id, What: fmt.Sprintf(format, args...)})
	}
	if hash != t.after {
		bad(6, "its bytes are not those that seq %d names: edited by hand", t.seq)
	}
	if parsed == nil {
		return faults, nil
	}
	if tx, _ := task.TxIn([]byte(`"` + parsed.Mbox.TX + `"`)); tx != t.tx {
		bad(6, "mbox.tx is not that of seq %d", t.seq)
	}
	if parsed.ID != t.id {
		bad(2, "its id is %s", schemas.Quote(string(parsed.ID)))
	}
	state := at.state
	if state == task.Archived {
		state = parsed.Result.Status
	}
	if state != parsed.Result.Status || !state.Terminal() && at.state == task.Archived {
		bad(3, "result.status is %s in tasks/%s", schemas.Quote(string(parsed.Result.Status)), at.state)
	}
	if what := parsed.Lacks(state); what != "" {
		bad(4, "%s", what)
	}
	if what := parsed.Audit.Strays(state); what != "" {
		bad(5, "%s", what)
	}
	more, err := v.artifacts(at, t, parsed)
	return append(faults, more...), err
}

// open reads a task file. parsed is nil if it cannot be decoded; then, if its
// bytes are not the ledger's either, that is told by the hash alone. Nor is it
// decoded if its bytes are the ledger's and it names no artifacts, unless deep.
func (v *run) open(at place, t *lineage, deep bool) (parsed *task.Task, hash task.Digest, faults []Finding, err error) {
	bad := func(invariant int, what string) {
		faults = append(faults, Finding{Invariant: invariant, File: at.path(), Seq: t.seq, Task: t.id, What: what})
	}
	data, err := durable.Read(v.path(at.path()), task.MaxTask)
	switch {
	case errors.Is(err, durable.ErrNotRegular):
		bad(14, "is no regular file")
		return nil, hash, faults, nil
	case errors.Is(err, durable.ErrTooLarge):
		bad(6, fmt.Sprintf("has more than %d bytes, which no task of mbox has", task.MaxTask))
		return nil, hash, faults, nil
	case errors.Is(err, fs.ErrPermission):
		bad(14, "cannot be read: permission denied")
		return nil, hash, faults, nil
	case err != nil:
		return nil, hash, nil, err
	}
	hash = sha256.Sum256(data)
	if hash == t.after && !deep && bytes.Contains(data, noArtifactsNamed) {
		return nil, hash, nil, nil
	}
	parsed = new(task.Task)
	why := schemas.Decode(data, parsed)
	if why == nil {
		why = parsed.Sound()
	}
	if why != nil {
		parsed = nil
	}
	if why != nil && hash == t.after {
		bad(2, "is no valid task: "+why.Error())
	}
	return parsed, hash, faults, nil
}

// noArtifactsNamed is how a task file has it that its result has no artifacts. At
// this depth no other member stands that has the name, and in a text no line ends.
var noArtifactsNamed = []byte("\n    \"artifacts\": [],\n")

// home checks that the folders and lock files are there, and tells what state
// the mailbox is in.
func (v *run) home() error {
	for _, dir := range home.Folders {
		top, _, _ := strings.Cut(dir, "/")
		if top == "memory" || top == "agents" || dir == task.ArtifactsDir {
			continue // not of the mailbox itself, or made when it is needed
		}
		if _, err := os.Lstat(v.path(dir)); errors.Is(err, fs.ErrNotExist) {
			v.fault(Finding{Invariant: 14, File: dir, What: "the folder is missing"})
		} else if err != nil {
			return err
		}
	}
	for _, name := range home.LockNames() {
		file := ".mbox/locks/" + name
		if _, err := os.Lstat(v.path(file)); errors.Is(err, fs.ErrNotExist) {
			v.fault(Finding{Invariant: 14, File: file, What: "the lock file is missing; mbox recover makes it anew"})
		} else if err != nil {
			return err
		}
	}
	if _, err := os.Lstat(home.IntentsPath(v.dir)); errors.Is(err, fs.ErrNotExist) {
		v.fault(Finding{Invariant: 14, File: ".mbox/intents", What: "is missing; mbox recover makes it anew"})
	} else if err != nil {
		return err
	}
	if err := audit.CheckWritable(v.dir); err != nil {
		v.note("%s", err)
	}
	now, err := home.CurrentBoot(v.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is no .mbox, and it was said
	}
	if err != nil {
		return err
	}
	was, err := home.ReadBoot(v.dir)
	if err != nil {
		return err
	}
	v.due = was != now
	switch {
	case !v.due:
	case was.Stopped != "":
		v.gone(was.Stopped)
	case was.Dev == now.Dev && was.Inode == now.Inode && was.Folders != (home.Inodes{}) && was.Replaced(now.Folders) != "":
		v.gone(was.Replaced(now.Folders))
	case was.SameAs(now):
		v.note("a recovery was interrupted; the next command goes on with it")
	default:
		v.note("the machine was restarted, or the home was moved or restored, since the last recovery: the next command recovers everything first")
	}
	return nil
}

func (v *run) gone(why string) {
	v.r.Gone = why
	v.note("nothing is written until the tasks are back: %s", why)
}

// shapes checks kinds, modes, links and the device of all files and folders of
// the mailbox. What a dropper left in pending is his until it is admitted, and
// what lies in quarantine is as it came.
func (v *run) shapes() error {
	info, err := os.Stat(v.dir)
	if err != nil {
		return err
	}
	s := &shape{v: v, device: home.DeviceOf(info)}
	if what := s.wrong(".", info); what != "" {
		v.fault(Finding{Invariant: 14, File: ".", What: what})
	}
	names := []string{"tasks", "audit", "decisions", "changes", ".mbox"}
	for s.dirs = []string{""}; len(s.dirs) > 0; {
		dir := s.dirs[0]
		if s.dirs = s.dirs[1:]; dir != "" {
			if names, err = durable.Names(v.path(dir)); ignoreGone(err) != nil {
				return err
			}
		}
		if err := onAllCores(v.ctx, names, func(name string) error { return s.visit(filepath.Join(dir, name)) }); err != nil {
			return err
		}
	}
	slices.Sort(s.doubts)
	for _, file := range s.doubts {
		if err := s.again(file); err != nil {
			return err
		}
	}
	return nil
}

type shape struct {
	v      *run
	device uint64

	dirs   []string // that are to be visited
	doubts []string // what looks wrong
}

// visit looks at a file or folder, named from the home.
func (s *shape) visit(file string) error {
	info, err := os.Lstat(s.v.path(file))
	if err != nil {
		return ignoreGone(err)
	}
	s.v.mu.Lock()
	defer s.v.mu.Unlock()
	if s.wrong(file, info) != "" {
		s.doubts = append(s.doubts, file)
	}
	if info.IsDir() && file != "tasks/quarantine" && file != ".mbox/tmp" { // as it came; and judged by who owns it
		s.dirs = append(s.dirs, file)
	}
	return nil
}

// again gives the verdict on a file that looks wrong, at a second look. One in
// pending is mbox's to shape only once it is the task that the ledger knows, and
// its admission is done: that is seen under its lock.
func (s *shape) again(file string) error {
	told := func(f Finding) bool { return f.Invariant == 14 && f.File == file }
	if slices.ContainsFunc(s.v.r.Findings, told) {
		return nil // with its task
	}
	if name, ok := strings.CutPrefix(file, "tasks/pending/"); ok {
		t := s.v.fold.tasks.of(task.ID(task.TrimJSON(name)).Fold())
		if t == nil || t.id.File() != name {
			return nil
		}
		unlock, err := s.v.hold(home.Shard(string(t.id)))
		if err != nil {
			return err
		}
		defer unlock()
		if err := s.v.advance(); err != nil {
			return err
		}
		if now, err := home.Look(s.v.path(file)); err != nil || t.state != task.Pending || now.Hash != t.after.String() {
			return err
		}
	}
	info, err := os.Lstat(s.v.path(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if what := s.wrong(file, info); what != "" {
		s.v.fault(Finding{Invariant: 14, File: file, What: what})
	}
	return nil
}

// wrong says what is wrong with a file's kind, mode, device or links.
func (s *shape) wrong(file string, info fs.FileInfo) string {
	want := durable.FileMode
	if info.IsDir() {
		want = durable.DirMode
	}
	st, _ := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir() && !info.Mode().IsRegular():
		return fmt.Sprintf("is a %s, not a regular file", durable.KindOf(info.Mode()))
	case info.Mode()&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != want:
		return fmt.Sprintf("mode is %04o, not %04o", info.Mode().Perm(), want)
	case home.DeviceOf(info) != s.device:
		return "is on another file system than the home"
	case st != nil && st.Nlink != 1 && !info.IsDir():
		return fmt.Sprintf("has %d %s", st.Nlink, linked)
	}
	return ""
}
