// Package record reads and writes decision and change records, the markdown files
// in decisions/ and changes/ of a mailbox. It knows no ledger: that the ledger has
// the hash of each file is package mailbox's work.
//
//	# Decision: decision-2026-02-16-001
//
//	**Date:** 2026-02-16
//	**Agent:** openclaw
//	**Task:** task-2026-02-16-001
//
//	## Context
//
//	…
//
// A record has a title, fields and sections in exactly this order (form.go). The
// sections hold free markdown of people and agents, and no text may pass for a part
// of the form (text.go).
package record

import (
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/schemas"
)

// Decision is a choice that mattered, what else there was, and later what came of it.
type Decision struct {
	ID    string `json:"id" jsonschema:"pattern=^decision-\\d{4}-\\d{2}-\\d{2}-\\d{3\\,}$,description=Name of the record and of its file without .md"`
	Date  string `json:"date" jsonschema:"format=date,description=Day of the decision"`
	Agent string `json:"agent" jsonschema:"pattern=^(bridge:)?[a-z0-9][a-z0-9_-]{0\\,63}$,description=Who decided"`
	Task  string `json:"task,omitzero" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,127}$,description=Task that the decision belongs to; absent if to none"`

	Context  string   `json:"context" jsonschema:"description=What made a decision necessary"`
	Options  []string `json:"options" jsonschema:"minItems=1,maxItems=100,description=Each option with its pros and cons"`
	Decision string   `json:"decision" jsonschema:"description=What was decided and why"`
	Outcome  string   `json:"outcome,omitzero" jsonschema:"description=What came of it; filled in later"`

	Tradeoffs []string `json:"tradeoffs,omitzero" jsonschema:"minItems=1,maxItems=100,description=Each thing that is given up by it and what for"`
}

// Change is a change of configuration, code, data or system, with how to see that it
// works and how to undo it.
type Change struct {
	ID    string `json:"id" jsonschema:"pattern=^change-\\d{4}-\\d{2}-\\d{2}-\\d{3\\,}$,description=Name of the record and of its file without .md"`
	Date  string `json:"date" jsonschema:"format=date,description=Day of the change"`
	Agent string `json:"agent" jsonschema:"pattern=^(bridge:)?[a-z0-9][a-z0-9_-]{0\\,63}$,description=Who made the change"`
	Type  string `json:"type" jsonschema:"enum=config,enum=code,enum=data,enum=system,description=What was changed"`

	Description  string `json:"description" jsonschema:"description=What the change is"`
	Rationale    string `json:"rationale" jsonschema:"description=Why it is made"`
	Before       string `json:"before" jsonschema:"description=How things were"`
	After        string `json:"after" jsonschema:"description=How they are now"`
	Rollback     string `json:"rollback" jsonschema:"description=How to undo it"`
	Verification string `json:"verification" jsonschema:"description=How to see that it works"`
}

// ChangeTypes are what a change can be a change of.
var ChangeTypes = []string{"config", "code", "data", "system"}

// noTask stands in a decision that belongs to no task.
const noTask = "none"

var (
	decisionID = schemas.Pattern(`^decision-\d{4}-\d{2}-\d{2}-\d{3,}$`)
	changeID   = schemas.Pattern(`^change-\d{4}-\d{2}-\d{2}-\d{3,}$`)
)

// IsDecision tells whether a decision may have this id.
func IsDecision(id string) bool { return decisionID().MatchString(id) }

func (d *Decision) form() *form {
	return &form{
		kind: "Decision", idForm: decisionID, id: &d.ID,
		fields: []field{{"Date", &d.Date, checkDate, ""}, {"Agent", &d.Agent, checkAgent, ""}, {"Task", &d.Task, checkTask, noTask}},
		sections: []section{
			{name: "Context", text: &d.Context},
			{name: "Options Considered", list: &d.Options},
			{name: "Decision", text: &d.Decision},
			{name: "Trade-offs", list: &d.Tradeoffs, extra: true},
			{name: "Outcome", text: &d.Outcome, optional: true},
		},
	}
}

func (c *Change) form() *form {
	return &form{
		kind: "Change", idForm: changeID, id: &c.ID,
		fields: []field{{"Date", &c.Date, checkDate, ""}, {"Agent", &c.Agent, checkAgent, ""}, {"Type", &c.Type, checkType, ""}},
		sections: []section{
			{name: "Description", text: &c.Description},
			{name: "Rationale", text: &c.Rationale},
			{name: "Before", text: &c.Before},
			{name: "After", text: &c.After},
			{name: "Rollback", text: &c.Rollback},
			{name: "Verification", text: &c.Verification},
		},
	}
}

// Markdown writes the record. Line ends become newlines and blank lines around a text
// go; apart from that [ParseDecision] gives the same decision back. A decision that
// lacks something is refused with a [*schemas.Error] that names the field or heading;
// only the outcome may be empty, and trade-offs stand there if there are any.
func (d Decision) Markdown() ([]byte, error) { return d.form().write() }

// Markdown writes the record as that of a decision is written. All six sections must
// have text; the [*schemas.Error] names every one that has none.
func (c Change) Markdown() ([]byte, error) { return c.form().write() }

// ParseDecision reads what [Decision.Markdown] writes, or a person wrote in the same
// form: same title, fields and headings in the same order, blank lines as one likes.
// The [*schemas.Error] names the line, field or heading that is wrong, and what is
// expected there.
func ParseDecision(data []byte) (Decision, error) {
	var d Decision
	if err := d.form().read(data); err != nil {
		return Decision{}, err
	}
	return d, nil
}

// ParseChange reads a change record as strictly as [ParseDecision].
func ParseChange(data []byte) (Change, error) {
	var c Change
	if err := c.form().read(data); err != nil {
		return Change{}, err
	}
	return c, nil
}

func checkDate(date string) error {
	if _, err := time.Parse(time.DateOnly, date); err != nil {
		return wrong(schemas.CodeBadValue, "Date", schemas.Quote(date)+" is no date", "a date such as 2026-02-16")
	}
	return nil
}

func checkAgent(name string) error {
	return allowed(audit.AgentForm().MatchString(name), "Agent", name, "the name of an agent")
}

func checkTask(id string) error {
	if id == noTask {
		return wrong(schemas.CodeBadValue, "Task", `"none" is not allowed: it stands for no task`, "an id, or nothing")
	}
	return allowed(id == "" || audit.TaskForm().MatchString(id), "Task", id, "the id of a task, or nothing")
}

func checkType(name string) error {
	return allowed(slices.Contains(ChangeTypes, name), "Type", name, "one of "+strings.Join(ChangeTypes, ", "))
}

func allowed(is bool, path, value, want string) error {
	if is {
		return nil
	}
	return wrong(schemas.CodeBadValue, path, schemas.Quote(value)+" is not allowed", want)
}

func wrong(code, path, problem, want string) error {
	return &schemas.Error{Path: path, Problem: problem, Want: want, Code: code}
}
