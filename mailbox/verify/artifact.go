package verify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// artifacts says what is wrong with the files that a task names as its artifacts:
// each has the bytes that the task names, and nothing else lies beside them. The
// first versions of mbox left them in the agent's home, where they are the
// agent's to change.
func (v *run) artifacts(at place, t *lineage, parsed *task.Task) (faults []Finding, err error) {
	bad := func(file, format string, args ...any) {
		faults = append(faults, Finding{Invariant: 15, File: file, Seq: t.seq, Task: t.id, What: fmt.Sprintf(format, args...)})
	}
	named, folders := map[string]bool{}, map[string]bool{}
	for i, a := range parsed.Result.Artifacts {
		folder, own := parsed.Keeps(i)
		if _, kept := a.KeptIn(); !kept {
			v.note("artifacts of older tasks lie in the homes of their agents, who can change them: they are not compared")
			continue
		}
		now, err := artifact.Now(v.ctx, v.dir, a)
		switch {
		case errors.Is(err, fs.ErrPermission):
			bad(a.Path, "the artifact cannot be read: permission denied")
		case err != nil:
			return nil, err
		case !own:
			bad(at.path(), "names %s as its artifact, which is none of its own", a.Path)
		case now.Path == "":
			bad(a.Path, "the artifact is gone, or is no regular file")
		case now.Size != a.Size:
			bad(a.Path, "the artifact has %d bytes, and its task names %d", now.Size, a.Size)
		case now.SHA256 != a.SHA256:
			bad(a.Path, "the artifact's bytes are not those that its task names")
		}
		named[a.Path], folders[folder] = true, own
	}
	for folder, own := range folders {
		if !own {
			continue
		}
		err := filepath.WalkDir(v.path(folder), func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return ignoreGone(err)
			}
			if path, err = filepath.Rel(v.dir, path); err == nil && !named[filepath.ToSlash(path)] {
				bad(filepath.ToSlash(path), noArtifact)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return faults, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// strangeArtifacts tells of what lies among the artifacts and is no attempt's. A
// folder that its task does not name is what a process left that died before its
// line, or what a sender attached.
func (v *run) strangeArtifacts() error {
	dirs := []string{task.ArtifactsDir}
	months, err := home.Months(v.dir)
	if err = ignoreGone(err); err != nil {
		return err
	}
	for _, m := range months {
		dirs = append(dirs, "tasks/archive/"+m)
	}
	if err := v.advance(); err != nil {
		return err
	}
	for _, dir := range dirs {
		names, err := durable.Names(v.path(dir))
		if err = ignoreGone(err); err != nil {
			return err
		}
		for _, name := range names {
			info, err := os.Lstat(v.path(dir, name))
			if err != nil || !info.IsDir() && dir != task.ArtifactsDir {
				continue // walk has seen the archive's files
			}
			id, epoch, ok := task.AttemptOf(name)
			if t := v.fold.tasks.of(id.Fold()); !ok || !info.IsDir() || t == nil || t.id != id || epoch > t.epoch {
				v.fault(Finding{Invariant: 15, File: dir + "/" + name, What: noArtifacts})
			}
		}
	}
	return v.ctx.Err()
}
