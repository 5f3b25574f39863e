package record

import (
	"cmp"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"mbox/schemas"
)

// MaxBody is how many bytes one section of a record may have.
const MaxBody = 256 << 10

func isBlank(line string) bool { return strings.TrimSpace(line) == "" }

// oneNewline makes CRLF, and CR alone, a newline.
func oneNewline(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}

// trimBlank takes away the blank lines before and after a text.
func trimBlank(text string) string {
	if isBlank(text) {
		return ""
	}
	first := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	text = text[strings.LastIndexByte(text[:first], '\n')+1:]
	last := len(strings.TrimRightFunc(text, unicode.IsSpace))
	if end := strings.IndexByte(text[last:], '\n'); end >= 0 {
		return text[:last+end]
	}
	return text
}

func normalText(text string) string { return trimBlank(oneNewline(text)) }

// A line in a text that begins like a title, a heading of the first or second level, or
// a field gets a backslash in front, which markdown does not show ("\## Decision"). A
// line that has backslashes there already gets one more, so that reading takes off
// exactly what writing put on. In fenced code only what the form itself would read is
// marked: "# comment" stays as it is, for commands for a rollback must be fit to be
// copied. The first group is the indent that markdown allows, the second are the
// backslashes that are there already.
var (
	formInText = schemas.Pattern(`^( {0,3})(\\*)(?:##?(?:[ \t]|$)|\*\*(?:Date|Agent|Task|Type):\*\*)`)
	formInCode = schemas.Pattern(`^()(\\*)(?:##(?:[ \t]|$)|# (?:Decision|Change):|\*\*(?:Date|Agent|Task|Type):\*\*)`)
)

// backslashes tells from where to where the backslashes stand in a line that could pass
// for a part of the form; from is -1 in other lines.
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

// mark makes a text fit to stand in a record.
func mark(text string) string {
	lines := strings.Split(text, "\n")
	var f fence
	for i, line := range lines {
		if from, _ := backslashes(line, f.read(line, i)); from >= 0 {
			lines[i] = line[:from] + `\` + line[from:]
		}
	}
	return strings.Join(lines, "\n")
}

// unmark is the inverse of mark. What mark would never have written is refused.
func unmark(path, text string) (string, error) {
	lines := strings.Split(text, "\n")
	var f fence
	for i, line := range lines {
		from, to := backslashes(line, f.read(line, i))
		if from >= 0 && from == to {
			problem := fmt.Sprintf("line %d of this text is %s, which only the form of a record may have", i+1, schemas.Quote(line))
			return "", wrong(schemas.CodeBadValue, path, problem, "a backslash before it: "+schemas.Sentence(line[:from]+`\`+line[from:], 80))
		}
		if from >= 0 {
			lines[i] = line[:from] + line[from+1:]
		}
	}
	return strings.Join(lines, "\n"), nil
}

// fence follows fenced code blocks (CommonMark 0.31 section 4.5). Marked lines are never
// fences, so it sees the same in a text before and after mark.
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

// fenceIn takes a fence's marks and what stands behind them out of a line: three or more
// backticks or tildes behind at most three spaces.
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

func checkSize(path string, size int) error {
	if size <= MaxBody {
		return nil
	}
	return wrong(schemas.CodeTooLong, path, fmt.Sprintf("has %d bytes", size), fmt.Sprintf("at most %d", MaxBody))
}

// checkText tells why a normal text may not stand in a record. A fence that is not closed
// would swallow the headings behind it, and some characters make text on a terminal say
// something else than it does.
func checkText(path, text string) error {
	if err := checkSize(path, len(text)); err != nil {
		return err
	}
	if !utf8.ValidString(text) {
		return wrong(schemas.CodeInvalidUTF8, path, "invalid UTF-8", "")
	}
	if at := strings.IndexFunc(text, isForbidden); at >= 0 {
		r, _ := utf8.DecodeRuneInString(text[at:])
		problem := fmt.Sprintf("line %d of this text has the character %U", 1+strings.Count(text[:at], "\n"), r)
		return wrong(schemas.CodeBadValue, path, problem, "text without control and bidirectional characters")
	}
	var f fence
	for i, line := range strings.Split(text, "\n") {
		f.read(line, i)
	}
	if f.open != "" {
		problem := fmt.Sprintf("the code block that begins in line %d of this text does not end", f.line+1)
		return wrong(schemas.CodeBadValue, path, problem, "a closing "+f.open[:3])
	}
	return nil
}

// isForbidden tells control characters, the other line ends of Unicode, and what reorders
// text; marks of direction, as Arabic and Hebrew need them, may stay.
func isForbidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case unicode.IsControl(r), r == '\u2028', r == '\u2029':
		return true
	}
	return r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
}

// normalItem is a text that stands in a list: no line of it is made of spaces.
func normalItem(text string) string {
	lines := strings.Split(oneNewline(text), "\n")
	for i, line := range lines {
		if isBlank(line) {
			lines[i] = ""
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func itemPath(path string, i int) string { return fmt.Sprintf("%s, option %d", path, i+1) }

func checkList(path string, items []string) error {
	if len(items) > maxOptions {
		return wrong(schemas.CodeTooLong, path, fmt.Sprintf("has %d options", len(items)), fmt.Sprintf("at most %d", maxOptions))
	}
	total := 0
	for i, item := range items {
		if item == "" {
			return wrong(schemas.CodeMissingField, path, fmt.Sprintf("option %d has no text", i+1), "option: pros and cons")
		}
		if err := checkText(itemPath(path, i), item); err != nil {
			return err
		}
		total += len(item)
	}
	return checkSize(path, total)
}

// number is what stands before an item, and indent before its further lines, as markdown
// wants it, so that none can pass for another item.
func number(i int) (number, indent string) {
	number = fmt.Sprintf("%d. ", i+1)
	return number, strings.Repeat(" ", len(number))
}

func printList(items []string) string {
	var lines []string
	for i, item := range items {
		before, indent := number(i)
		for line := range strings.SplitSeq(mark(item), "\n") {
			if line != "" {
				line = before + line
			}
			lines, before = append(lines, line), indent
		}
	}
	return strings.Join(lines, "\n")
}

// parseList is the inverse of printList.
func parseList(path, text string) ([]string, error) {
	var marked [][]string // the lines of each item
	indent := ""
	for i, line := range strings.Split(text, "\n") {
		last := len(marked) - 1
		next, nextIndent := number(last + 1)
		rest, goesOn := strings.CutPrefix(line, indent)
		switch first, begins := strings.CutPrefix(line, next); {
		case begins:
			marked, indent = append(marked, []string{first}), nextIndent
		case last < 0 && isBlank(line):
		case isBlank(line):
			marked[last] = append(marked[last], "")
		case last >= 0 && goesOn:
			marked[last] = append(marked[last], rest)
		default:
			want := fmt.Sprintf("%q, or %d spaces before a line that goes on", next+"Option: pros/cons", max(len(indent), 3))
			return nil, wrong(schemas.CodeBadValue, path, fmt.Sprintf("line %d of this text is %s", i+1, schemas.Quote(line)), want)
		}
	}
	items, err := make([]string, len(marked)), error(nil)
	for i, lines := range marked {
		var bad error
		items[i], bad = unmark(itemPath(path, i), strings.Join(lines, "\n"))
		err = cmp.Or(err, bad)
	}
	return items, err
}
