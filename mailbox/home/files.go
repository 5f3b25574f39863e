package home

import (
	"errors"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// StagesArtifacts tells whether a name in tmp is that of a folder of artifacts.
func StagesArtifacts(home, name string) bool {
	folder, tx, _ := CutLast(name, "~")
	_, _, ok := task.AttemptOf(folder)
	info, err := os.Lstat(Private(home, "tmp", name))
	return ok && len(tx) == 32 && err == nil && info.IsDir()
}

// StagedNames are the names of all that lies in .mbox/tmp.
func StagedNames(home string) ([]string, error) { return durable.Names(Private(home, "tmp")) }

// CutLast cuts a text at the last separator.
func CutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// StagedPath is where the content of a transition is staged.
func StagedPath(home, name, tx string) string {
	return Private(home, "tmp", name+"~"+tx)
}

// Sight is what a look at a path shows.
type Sight struct {
	There bool
	Hash  string // "" for what is no regular file
}

// Look is what lies at a path; nothing for "".
func Look(path string) (Sight, error) {
	if path == "" {
		return Sight{}, nil
	}
	data, err := durable.Read(path, 4*task.MaxTask)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Sight{}, nil
	case errors.Is(err, durable.ErrNotRegular), errors.Is(err, durable.ErrTooLarge):
		return Sight{There: true}, nil
	case err != nil:
		return Sight{}, err
	}
	return Sight{true, audit.Hash(data)}, nil
}

// File is a task as it was read: its length and hash, what it parses to, and where.
type File struct {
	Task  *task.Task
	Size  int // of the file; 0 where nothing was read
	Hash  string
	State task.State
	Path  string
}

// Read opens the task's file in one place.
func Read(home string, s task.State, path string) (*File, error) {
	data, err := durable.Read(path, 4*task.MaxTask)
	if errors.Is(err, durable.ErrNotRegular) || errors.Is(err, durable.ErrTooLarge) || errors.Is(err, fs.ErrPermission) && durable.Barred(path) {
		return &File{State: s, Path: path}, err // something is there, and it is no task
	}
	if err != nil {
		return nil, err
	}
	f := &File{Size: len(data), Hash: audit.Hash(data), State: s, Path: path}
	t := new(task.Task)
	if err := schemas.Decode(data, t); err != nil {
		return f, task.InFile(err, strings.TrimPrefix(path, home+"/"))
	}
	f.Task = t
	return f, nil
}

// TaskFolders are the folders in which tasks lie: one for each state of a live
// task, and the months of the archive.
func TaskFolders(home string) ([]string, error) {
	var dirs []string
	for _, s := range task.Folders {
		dirs = append(dirs, filepath.Join(home, "tasks", string(s)))
	}
	months, err := Months(home)
	for _, m := range months {
		dirs = append(dirs, filepath.Join(home, "tasks", "archive", m))
	}
	return dirs, err
}

// StateAt is the state of a task whose file has this path; [task.None] if it is in
// none of the [TaskFolders].
func StateAt(home, path string) task.State {
	dir := filepath.Dir(path)
	s := task.State(filepath.Base(dir))
	switch filepath.Dir(dir) {
	case filepath.Join(home, "tasks"):
		if task.FolderIndex(s) >= 0 {
			return s
		}
	case filepath.Join(home, "tasks", "archive"):
		return task.Archived
	}
	return task.None
}

// Paths are the paths of all that lies in the folders, in the order of the names.
// A folder that is missing has nothing.
func Paths(dirs ...string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, dir := range dirs {
			names, err := durable.Names(dir)
			if err != nil && !errors.Is(err, fs.ErrNotExist) && !yield("", err) {
				return
			}
			slices.Sort(names)
			for _, name := range names {
				if !yield(filepath.Join(dir, name), nil) {
					return
				}
			}
		}
	}
}
