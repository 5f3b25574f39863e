package main

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// scanned is a task file that a scan has read.
type scanned struct {
	task  *mailbox.Task
	state mailbox.State
}

// scanTasks visits the tasks in the folders, the archive among them, by folder and
// name, of which wanted takes the bytes. It keeps few in memory, however many there
// are. What is no task, or moves meanwhile, is left out: verify and doctor tell of it.
func scanTasks(ctx context.Context, dir string, states []mailbox.State, wanted func([]byte) bool, visit func(scanned) error) error {
	for _, state := range states {
		folders, err := foldersOf(dir, state)
		if err != nil {
			return err
		}
		for _, folder := range folders {
			if err := scanFolder(ctx, folder, state, wanted, visit); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// foldersOf are where the tasks of a state lie.
func foldersOf(dir string, state mailbox.State) ([]string, error) {
	if state != mailbox.Archived {
		return []string{filepath.Join(dir, "tasks", string(state))}, nil
	}
	months, err := home.Months(dir)
	var folders []string
	for _, m := range months {
		folders = append(folders, filepath.Join(dir, "tasks", "archive", m))
	}
	return folders, err
}

func scanFolder(ctx context.Context, folder string, state mailbox.State, wanted func([]byte) bool, visit func(scanned) error) error {
	names, err := durable.Names(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return task.Ignored(n) || !strings.HasSuffix(n, ".json") })
	slices.Sort(names)
	for few := range slices.Chunk(names, 512) {
		read := make([]*mailbox.Task, len(few))
		if err := home.OnAllCores(ctx, len(few), func(i int) error {
			read[i] = readTask(filepath.Join(folder, few[i]), wanted)
			return nil
		}); err != nil {
			return err
		}
		for _, t := range read {
			if t == nil {
				continue
			}
			if err := visit(scanned{t, state}); err != nil {
				return err
			}
		}
	}
	return nil
}

// readTask reads a task whose bytes are wanted; nil for any other.
func readTask(path string, wanted func([]byte) bool) *mailbox.Task {
	data, err := durable.Read(path, mailbox.MaxTask)
	if err != nil || !wanted(data) {
		return nil
	}
	t := new(mailbox.Task)
	if schemas.Decode(data, t) != nil {
		return nil
	}
	return t
}

// everything takes all bytes.
func everything([]byte) bool { return true }
