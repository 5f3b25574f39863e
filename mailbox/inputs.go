package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"mbox/mailbox/task"
)

// Inputs copies what the task may read into the folder dir below to, which must
// not be there yet: the artifacts of the tasks that it depends on and of its
// children, under <their id>/, and what its sender attached, under <its own id>/.
// Of a task of another tree a child gets them only if its parent does: who hands work
// on may let it come after any task, and reads no more by that. Each copy has the
// bytes that its task names, or it is an error. It returns the copies, by their paths
// below to.
func (c *Claim) Inputs(ctx context.Context, to *os.Root, dir string) ([]Artifact, error) {
	ctx, cancel := context.WithTimeout(ctx, c.box.o.Lease)
	defer cancel()
	files, err := c.inputs(ctx)
	if err != nil {
		return nil, err
	}
	if err := to.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var copies []Artifact
	for i := range files {
		f := &files[i]
		f.Path = path.Join(dir, f.Path)
		if err := f.copyBelow(ctx, to); err != nil {
			return nil, err
		}
		copies = append(copies, f.Artifact)
	}
	return copies, nil
}

// inputs lists what is to be copied, under the names that the copies will have.
func (c *Claim) inputs(ctx context.Context) ([]leftFile, error) {
	b := c.box
	attached := &leaving{folder: task.ArtifactFolder(c.ID(), 0)}
	err := attached.gather(ctx, b.home, path.Join(task.ArtifactsDir, attached.folder), "")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	files, bytes := attached.files, attached.bytes
	for i := range files {
		files[i].Path = path.Join(string(c.ID()), strings.TrimPrefix(files[i].Path, path.Join(task.ArtifactsDir, attached.folder)))
	}
	for _, id := range slices.Concat(c.Task.Mbox.DependsOn, c.Task.Mbox.WaitsFor) {
		t, _, err := b.Task(ctx, id)
		if errors.Is(err, ErrNotFound) {
			continue // deleted by hand
		}
		if err != nil {
			return nil, err
		}
		switch ok, err := b.reads(ctx, c.Task, t); {
		case err != nil:
			return nil, err
		case !ok:
			continue
		}
		for i, a := range t.Result.Artifacts {
			folder, ok := t.Keeps(i)
			if !ok {
				continue
			}
			f := leftFile{Artifact: a, dir: b.home, below: a.Path}
			f.Path = path.Join(string(id), strings.TrimPrefix(a.Path, folder))
			if bytes += a.Size; bytes > maxArtifactBytes || len(files) == maxArtifacts {
				return nil, refusedArtifact(a.Path, "too_large", "the task would read more than an attempt may leave", "fewer tasks in mbox.depends_on")
			}
			files = append(files, f)
		}
	}
	return files, nil
}

// reads tells whether a task gets what another one left that it depends on.
func (b *Box) reads(ctx context.Context, t, other *Task) (bool, error) {
	for t.Mbox.ParentID != "" && t.Root() != other.Root() {
		parent, _, err := b.Task(ctx, t.Mbox.ParentID)
		if err != nil {
			if errors.Is(err, ErrNotFound) { // deleted by hand
				err = nil
			}
			return false, err
		}
		if !slices.Contains(parent.Mbox.DependsOn, other.ID) {
			return false, nil
		}
		t = parent
	}
	return true, nil
}

func (a *leftFile) copyBelow(ctx context.Context, to *os.Root) error {
	if err := to.MkdirAll(path.Dir(a.Path), 0o700); err != nil {
		return err
	}
	out, err := to.OpenFile(a.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	err = a.copyTo(ctx, func(piece []byte) error { _, err := out.Write(piece); return err })
	return errors.Join(err, out.Close())
}
