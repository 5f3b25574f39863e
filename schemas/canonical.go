package schemas

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxInteger is the largest integer that every JSON parser reads the same way
// (RFC 7493 section 2.2): 2^53 - 1.
const maxInteger = 1<<53 - 1

var canonicalForm = []jsontext.Options{
	jsontext.CanonicalizeRawInts(true),
	jsontext.CanonicalizeRawFloats(true),
	jsontext.ReorderRawObjects(true),
}

// Canonical writes v in the canonical form of RFC 8785, without a newline: no
// white space, keys sorted by UTF-16 code units, one way to write each string
// and number. Numbers must be written as integers below 2^53 in magnitude
// (1.0 and 1e3 are none), for others are not read everywhere as they were
// meant; those, and what is over [MaxDepth] or [MaxSize], it refuses with an
// [*Error].
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return nil, encodeError(err)
	}
	return canonicalise(raw)
}

// CheckCanonical is nil when data is, byte for byte, its own canonical form as
// [Canonical] writes it. It costs a few microseconds a kilobyte.
func CheckCanonical(data []byte) error {
	out, err := canonicalise(data)
	if err != nil {
		return err
	}
	if at := firstDifference(data, out); at >= 0 {
		return &Error{Path: root, Problem: fmt.Sprintf("differs at byte %d from its canonical form", at), Want: "the form of RFC 8785", Code: CodeBadValue}
	}
	return nil
}

// canonicalise tries the fast way and, where that fails, takes the slow one to
// say exactly why.
func canonicalise(data []byte) ([]byte, error) {
	out, err := jsontext.AppendFormat(nil, data, canonicalForm...)
	if err == nil && len(data) <= MaxSize && !tooDeep(data) && onlyIntegers(data) {
		return out, nil
	}
	if e := inspect(data, integer); e != nil {
		return nil, e
	}
	return out, err
}

func firstDifference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	return at
}

// onlyIntegers tells whether every number in well-formed JSON is an [integer].
func onlyIntegers(data []byte) bool {
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			i = endOfString(data, i)
		case c == '-' || c >= '0' && c <= '9':
			end := i + 1
			for end < len(data) && bytes.IndexByte([]byte("+-.eE0123456789"), data[end]) >= 0 {
				end++
			}
			if !isInteger(data[i:end]) {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// isInteger tells whether a JSON number is written as an integer within
// ±maxInteger.
func isInteger[T string | []byte](text T) bool {
	n := 0
	for i := range len(text) {
		c := text[i]
		if i == 0 && c == '-' {
			continue
		}
		if c < '0' || c > '9' {
			return false
		}
		if n = n*10 + int(c-'0'); n > maxInteger {
			return false
		}
	}
	return true
}

// integer refuses numbers that not every program reads the same way.
func integer(text string) *Error {
	if isInteger(text) {
		return nil
	}
	return &Error{Problem: Sentence(text, 24) + " is not allowed", Want: "an integer below 2^53", Code: CodeBadValue}
}
