package audit

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"mbox/schemas"
)

// MaxBody is how many bytes one section of a record may have.
const MaxBody = 256 << 10

// maxRecord holds six sections of MaxBody and what marking adds to them.
const maxRecord = 4 << 20

// recordForm is the form of a kind of record: a title, fields, sections, in
// exactly this order.
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
// Sections hold free markdown of people and agents, and no text may pass for a
// part of the form. So a line that begins like a title, a heading of the first
// or second level, or a field gets a backslash in front, which markdown does
// not show ("\## Decision"), and a line that has backslashes there already gets
// one more, so that reading takes off exactly what writing put on. In fenced
// code a plain "# comment" stays as it is: commands for a rollback must be
// fit to be copied. A fence that is not closed is refused, for it would swallow
// the headings behind it; so are control and bidirectional characters, which
// make text on a terminal say something else than it does.
type recordForm struct {
	kind     string   // Decision
	fields   []string // Date, Agent, …
	sections []string // Context, …
	optional string   // the section that may stay without text, if any
}

// render writes a record from values in the order of the form; the bodies are
// marked already.
func (f *recordForm) render(id string, fields, bodies []string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: %s\n\n", f.kind, id)
	for i, name := range f.fields {
		fmt.Fprintf(&b, "**%s:** %s\n", name, fields[i])
	}
	for i, name := range f.sections {
		fmt.Fprintf(&b, "\n## %s\n", name)
		if bodies[i] != "" {
			fmt.Fprintf(&b, "\n%s\n", bodies[i])
		}
	}
	return b.Bytes()
}

// rawRecord is a record as it was read, in the order of the form; the bodies
// are still marked.
type rawRecord struct {
	id             string
	fields, bodies []string
}

// parse is the inverse of render. It takes any number of blank lines around
// fields and bodies, for people write records too.
func (f *recordForm) parse(data []byte) (rawRecord, error) {
	text, err := recordText(data)
	if err != nil {
		return rawRecord{}, err
	}
	r := &recordReader{lines: strings.Split(text, "\n")}
	raw := rawRecord{id: r.value("# "+f.kind, "# "+f.kind+": ", "<id>")}
	for _, name := range f.fields {
		raw.fields = append(raw.fields, r.value(name, "**"+name+":**", " …"))
	}
	for _, name := range f.sections {
		raw.bodies = append(raw.bodies, r.section("## "+name))
	}
	r.end()
	return raw, r.err
}

func recordText(data []byte) (string, error) {
	switch {
	case len(data) > maxRecord:
		return "", &schemas.Error{Path: "$", Problem: fmt.Sprintf("has %d bytes", len(data)), Want: fmt.Sprintf("at most %d", maxRecord), Code: schemas.CodeTooLarge}
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return "", &schemas.Error{Path: "$", Problem: "begins with a byte order mark", Want: "plain UTF-8", Code: schemas.CodeBOM}
	case !utf8.Valid(data):
		return "", &schemas.Error{Path: "$", Problem: "invalid UTF-8", Code: schemas.CodeInvalidUTF8}
	case len(bytes.TrimSpace(data)) == 0:
		return "", &schemas.Error{Path: "$", Problem: "is empty", Want: "a record", Code: schemas.CodeEmpty}
	}
	return oneNewline(string(data)), nil
}

// recordReader walks over the lines of a record. After the first error it
// stays where it is.
type recordReader struct {
	lines []string
	next  int
	err   error
}

// value reads a line that begins with prefix, and gives the rest of it. Only
// the title must be the very first line.
func (r *recordReader) value(path, prefix, example string) string {
	if r.next > 0 {
		r.skipBlank()
	}
	if r.next < len(r.lines) {
		if value, ok := strings.CutPrefix(r.lines[r.next], prefix); ok {
			r.next++
			return strings.TrimSpace(value)
		}
	}
	r.missing(path, schemas.Quote(prefix+example))
	return ""
}

// section reads a heading and what stands under it, up to the next heading.
func (r *recordReader) section(heading string) string {
	r.skipBlank()
	if r.next >= len(r.lines) || strings.TrimRight(r.lines[r.next], " \t") != heading {
		r.missing(heading, schemas.Quote(heading)+r.hint())
		return ""
	}
	r.next++
	from := r.next
	for r.next < len(r.lines) && !strings.HasPrefix(r.lines[r.next], "## ") {
		r.next++
	}
	return trimBlank(strings.Join(r.lines[from:r.next], "\n"))
}

// end demands that nothing follows the last section: only a heading can.
func (r *recordReader) end() {
	if r.err != nil || r.next == len(r.lines) {
		return
	}
	r.err = &schemas.Error{
		Path:    "$",
		Problem: fmt.Sprintf("line %d is %s, after the last section", r.next+1, schemas.Quote(r.lines[r.next])),
		Want:    "nothing more" + r.hint(),
		Code:    schemas.CodeUnknownField,
	}
}

func (r *recordReader) missing(path, want string) {
	if r.err != nil {
		return
	}
	problem := "missing: the record ends here"
	if r.next < len(r.lines) {
		problem = fmt.Sprintf("missing: line %d is %s", r.next+1, schemas.Quote(r.lines[r.next]))
	}
	r.err = &schemas.Error{Path: path, Problem: problem, Want: want, Code: schemas.CodeMissingField}
}

// hint tells how to write a heading that was meant as text.
func (r *recordReader) hint() string {
	if r.next < len(r.lines) && strings.HasPrefix(r.lines[r.next], "## ") {
		return `; inside a text a heading is written "\## "`
	}
	return ""
}

func (r *recordReader) skipBlank() {
	for r.next < len(r.lines) && isBlank(r.lines[r.next]) {
		r.next++
	}
}

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }

// oneNewline makes CRLF, and CR alone, a newline.
func oneNewline(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// trimBlank takes away the blank lines before and after a text.
func trimBlank(text string) string {
	for {
		line, rest, more := strings.Cut(text, "\n")
		if !isBlank(line) {
			break
		}
		if !more {
			return ""
		}
		text = rest
	}
	for {
		i := strings.LastIndexByte(text, '\n')
		if i < 0 || !isBlank(text[i+1:]) {
			return text
		}
		text = text[:i]
	}
}

func normalBody(text string) string { return trimBlank(oneNewline(text)) }

// What could pass for a part of the form: after the indent that markdown allows
// in text, and, in code, only what the form itself would read. The second group
// are the backslashes that are there already.
var (
	formInText = schemas.Pattern(`^( {0,3})(\\*)(?:##?(?:[ \t]|$)|\*\*(?:Date|Agent|Task|Type):\*\*)`)
	formInCode = schemas.Pattern(`^()(\\*)(?:##(?:[ \t]|$)|# (?:Decision|Change):|\*\*(?:Date|Agent|Task|Type):\*\*)`)
)

// backslashes tells from where to where the backslashes stand in a line that
// could pass for a part of the form; from is -1 in other lines.
func backslashes(line string, code bool) (from, to int) {
	pattern := formInText
	if code {
		pattern = formInCode
	}
	if at := pattern().FindStringSubmatchIndex(line); at != nil {
		return at[4], at[5]
	}
	return -1, -1
}

// markText makes a text fit to stand in a record.
func markText(text string) string {
	lines := strings.Split(text, "\n")
	var f fence
	for i, line := range lines {
		if from, _ := backslashes(line, f.read(line, i)); from >= 0 {
			lines[i] = line[:from] + `\` + line[from:]
		}
	}
	return strings.Join(lines, "\n")
}

// unmarkText is the inverse of markText. What markText would never have written is refused.
func unmarkText(path, text string) (string, error) {
	lines := strings.Split(text, "\n")
	var f fence
	for i, line := range lines {
		from, to := backslashes(line, f.read(line, i))
		switch {
		case from < 0:
		case from == to:
			return "", &schemas.Error{
				Path:    path,
				Problem: fmt.Sprintf("line %d of this text is %s, which only the form of a record may have", i+1, schemas.Quote(line)),
				Want:    "a backslash before it: " + schemas.Sentence(line[:from]+`\`+line[from:], 80),
				Code:    schemas.CodeBadValue,
			}
		default:
			lines[i] = line[:from] + line[from+1:]
		}
	}
	return strings.Join(lines, "\n"), nil
}

// fence follows fenced code blocks (CommonMark 0.31 section 4.5). Marked lines
// are never fences, so it sees the same in a text before and after markText.
type fence struct {
	open string // the backticks or tildes that opened the block; "" outside
	line int    // where that was, from 0
}

// read takes the next line and tells whether it stands inside a block.
func (f *fence) read(line string, number int) bool {
	inside := f.open != ""
	marks, info := fenceIn(line)
	switch {
	case marks == "":
	case !inside && (marks[0] == '~' || !strings.Contains(info, "`")):
		f.open, f.line = marks, number
	case inside && strings.HasPrefix(marks, f.open) && isBlank(info):
		f.open = ""
	}
	return inside
}

// fenceIn takes a fence's marks and what stands behind them out of a line:
// three or more backticks or tildes behind at most three spaces.
func fenceIn(line string) (marks, info string) {
	rest := strings.TrimLeft(line, " ")
	if len(line)-len(rest) > 3 || rest == "" || rest[0] != '`' && rest[0] != '~' {
		return "", ""
	}
	info = strings.TrimLeft(rest, rest[:1])
	if marks = rest[:len(rest)-len(info)]; len(marks) < 3 {
		return "", ""
	}
	return marks, info
}

// checkBody tells why a normal text may not stand in a record.
func checkBody(path, text string) error {
	switch {
	case len(text) > MaxBody:
		return &schemas.Error{Path: path, Problem: fmt.Sprintf("has %d bytes", len(text)), Want: fmt.Sprintf("at most %d", MaxBody), Code: schemas.CodeTooLong}
	case !utf8.ValidString(text):
		return &schemas.Error{Path: path, Problem: "invalid UTF-8", Code: schemas.CodeInvalidUTF8}
	}
	if at := strings.IndexFunc(text, isForbidden); at >= 0 {
		r, _ := utf8.DecodeRuneInString(text[at:])
		return &schemas.Error{Path: path, Problem: fmt.Sprintf("line %d of this text has the character %U", 1+strings.Count(text[:at], "\n"), r), Want: "text without control and bidirectional characters", Code: schemas.CodeBadValue}
	}
	var f fence
	for i, line := range strings.Split(text, "\n") {
		f.read(line, i)
	}
	if f.open != "" {
		return &schemas.Error{Path: path, Problem: fmt.Sprintf("the code block that begins in line %d of this text does not end", f.line+1), Want: "a closing " + f.open[:3], Code: schemas.CodeBadValue}
	}
	return nil
}

// isForbidden tells control characters, the other line ends of Unicode, and
// what reorders text; marks of direction, as Arabic and Hebrew need them, may
// stay.
func isForbidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	}
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

var (
	agentForm = schemas.Pattern(`^(bridge:)?[a-z0-9][a-z0-9_-]{0,63}$`)
	taskForm  = schemas.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
)

func checkField(path, value string, form *regexp.Regexp, want string) error {
	if form.MatchString(value) {
		return nil
	}
	return &schemas.Error{Path: path, Problem: schemas.Quote(value) + " is not allowed", Want: want, Code: schemas.CodeBadValue}
}

func checkDate(date string) error {
	if _, err := time.Parse(time.DateOnly, date); err == nil {
		return nil
	}
	return &schemas.Error{Path: "Date", Problem: schemas.Quote(date) + " is no date", Want: "a date such as 2026-02-16", Code: schemas.CodeBadValue}
}

// checkPresent tells every section that has no text, all at once.
func (f *recordForm) checkPresent(bodies []string) error {
	var blank []string
	for i, name := range f.sections {
		if isBlank(bodies[i]) && name != f.optional {
			blank = append(blank, "## "+name)
		}
	}
	if len(blank) == 0 {
		return nil
	}
	return &schemas.Error{Path: blank[0], Problem: "no text under " + strings.Join(blank, ", "), Want: "text under each", Code: schemas.CodeMissingField}
}
