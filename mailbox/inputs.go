package mailbox

import (
	"context"
	"errors"
	"os"
	"path"
	"slices"
	"strings"

	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
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
	set, err := c.inputs(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := to.MkdirAll(dir, durable.DirMode); err != nil {
		return nil, err
	}
	return set.Artifacts(), set.Copy(ctx, func(name string) (*os.File, error) {
		if err := to.MkdirAll(path.Dir(name), durable.DirMode); err != nil {
			return nil, err
		}
		return to.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, durable.FileMode)
	}, c.box.o.Lease, durable.None)
}

// inputs lists what is to be copied to dir.
func (c *Claim) inputs(ctx context.Context, dir string) (*artifact.Set, error) {
	b, id := c.box, c.ID()
	set := &artifact.Set{Under: path.Join(dir, string(id))}
	for i, a := range c.Task.Attached(task.ArtifactsDir) {
		f := artifact.File{Artifact: a, Dir: b.home, Below: a.Path}
		f.Path = path.Join(set.Under, c.Task.Mbox.Attachments[i].Name)
		set.Files = append(set.Files, f)
		set.Bytes += a.Size
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
			if set.Bytes += a.Size; set.Bytes > artifact.MaxBytes || len(set.Files) == artifact.MaxFiles {
				return nil, artifact.Refused(a.Path, "too_large", "the task would read more than an attempt may leave", "fewer tasks in mbox.depends_on")
			}
			f := artifact.File{Artifact: a, Dir: b.home, Below: a.Path}
			f.Path = path.Join(dir, string(id), strings.TrimPrefix(a.Path, folder))
			set.Files = append(set.Files, f)
		}
	}
	return set, nil
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
