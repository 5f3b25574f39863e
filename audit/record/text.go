package record

import (
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

// Normal is a text as a record has it.
func Normal(text string) string { return trimBlank(oneNewline(text)) }

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

// What makes text on a terminal say something else than it does: control characters, the
// other line ends of Unicode, and what reorders text. Marks of direction, as Arabic and
// Hebrew need them, may stay.
var forbidden = schemas.Pattern(`[^\P{Cc}\n\t]|[\x{2028}-\x{202e}\x{2066}-\x{2069}]`)

// lines walks over the lines of a text and follows its fenced code (CommonMark 0.31 section
// 4.5). Marked lines are never fences, so it sees the same before and after mark.
type lines struct {
	fence string // the backticks or tildes that opened the code; "" outside
	begin int    // in which line that was, from 1
}

// backslashes takes the next line and tells from where to where the backslashes stand in
// it, if it could pass for a part of the form; from is -1 in other lines.
func (l *lines) backslashes(line string, number int) (from, to int) {
	pattern := formInText
	if l.fence != "" {
		pattern = formInCode
	}
	switch marks, info := fenceIn(line); {
	case marks == "":
	case l.fence == "" && (marks[0] == '~' || !strings.Contains(info, "`")):
		l.fence, l.begin = marks, number
	case l.fence != "" && strings.HasPrefix(marks, l.fence) && isBlank(info):
		l.fence = ""
	}
	if at := pattern().FindStringSubmatchIndex(line); at != nil {
		return at[4], at[5]
	}
	return -1, -1
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

// mark makes a normal text fit to stand in a record, or tells why it may not. Fenced code
// that does not end would swallow the headings behind it.
func mark(path, text string) (string, error) {
	if err := checkSize(path, len(text)); err != nil {
		return "", err
	}
	if !utf8.ValidString(text) {
		return "", wrong(schemas.CodeInvalidUTF8, path, "invalid UTF-8", "")
	}
	if at := forbidden().FindStringIndex(text); at != nil {
		r, _ := utf8.DecodeRuneInString(text[at[0]:])
		problem := fmt.Sprintf("line %d of this text has the character %U", 1+strings.Count(text[:at[0]], "\n"), r)
		return "", wrong(schemas.CodeBadValue, path, problem, "text without control and bidirectional characters")
	}
	all := strings.Split(text, "\n")
	var l lines
	for i, line := range all {
		if from, _ := l.backslashes(line, i+1); from >= 0 {
			all[i] = line[:from] + `\` + line[from:]
		}
	}
	if l.fence != "" {
		problem := fmt.Sprintf("the code block that begins in line %d of this text does not end", l.begin)
		return "", wrong(schemas.CodeBadValue, path, problem, "a closing "+l.fence[:3])
	}
	return strings.Join(all, "\n"), nil
}

// unmark is the inverse of mark. What mark would never have written is refused.
func unmark(path, text string) (string, error) {
	all := strings.Split(text, "\n")
	var l lines
	for i, line := range all {
		from, to := l.backslashes(line, i+1)
		if from >= 0 && from == to {
			problem := fmt.Sprintf("line %d of this text is %s, which only the form of a record may have", i+1, schemas.Quote(line))
			return "", wrong(schemas.CodeBadValue, path, problem, "a backslash before it: "+schemas.Sentence(line[:from]+`\`+line[from:], 80))
		}
		if from >= 0 {
			all[i] = line[:from] + line[from+1:]
		}
	}
	return strings.Join(all, "\n"), nil
}

func checkSize(path string, size int) error {
	if size <= MaxBody {
		return nil
	}
	return wrong(schemas.CodeTooLong, path, fmt.Sprintf("has %d bytes", size), fmt.Sprintf("at most %d", MaxBody))
}
