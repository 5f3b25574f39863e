package mailbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"mbox/audit"
	"mbox/mailbox/artifact"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// File is one that is to come with a new task: the one at Path, or all files of that
// folder; with no Path one of that Name that holds Data. Of a name nobody vouches
// for, a plain one is made (task.AttachmentName).
type File struct {
	Path string
	Name string
	Data []byte
}

// SubmitWith is [Box.Submit] for a task that files come with. They are copied to
// tasks/artifacts/<id>.0, and the task and its line name them with size and SHA-256;
// whoever claims the task gets them as [Claim.Inputs]. The same files under the same
// names are the same content. What is no regular file, and more than
// task.MaxAttachments or 1 GiB of them, is a *schemas.Error.
func SubmitWith(ctx context.Context, b *Box, t *Task, files []File) (ID, error) {
	set := &artifact.Set{}
	for i := range files {
		if err := attach(ctx, set, &files[i]); err != nil {
			return "", err
		}
	}
	if err := t.Forged(); err != nil {
		return "", err
	}
	n := *t
	n.Mbox.Attachments = attachments(set)
	return sendNew(ctx, b, &n, set)
}

// attach adds what a sender names to the set, under plain names. Two names that
// differ in case only are one: not every disk tells them apart.
func attach(ctx context.Context, set *artifact.Set, f *File) error {
	found := &artifact.Set{}
	if f.Path == "" {
		data := f.Data
		if data == nil { // which would be a file that lies somewhere
			data = []byte{}
		}
		found.Add(artifact.File{Artifact: Artifact{Path: task.AttachmentName(f.Name), Size: int64(len(data)), SHA256: audit.Hash(data)}, Data: data})
	} else {
		place, err := filepath.Abs(f.Path)
		if err == nil {
			dir, below := filepath.Split(place)
			err = found.Gather(ctx, dir, below, "")
		}
		if err != nil {
			return err
		}
	}
	for _, it := range found.Files {
		it.Path = task.AttachmentName(it.Path)
		for i := range set.Files {
			if strings.EqualFold(set.Files[i].Path, it.Path) {
				it.Path = set.Files[i].Path
			}
		}
		set.Add(it)
	}
	if set.Bytes > artifact.MaxBytes {
		return &schemas.Error{Path: "mbox.attachments", Code: schemas.CodeTooLarge, Problem: "the files have more than 1 GiB", Want: "less"}
	}
	return nil
}

// attachments are the files of a set as the task names them.
func attachments(set *artifact.Set) (all []task.Attachment) {
	for _, a := range set.Artifacts() {
		all = append(all, task.Attachment{Name: a.Path, Size: a.Size, SHA256: a.SHA256})
	}
	return all
}

// attachedTo is the set as it will lie in the folder of the task.
func attachedTo(set *artifact.Set, id ID) *artifact.Set {
	if !set.Any() {
		return nil
	}
	to := &artifact.Set{Under: path.Join(task.ArtifactsDir, task.ArtifactFolder(id, 0)), Bytes: set.Bytes}
	for _, f := range set.Files {
		f.Path = path.Join(to.Under, f.Path)
		to.Files = append(to.Files, f)
	}
	return to
}

// placeAttached moves what came with a task from where it was staged to its place.
// That is before anybody sees the task, and again where a crash came between. The
// folder can be there already only then: no id is used twice.
func placeAttached(b *books, id ID, tx string) error {
	folder := task.ArtifactFolder(id, 0)
	from, to := home.StagedPath(b.home, folder, tx), b.path(task.ArtifactsDir, folder)
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := durable.MkdirAll(filepath.Dir(to), b.o.Sync); err != nil {
		return err
	}
	if err := durable.Move(from, to); err != nil && !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(filepath.Dir(to), b.o.Sync)
}
