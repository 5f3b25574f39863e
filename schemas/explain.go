package schemas

import (
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// explain says what a failure means to whoever wrote the document.
func (s *Schema) explain(data []byte, f failure) *Error {
	var pointer jsontext.Pointer
	for _, token := range f.at {
		pointer = pointer.AppendToken(token)
	}
	path := pathIn(data, pointer)
	switch k := f.kind.(type) {
	case *kind.AdditionalProperties:
		key := slices.Min(k.Properties)
		return unknownField(member(path, key), key, s.known(f.schema))
	case *kind.PropertyNames:
		return &Error{Path: path, Problem: "the key " + Quote(k.Property) + " is not allowed", Code: CodeUnknownField}
	case *kind.Required:
		return &Error{Path: member(path, k.Missing[0]), Problem: "missing", Code: CodeMissingField}
	case *kind.DependentRequired:
		return &Error{Path: member(path, slices.Min(k.Missing)), Problem: "missing beside " + Quote(k.Prop), Code: CodeMissingField}
	}
	e := explainValue(f.kind)
	e.Path = path
	return e
}

func explainValue(k jsonschema.ErrorKind) *Error {
	switch k := k.(type) {
	case *kind.Type:
		return &Error{Problem: "is " + typeName(k.Got), Want: joinTypes(k.Want), Code: CodeWrongType}
	case *kind.Enum:
		return &Error{Problem: show(k.Got) + " is not allowed", Want: listValues(k.Want), Code: CodeBadValue}
	case *kind.Const:
		return &Error{Problem: show(k.Got) + " is not allowed", Want: listValues([]any{k.Want}), Code: CodeBadValue}
	case *kind.Pattern:
		return &Error{Problem: Quote(k.Got) + " is not allowed", Want: "text that matches " + Sentence(k.Want, 2*maxQuoted), Code: CodeBadValue}
	case *kind.Format:
		return &Error{Problem: show(k.Got) + " is not allowed", Want: "text in the format " + Sentence(k.Want, maxQuoted), Code: CodeBadValue}
	case *kind.UniqueItems:
		return &Error{Problem: fmt.Sprintf("items %d and %d are equal", k.Duplicates[0], k.Duplicates[1]), Want: "each item once", Code: CodeBadValue}
	}
	return explainSize(k)
}

// explainSize tells values that are too small, too large, too few or too many.
func explainSize(k jsonschema.ErrorKind) *Error {
	switch k := k.(type) {
	case *kind.MaxLength:
		return &Error{Problem: fmt.Sprintf("has %d characters", k.Got), Want: fmt.Sprintf("at most %d", k.Want), Code: CodeTooLong}
	case *kind.MaxItems:
		return &Error{Problem: fmt.Sprintf("has %d items", k.Got), Want: fmt.Sprintf("at most %d", k.Want), Code: CodeTooLong}
	case *kind.MaxProperties:
		return &Error{Problem: fmt.Sprintf("has %d keys", k.Got), Want: fmt.Sprintf("at most %d", k.Want), Code: CodeTooLong}
	case *kind.MinLength:
		return &Error{Problem: fmt.Sprintf("has %d characters", k.Got), Want: fmt.Sprintf("at least %d", k.Want), Code: CodeBadValue}
	case *kind.MinItems:
		return &Error{Problem: fmt.Sprintf("has %d items", k.Got), Want: fmt.Sprintf("at least %d", k.Want), Code: CodeBadValue}
	case *kind.MinProperties:
		return &Error{Problem: fmt.Sprintf("has %d keys", k.Got), Want: fmt.Sprintf("at least %d", k.Want), Code: CodeBadValue}
	case *kind.Minimum:
		return &Error{Problem: decimal(k.Got) + " is too small", Want: "at least " + decimal(k.Want), Code: CodeBadValue}
	case *kind.Maximum:
		return &Error{Problem: decimal(k.Got) + " is too large", Want: "at most " + decimal(k.Want), Code: CodeBadValue}
	case *kind.ExclusiveMinimum:
		return &Error{Problem: decimal(k.Got) + " is too small", Want: "more than " + decimal(k.Want), Code: CodeBadValue}
	case *kind.ExclusiveMaximum:
		return &Error{Problem: decimal(k.Got) + " is too large", Want: "less than " + decimal(k.Want), Code: CodeBadValue}
	}
	return explainRest(k)
}

func explainRest(k jsonschema.ErrorKind) *Error {
	switch k := k.(type) {
	case *kind.FalseSchema, *kind.Not:
		return &Error{Problem: "is not allowed", Code: CodeBadValue}
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return &Error{Problem: "can be read in two ways", Want: "what matches one form only", Code: CodeBadValue}
		}
	}
	return &Error{Problem: "breaks the rule " + Sentence(strings.Join(k.KeywordPath(), " "), maxQuoted), Code: CodeBadValue}
}

// known are the fields that the schema at a location names.
func (s *Schema) known(location string) []string {
	_, escaped, _ := strings.Cut(location, "#")
	fragment, err := url.PathUnescape(escaped)
	if err != nil {
		return nil
	}
	at := s.source
	for token := range jsontext.Pointer(fragment).Tokens() {
		switch in := at.(type) {
		case map[string]any:
			at = in[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			at = in[i]
		default:
			return nil
		}
	}
	object, _ := at.(map[string]any)
	fields, _ := object["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(fields))
}

var typeNames = map[string]string{
	"string": "a string", "number": "a number", "integer": "an integer",
	"boolean": "true or false", "array": "an array", "object": "an object", "null": "null",
}

func typeName(name string) string {
	if name == "boolean" {
		return "a boolean"
	}
	return typeNames[name]
}

func joinTypes(names []string) string {
	var out []string
	for _, name := range names {
		if text := typeNames[name]; !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return strings.Join(out, " or ")
}

// show repeats a value of the document.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return Quote(v)
	case map[string]any:
		return "this object"
	case []any:
		return "this array"
	case nil:
		return "null"
	}
	return Sentence(fmt.Sprint(v), 24)
}

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_.:/-]{1,80}$`)

// listValues lists values of a schema.
func listValues(values []any) string {
	var out []string
	for _, v := range values {
		text := show(v)
		if s, ok := v.(string); ok && plainWord.MatchString(s) {
			text = s
		}
		if !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return Sentence(oneOf(out), 4*maxQuoted)
}

func decimal(r *big.Rat) string {
	if r.IsInt() {
		return Sentence(r.Num().String(), 24)
	}
	f, _ := r.Float64()
	return fmt.Sprint(f)
}
