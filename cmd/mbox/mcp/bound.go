package mcp

import (
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
	"mbox/mailbox/task"
)

// What a model is given at most.
const (
	maxText  = 16 << 10  // bytes of a text, or of a free value's JSON
	maxSteps = 50        // state changes, proofs and files
	maxLines = 256 << 10 // bytes of ledger lines
)

// cutter shortens what is long, and notes where it is whole.
type cutter struct {
	home  string // of the mailbox
	whole string // where
	notes []string
}

func (s *Server) cutting(id mailbox.ID) *cutter {
	return &cutter{home: s.o.Box.Home(), whole: taskURI(id)}
}

// spilled notes where the output is whole of which the task has the end alone.
func (c *cutter) spilled(what string, t *mailbox.Task) {
	if whole, a, ok := mailbox.Spilled(c.home, t); ok {
		where := "it was whole in the file %s, which is not there any more, or is another"
		if whole != nil {
			whole.Close()
			where = "it is whole in the file %s"
		}
		c.notes = append(c.notes, fmt.Sprintf("%s: the last %d of %d bytes are here; "+where, what, len(task.Text(t.Result.Output)), a.Size, a.Path))
	}
}

func (c *cutter) note(what string, kept, of int, unit string) {
	c.notes = append(c.notes, fmt.Sprintf("%s: %d of %d %s are here; it is whole in the resource %s", what, kept, of, unit, c.whole))
}

// text keeps the beginning of a text.
func (c *cutter) text(what, text string) string {
	if len(text) <= maxText {
		return text
	}
	kept := maxText
	for kept > 0 && !utf8.RuneStart(text[kept]) {
		kept--
	}
	c.note(what, kept, len(text), "bytes")
	return text[:kept]
}

// value keeps a free value, or the beginning of its text or of its JSON as a text.
func (c *cutter) value(what string, v jsontext.Value) jsontext.Value {
	if len(v) <= maxText {
		return v
	}
	text := string(v)
	if v.Kind() == '"' {
		if plain, err := jsontext.AppendUnquote(nil, v); err == nil {
			text = string(plain)
		}
	}
	quoted, err := jsontext.AppendQuote(nil, c.text(what, text))
	if err != nil {
		return nil
	}
	return quoted
}

// artifacts keeps the first files.
func (c *cutter) artifacts(what string, all []mailbox.Artifact) []mailbox.Artifact {
	if len(all) <= maxSteps {
		return all
	}
	c.note(what, maxSteps, len(all), "files")
	return all[:maxSteps]
}

// task is a task for the client's eyes, cut. Only claim_task tells a claim's token.
func (c *cutter) task(t *mailbox.Task) *mailbox.Task {
	n := sight.Shown(t)
	c.spilled("result.output", t)
	n.Task.Description = c.text("task.description", n.Task.Description)
	n.Task.Context = c.value("task.context", n.Task.Context)
	n.Result.Output = c.value("result.output", n.Result.Output)
	n.Result.Artifacts = c.artifacts("result.artifacts", n.Result.Artifacts)
	n.Mbox.Labels = c.value("mbox.labels", n.Mbox.Labels)
	if a := n.Mbox.Action; a != nil {
		n.Mbox.Action = &mailbox.Action{Name: a.Name, Params: c.value("mbox.action.params", a.Params)}
	}
	if all := n.Audit.StateChanges; len(all) > maxSteps {
		c.note("audit.state_changes", maxSteps, len(all), "steps")
		n.Audit.StateChanges = all[len(all)-maxSteps:]
	}
	return n
}

// outcome is where a task stands, and what came of it.
type outcome struct {
	ID        mailbox.ID         `json:"id" jsonschema:"description=the task"`
	State     mailbox.State      `json:"state" jsonschema:"description=pending\\, in-progress\\, completed\\, failed or archive"`
	Ended     bool               `json:"ended" jsonschema:"description=nothing more will come of it unless an operator retries it"`
	Progress  *mailbox.Progress  `json:"progress,omitzero" jsonschema:"description=the last word of whoever works on it"`
	Output    jsontext.Value     `json:"output,omitzero" jsonschema:"description=the result: text or any JSON"`
	Artifacts []mailbox.Artifact `json:"artifacts,omitempty" jsonschema:"description=files that the work left\\, in the mailbox's folder"`
	Error     *mailbox.TaskError `json:"error,omitzero" jsonschema:"description=why it failed"`
	Notes     []string           `json:"notes,omitempty" jsonschema:"description=what was cut\\, and where it is whole"`
}

func (s *Server) outcomeOf(t *mailbox.Task, state mailbox.State) outcome {
	c := s.cutting(t.ID)
	o := outcome{ID: t.ID, State: state, Ended: ended(state), Error: t.Result.Error}
	if !o.Ended {
		o.Progress = t.Mbox.Progress
		return o
	}
	if task.Given(t.Result.Output) {
		c.spilled("output", t)
		o.Output = c.value("output", t.Result.Output)
	}
	o.Artifacts = c.artifacts("artifacts", t.Result.Artifacts)
	o.Notes = c.notes
	return o
}

func ended(s mailbox.State) bool {
	return s == mailbox.Completed || s == mailbox.Failed || s == mailbox.Archived
}

func taskURI(id mailbox.ID) string { return "mbox://task/" + string(id) }
