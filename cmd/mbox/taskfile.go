package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// isTaskFile tells an existing .json file from a title.
func isTaskFile(what string) bool {
	if !namesTasks(what) {
		return false
	}
	info, err := os.Stat(what)
	return err == nil && info.Mode().IsRegular()
}

// namesTasks tells whether a file of that name would hold tasks.
func namesTasks(name string) bool {
	return strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".jsonl")
}

// isJSON tells an object or a list from a title.
func isJSON(what string) bool {
	v := jsontext.Value(what)
	return (v.Kind() == '{' || v.Kind() == '[') && v.IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// isMissingFile tells a path to no file from a title.
func isMissingFile(what string) bool {
	if !pathLike().MatchString(what) || strings.Contains(what, "://") {
		return false
	}
	_, err := os.Stat(what)
	return errors.Is(err, fs.ErrNotExist)
}

// readTasks reads a whole task, or a queue, from a file or from standard input.
func (s *session) readTasks(ctx context.Context, what string) ([]*mailbox.Task, error) {
	data, err := s.readInput(ctx, what, maxQueue)
	if err != nil {
		return nil, err
	}
	if isQueue(data) {
		tasks, ended, err := readQueue(data)
		if ended > 0 && err == nil {
			s.warnf("%s of %s no longer waiting: left out", tasksOf(ended), what)
		}
		return tasks, hintData(inFile(err, what), "mbox schema print task_queue tells what a queue may hold")
	}
	var tasks []*mailbox.Task
	for _, l := range taskLines(data) {
		in := what
		if l.number > 0 {
			in = fmt.Sprintf("%s:%d", what, l.number)
		}
		if len(l.text) > mailbox.MaxTask {
			return nil, tooLarge(in, mailbox.MaxTask)
		}
		t, err := task.ParseDrop("", l.text)
		if err == nil {
			err = t.Validate()
		}
		if err != nil {
			return nil, hintData(inFile(err, in), "mbox schema print task tells what a task may hold")
		}
		tasks = append(tasks, t)
	}
	return tasks, nil
}

// taskLine is the text of one task, and the line it stands on; 0 where it is all.
type taskLine struct {
	text   []byte
	number int
}

// taskLines are the lines of a text whose first line is a whole object, and which has
// more; any other text is one task.
func taskLines(data []byte) []taskLine {
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	if v := jsontext.Value(first); v.Kind() != '{' || !v.IsValid() || len(bytes.TrimSpace(rest)) == 0 {
		return []taskLine{{data, 0}}
	}
	var lines []taskLine
	number := 0
	for line := range bytes.Lines(data) {
		if number++; len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, taskLine{line, number})
		}
	}
	return lines
}

// hintData adds a hint to an error about bad data only.
func hintData(err error, line string) error {
	var e *schemas.Error
	if errors.As(err, &e) {
		return hint(err, "%s", line)
	}
	return err
}

// inFile names the file in an error about its content.
func inFile(err error, name string) error {
	var e *schemas.Error
	if name == "-" {
		name = "standard input"
	}
	if errors.As(err, &e) && e.File == "" {
		e.File = name
	}
	return err
}
