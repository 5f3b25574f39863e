package mailbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Artifacts are the files that a completion leaves besides its task's file. The
// task names each in result.artifacts, with path, size and SHA-256.
//
//	agents/<agent>/workspace/artifacts/<id>.<epoch>/   where the attempt leaves them
//	tasks/artifacts/<id>.<epoch>/                      where mbox keeps them
//	tasks/archive/<month>/<id>.<epoch>/                once the task is archived
//	tasks/artifacts/<id>.0/                            what a sender attached
//
// What an attempt leaves can still be written by it, and by what it left running.
// So mbox never names those files: it copies their bytes, through handles and
// following no symlink, into new files that only it can write, in
// .mbox/tmp/<id>.<epoch>~<tx>/. That folder is flushed and moved into its place
// before the line of the completion. A folder in tasks/artifacts that no task
// names was left by a process that died before its line; the same claim replaces
// it.
//
// Paths are from the mailbox's folder. The first versions of mbox had no
// tasks/artifacts: their tasks name what lies in the agent's home, by a path from
// there, and the agent can change it.

// AgentDir is an agent's home: agents/<name>, where a ":" in the name is "_".
func (b *Box) AgentDir(agent string) string { return b.path("agents", audit.Folder(agent)) }

// What one attempt may hand over.
const (
	maxArtifacts     = 1000 // files and folders
	maxArtifactBytes = 1 << 30
	maxArtifactName  = 1000 // bytes of a file's name below the folder
)

// leaving is what a completion leaves: a folder in tasks/artifacts.
type leaving struct {
	folder string // its name
	files  []leftFile
	seen   int   // files and folders that were looked at
	bytes  int64 // of all files
}

// leftFile is a file that is to be copied there.
type leftFile struct {
	Artifact
	dir, below string // where it lies: below dir, from where on no symlink is followed
	data       []byte // or what it holds
}

// Keep hands over what lies at path with the next Complete: a file under its own
// name, or all files of a folder under theirs. It returns them as they will stand
// in the task, with size and SHA-256 as of now; Complete copies them, and refuses
// what has changed by then. What is neither a regular file nor a folder, and more
// than an attempt may hand over, is a *schemas.Error.
func (c *Claim) Keep(ctx context.Context, path string) ([]Artifact, error) {
	ctx, cancel := context.WithTimeout(ctx, c.box.o.Lease)
	defer cancel()
	if path == "" { // which filepath.Abs would take for the working folder
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir := c.box.AgentDir(c.agent) // nothing in it is to be trusted
	below, err := filepath.Rel(dir, path)
	if err != nil || !filepath.IsLocal(below) {
		dir, below = filepath.Split(path)
	}
	left := c.leaving()
	if err := left.gather(ctx, dir, below, ""); err != nil {
		return nil, err
	}
	c.left = left
	return left.artifacts(), nil
}

// leaving is a copy of what was kept so far.
func (c *Claim) leaving() *leaving {
	if c.left == nil {
		return &leaving{folder: task.ArtifactFolder(c.ID(), c.Task.Mbox.Epoch)}
	}
	l := *c.left
	l.files = slices.Clone(l.files)
	return &l
}

func (l *leaving) any() bool { return l != nil && len(l.files) > 0 }

func (l *leaving) artifacts() []Artifact {
	all := []Artifact{}
	for i := range l.files {
		all = append(all, l.files[i].Artifact)
	}
	return all
}

func refusedArtifact(name, code, problem, want string) error {
	return &schemas.Error{Path: "result.artifacts", Code: code, Problem: fmt.Sprintf("artifact %s: %s", schemas.Sentence(name, 200), problem), Want: want}
}

// gather adds the file, or all files of the folder, that lie below dir. name is
// what it will be called, "" for what was given by its path.
func (l *leaving) gather(ctx context.Context, dir, below, name string) error {
	if l.seen++; l.seen > maxArtifacts {
		return refusedArtifact(below, "too_many", fmt.Sprintf("it is one of more than %d", maxArtifacts), "fewer, or one archive of them")
	}
	f, info, err := durable.OpenBelow(dir, below)
	if errors.Is(err, durable.ErrNotRegular) {
		return refusedArtifact(below, "not_regular", "it is not a regular file", "regular files and folders")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !info.IsDir() {
		if name == "" {
			name = filepath.Base(below)
		}
		return l.take(ctx, f, info, leftFile{dir: dir, below: below, Artifact: Artifact{Path: name}})
	}
	names, err := f.Readdirnames(maxArtifacts + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	f.Close() // folders may be deep
	slices.Sort(names)
	for _, n := range names {
		if err := l.gather(ctx, dir, filepath.Join(below, n), path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

// take adds one file, under its name in the folder.
func (l *leaving) take(ctx context.Context, f *os.File, info fs.FileInfo, a leftFile) (err error) {
	name := a.Path
	room := maxArtifactBytes - l.bytes
	if !utf8.ValidString(name) {
		return refusedArtifact(name, schemas.CodeInvalidUTF8, "the name is no UTF-8", "a name in UTF-8")
	}
	if len(name) > maxArtifactName {
		return refusedArtifact(name, "too_long", fmt.Sprintf("its name has more than %d bytes", maxArtifactName), "a shorter one, or fewer folders")
	}
	a.Size = info.Size()
	if a.Size <= room {
		a.Size, a.SHA256, err = pour(ctx, f, room, nil)
	}
	if a.Size > room {
		return refusedArtifact(name, "too_large", fmt.Sprintf("with it there are more than %d bytes", maxArtifactBytes), "less, or its place in the output")
	}
	if err != nil {
		return err
	}
	l.add(a)
	return nil
}

// add puts a file into the folder: under its name if that is free, or once only
// if the same bytes have it already, else with a number.
func (l *leaving) add(a leftFile) {
	name := a.Path
	ext := path.Ext(name)
	for n := 1; ; n++ {
		a.Path = path.Join(task.ArtifactsDir, l.folder, name)
		if n > 1 {
			a.Path = path.Join(task.ArtifactsDir, l.folder, fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext))
		}
		i := slices.IndexFunc(l.files, func(have leftFile) bool {
			return have.Path == a.Path || strings.HasPrefix(have.Path, a.Path+"/")
		})
		if i < 0 {
			l.files = append(l.files, a)
			l.bytes += a.Size
			return
		}
		if l.files[i].Artifact == a.Artifact {
			return
		}
	}
}

// pour reads to the end, or until there are more than most bytes, and returns how
// many there were and their SHA-256. Each piece is handed on, if to is given.
func pour(ctx context.Context, from io.Reader, most int64, to func([]byte) error) (size int64, sum string, err error) {
	hash, piece := sha256.New(), make([]byte, 256<<10)
	for size <= most {
		if err := ctx.Err(); err != nil {
			return size, "", err
		}
		n, err := from.Read(piece)
		size += int64(n)
		hash.Write(piece[:n])
		if n > 0 && to != nil && size <= most {
			if err := to(piece[:n]); err != nil {
				return size, "", err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return size, "", err
		}
	}
	return size, "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

// stageLeft copies the files to a folder of the transition, flushes it, and moves
// it into its place. A crash until the line is written leaves one or the other:
// settle removes a staged folder, and the same claim replaces one in its place,
// because only the file of a task that has ended by this claim would name it: so
// nothing is replaced by who has lost his lock, and may have been overtaken.
//
// A gigabyte takes seconds, and whoever shows or cancels a task of the same shard
// waits for them. It is copied under the lock all the same. What is in tmp belongs
// to whoever holds its shard: recovery takes everything else for what a dead
// process left, verify names it, and nobody would remove the copy of a worker that
// was killed before it had the lock.
func (b *Box) stageLeft(ctx context.Context, s *shard, l *leaving, tx string) error {
	limited, cancel := context.WithTimeout(ctx, b.o.Lease)
	defer cancel()
	staged, dirs := home.StagedPath(b.home, l.folder, tx), map[string]bool{}
	for i := range l.files {
		f := &l.files[i]
		to := filepath.Join(staged, strings.TrimPrefix(f.Path, task.ArtifactsDir+"/"+l.folder))
		for dir := filepath.Dir(to); dir != filepath.Dir(staged); dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
		if err := durable.MkdirAll(filepath.Dir(to), durable.None); errors.Is(err, unix.ENOTDIR) {
			return refusedArtifact(f.below, "taken", "another file has the name of its folder", "names that go together")
		} else if err != nil {
			return err
		}
		if err := b.copyLeft(limited, f, to); errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return refusedArtifact(f.below, "too_slow", fmt.Sprintf("its copy was not ready after %v", b.o.Lease), "less")
		} else if err != nil {
			return err
		}
	}
	for _, dir := range slices.Backward(slices.Sorted(maps.Keys(dirs))) {
		if err := durable.SyncDir(dir, b.o.Sync); err != nil {
			return err
		}
	}
	all := b.path(task.ArtifactsDir)
	if err := durable.MkdirAll(all, b.o.Sync); err != nil {
		return err
	}
	if err := s.stillHeld(); err != nil {
		return err
	}
	err := durable.Move(staged, filepath.Join(all, l.folder))
	if errors.Is(err, fs.ErrExist) {
		if err = durable.Exchange(staged, filepath.Join(all, l.folder)); err == nil {
			err = durable.RemoveAll(staged)
		}
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(all, b.o.Sync)
}

// copyLeft copies one file, hashed while it is written: it has to be what the
// task will name.
func (b *Box) copyLeft(ctx context.Context, a *leftFile, to string) error {
	out, err := durable.Create(to)
	if err != nil {
		return err
	}
	defer out.Close()
	if a.data != nil {
		if err := durable.Append(out, a.data); err != nil {
			return err
		}
	} else if err := a.copyTo(ctx, func(piece []byte) error { return durable.Append(out, piece) }); err != nil {
		return err
	}
	if b.o.Sync == durable.None {
		return nil
	}
	return durable.SyncFile(out)
}

func (a *leftFile) copyTo(ctx context.Context, write func([]byte) error) error {
	in, info, err := durable.OpenBelow(a.dir, a.below)
	if err == nil {
		defer in.Close()
	}
	if durable.Lacking(err) {
		return err
	}
	if err != nil || info.IsDir() { // to try again would be for as long as somebody wants
		return refusedArtifact(a.below, "changed", "it is not there any more as it was", "a file that nobody removes")
	}
	size, sum, err := pour(ctx, in, a.Size, write)
	if err == nil && (size != a.Size || sum != a.SHA256) {
		err = refusedArtifact(a.below, "changed", "its bytes are not those that it is named with", "a file that nobody writes to")
	}
	return err
}

// takeOver copies again what a stranger's file names of its artifacts in
// tasks/artifacts, which the stranger may have put there. What is not there as it
// says is no artifact.
func (c *Claim) takeOver(ctx context.Context) (err error) {
	left, t := c.leaving(), c.Task
	var artifacts []Artifact
	for i, a := range t.Result.Artifacts {
		if _, ok := a.KeptIn(); !ok {
			artifacts = append(artifacts, a)
			continue
		}
		folder, _ := t.Keeps(i)
		if folder != path.Join(task.ArtifactsDir, left.folder) {
			continue
		}
		now, err := c.box.describe(ctx, a)
		if err != nil {
			return err
		}
		if now == a {
			left.files, left.bytes = append(left.files, leftFile{Artifact: a, dir: c.box.home, below: a.Path}), left.bytes+a.Size
			artifacts = append(artifacts, a)
		}
	}
	if c.left = left; len(artifacts) < len(t.Result.Artifacts) {
		t.Result.Artifacts = append([]Artifact{}, artifacts...)
	}
	return nil
}

// noFile tells from an error that no regular file lies at a path.
func noFile(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, unix.ENOTDIR)
}

// describe tells of a kept artifact what size and SHA-256 it has now: the latter
// only where the size is as it says, or it says -1. It is the zero artifact where
// there is no such file.
func (b *Box) describe(ctx context.Context, a Artifact) (Artifact, error) {
	f, info, err := durable.OpenBelow(b.home, a.Path)
	if noFile(err) {
		return Artifact{}, nil
	}
	if err != nil {
		return Artifact{}, err
	}
	defer f.Close()
	if info.IsDir() {
		return Artifact{}, nil
	}
	hash := info.Size() <= maxArtifactBytes && (a.Size == info.Size() || a.Size < 0)
	a.Size, a.SHA256 = info.Size(), ""
	if hash {
		a.Size, a.SHA256, err = pour(ctx, f, maxArtifactBytes, nil)
	}
	return a, err
}

// describeAll makes a task name its kept artifacts as they are now: those that
// are gone no more, and those that were changed as they lie. It tells whether the
// task had named them so before.
func (b *Box) describeAll(ctx context.Context, t *Task) (same bool, err error) {
	var artifacts []Artifact
	for i, a := range t.Result.Artifacts {
		if _, ok := a.KeptIn(); ok {
			a.Size = -1
			now, err := b.describe(ctx, a)
			if err != nil {
				return false, err
			}
			if _, own := t.Keeps(i); !own || now.SHA256 == "" {
				continue
			}
			a = now
		}
		artifacts = append(artifacts, a)
	}
	same = slices.Equal(artifacts, t.Result.Artifacts)
	t.Result.Artifacts = append([]Artifact{}, artifacts...)
	return same, nil
}
