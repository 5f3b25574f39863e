package gateway

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/cmd/mbox/gateway/pages"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// letter is the form by which a task is sent.
type letter struct {
	Title, Description, To, Type, Priority string
	Action, Params, Context, More          string
	Key                                    string // so that what is sent twice is one task
	Fault                                  string
	Names, Types, Priorities               []string
}

// extra is what else a sender may say, as the form's field "more" has it.
type extra struct {
	DependsOn   []mailbox.ID   `json:"depends_on,omitempty"`
	NotBefore   *mailbox.Time  `json:"not_before,omitzero"`
	Deadline    *mailbox.Time  `json:"deadline,omitzero"`
	MaxAttempts int64          `json:"max_attempts,omitzero"`
	Paths       []string       `json:"paths,omitempty"`
	Labels      jsontext.Value `json:"labels,omitzero"`
}

// compose shows the form: empty, or with what another task, or what lies in quarantine,
// asks for.
func (v view) compose() error {
	if v.seat == nil || !v.mayDo(post) {
		return unauthorized("log in to send a task")
	}
	l := letter{To: "any", Type: "other", Priority: "normal"}
	switch id, entry := v.value("like"), v.value("entry"); {
	case id != "":
		v.r.SetPathValue("id", id)
		t, _, err := v.find()
		if err != nil {
			return err
		}
		l = v.letterOf(t)
	case entry != "" && v.all():
		k, err := v.kept(entry)
		if err != nil {
			return err
		}
		l = v.letterOf(k.salvaged())
	}
	return v.form(http.StatusOK, l)
}

// letterOf is the form with what a task asks for.
func (v view) letterOf(t *mailbox.Task) letter {
	l := letter{Title: t.Task.Title, Description: t.Task.Description, To: t.Assignment.TargetAgent, Type: t.Task.Type, Priority: t.Task.Priority}
	if c := t.Task.Context; len(c) > 0 && string(c) != "null" {
		l.Context = pages.Raw(c)
	}
	m := t.Mbox
	if m.Action != nil {
		l.Action, l.Params = m.Action.Name, pages.Raw(m.Action.Params)
	}
	if m.MaxAttempts == int64(v.Box.Options().MaxAttempts) {
		m.MaxAttempts = 0
	}
	more, err := schemas.Encode(extra{DependsOn: m.DependsOn, NotBefore: m.NotBefore, Deadline: m.Deadline, MaxAttempts: m.MaxAttempts, Paths: m.Paths, Labels: m.Labels})
	if text := strings.TrimSpace(string(more)); err == nil && text != "{}" {
		l.More = text
	}
	return l
}

func (v view) form(status int, l letter) error {
	if l.Key == "" {
		l.Key, _ = secret()
	}
	l.Names = append([]string{"any"}, slices.Sorted(maps.Keys(v.Agents))...)
	if l.To != "" && !slices.Contains(l.Names, l.To) {
		l.Names = append(l.Names, l.To)
	}
	l.Types, l.Priorities = task.Types, task.Priorities
	f := v.frame("/send", "Send", v.door.o.Now())
	f.Data = l
	return drawn(v.w, status, "send", f)
}

// send leaves the task that a form describes. What is wrong with it stands above the form,
// which keeps what was written.
func (v view) send() error {
	f, err := v.fields()
	if err != nil {
		return err
	}
	l := letter{
		Title: f["title"], Description: strings.ReplaceAll(f["description"], "\r\n", "\n"), To: f["to"], Type: f["type"], Priority: f["priority"],
		Action: f["action"], Params: f["params"], Context: f["context"], More: f["more"], Key: f["key"],
	}
	t, err := l.task()
	var sent Sent
	if err == nil {
		sent, err = v.leave(t)
	}
	var data *schemas.Error
	if errors.As(err, &data) || errors.Is(err, mailbox.ErrConflict) {
		l.Fault = err.Error()
		return v.form(http.StatusUnprocessableEntity, l)
	}
	if err != nil {
		return err
	}
	return v.to("/task/" + string(sent.ID) + "?said=send")
}

// task is what the form describes, by the rules of every task that is sent.
func (l *letter) task() (*mailbox.Task, error) {
	asked := map[string]any{"title": l.Title, "description": l.Description, "type": l.Type, "priority": l.Priority}
	meta := map[string]any{}
	if l.More != "" {
		var e extra
		if err := schemas.Decode([]byte(l.More), &e); err != nil {
			return nil, inField("more", err)
		}
		if err := json.Unmarshal([]byte(l.More), &meta); err != nil {
			return nil, inField("more", err)
		}
	}
	if l.Key != "" {
		meta["idempotency_key"] = l.Key
	}
	for name, text := range map[string]string{"context": l.Context, "params": l.Params} {
		var v jsontext.Value
		if text != "" {
			if err := schemas.Decode([]byte(text), &v); err != nil {
				return nil, inField(name, err)
			}
		}
		switch {
		case name == "context" && text != "":
			asked["context"] = v
		case name == "params" && l.Action != "":
			action := map[string]any{"name": l.Action}
			if text != "" {
				action["params"] = v
			}
			meta["action"] = action
		}
	}
	doc, err := json.Marshal(map[string]any{"task": asked, "assignment": map[string]any{"target_agent": l.To}, "mbox": meta})
	if err != nil {
		return nil, err
	}
	return task.ParseDrop("", doc)
}

// inField says in which field of the form something is wrong.
func inField(name string, err error) error {
	var fault *schemas.Error
	if !errors.As(err, &fault) {
		return task.Fault(name, err.Error(), "JSON")
	}
	own := *fault
	own.Path = name + ": " + fault.Path
	return &own
}
