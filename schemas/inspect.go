package schemas

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxNumber is how many bytes a number may have. Together with the range of a
// double it bounds what exact arithmetic on it costs: 1e999999999 is eleven
// bytes long and a gigabyte wide.
const maxNumber = 64

// inspect reads a document to its end without understanding it, and tells the
// first thing for which it must be refused.
func inspect(data []byte, number func(string) *Error) *Error {
	switch {
	case len(data) > MaxSize:
		return &Error{Path: root, Problem: fmt.Sprintf("has %d bytes", len(data)), Want: fmt.Sprintf("at most %d", MaxSize), Code: CodeTooLarge}
	case bytes.HasPrefix(data, []byte("\ufeff")):
		return &Error{Path: root, Problem: "begins with a byte order mark", Want: "plain UTF-8", Code: CodeBOM}
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(data), strict)
	for end, done := int64(0), false; ; end, done = d.InputOffset(), d.StackDepth() == 0 {
		token, err := d.ReadToken()
		switch {
		case err == io.EOF && done:
			return nil
		case err == io.EOF:
			return &Error{Path: root, Problem: "is empty", Want: "a JSON document", Code: CodeEmpty}
		case done:
			return &Error{Path: root, Problem: "more data after the end of the document" + place(data, end+leadingSpace(data[end:])), Code: CodeTrailingData}
		case err != nil:
			return syntaxError(data, err)
		}
		if e := inspectToken(data, d, token, number); e != nil {
			return e
		}
	}
}

func inspectToken(data []byte, d *jsontext.Decoder, token jsontext.Token, number func(string) *Error) *Error {
	var e *Error
	switch kind := token.Kind(); {
	case kind == '0':
		e = number(token.String())
	case d.StackDepth() > MaxDepth && (kind == '{' || kind == '['):
		e = &Error{Problem: "is nested too deep", Want: fmt.Sprintf("at most %d levels", MaxDepth), Code: CodeTooDeep}
	}
	if e != nil {
		e.Path = pathIn(data, d.StackPointer())
	}
	return e
}

// anyNumber refuses what a double cannot hold.
func anyNumber(text string) *Error {
	f, err := strconv.ParseFloat(text, 64)
	digits, _, _ := strings.Cut(strings.ToLower(text), "e")
	if len(text) > maxNumber || err != nil || f == 0 && strings.ContainsAny(digits, "123456789") {
		return &Error{Problem: Sentence(text, 24) + " is out of range", Want: fmt.Sprintf("a number that a double can hold, in at most %d characters", maxNumber), Code: CodeBadValue}
	}
	return nil
}

// syntaxError names what the parser stumbled over. The library keeps some of
// its causes to itself, so the bytes at the offset have to tell.
func syntaxError(data []byte, err error) *Error {
	var se *jsontext.SyntacticError
	if !errors.As(err, &se) {
		return &Error{Path: root, Problem: Sentence(err.Error(), 2*maxQuoted), Code: CodeNotJSON}
	}
	e := &Error{Path: pathIn(data, se.JSONPointer)}
	rest := data[min(se.ByteOffset, int64(len(data))):]
	r, size := utf8.DecodeRune(rest)
	switch {
	case errors.Is(se.Err, jsontext.ErrDuplicateName):
		e.Problem, e.Code = "duplicate key", CodeDuplicateKey
	case errors.Is(se.Err, io.ErrUnexpectedEOF):
		e.Problem, e.Code = "the input ends here, inside a value", CodeTruncated
	case r == utf8.RuneError && size == 1:
		e.Problem, e.Code = "invalid UTF-8", CodeInvalidUTF8
	case isSurrogate(rest):
		e.Problem, e.Code = "half of a surrogate pair", CodeInvalidUTF8
	default:
		e.Problem, e.Code = "is no JSON: "+Sentence(se.Err.Error(), 2*maxQuoted), CodeNotJSON
	}
	if e.Code == CodeNotJSON || e.Code == CodeInvalidUTF8 {
		e.Problem += place(data, se.ByteOffset)
	}
	return e
}

// isSurrogate tells whether text begins with an escape from \ud800 to \udfff.
func isSurrogate(text []byte) bool {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return err == nil && n >= 0xd800 && n <= 0xdfff
}

func leadingSpace(data []byte) int64 {
	return int64(len(data) - len(bytes.TrimLeft(data, " \t\r\n")))
}

// place is an offset as people count: " (line 3, column 7)".
func place(data []byte, offset int64) string {
	before := data[:min(offset, int64(len(data)))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return fmt.Sprintf(" (line %d, column %d)", bytes.Count(before, []byte("\n"))+1, utf8.RuneCount(line)+1)
}
