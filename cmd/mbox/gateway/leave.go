package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// orders are the shapes in which a task may be left.
type orders struct{}

// Sent is what is answered to a task that was left.
type Sent struct {
	ID   mailbox.ID `json:"id"`
	Note string     `json:"note,omitzero" jsonschema:"description=what is still to be done\\, by mbox itself"`
}

// send leaves a task. When it answers 202 the task is on the disk.
func (c *call) send() error {
	data, err := c.body()
	if err != nil {
		return err
	}
	t, err := c.ordered(data)
	if err != nil {
		return err
	}
	sent, err := c.leave(t)
	if err != nil && taskKind(data) == '"' {
		err = renamed(err, "assignment.target_agent", "payload.role", "mbox.action.name", "payload.task", "task.title", "payload.task", "mbox.action.params", "payload.payload")
	}
	if err != nil {
		return err
	}
	c.w.Header().Set("Location", "/tasks/"+string(sent.ID))
	return c.json(http.StatusAccepted, sent)
}

// ordered reads a task in either shape: the task file's, or ColDBase's delegation.
func (c *call) ordered(data []byte) (*mailbox.Task, error) {
	if jsontext.Value(data).Kind() == '{' && taskKind(data) == '"' {
		return c.delegated(data)
	}
	return task.ParseDrop("", data)
}

// taskKind is the kind of the member task: an object in a task file, a string in a
// delegation.
func taskKind(data []byte) jsontext.Kind {
	var shape struct {
		Task jsontext.Value `json:"task"`
	}
	if json.Unmarshal(data, &shape, jsontext.AllowDuplicateNames(true)) != nil || shape.Task == nil {
		return 0
	}
	return shape.Task.Kind()
}

// Delegated is ColDBase's way to hand an action on.
type Delegated struct {
	Task    string `json:"task" jsonschema:"enum=delegate"`
	Payload struct {
		Role    string         `json:"role" jsonschema:"minLength=1,description=who is to do it: a role\\, or an agent"`
		Task    string         `json:"task" jsonschema:"minLength=1,description=the action"`
		Payload jsontext.Value `json:"payload" jsonschema:"type=object,description=its parameters"`
	} `json:"payload"`
}

func (c *call) delegated(data []byte) (*mailbox.Task, error) {
	var d Delegated
	if err := schemas.Decode(data, &d); err != nil {
		return nil, err
	}
	if d.Task != "delegate" {
		return nil, task.Fault("task", fmt.Sprintf("%s is no task", schemas.Quote(d.Task)), `"delegate" with a payload of role, task and payload, or an object as in a task file`)
	}
	p := d.Payload
	to, _, _ := c.Agents.Find(p.Role)
	for path, text := range map[string]string{"payload.role": p.Role, "payload.task": p.Task} {
		if text == "" {
			return nil, task.Fault(path, "is missing", "a name")
		}
	}
	return &mailbox.Task{
		Task:       mailbox.Request{Type: "action", Title: p.Task + " by " + p.Role},
		Assignment: mailbox.Assignment{TargetAgent: to},
		Mbox:       mailbox.Meta{Action: &mailbox.Action{Name: p.Task, Params: p.Payload}},
	}, nil
}

// known refuses a target that nobody in the registry is: who asks by HTTP is there
// to be told.
func (c *call) known(target string) error {
	now, err := mailbox.AgentCalled(c.Box, target)
	if _, ok := c.Agents[now]; ok || err != nil || target == "" || target == "any" {
		return err
	}
	want := "an agent of mbox.toml, or any"
	if near := schemas.Suggest(target, slices.Collect(maps.Keys(c.Agents))); near != "" {
		want = near
	}
	return task.Fault("assignment.target_agent", fmt.Sprintf("%s is neither an agent nor a role of this mailbox", schemas.Quote(target)), want)
}

// refusedInside tells whether the mailbox refuses a task with an action by itself, and
// tells the ledger so.
func refusedInside(box *mailbox.Box, t *mailbox.Task) bool {
	review := box.Options().Review
	if review == nil || t.Mbox.Action == nil {
		return false
	}
	_, err := review(t)
	return err != nil
}

// key takes the idempotency key from the header.
func (c *call) key(t *mailbox.Task) error {
	keys := c.r.Header.Values("Idempotency-Key")
	if len(keys) == 0 {
		return nil
	}
	key := keys[0]
	if key == "" || len(keys) > 1 {
		return badRequest("the header Idempotency-Key has to hold one key", "give the request a key of its own, or leave the header out")
	}
	if own := t.Mbox.IdempotencyKey; own != "" && own != key {
		return badRequest("the header Idempotency-Key is not the task's mbox.idempotency_key", "give one of them")
	}
	t.Mbox.IdempotencyKey = key
	return nil
}

// signed writes down who has sent the task: an agent's token cannot speak for
// another one, and without a token nobody is believed.
func (c *call) signed(t *mailbox.Task) error {
	own := c.by()
	if c.name == "" {
		own = "unknown"
	}
	given := t.Source.Agent
	if given != "" && given != own && c.role != "operator" {
		return forbidden(fmt.Sprintf("source.agent is %s, and this caller is %s", schemas.Quote(given), own), "leave it out")
	}
	t.Source.Agent = cmp.Or(given, own)
	return nil
}

// leave leaves a task that is in order, in the caller's name.
func (c *call) leave(t *mailbox.Task) (sent Sent, err error) {
	if err := c.key(t); err != nil {
		return sent, err
	}
	if err := c.signed(t); err != nil {
		return sent, err
	}
	unknown := c.known(t.Assignment.TargetAgent)
	if unknown != nil && !refusedInside(c.Box, t) {
		return sent, unknown
	}
	if err := c.waitsForSeen(t); err != nil {
		return sent, err
	}
	sent.ID, err = c.Box.Submit(c.ctx, t)
	if errors.Is(err, mailbox.ErrCommitted) && sent.ID != "" {
		_, sent.Note = c.door.o.Judge(err)
		err = nil
	}
	if err != nil && unknown != nil {
		err = unknown // which says more
	}
	if err == nil && t.Mbox.IdempotencyKey != "" {
		err = c.same(sent.ID, t)
	}
	if err != nil {
		return Sent{}, err
	}
	return sent, nil
}

// waitsForSeen refuses a task that waits for one that the caller may not see: it would tell
// how that stands, and whoever takes it is given the files that came of that.
func (c *call) waitsForSeen(t *mailbox.Task) error {
	if c.all() {
		return nil
	}
	mine := c.sight()
	for i, id := range t.Mbox.DependsOn {
		_, _, err := mine.Task(c.ctx, id)
		if errors.Is(err, mailbox.ErrNotFound) {
			return task.Fault(fmt.Sprintf("mbox.depends_on[%d]", i), "there is no task "+schemas.Sentence(string(id), 128), "a task that you may see")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// same refuses a key that was another request's: the caller would take somebody's task for
// his own, and his request would be lost.
func (c *call) same(id mailbox.ID, t *mailbox.Task) error {
	made, _, err := c.Box.Task(c.ctx, id)
	if err != nil {
		return nil //nolint:nilerr // it is sent all the same
	}
	if !t.Repeats(made) {
		return &refusal{http.StatusConflict, "the idempotency key was another request's", "send it with a key that was not used before"}
	}
	return nil
}
