package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
)

// AgentDir is an agent's home: agents/<name>, where a ":" in the name is "_".
func (b *books) AgentDir(agent string) string { return b.path("agents", audit.Folder(agent)) }

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
	if err := left.Gather(ctx, dir, below, ""); err != nil {
		return nil, err
	}
	c.left = left
	return left.Artifacts(), nil
}

// leaving is a copy of what was kept so far.
func (c *Claim) leaving() *artifact.Set {
	if c.left == nil {
		return attemptLeaves(c.Task)
	}
	left := *c.left
	left.Files = slices.Clip(left.Files)
	return &left
}

// attemptLeaves is where the task's attempt leaves artifacts.
func attemptLeaves(t *Task) *artifact.Set {
	return &artifact.Set{Under: path.Join(task.ArtifactsDir, task.ArtifactFolder(t.ID, t.Mbox.Epoch))}
}

// stagedLeft is the folder to which what a completion leaves is copied.
func (b *books) stagedLeft(left *artifact.Set, tx string) string {
	return home.StagedPath(b.home, path.Base(left.Under), tx)
}

// stageLeft copies the files to a folder of the transition, and flushes it.
//
// A gigabyte takes seconds, and whoever shows or cancels a task of the same shard
// waits for them. It is copied under the lock all the same. What is in tmp belongs
// to whoever holds its shard: recovery takes everything else for what a dead
// process left, verify names it, and nobody would remove the copy of a worker that
// was killed before it had the lock.
func (b *books) stageLeft(ctx context.Context, left *artifact.Set, tx string) error {
	staged := b.stagedLeft(left, tx)
	err := left.Copy(ctx, func(name string) (*os.File, error) {
		to := filepath.Join(staged, strings.TrimPrefix(name, left.Under))
		if err := durable.MkdirAll(filepath.Dir(to), durable.None); err != nil {
			return nil, err
		}
		return durable.Create(to)
	}, b.o.Lease, b.o.Sync)
	if err == nil {
		err = durable.SyncDirs(staged, b.o.Sync)
	}
	return err
}

// placeLeft moves what a completion leaves into its place. A crash until the line is written leaves one or the other:
// settle removes a staged folder, and the same claim replaces one in its place,
// because only the file of a task that has ended by this claim would name it: so
// nothing is replaced by who has lost his lock, and may have been overtaken.
func (b *books) placeLeft(s *shard, left *artifact.Set, tx string) error {
	staged, place := b.stagedLeft(left, tx), b.path(left.Under)
	if err := durable.MkdirAll(filepath.Dir(place), b.o.Sync); err != nil {
		return err
	}
	if err := s.stillHeld(); err != nil {
		return err
	}
	err := durable.Move(staged, place)
	if errors.Is(err, fs.ErrExist) {
		if err = durable.Exchange(staged, place); err == nil {
			err = durable.RemoveAll(staged)
		}
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(place), b.o.Sync)
}

// takeOver copies again what a stranger's file names of its artifacts in
// tasks/artifacts, which the stranger may have put there. What is not there as it
// says is no artifact.
func (b *books) takeOver(ctx context.Context, t *Task) (*artifact.Set, error) {
	left := attemptLeaves(t)
	return left, artifact.Review(ctx, b.home, t, func(folder string, was, now Artifact) bool {
		if folder != left.Under || now != was {
			return false
		}
		left.Files = append(left.Files, artifact.File{Artifact: now, Dir: b.home, Below: now.Path})
		left.Bytes += now.Size
		return true
	})
}
