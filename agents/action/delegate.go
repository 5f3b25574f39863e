package action

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/policy"
	"mbox/schemas"
)

// maxNesting is how many delegations may lie in one another's payloads.
const maxNesting = 3

// Delegate hands work to another agent, as a task of its own: an action with its
// parameters (task and payload), or something to think about (title and
// description).
type Delegate struct {
	Role        string         `json:"role" jsonschema:"minLength=1,maxLength=64,description=the agent that is to do it"`
	Task        string         `json:"task,omitzero" jsonschema:"maxLength=64,description=the action to be done; without one the agent thinks"`
	Payload     jsontext.Value `json:"payload,omitzero" jsonschema:"description=the parameters of the action"`
	Title       string         `json:"title,omitzero" jsonschema:"maxLength=500,description=what is to be done\\, in a line"`
	Description string         `json:"description,omitzero" jsonschema:"maxLength=262144,description=and in full"`
	Label       string         `json:"name,omitzero" jsonschema:"maxLength=64,description=a name for it\\, for after"`
	After       []string       `json:"after,omitempty" jsonschema:"maxItems=16,description=names or task ids that must be done before"`
	Join        string         `json:"join,omitzero" jsonschema:"enum=all,enum=any,enum=quorum,description=which of the tasks handed on must succeed"`

	inner Action // of Task and Payload; nil without a task
}

var (
	agentForm = schemas.Pattern(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	labelForm = schemas.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	taskForm  = schemas.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

// Name is delegate.
func (*Delegate) Name() string { return "delegate" }

// Inner is the action that is handed on; nil where the other agent is to think.
func (d *Delegate) Inner() Action { return d.inner }

// parseInner parses the action that a delegation hands on.
func (d *Delegate) parseInner(depth int) error {
	if d.Task == "" {
		return nil
	}
	if depth >= maxNesting && d.Task == d.Name() {
		return &schemas.Error{
			Path: "task", Problem: "hands on a delegation for the third time",
			Want: fmt.Sprintf("at most %d in one another", maxNesting), Code: schemas.CodeTooDeep,
		}
	}
	inner, err := parse(d.Task, d.Payload, depth+1)
	if err != nil {
		return asPayload(err)
	}
	d.inner = inner
	return nil
}

// asPayload names the fields of an inner action as they are named here.
func asPayload(err error) error {
	var unknown *Unknown
	var invalid *schemas.Error
	switch {
	case errors.As(err, &unknown):
		out := *unknown
		if out.Path == "action" {
			out.Path = "task"
		} else {
			out.Path = renamed(out.Path)
		}
		return &out
	case errors.As(err, &invalid):
		out := *invalid
		out.Path = renamed(out.Path)
		return &out
	}
	return err
}

// renamed is a path that begins with params, where the parameters are a payload.
func renamed(path string) string { return "payload" + path[len("params"):] }

// Validate checks the fields, and what is handed on by its own rules.
func (d *Delegate) Validate(l Limits) error {
	if err := d.checkNames(); err != nil {
		return err
	}
	switch {
	case d.Task == "" && d.Title == "":
		return fault("title", schemas.CodeMissingField, "is missing", "a title, or a task with its payload")
	case d.Task == "" && len(d.Payload) > 0:
		return fault("payload", schemas.CodeBadValue, "belongs to no task", "a task with it")
	case d.Task != "" && d.inner == nil:
		return fault("task", schemas.CodeBadValue, "was not parsed", "a delegation made by Parse")
	case d.inner == nil:
		return nil
	}
	l.Autorun, l.WriteRoots = true, nil // whoever does it is held against its own role
	if err := d.inner.Validate(l); err != nil {
		return under("params", asPayload(err))
	}
	return nil
}

func (d *Delegate) checkNames() error {
	switch {
	case !agentForm().MatchString(d.Role):
		return fault("role", schemas.CodeBadValue, schemas.Quote(d.Role)+" is no agent's name", "such as coder")
	case d.Label != "" && !labelForm().MatchString(d.Label):
		return fault("name", schemas.CodeBadValue, schemas.Quote(d.Label)+" is no name", "letters, digits, . _ -")
	case !slices.Contains([]string{"", "all", "any", "quorum"}, d.Join):
		return fault("join", schemas.CodeBadValue, schemas.Quote(d.Join)+" is not allowed", "one of all, any, quorum")
	}
	for i, after := range d.After {
		path := fmt.Sprintf("after[%d]", i)
		switch {
		case !taskForm().MatchString(after):
			return fault(path, schemas.CodeBadValue, schemas.Quote(after)+" is neither a name nor a task's id", "")
		case after == d.Label:
			return fault(path, schemas.CodeBadValue, schemas.Quote(after)+" is this delegation itself", "")
		case slices.Contains(d.After[:i], after):
			return fault(path, schemas.CodeBadValue, schemas.Quote(after)+" stands there already", "")
		}
	}
	return nil
}

// Permit asks whether the agent may hand work to that one. Whether that one may
// do it, its own policy says, when it takes the task.
func (d *Delegate) Permit(p *policy.Policy) error {
	if err := p.Tool(d.Name()); err != nil {
		return err
	}
	if slices.Contains(p.Delegates, d.Role) {
		return nil
	}
	return &policy.Denied{
		Rule: "delegate_not_allowed", What: "delegate to " + schemas.Sentence(d.Role, 64),
		Why:  "the agent may not hand work to it",
		Hint: "see delegates of the agent and delegation_policy of its risk profile",
	}
}

// Do is no part of this package: a delegation is a task.
func (*Delegate) Do(context.Context, *Env) (Result, error) {
	return Result{}, errors.New("delegate is carried out by the mailbox")
}
