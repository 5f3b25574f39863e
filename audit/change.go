package audit

import (
	"cmp"
	"slices"
	"strings"

	"mbox/schemas"
)

// Change is a change record: what was changed in configuration, code, data or
// system, and how to see that it works and to undo it. It lives in
// changes/<id>.md, and the ledger has the hash of that file.
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

// ChangeFront is what stands above the sections of a [Change].
type ChangeFront struct {
	ID    string `json:"id" jsonschema:"pattern=^change-\\d{4}-\\d{2}-\\d{2}-\\d{3\\,}$,description=Name of the record and of its file without .md"`
	Date  string `json:"date" jsonschema:"format=date,description=Day of the change"`
	Agent string `json:"agent" jsonschema:"pattern=^(bridge:)?[a-z0-9][a-z0-9_-]{0\\,63}$,description=Who made the change"`
	Type  string `json:"type" jsonschema:"enum=config,enum=code,enum=data,enum=system,description=What was changed"`
}

// ChangeTypes are what a change can be a change of.
var ChangeTypes = []string{"config", "code", "data", "system"}

var (
	changeID   = schemas.Pattern(`^change-\d{4}-\d{2}-\d{2}-\d{3,}$`)
	changeForm = recordForm{
		kind:     "Change",
		fields:   []string{"Date", "Agent", "Type"},
		sections: []string{"Description", "Rationale", "Before", "After", "Rollback", "Verification"},
	}
)

// Front gives what stands above the sections.
func (c Change) Front() ChangeFront {
	return ChangeFront{c.ID, c.Date, c.Agent, c.Type}
}

// Markdown writes the record in the form that design and tools fix. Line ends
// become newlines and blank lines around a text go; apart from that
// [ParseChange] gives the same change back. All six sections must have text;
// the [*schemas.Error] names every one that has not.
func (c Change) Markdown() ([]byte, error) {
	c = c.normal()
	if err := c.check(); err != nil {
		return nil, err
	}
	var bodies []string
	for _, body := range c.bodies() {
		bodies = append(bodies, markText(*body))
	}
	return changeForm.render(c.ID, []string{c.Date, c.Agent, c.Type}, bodies), nil
}

// ParseChange reads what [Change.Markdown] writes, or a person wrote in the
// same form, as strictly as [ParseDecision].
func ParseChange(data []byte) (Change, error) {
	raw, err := changeForm.parse(data)
	if err != nil {
		return Change{}, err
	}
	c := Change{ID: raw.id, Date: raw.fields[0], Agent: raw.fields[1], Type: raw.fields[2]}
	for i, body := range c.bodies() {
		if *body, err = unmarkText("## "+changeForm.sections[i], raw.bodies[i]); err != nil {
			return Change{}, err
		}
	}
	c = c.normal()
	if err := c.check(); err != nil {
		return Change{}, err
	}
	return c, nil
}

// bodies are the texts in the order of the form.
func (c *Change) bodies() []*string {
	return []*string{&c.Description, &c.Rationale, &c.Before, &c.After, &c.Rollback, &c.Verification}
}

func (c Change) normal() Change {
	for _, body := range c.bodies() {
		*body = normalBody(*body)
	}
	return c
}

// check expects a normal change.
func (c Change) check() error {
	err := cmp.Or(
		checkField("# Change", c.ID, changeID(), "an id such as change-2026-02-16-001"),
		checkDate(c.Date),
		checkField("Agent", c.Agent, agentForm(), "the name of an agent"),
		checkType(c.Type),
	)
	var texts []string
	for _, body := range c.bodies() {
		texts = append(texts, *body)
	}
	err = cmp.Or(err, changeForm.checkPresent(texts))
	for i, text := range texts {
		err = cmp.Or(err, checkBody("## "+changeForm.sections[i], text))
	}
	return err
}

func checkType(name string) error {
	if slices.Contains(ChangeTypes, name) {
		return nil
	}
	return &schemas.Error{Path: "Type", Problem: schemas.Quote(name) + " is not allowed", Want: "one of " + strings.Join(ChangeTypes, ", "), Code: schemas.CodeBadValue}
}
