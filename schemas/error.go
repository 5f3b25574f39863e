package schemas

import "strings"

// The codes of an [Error], for programs that branch. They are part of the
// format: they stand in reason files and in the results of rejected tasks.
const (
	CodeBadValue     = "bad_value"     // right type, value not allowed
	CodeBOM          = "bom"           // begins with a byte order mark
	CodeDuplicateKey = "duplicate_key" // the same key twice in one object
	CodeEmpty        = "empty"         // no bytes, or nothing but white space
	CodeInvalidUTF8  = "invalid_utf8"  // broken UTF-8, or half of a surrogate pair
	CodeMissingField = "missing_field" // a required field is not there
	CodeNotJSON      = "not_json"      // no continuation makes it JSON
	CodeTooDeep      = "too_deep"      // more than MaxDepth levels
	CodeTooLarge     = "too_large"     // more than MaxSize bytes
	CodeTooLong      = "too_long"      // a text or list over its limit
	CodeTrailingData = "trailing_data" // bytes after the end of the document
	CodeTruncated    = "truncated"     // ends inside a value: perhaps half-written
	CodeUnknownField = "unknown_field" // a key that means nothing here
	CodeWrongCase    = "wrong_case"    // a known key with other capitals
	CodeWrongType    = "wrong_type"    // a number for a string, and the like
)

// Error is one thing that is wrong in a document.
//
// All fields but File are fit for a terminal and a log as they are: one line,
// foreign text quoted, escaped and shortened.
type Error struct {
	File    string // where the document came from; "" if unknown: callers fill it in
	Path    string // JSON path: task.priority, mbox.depends_on[2], task["we ird"]; $ for the document itself
	Problem string // what is wrong: "hihg" is not allowed
	Want    string // what would be right: one of low, normal, high, urgent; "" if there is nothing useful to say
	Code    string // one of the Code constants
}

// Error tells file, path, problem and remedy in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(Sentence(e.File, 255) + ": ")
	}
	if e.Path != "" && e.Path != root {
		b.WriteString(e.Path + ": ")
	}
	b.WriteString(e.Problem)
	switch {
	case strings.HasPrefix(e.Want, didYouMean):
		b.WriteString("; " + e.Want)
	case e.Want != "":
		b.WriteString("; want " + e.Want)
	}
	return b.String()
}

const didYouMean = "did you mean "

// unknownField tells a key that is not among the known ones, as a slip of the
// shift key, as a typing error, or as a stranger.
func unknownField(path, key string, known []string) *Error {
	for _, k := range known {
		if strings.EqualFold(k, key) {
			return &Error{Path: path, Problem: "wrong case", Want: Quote(k), Code: CodeWrongCase}
		}
	}
	e := &Error{Path: path, Problem: "unknown field", Code: CodeUnknownField}
	if near := Suggest(key, known); near != "" {
		e.Want = didYouMean + Quote(near) + "?"
	} else if len(known) <= 12 {
		e.Want = oneOf(known)
	}
	return e
}

// oneOf lists what may stand in a place: "one of a, b, c", or the only one.
func oneOf(values []string) string {
	switch len(values) {
	case 0:
		return ""
	case 1:
		return values[0]
	}
	return "one of " + strings.Join(values, ", ")
}
