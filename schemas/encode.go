package schemas

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Encode writes v as people like to read it: two spaces a level, map keys
// sorted, nothing escaped that need not be, a newline at the end. The same
// value always gives the same bytes. What [Decode] would refuse to read again
// is refused with an [*Error], but for its size: views may be larger than
// [MaxSize].
func Encode(v any) ([]byte, error) {
	out, err := json.Marshal(v, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return nil, encodeError(err)
	}
	if tooDeep(out) {
		return nil, &Error{Path: root, Problem: "is nested too deep", Want: fmt.Sprintf("at most %d levels", MaxDepth), Code: CodeTooDeep}
	}
	return append(out, '\n'), nil
}

// encodeError tells why a value cannot be written as JSON.
func encodeError(err error) *Error {
	e := &Error{Path: root, Code: CodeBadValue}
	var semantic *json.SemanticError
	var syntactic *jsontext.SyntacticError
	cause := err
	switch {
	case errors.As(err, &semantic):
		e.Path = pathOf(semantic.JSONPointer)
		if semantic.Err != nil {
			cause = semantic.Err
		}
	case errors.As(err, &syntactic):
		e.Path, cause = pathOf(syntactic.JSONPointer), syntactic.Err
	}
	e.Problem = "cannot be written as JSON: " + Sentence(cause.Error(), 2*maxQuoted)
	return e
}

// tooDeep tells whether well-formed JSON has more than [MaxDepth] levels of objects and
// arrays.
func tooDeep(data []byte) bool {
	if bytes.Count(data, []byte("{"))+bytes.Count(data, []byte("[")) <= MaxDepth {
		return false
	}
	depth := 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{', '[':
			if depth++; depth > MaxDepth {
				return true
			}
		case '}', ']':
			depth--
		case '"':
			i = endOfString(data, i)
		}
	}
	return false
}

// endOfString is where the string that begins at i has its closing quote.
func endOfString(data []byte, i int) int {
	i++
	for quote := i - 1; ; {
		if quote < i {
			next := bytes.IndexByte(data[i:], '"')
			if next < 0 {
				return len(data)
			}
			quote = i + next
		}
		escape := bytes.IndexByte(data[i:quote], '\\')
		if escape < 0 {
			return quote
		}
		i += escape + 2
	}
}
