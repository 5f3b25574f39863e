// Package artifact gathers the files that a task's attempt leaves besides its task's
// file, and copies them to where only mbox can write.
//
// The task names each in result.artifacts, with path, size and SHA-256.
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
// before the line of the completion; that of what a sender attached is moved behind
// the line of the new task, and before its file. A folder in tasks/artifacts that no task
// names was left by a process that died before its line; the same claim replaces
// it.
//
// Paths are from the mailbox's folder. The first versions of mbox had no
// tasks/artifacts: their tasks name what lies in the agent's home, by a path from
// there, and the agent can change it.
package artifact

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// What one attempt may hand over.
const (
	MaxFiles = 1000 // and folders
	MaxBytes = 1 << 30
	maxName  = 1000 // bytes of a file's name below the folder
)

// Set is files that are to be copied.
type Set struct {
	Under string // the path of the folder that they will lie in
	Files []File
	Bytes int64 // of all files
	seen  int   // files and folders that were looked at
}

// File is one of a set. Its path is that of the copy.
type File struct {
	task.Artifact
	Dir, Below string // where it lies: below Dir, from where on no symlink is followed
	Data       []byte // or what it holds
}

// Any tells whether there is a file in the set; nil is one without.
func (s *Set) Any() bool { return s != nil && len(s.Files) > 0 }

// Artifacts are the files as a task names them.
func (s *Set) Artifacts() []task.Artifact {
	all := []task.Artifact{}
	for i := range s.Files {
		all = append(all, s.Files[i].Artifact)
	}
	return all
}

// Refused says why a file cannot be handed over, or handed on.
func Refused(name, code, problem, want string) error {
	return &schemas.Error{Path: "result.artifacts", Code: code, Problem: fmt.Sprintf("artifact %s: %s", schemas.Sentence(name, 200), problem), Want: want}
}

// Gather adds the file, or all files of the folder, that lie below dir. name is
// what it will be called, "" for what was given by its path.
func (s *Set) Gather(ctx context.Context, dir, below, name string) error {
	if s.seen++; s.seen > MaxFiles {
		return Refused(below, "too_many", fmt.Sprintf("it is one of more than %d", MaxFiles), "fewer, or one archive of them")
	}
	f, info, err := durable.OpenBelow(dir, below)
	if errors.Is(err, durable.ErrNotRegular) {
		what := "not a regular file"
		if info, err := os.Lstat(filepath.Join(dir, below)); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			what = "a " + durable.KindOf(info.Mode()) + ", " + what
		}
		return Refused(below, "not_regular", "it is "+what, "regular files and folders")
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if !info.IsDir() {
		return s.take(ctx, f, info, File{Dir: dir, Below: below, Artifact: task.Artifact{Path: cmp.Or(name, filepath.Base(below))}})
	}
	names, err := f.Readdirnames(MaxFiles + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	f.Close() // folders may be deep
	slices.Sort(names)
	for _, n := range names {
		if err := s.Gather(ctx, dir, filepath.Join(below, n), path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (s *Set) take(ctx context.Context, f *os.File, info fs.FileInfo, it File) (err error) {
	switch name := it.Path; {
	case !utf8.ValidString(name):
		return Refused(name, schemas.CodeInvalidUTF8, "the name is no UTF-8", "a name in UTF-8")
	case len(name) > maxName:
		return Refused(name, "too_long", fmt.Sprintf("its name has more than %d bytes", maxName), "a shorter one, or fewer folders")
	}
	if it.Size, it.SHA256, err = measure(ctx, f, info, MaxBytes-s.Bytes); err == nil && it.SHA256 == "" {
		err = Refused(it.Path, "too_large", fmt.Sprintf("with it there are more than %d bytes", MaxBytes), "less, or its place in the output")
	}
	if err != nil {
		return err
	}
	s.Add(it)
	return nil
}

// Add puts a file into the folder: under its name if that is free, or once only
// if the same bytes have it already, else with a number.
func (s *Set) Add(it File) {
	name, ext := path.Join(s.Under, it.Path), path.Ext(it.Path)
	it.Path = name
	for n := 2; ; n++ {
		i := slices.IndexFunc(s.Files, func(have File) bool {
			return have.Path == it.Path || strings.HasPrefix(have.Path, it.Path+"/")
		})
		if i < 0 {
			s.Files = append(s.Files, it)
			s.Bytes += it.Size
			return
		}
		if s.Files[i].Artifact == it.Artifact {
			return
		}
		it.Path = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ext), n, ext)
	}
}

// Copy copies the files to what create makes for their paths. One that is not ready in
// that time is refused: to try again would take as long.
func (s *Set) Copy(ctx context.Context, create func(path string) (*os.File, error), within time.Duration, m durable.Mode) error {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for i := range s.Files {
		f := &s.Files[i]
		out, err := create(f.Path)
		if err == nil {
			err = f.copyTo(limited, out, m)
		}
		switch {
		case errors.Is(err, syscall.ENOTDIR):
			return Refused(f.Below, "taken", "another file has the name of its folder", "names that go together")
		case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
			return Refused(f.Below, "too_slow", fmt.Sprintf("its copy was not ready after %v", within), "less")
		case err != nil:
			return err
		}
	}
	return nil
}

// copyTo writes, flushes and closes a copy. It has to be what the task names.
func (f *File) copyTo(ctx context.Context, out *os.File, m durable.Mode) (err error) {
	defer func() { err = errors.Join(err, out.Close()) }()
	var from io.Reader = bytes.NewReader(f.Data)
	if f.Data == nil {
		in, info, err := durable.OpenBelow(f.Dir, f.Below)
		if err == nil {
			defer in.Close()
		}
		if durable.Lacking(err) {
			return err
		}
		if err != nil || info.IsDir() { // to try again would be for as long as somebody wants
			return Refused(f.Below, "changed", "it is not there any more as it was", "a file that nobody removes")
		}
		from = in
	}
	size, sum, err := pour(ctx, from, f.Size, out)
	if err == nil && (size != f.Size || sum != f.SHA256) {
		err = Refused(f.Below, "changed", "its bytes are not those that it is named with", "a file that nobody writes to")
	}
	if err == nil && m != durable.None {
		err = durable.SyncFile(out)
	}
	return err
}

// measure tells how large a file is, and its SHA-256 if it has not more than most
// bytes.
func measure(ctx context.Context, f *os.File, info fs.FileInfo, most int64) (size int64, sum string, err error) {
	if info.Size() > most {
		return info.Size(), "", nil
	}
	return pour(ctx, f, most, nil)
}

// pour reads to the end, and returns how many bytes there were and their SHA-256; none
// if there are more than most. They go to out too, if that is given.
func pour(ctx context.Context, from io.Reader, most int64, out *os.File) (size int64, sum string, err error) {
	hash, piece := sha256.New(), make([]byte, 256<<10)
	for err == nil {
		if err := ctx.Err(); err != nil {
			return size, "", err
		}
		n := 0
		n, err = from.Read(piece)
		if size += int64(n); size > most {
			return size, "", nil
		}
		hash.Write(piece[:n])
		if n > 0 && out != nil {
			if err := durable.Append(out, piece[:n]); err != nil {
				return size, "", err
			}
		}
	}
	if !errors.Is(err, io.EOF) {
		return size, "", err
	}
	return size, "sha256:" + hex.EncodeToString(hash.Sum(nil)), nil
}

// Now is what size and SHA-256 an artifact that mbox keeps has now: none of the latter
// if it is larger than any. It is the zero artifact where there is no such file.
func Now(ctx context.Context, home string, a task.Artifact) (task.Artifact, error) {
	f, info, err := durable.OpenBelow(home, a.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, durable.ErrNotRegular) || errors.Is(err, syscall.ENOTDIR) {
		return task.Artifact{}, nil
	}
	if err != nil {
		return task.Artifact{}, err
	}
	defer f.Close()
	if info.IsDir() {
		return task.Artifact{}, nil
	}
	a.Size, a.SHA256, err = measure(ctx, f, info, MaxBytes)
	return a, err
}

// Review makes a task name of the artifacts that mbox keeps those that are right, as
// they are now. None is that lies in the folder of another task.
func Review(ctx context.Context, home string, t *task.Task, right func(folder string, was, now task.Artifact) bool) error {
	all := []task.Artifact{}
	for i, was := range t.Result.Artifacts {
		now := was
		if _, kept := was.KeptIn(); kept {
			folder, own := t.Keeps(i)
			if !own {
				continue
			}
			var err error
			if now, err = Now(ctx, home, was); err != nil {
				return err
			}
			if !right(folder, was, now) {
				continue
			}
		}
		all = append(all, now)
	}
	if !slices.Equal(all, t.Result.Artifacts) {
		t.Result.Artifacts = all
	}
	return nil
}
