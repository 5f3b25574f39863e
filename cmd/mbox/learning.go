package main

import (
	"bytes"
	"context"

	"github.com/go-json-experiment/json"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// Learned is a line of memory/learning.jsonl: what an agent says that came of a task. Mbox
// has checked who has said it, and nothing of what it says.
type Learned struct {
	At     mailbox.Time  `json:"at"`
	Agent  string        `json:"agent"`
	Task   mailbox.ID    `json:"task"`
	Type   string        `json:"type"`
	Status mailbox.State `json:"status"`
	Title  string        `json:"title"`
	Text   string        `json:"learned"` // its answer, or its error
}

// How much the view has, and how far back in the ledger it looks for that.
const (
	mostLearned     = 500
	mostLearnedSize = 256 << 10 // bytes
	mostLearnedText = 500       // runes
	linesLearned    = 5000
	learnedView     = "learning.jsonl"
)

// learned are the tasks that agents have ended, the latest first, up to a line.
type learned struct {
	all []Learned
	to  int64 // the ledger's seq
}

// learn keeps the view of what came of the tasks.
func (w *views) learn(ctx context.Context) error {
	var fresh []Learned
	seen, lines, end := map[mailbox.ID]bool{}, 0, w.known.to
	for line, err := range w.box.Ledger().Backward() {
		if err != nil {
			return err
		}
		e, err := line.Decode()
		if err != nil {
			return err
		}
		if lines++; e.Seq <= w.known.to || lines > linesLearned || len(fresh) == mostLearned {
			break
		}
		end = max(end, e.Seq)
		id := mailbox.ID(e.Task())
		if e.Event != audit.TaskCompleted && e.Event != audit.TaskFailed || seen[id] {
			continue
		}
		seen[id] = true
		if l, ok := w.lesson(ctx, id, e); ok {
			fresh = append(fresh, l)
		}
	}
	for _, l := range w.known.all {
		if !seen[l.Task] && len(fresh) < mostLearned {
			fresh = append(fresh, l)
		}
	}
	w.known = learned{fresh, end}
	if len(fresh) == 0 {
		return nil
	}
	data, err := learnedText(fresh)
	if err != nil {
		return err
	}
	return w.putBytes(learnedView, data)
}

// lesson is what came of a task, if an agent has said anything of it.
func (w *views) lesson(ctx context.Context, id mailbox.ID, e audit.Entry) (l Learned, ok bool) {
	t, state, err := w.box.Task(ctx, id)
	if err != nil || t.Assignment.PickedUpBy == nil || state != mailbox.Completed && state != mailbox.Failed {
		return l, false
	}
	text := t.Result.Said()
	if failed := t.Result.Error; state == mailbox.Failed && failed != nil {
		text = failed.Code + ": " + failed.Message
	}
	if text == "" || t.Quiet() {
		return l, false
	}
	return Learned{
		At: task.At(e.Time()), Agent: *t.Assignment.PickedUpBy, Task: id, Type: t.Task.Type, Status: state,
		Title: schemas.Sentence(t.Task.Title, 200), Text: schemas.Sentence(text, mostLearnedText),
	}, true
}

// learnedText is the view: the latest lines that fit, the oldest of them first.
func learnedText(all []Learned) ([]byte, error) {
	var lines [][]byte
	size := 0
	for i := range all {
		line, err := json.Marshal(&all[i])
		if err != nil {
			return nil, err
		}
		if size += len(line) + 1; size > mostLearnedSize {
			break
		}
		lines = append(lines, append(line, '\n'))
	}
	var out bytes.Buffer
	for i := range lines {
		out.Write(lines[len(lines)-1-i])
	}
	return out.Bytes(), nil
}

// putBytes replaces a view, unless it is what it was.
func (w *views) putBytes(name string, data []byte) error {
	path := w.viewPath(name)
	if have, err := durable.Read(path, int64(len(data))); err == nil && bytes.Equal(have, data) {
		return nil
	}
	return durable.Replace(path, data, durable.None) // after a crash it is written anew
}
