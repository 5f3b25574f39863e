package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// What is read of a home here shares no code with mbox.

// taskFile is a task as it lies on the disk.
type taskFile struct {
	folder string // pending, in-progress, completed, failed, archive
	state  string // open, completed, failed
	data   []byte
}

var taskFolders = []string{"pending", "in-progress", "completed", "failed", "archive/*"}

func readTasks(home string) map[string]taskFile {
	files := map[string]taskFile{}
	for _, folder := range taskFolders {
		names, _ := filepath.Glob(filepath.Join(home, "tasks", folder, "[^.]*.json"))
		for _, name := range names {
			if f, ok := readTask(name, folder); ok {
				files[strings.TrimSuffix(filepath.Base(name), ".json")] = f
			}
		}
	}
	return files
}

func readTask(name, folder string) (f taskFile, ok bool) {
	data, err := os.ReadFile(name)
	if err != nil {
		return f, false
	}
	var task struct {
		Result struct{ Status string }
	}
	_ = json.Unmarshal(data, &task)
	folder, _, _ = strings.Cut(folder, "/")
	f = taskFile{folder, task.Result.Status, data}
	if f.state == "" || f.state == "pending" || f.state == "in-progress" {
		f.state = open // "": a drop that is not yet admitted
	}
	return f, true
}

// findTask looks for one task in every folder.
func findTask(home, id string) (f taskFile, found bool) {
	for _, folder := range taskFolders {
		names, _ := filepath.Glob(filepath.Join(home, "tasks", folder, id+".json"))
		if len(names) > 0 {
			return readTask(names[0], folder)
		}
	}
	return f, false
}

// facts are what the ledger says, without the lines in ranges that it names as
// damaged.
type facts struct {
	lines  int
	counts map[string]int // by id and event
	epochs map[string]map[int]bool
}

func (f facts) count(id, event string) int { return f.counts[id+" "+event] }

type ledgerLine struct {
	file   string
	offset int64

	Event   string
	TaskID  string `json:"task_id"`
	Details struct {
		Epoch          int
		File           string
		Offset, Length int64
	}
}

func readLedger(home string) facts {
	f := facts{counts: map[string]int{}, epochs: map[string]map[int]bool{}}
	lines := ledgerLines(home)
	for _, l := range lines {
		if l.damaged(lines) {
			continue
		}
		f.lines++
		f.counts[l.TaskID+" "+l.Event]++
		if l.Event == "task_picked" {
			if f.epochs[l.TaskID] == nil {
				f.epochs[l.TaskID] = map[int]bool{}
			}
			f.epochs[l.TaskID][l.Details.Epoch] = true
		}
	}
	return f
}

func ledgerLines(home string) (lines []ledgerLine) {
	names, _ := filepath.Glob(filepath.Join(home, "audit", "shared", "*.jsonl"))
	for _, name := range names {
		data, _ := os.ReadFile(name)
		offset := int64(0)
		for text := range bytes.Lines(data) {
			l := ledgerLine{file: filepath.Base(name), offset: offset}
			offset += int64(len(text))
			if json.Unmarshal(text, &l) == nil {
				lines = append(lines, l)
			}
		}
	}
	return lines
}

// damaged tells whether the line lies in a range that a later one names.
func (l ledgerLine) damaged(lines []ledgerLine) bool {
	for _, r := range lines {
		d := r.Details
		if r.Event == "audit_repaired" && filepath.Base(d.File) == l.file && d.Offset <= l.offset && l.offset < d.Offset+d.Length {
			return true
		}
	}
	return false
}
