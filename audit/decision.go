package audit

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"mbox/schemas"
)

// Decision is a decision record: a choice that mattered, what else there was,
// and later what came of it. It lives in decisions/<id>.md, and the ledger has
// the hash of that file.
type Decision struct {
	ID    string `json:"id" jsonschema:"pattern=^decision-\\d{4}-\\d{2}-\\d{2}-\\d{3\\,}$,description=Name of the record and of its file without .md"`
	Date  string `json:"date" jsonschema:"format=date,description=Day of the decision"`
	Agent string `json:"agent" jsonschema:"pattern=^(bridge:)?[a-z0-9][a-z0-9_-]{0\\,63}$,description=Who decided"`
	Task  string `json:"task,omitzero" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,127}$,description=Task that the decision belongs to; absent if to none"`

	Context  string   `json:"context" jsonschema:"description=What made a decision necessary"`
	Options  []string `json:"options" jsonschema:"minItems=1,maxItems=100,description=Each option with its pros and cons"`
	Decision string   `json:"decision" jsonschema:"description=What was decided and why"`
	Outcome  string   `json:"outcome,omitzero" jsonschema:"description=What came of it; filled in later"`
}

// DecisionFront is what stands above the sections of a [Decision].
type DecisionFront struct {
	ID    string `json:"id" jsonschema:"pattern=^decision-\\d{4}-\\d{2}-\\d{2}-\\d{3\\,}$,description=Name of the record and of its file without .md"`
	Date  string `json:"date" jsonschema:"format=date,description=Day of the decision"`
	Agent string `json:"agent" jsonschema:"pattern=^(bridge:)?[a-z0-9][a-z0-9_-]{0\\,63}$,description=Who decided"`
	Task  string `json:"task,omitzero" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,127}$,description=Task that the decision belongs to; absent if to none"`
}

// MaxOptions is how many options a decision may list.
const MaxOptions = 100

const optionsHeading = "## Options Considered"

func optionHeading(i int) string { return fmt.Sprintf("%s, option %d", optionsHeading, i+1) }

// noTask stands in a record that belongs to no task.
const noTask = "none"

var (
	decisionID   = schemas.Pattern(`^decision-\d{4}-\d{2}-\d{2}-\d{3,}$`)
	decisionForm = recordForm{
		kind:     "Decision",
		fields:   []string{"Date", "Agent", "Task"},
		sections: []string{"Context", "Options Considered", "Decision", "Outcome"},
		optional: "Outcome",
	}
)

// Front gives what stands above the sections.
func (d Decision) Front() DecisionFront {
	return DecisionFront{d.ID, d.Date, d.Agent, d.Task}
}

// Markdown writes the record in the form that design and tools fix. Line ends
// become newlines and blank lines around a text go; apart from that
// [ParseDecision] gives the same decision back. A decision that lacks something
// is refused with a [*schemas.Error] that names the field or heading; only the
// outcome may be empty.
func (d Decision) Markdown() ([]byte, error) {
	d = d.normal()
	if err := d.check(); err != nil {
		return nil, err
	}
	fields := []string{d.Date, d.Agent, cmp.Or(d.Task, noTask)}
	bodies := []string{markText(d.Context), printOptions(d.Options), markText(d.Decision), markText(d.Outcome)}
	return decisionForm.render(d.ID, fields, bodies), nil
}

// ParseDecision reads what [Decision.Markdown] writes, or a person wrote in the
// same form: same title, fields and headings in the same order, blank lines as
// one likes. The [*schemas.Error] names the line, field or heading that is
// wrong, and what is expected there.
func ParseDecision(data []byte) (Decision, error) {
	raw, err := decisionForm.parse(data)
	if err != nil {
		return Decision{}, err
	}
	d := Decision{ID: raw.id, Date: raw.fields[0], Agent: raw.fields[1], Task: raw.fields[2]}
	switch d.Task {
	case "":
		return Decision{}, &schemas.Error{Path: "Task", Problem: "no value", Want: `a task id, or "none"`, Code: schemas.CodeMissingField}
	case noTask:
		d.Task = ""
	}
	var inContext, inOptions, inDecision, inOutcome error
	d.Context, inContext = unmarkText("## Context", raw.bodies[0])
	d.Options, inOptions = parseOptions(raw.bodies[1])
	d.Decision, inDecision = unmarkText("## Decision", raw.bodies[2])
	d.Outcome, inOutcome = unmarkText("## Outcome", raw.bodies[3])
	if err := cmp.Or(inContext, inOptions, inDecision, inOutcome); err != nil {
		return Decision{}, err
	}
	d = d.normal()
	if err := d.check(); err != nil {
		return Decision{}, err
	}
	return d, nil
}

func (d Decision) normal() Decision {
	options := make([]string, len(d.Options))
	for i, option := range d.Options {
		options[i] = normalOption(option)
	}
	d.Context, d.Options, d.Decision, d.Outcome = normalBody(d.Context), options, normalBody(d.Decision), normalBody(d.Outcome)
	return d
}

// normalOption is a text that stands in a list: no line of it is made of spaces.
func normalOption(option string) string {
	lines := strings.Split(oneNewline(option), "\n")
	for i, line := range lines {
		if isBlank(line) {
			lines[i] = ""
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// check expects a normal decision.
func (d Decision) check() error {
	return cmp.Or(
		checkField("# Decision", d.ID, decisionID(), "an id such as decision-2026-02-16-001"),
		checkDate(d.Date),
		checkField("Agent", d.Agent, agentForm(), "the name of an agent"),
		checkTask(d.Task),
		decisionForm.checkPresent([]string{d.Context, strings.Join(d.Options, ""), d.Decision, d.Outcome}),
		checkBody("## Context", d.Context),
		checkOptions(d.Options),
		checkBody("## Decision", d.Decision),
		checkBody("## Outcome", d.Outcome),
	)
}

func checkTask(task string) error {
	switch task {
	case "":
		return nil
	case noTask:
		return &schemas.Error{Path: "Task", Problem: `"none" is not allowed: it stands for no task`, Want: "an id, or nothing", Code: schemas.CodeBadValue}
	}
	return checkField("Task", task, taskForm(), "the id of a task, or nothing")
}

func checkOptions(options []string) error {
	if len(options) > MaxOptions {
		return &schemas.Error{Path: optionsHeading, Problem: fmt.Sprintf("has %d options", len(options)), Want: fmt.Sprintf("at most %d", MaxOptions), Code: schemas.CodeTooLong}
	}
	total := 0
	for i, option := range options {
		if option == "" {
			return &schemas.Error{Path: optionsHeading, Problem: fmt.Sprintf("option %d has no text", i+1), Want: "option: pros and cons", Code: schemas.CodeMissingField}
		}
		if err := checkBody(optionHeading(i), option); err != nil {
			return err
		}
		total += len(option)
	}
	if total > MaxBody {
		return &schemas.Error{Path: optionsHeading, Problem: fmt.Sprintf("has %d bytes", total), Want: fmt.Sprintf("at most %d", MaxBody), Code: schemas.CodeTooLong}
	}
	return nil
}

// printOptions writes a numbered list. Further lines of an option are indented
// under its text, as markdown wants it, so none can pass for another option.
func printOptions(options []string) string {
	var b strings.Builder
	for i, option := range options {
		number := strconv.Itoa(i+1) + ". "
		for j, line := range strings.Split(markText(option), "\n") {
			switch {
			case j == 0:
				b.WriteString(number)
			case line != "":
				b.WriteString(strings.Repeat(" ", len(number)))
			}
			b.WriteString(line + "\n")
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// parseOptions is the inverse of printOptions.
func parseOptions(text string) ([]string, error) {
	var options [][]string // the lines of each
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		last := len(options) - 1
		next := strconv.Itoa(len(options)+1) + ". "
		rest, goesOn := strings.CutPrefix(line, indent)
		switch first, begins := strings.CutPrefix(line, next); {
		case begins:
			options, indent = append(options, []string{first}), strings.Repeat(" ", len(next))
		case isBlank(line) && last < 0:
		case isBlank(line):
			options[last] = append(options[last], "")
		case goesOn && last >= 0:
			options[last] = append(options[last], rest)
		default:
			return nil, &schemas.Error{
				Path:    optionsHeading,
				Problem: fmt.Sprintf("line %d of this text is %s", i+1, schemas.Quote(line)),
				Want:    fmt.Sprintf("%q, or %d spaces before a line that goes on", next+"Option: pros/cons", max(len(indent), 3)),
				Code:    schemas.CodeBadValue,
			}
		}
	}
	return unmarkOptions(options)
}

func unmarkOptions(marked [][]string) ([]string, error) {
	var options []string
	for i, lines := range marked {
		option, err := unmarkText(optionHeading(i), strings.Join(lines, "\n"))
		if err != nil {
			return nil, err
		}
		options = append(options, option)
	}
	return options, nil
}
