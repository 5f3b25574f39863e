package record

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"mbox/audit"
	"mbox/schemas"
)

var goodDecision = Decision{
	ID: "decision-2026-02-16-001", Date: "2026-02-16", Agent: "openclaw", Task: "task-2026-02-16-001",
	Context: "The queue grows.", Options: []string{"Files: simple; slow scans", "A database: fast; one more server"},
	Decision: "Files.", Outcome: "",
}

const goodDecisionText = `# Decision: decision-2026-02-16-001

**Date:** 2026-02-16
**Agent:** openclaw
**Task:** task-2026-02-16-001

## Context

The queue grows.

## Options Considered

1. Files: simple; slow scans
2. A database: fast; one more server

## Decision

Files.

## Outcome
`

var goodChange = Change{
	ID: "change-2026-02-16-001", Date: "2026-02-16", Agent: "agentzero", Type: "config",
	Description: "Raise the limit.", Rationale: "It was low.", Before: "10", After: "20",
	Rollback: "```sh\n# put it back\nmbox config limit 10\n```", Verification: "mbox doctor",
}

const goodChangeText = `# Change: change-2026-02-16-001

**Date:** 2026-02-16
**Agent:** agentzero
**Type:** config

## Description

Raise the limit.

## Rationale

It was low.

## Before

10

## After

20

## Rollback

` + "```sh\n# put it back\nmbox config limit 10\n```" + `

## Verification

mbox doctor
`

func TestRecordForm(t *testing.T) {
	if got, err := goodDecision.Markdown(); err != nil || string(got) != goodDecisionText {
		t.Errorf("decision: %v\n%s", err, got)
	}
	if got, err := goodChange.Markdown(); err != nil || string(got) != goodChangeText {
		t.Errorf("change: %v\n%s", err, got)
	}
	if got, err := ParseDecision([]byte(goodDecisionText)); err != nil || !reflect.DeepEqual(got, goodDecision) {
		t.Errorf("decision: %v\n%#v", err, got)
	}
	if got, err := ParseChange([]byte(goodChangeText)); err != nil || got != goodChange {
		t.Errorf("change: %v\n%#v", err, got)
	}
}

func TestRecordWithoutTask(t *testing.T) {
	d := goodDecision
	d.Task = ""
	text, err := d.Markdown()
	if err != nil || !strings.Contains(string(text), "\n**Task:** none\n") {
		t.Fatalf("%v\n%s", err, text)
	}
	if got, err := ParseDecision(text); err != nil || got.Task != "" {
		t.Errorf("task is %q (%v)", got.Task, err)
	}
}

// People write records too, on any machine, in the form that the design shows.
func TestRecordByHand(t *testing.T) {
	text := "# Decision: decision-2026-02-16-001 \r\n\r\n**Date:** 2026-02-16\r\n**Agent:**  openclaw\r\n\r\n**Task:** none\r\n" +
		"## Context\r\nOne\r\rTwo\r\n## Options Considered  \r\n1. A: good\r\n   \r\n   and more\r\n2. B: bad\r\n## Decision\r\n\r\n\r\nA\r\n## Outcome"
	want := Decision{
		ID: "decision-2026-02-16-001", Date: "2026-02-16", Agent: "openclaw",
		Context: "One\n\nTwo", Options: []string{"A: good\n\nand more", "B: bad"}, Decision: "A",
	}
	got, err := ParseDecision([]byte(text))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%v\n%#v", err, got)
	}
}

// Nothing in a text becomes a part of the form, and all of it comes back.
func TestRecordMarking(t *testing.T) {
	tests := []struct{ in, want string }{
		{"## Decision", `\## Decision`},
		{"# Decision: decision-2026-01-01-999", `\# Decision: decision-2026-01-01-999`},
		{"# Approved", `\# Approved`},
		{"##", `\##`},
		{"#\tx", "\\#\tx"},
		{"   ## Outcome", `   \## Outcome`},
		{"    ## code", "    ## code"},
		{"### smaller", "### smaller"},
		{"#hashtag", "#hashtag"},
		{"**Date:** 1999-01-01", `\**Date:** 1999-01-01`},
		{"**Type:** x", `\**Type:** x`},
		{"**Note:** x", "**Note:** x"},
		{`\## Decision`, `\\## Decision`},
		{`\\\# x`, `\\\\# x`},
		{`\n`, `\n`},
		{"```\n# comment\n## Decision\n# Decision: x\n**Date:** x\n```\n# out", "```\n# comment\n\\## Decision\n\\# Decision: x\n\\**Date:** x\n```\n\\# out"},
		{"~~~~ sh\n# in\n~~~\n# still in\n~~~~~\n# out", "~~~~ sh\n# in\n~~~\n# still in\n~~~~~\n\\# out"},
		{"``` a`b\n# no fence", "``` a`b\n\\# no fence"},
		{"a\n\n# b", "a\n\n\\# b"},
	}
	for _, test := range tests {
		if got, err := mark("", test.in); err != nil || got != test.want {
			t.Errorf("mark(%q) = %q (%v), want %q", test.in, got, err, test.want)
		}
		if got, err := unmark("", test.want); err != nil || got != test.in {
			t.Errorf("unmark(%q) = %q (%v), want %q", test.want, got, err, test.in)
		}
		d := goodDecision
		d.Context, d.Outcome, d.Options = test.in, test.in, []string{test.in, "x\n" + test.in}
		checkDecisionRoundTrip(t, d)
	}
}

func TestRecordRefusesDecision(t *testing.T) {
	tests := []struct {
		name       string
		edit       func(*Decision)
		code, path string
	}{
		{"id", func(d *Decision) { d.ID = "decision-2026-02-16-1" }, schemas.CodeBadValue, "# Decision"},
		{"id of a change", func(d *Decision) { d.ID = "change-2026-02-16-001" }, schemas.CodeBadValue, "# Decision"},
		{"id with a line", func(d *Decision) { d.ID += "\n## Context" }, schemas.CodeBadValue, "# Decision"},
		{"no day", func(d *Decision) { d.Date = "2026-02-30" }, schemas.CodeBadValue, "Date"},
		{"time for a day", func(d *Decision) { d.Date = "2026-02-16T10:00:00Z" }, schemas.CodeBadValue, "Date"},
		{"agent", func(d *Decision) { d.Agent = "Open Claw" }, schemas.CodeBadValue, "Agent"},
		{"no agent", func(d *Decision) { d.Agent = "" }, schemas.CodeBadValue, "Agent"},
		{"task with a line", func(d *Decision) { d.Task = "x\n**Date:** y" }, schemas.CodeBadValue, "Task"},
		{"task called none", func(d *Decision) { d.Task = "none" }, schemas.CodeBadValue, "Task"},
		{"no context", func(d *Decision) { d.Context = " \n\t\n" }, schemas.CodeMissingField, "## Context"},
		{"no options", func(d *Decision) { d.Options = nil }, schemas.CodeMissingField, "## Options Considered"},
		{"empty option", func(d *Decision) { d.Options = []string{"a", " \n"} }, schemas.CodeMissingField, "## Options Considered"},
		{"too many options", func(d *Decision) { d.Options = strings.Split(strings.Repeat("a,", 101), ",") }, schemas.CodeTooLong, "## Options Considered"},
		{"no decision", func(d *Decision) { d.Decision = "" }, schemas.CodeMissingField, "## Decision"},
		{"too long", func(d *Decision) { d.Outcome = strings.Repeat("x", MaxBody+1) }, schemas.CodeTooLong, "## Outcome"},
		{"options too long", func(d *Decision) { d.Options = []string{strings.Repeat("x", MaxBody), "x"} }, schemas.CodeTooLong, "## Options Considered"},
		{"NUL", func(d *Decision) { d.Context = "a\nb\x00" }, schemas.CodeBadValue, "## Context"},
		{"escape sequence", func(d *Decision) { d.Options = []string{"a", "\x1b[2J"} }, schemas.CodeBadValue, "## Options Considered, option 2"},
		{"hidden line end", func(d *Decision) { d.Context = "a\u2028## Decision" }, schemas.CodeBadValue, "## Context"},
		{"reordering", func(d *Decision) { d.Decision = "a\u202eb" }, schemas.CodeBadValue, "## Decision"},
		{"broken UTF-8", func(d *Decision) { d.Outcome = "\xff" }, schemas.CodeInvalidUTF8, "## Outcome"},
		{"open fence", func(d *Decision) { d.Context = "a\n```\nb" }, schemas.CodeBadValue, "## Context"},
		{"open fence in an option", func(d *Decision) { d.Options = []string{"~~~\n```"} }, schemas.CodeBadValue, "## Options Considered, option 1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := goodDecision
			test.edit(&d)
			text, err := d.Markdown()
			checkRefusal(t, err, test.code, test.path)
			if text != nil {
				t.Errorf("and wrote %s", text)
			}
		})
	}
}

func TestRecordRefusesChange(t *testing.T) {
	tests := []struct {
		name       string
		edit       func(*Change)
		code, path string
	}{
		{"id", func(c *Change) { c.ID = "" }, schemas.CodeBadValue, "# Change"},
		{"day", func(c *Change) { c.Date = "" }, schemas.CodeBadValue, "Date"},
		{"agent", func(c *Change) { c.Agent = "bridge:" }, schemas.CodeBadValue, "Agent"},
		{"type", func(c *Change) { c.Type = "Config" }, schemas.CodeBadValue, "Type"},
		{"section", func(c *Change) { c.After = "\n" }, schemas.CodeMissingField, "## After"},
		{"bell", func(c *Change) { c.Verification = "\a" }, schemas.CodeBadValue, "## Verification"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := goodChange
			test.edit(&c)
			_, err := c.Markdown()
			checkRefusal(t, err, test.code, test.path)
		})
	}
	_, err := (Change{ID: goodChange.ID, Date: goodChange.Date, Agent: "bridge:slack", Type: "data", Before: "x"}).Markdown()
	want := "## Description: no text under ## Description, ## Rationale, ## After, ## Rollback, ## Verification; want text under each"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestRecordRefusesText(t *testing.T) {
	edit := func(pairs ...string) string { return strings.NewReplacer(pairs...).Replace(goodDecisionText) }
	tests := []struct{ name, in, code, path string }{
		{"nothing", " \n", schemas.CodeEmpty, "$"},
		{"byte order mark", "\ufeff" + goodDecisionText, schemas.CodeBOM, "$"},
		{"broken UTF-8", goodDecisionText + "\xff", schemas.CodeInvalidUTF8, "$"},
		{"too large", strings.Repeat("x", maxRecord+1), schemas.CodeTooLarge, "$"},
		{"a change", goodChangeText, schemas.CodeMissingField, "# Decision"},
		{"line before the title", "\n" + goodDecisionText, schemas.CodeMissingField, "# Decision"},
		{"field missing", edit("**Agent:** openclaw\n", ""), schemas.CodeMissingField, "Agent"},
		{"fields swapped", edit("**Agent:**", "**Date:**", "**Date:**", "**Agent:**"), schemas.CodeMissingField, "Date"},
		{"field twice", edit("**Agent:**", "**Agent:** x\n**Agent:**"), schemas.CodeMissingField, "Task"},
		{"field without a value", edit("task-2026-02-16-001", ""), schemas.CodeMissingField, "Task"},
		{"text above the sections", edit("\n## Context", "hello\n## Context"), schemas.CodeMissingField, "## Context"},
		{"section missing", edit("## Options Considered", ""), schemas.CodeMissingField, "## Options Considered"},
		{"last section missing", edit("## Outcome\n", ""), schemas.CodeMissingField, "## Outcome"},
		{"sections swapped", edit("## Context", "## Decision", "## Decision", "## Context"), schemas.CodeMissingField, "## Context"},
		{"section twice", goodDecisionText + "## Outcome\n", schemas.CodeUnknownField, "$"},
		{"foreign section", edit("\n## Decision", "\n## Costs\n\n## Decision"), schemas.CodeMissingField, "## Decision"},
		{"heading in a text", edit("Files.", "Files.\n# Really"), schemas.CodeBadValue, "## Decision"},
		{"title in code", edit("Files.", "```\n# Decision: x\n```"), schemas.CodeBadValue, "## Decision"},
		{"field in a text", goodDecisionText + "**Date:** 1999-01-01", schemas.CodeBadValue, "## Outcome"},
		{"open fence", edit("Files.", "```\nFiles."), schemas.CodeBadValue, "## Decision"},
		{"no list", edit("1. ", "", "2. ", ""), schemas.CodeBadValue, "## Options Considered"},
		{"wrong number", edit("2. A", "3. A"), schemas.CodeBadValue, "## Options Considered"},
		{"bullets", edit("1. ", "- ", "2. ", "- "), schemas.CodeBadValue, "## Options Considered"},
		{"line not indented", edit("simple;", "simple;\n"), schemas.CodeBadValue, "## Options Considered"},
		{"heading in an option", edit("simple;", "simple;\n   ## x"), schemas.CodeBadValue, "## Options Considered, option 1"},
		{"bad field", edit("2026-02-16\n", "today\n"), schemas.CodeBadValue, "Date"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := ParseDecision([]byte(test.in))
			checkRefusal(t, err, test.code, test.path)
		})
	}
}

func TestRecordErrorsHelp(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{"## Options Considered", "## Options", `## Options Considered: missing: line 11 is "## Options"; want "## Options Considered"; inside a text a heading is written "\## "`},
		{"**Agent:** openclaw", "Agent: openclaw", `Agent: missing: line 4 is "Agent: openclaw"; want "**Agent:** …"`},
		{"Files.", "Files.\n# Really", `## Decision: line 2 of this text is "# Really", which only the form of a record may have; want a backslash before it: \# Really`},
		{"2. A", "3. A", `## Options Considered: line 2 of this text is "3. A database: fast; one more server"; want "2. Option: pros/cons", or 3 spaces before a line that goes on`},
		{"## Outcome\n", "", `## Outcome: missing: the record ends here; want "## Outcome"`},
	}
	for _, test := range tests {
		_, err := ParseDecision([]byte(strings.Replace(goodDecisionText, test.old, test.new, 1)))
		if err == nil || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

// The largest record that can be written can be read.
func TestRecordOfFullSize(t *testing.T) {
	size := MaxBody
	if raced && testing.Short() {
		size /= 8 // a minute, of one goroutine
	}
	lines := strings.Repeat("a\n", size/2-1) + "a"
	marked := strings.Repeat("#\n", size/2-1) + "#"
	d := goodDecision
	d.Context, d.Options, d.Decision, d.Outcome = marked, []string{lines}, marked, lines
	c := goodChange
	for _, s := range c.form().sections {
		*s.text = marked
	}
	for _, write := range []func() ([]byte, error){d.Markdown, c.Markdown} {
		if _, err := write(); err != nil {
			t.Fatal(err)
		}
	}
	checkDecisionRoundTrip(t, d)
	checkChangeRoundTrip(t, c)
}

func TestRecordSchemas(t *testing.T) {
	badDecision, badChange := goodDecision, goodChange
	badDecision.ID, badChange.Type = "decision-2026-2-16-001", "other"
	for _, test := range []struct{ good, bad any }{{goodDecision, badDecision}, {goodChange, badChange}} {
		schema := recordSchema(t, test.good)
		if err := schema.Validate(recordJSON(t, test.good)); err != nil {
			t.Errorf("%T: %v", test.good, err)
		}
		if err := schema.Validate(recordJSON(t, test.bad)); err == nil {
			t.Errorf("%T allows %+v", test.good, test.bad)
		}
	}
	text, err := schemas.Of(Decision{})
	for _, pattern := range []string{decisionID().String(), audit.AgentForm().String(), audit.TaskForm().String()} {
		if quoted := strings.ReplaceAll(pattern, `\`, `\\`); err != nil || !strings.Contains(string(text), `"`+quoted+`"`) {
			t.Errorf("the schema does not have %s (%v)", pattern, err)
		}
	}
}

func recordSchema(t *testing.T, v any) *schemas.Schema {
	t.Helper()
	text, err := schemas.Of(v)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := schemas.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func recordJSON(t *testing.T, v any) []byte {
	t.Helper()
	out, err := schemas.Encode(v)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// bodyGen draws texts full of what the form is made of.
func bodyGen() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"# ", "## ", "##", "## Decision", "# Decision: x", "# Change: y", "**Date:** z", "**Task:**", `\`, `\## `, " ", "   ", "\t",
			"\n", "\n", "\n\n", "\r\n", "\r", "```", "~~~", "~~~~", "`", "1. ", "2. ", "text", "é", "\u00a0", "\u200f",
		}),
		rapid.StringMatching(`[a-z ]{0,5}`),
	)
	return rapid.Custom(func(t *rapid.T) string {
		text := strings.Join(rapid.SliceOfN(piece, 0, 20).Draw(t, "pieces"), "")
		if _, err := mark("", trimBlank(oneNewline(text))); err != nil { // a fence stays open
			return strings.NewReplacer("```", "", "~~~", "").Replace(text)
		}
		return text
	})
}

func TestRecordRoundTripDecision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := goodDecision
		d.Task = rapid.SampledFrom([]string{"", "task-1", "None"}).Draw(t, "task")
		d.Context = "c" + bodyGen().Draw(t, "context")
		d.Options = rapid.SliceOfN(rapid.Map(bodyGen(), func(s string) string { return s + "." }), 1, 12).Draw(t, "options")
		d.Tradeoffs = rapid.SliceOfN(rapid.Map(bodyGen(), func(s string) string { return s + "." }), 0, 3).Draw(t, "tradeoffs")
		if len(d.Tradeoffs) == 0 {
			d.Tradeoffs = nil // which is how it is read
		}
		d.Decision = bodyGen().Draw(t, "decision") + "\nd"
		d.Outcome = bodyGen().Draw(t, "outcome")
		checkDecisionRoundTrip(t, d)
	})
}

func TestRecordRoundTripChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := goodChange
		for _, s := range c.form().sections {
			*s.text = bodyGen().Draw(t, "body") + "\nx"
		}
		checkChangeRoundTrip(t, c)
	})
}

func checkDecisionRoundTrip(t rapid.TB, d Decision) {
	t.Helper()
	checkRoundTrip(t, &d, d.form(), ParseDecision)
}

func checkChangeRoundTrip(t rapid.TB, c Change) {
	t.Helper()
	checkRoundTrip(t, &c, c.form(), ParseChange)
}

// checkRoundTrip writes, which makes the record normal, and reads. What cannot be
// written, for a fence that stays open, is not the matter here.
func checkRoundTrip[T any](t rapid.TB, want *T, f *form, parse func([]byte) (T, error)) {
	t.Helper()
	text, err := f.write()
	if err != nil {
		return
	}
	checkOutline(t, f, text)
	got, err := parse(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, recordHead(text))
	}
	if !reflect.DeepEqual(got, *want) {
		t.Fatalf("got  %q\nwant %q\nin\n%s", got, *want, recordHead(text))
	}
}

// checkOutline reads a record as a simple tool would, line by line: it must
// find the form and nothing else.
func checkOutline(t rapid.TB, form *form, text []byte) {
	t.Helper()
	var titles, fields, sections, wantFields, wantSections []string
	for _, f := range form.fields {
		wantFields = append(wantFields, f.name)
	}
	for _, s := range form.sections {
		if !s.none() {
			wantSections = append(wantSections, s.name)
		}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "# Decision:"), strings.HasPrefix(line, "# Change:"):
			titles = append(titles, line)
		case strings.HasPrefix(line, "## "):
			sections = append(sections, line[3:])
		}
		for _, name := range []string{"Date", "Agent", "Task", "Type"} {
			if strings.HasPrefix(line, "**"+name+":**") {
				fields = append(fields, name)
			}
		}
	}
	if len(titles) != 1 || !slices.Equal(fields, wantFields) || !slices.Equal(sections, wantSections) {
		t.Fatalf("the form is forged: %q %q %q in\n%s", titles, fields, sections, recordHead(text))
	}
}

func checkRefusal(t rapid.TB, err error, code, path string) {
	t.Helper()
	var e *schemas.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want an *Error", err, err)
	}
	if e.Code != code || e.Path != path {
		t.Errorf("got %s at %s (%v), want %s at %s", e.Code, e.Path, e, code, path)
	}
	if text := e.Error(); text != schemas.Sentence(text, 1000) {
		t.Errorf("not fit to be shown: %q", text)
	}
}

func recordHead(text []byte) string { return string(text[:min(len(text), 2000)]) }

func FuzzDecision(f *testing.F) {
	f.Add([]byte(goodDecisionText))
	f.Add([]byte(strings.Replace(goodDecisionText, "Files.", "```\n\\## Decision\n```\n\\\\# x", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d Decision
		var err error
		bounded(t, "it", func() { d, err = ParseDecision(data) })
		if err != nil {
			return
		}
		if _, err := d.Markdown(); err != nil {
			t.Fatalf("was read but is not written: %v", err)
		}
		checkDecisionRoundTrip(t, d)
	})
}

func FuzzChange(f *testing.F) {
	f.Add([]byte(goodChangeText))
	f.Add([]byte(strings.ReplaceAll(goodChangeText, "\n", "\r\n")))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Change
		var err error
		bounded(t, "it", func() { c, err = ParseChange(data) })
		if err != nil {
			return
		}
		if _, err := c.Markdown(); err != nil {
			t.Fatalf("was read but is not written: %v", err)
		}
		checkChangeRoundTrip(t, c)
	})
}

// What a text may not have is told for each character.
func TestRecordForbids(t *testing.T) {
	for r := rune(0); r < 0x3000; r++ {
		want := unicode.IsControl(r) && r != '\n' && r != '\t' || r >= '\u2028' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
		if _, err := mark("", "a"+string(r)); (err != nil) != want {
			t.Errorf("%U: %v", r, err)
		}
	}
}
