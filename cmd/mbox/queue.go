package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// maxQueue is how long a file with a queue may be.
const maxQueue = 16 << 20

// oldQueue is a task_queue.json: mbox's own view, or one from before mbox. Some
// of those have the tasks under another name.
type oldQueue struct {
	Queue []oldTask `json:"queue"`
	Tasks []oldTask `json:"tasks"`
	More  int       `json:"more"`
}

// oldTask is a task in it.
type oldTask struct {
	ID        string `json:"id"`
	CreatedAt string `json:"created_at"`
	Source    string `json:"source"`
	Target    string `json:"target"`
	Task      string `json:"task"`
	Status    string `json:"status"`
	Priority  *int   `json:"priority"`
}

// isQueue tells a queue from a task.
func isQueue(data []byte) bool {
	var top map[string]jsontext.Value
	if err := schemas.Decode(data, &top); err != nil {
		return false
	}
	return top["task"] == nil && (top["queue"] != nil || top["tasks"] != nil)
}

// readQueue makes tasks of what waits in a queue; the others are counted. The
// same queue a second time is the same tasks.
func readQueue(data []byte) (tasks []*mailbox.Task, ended int, err error) {
	var q oldQueue
	if err := schemas.Decode(data, &q); err != nil {
		return nil, 0, err
	}
	name, list := "queue", q.Queue
	switch {
	case len(list) > 0 && len(q.Tasks) > 0:
		return nil, 0, &schemas.Error{Path: "tasks", Problem: `stands beside "queue", which is another name of it`, Want: "one of the two", Code: schemas.CodeBadValue}
	case len(list) == 0:
		name, list = "tasks", q.Tasks
	}
	for i, old := range list {
		if !strings.EqualFold(cmp.Or(old.Status, "pending"), "pending") {
			ended++
			continue
		}
		t, err := old.task()
		if err != nil {
			return nil, 0, below(err, fmt.Sprintf("%s[%d]", name, i))
		}
		tasks = append(tasks, t)
	}
	return tasks, ended, nil
}

func (old *oldTask) task() (*mailbox.Task, error) {
	if old.Priority != nil && *old.Priority < 0 {
		return nil, &schemas.Error{Path: "priority", Problem: "is below 0", Want: "0 (urgent), 1 (high), 2 (normal), 3 or more (low)", Code: schemas.CodeBadValue}
	}
	title, _, _ := strings.Cut(strings.TrimSpace(old.Task), "\n")
	t := &mailbox.Task{ID: mailbox.ID(old.ID)}
	t.Task = mailbox.Request{Title: schemas.Sentence(title, mailbox.MaxTitle), Priority: "normal"}
	if t.Task.Title != old.Task {
		t.Task.Description = old.Task
	}
	if old.Priority != nil {
		t.Task.Priority = priorityOf(*old.Priority)
	}
	t.Source.Agent, t.Assignment.TargetAgent = cmp.Or(old.Source, "human"), old.Target
	if old.CreatedAt != "" {
		data, err := schemas.Encode(map[string]string{"queued_at": old.CreatedAt})
		if err != nil {
			return nil, err
		}
		t.Mbox.Labels = data
	}
	if old.ID == "" {
		data, err := schemas.Encode(old)
		if err != nil {
			return nil, err
		}
		t.Mbox.IdempotencyKey = "queue:" + audit.Hash(data)
	}
	return t, t.Validate()
}

// priorityOf is the priority that a number stands for in an old queue: 0 is the
// most urgent, and whatever is above 2 is low.
func priorityOf(number int) string {
	return task.Priorities[max(len(task.Priorities)-1-number, 0)]
}

// below puts a path in front of the one of an error about data.
func below(err error, path string) error {
	if bad, ok := err.(*schemas.Error); ok {
		at := *bad
		at.Path = path + "." + bad.Path
		return &at
	}
	return err
}
