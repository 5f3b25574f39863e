package schemas

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	// MaxDepth is how deep objects and arrays may lie in one another.
	MaxDepth = 32
	// MaxSize is how many bytes a document may have.
	MaxSize = 1 << 20
)

var strict = json.JoinOptions(
	jsontext.AllowDuplicateNames(false),
	jsontext.AllowInvalidUTF8(false),
	json.MatchCaseInsensitiveNames(false),
	json.RejectUnknownMembers(true),
)

// Decode reads a document from outside into what v points to, or refuses it
// with an [*Error] that has the path, the problem and a code.
//
// Refused are duplicate keys, keys in the wrong case, unknown fields (where the
// Go type is not open: a map, any, or a jsontext.Value), invalid UTF-8 and
// halves of surrogate pairs, a byte order mark, bytes after the end, more than
// [MaxDepth] levels, more than [MaxSize] bytes, and numbers outside a double's
// range. What is kept raw in a jsontext.Value has been checked as well.
//
// The whole text is read before any of it is understood. So [CodeTruncated]
// means that the bytes are the beginning of something that could still become
// right, and [CodeNotJSON] that they never will; only a number cut short at the
// top level cannot be told from a smaller one.
//
// An UnmarshalText or UnmarshalJSON of a type may return an [*Error] itself:
// Decode fills in, or puts in front, the path. Fields that are missing keep the
// value that v had; after an error v may be partly filled.
func Decode(data []byte, v any) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		return fmt.Errorf("schemas: cannot decode into %T: want a pointer", v)
	}
	if len(data) > MaxSize {
		return inspect(data, anyNumber)
	}
	err := json.Unmarshal(data, v, strict)
	if err != nil || tooDeep(data) || !onlyIntegers(data) {
		if e := inspect(data, anyNumber); e != nil {
			return e
		}
	}
	if want := wantNotNull(target.Type().Elem()); want != "" && string(bytes.TrimSpace(data)) == "null" {
		return &Error{Path: root, Problem: "is null", Want: want, Code: CodeWrongType}
	}
	if err != nil {
		return decodeError(data, err)
	}
	return nil
}

// wantNotNull tells what must stand in a document of a type that null would
// silently empty.
func wantNotNull(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array, reflect.String, reflect.Bool:
		return wanted(t)
	}
	return ""
}

// decodeError tells why well-formed JSON does not fit the Go type.
func decodeError(data []byte, err error) *Error {
	var se *json.SemanticError
	if !errors.As(err, &se) {
		return syntaxError(data, err)
	}
	path := pathIn(data, se.JSONPointer)
	var inner *Error
	var noTime *time.ParseError
	switch {
	case errors.As(se.Err, &inner):
		return inner.under(path)
	case errors.Is(se.Err, json.ErrUnknownName):
		return unknownField(path, se.JSONPointer.LastToken(), fieldNames(se.GoType))
	case se.Err == nil, se.JSONKind != 0 && se.JSONKind != '"' && readsText(se.GoType): // 0: the type has read it itself
		return &Error{Path: path, Problem: "is " + kindNames[se.JSONKind], Want: wanted(se.GoType), Code: CodeWrongType}
	case se.JSONKind == '0' && se.JSONValue != nil:
		return &Error{Path: path, Problem: Sentence(se.JSONValue.String(), 24) + " is not allowed", Want: wanted(se.GoType), Code: CodeBadValue}
	case errors.As(se.Err, &noTime):
		return &Error{Path: path, Problem: Quote(noTime.Value) + " is no time", Want: wanted(timeType), Code: CodeBadValue}
	}
	return &Error{Path: path, Problem: Sentence(se.Err.Error(), 2*maxQuoted), Code: CodeBadValue}
}

// under is what a type said about its own part of a document, with the path
// from the top and, for not every type is careful, fit to be shown.
func (e *Error) under(path string) *Error {
	out := Error{
		Path:    e.Path,
		Problem: Sentence(e.Problem, 4*maxQuoted),
		Want:    Sentence(e.Want, 4*maxQuoted),
		Code:    cmp.Or(e.Code, CodeBadValue),
	}
	if e.Code == CodeTruncated || e.Code == CodeEmpty {
		out.Code = CodeBadValue // a part may be cut short, but this document is whole
	}
	switch {
	case e.Path == "" || e.Path == root:
		out.Path = path
	case path == root:
	case strings.HasPrefix(e.Path, root):
		out.Path = path + e.Path[len(root):]
	case strings.HasPrefix(e.Path, "["):
		out.Path = path + e.Path
	default:
		out.Path = path + "." + e.Path
	}
	return &out
}

var kindNames = map[jsontext.Kind]string{
	'n': "null", 't': "true", 'f': "false",
	'"': "a string", '0': "a number", '{': "an object", '[': "an array",
}

var (
	timeType  = reflect.TypeFor[time.Time]()
	rawType   = reflect.TypeFor[jsontext.Value]()
	textInput = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// readsText tells whether a type reads itself from a string.
func readsText(t reflect.Type) bool {
	return t != nil && (t.Implements(textInput) || reflect.PointerTo(t).Implements(textInput))
}

// wanted tells people what JSON a Go type takes.
func wanted(t reflect.Type) string {
	if t == nil || t == rawType {
		return ""
	}
	switch kind := t.Kind(); {
	case t == timeType:
		return `a time such as "2026-02-16T10:30:00Z"`
	case readsText(t), kind == reflect.String:
		return "a string"
	case kind == reflect.Pointer:
		return wanted(t.Elem())
	case kind == reflect.Struct, kind == reflect.Map:
		return "an object"
	case kind == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		return "a string in base64"
	case kind == reflect.Slice, kind == reflect.Array:
		return "an array"
	case kind == reflect.Bool:
		return "true or false"
	case t.ConvertibleTo(reflect.TypeFor[float64]()):
		return wantedNumber(t)
	}
	return ""
}

func wantedNumber(t reflect.Type) string {
	bits := t.Bits()
	switch kind := t.Kind(); {
	case kind == reflect.Float32, kind == reflect.Float64:
		return "a number"
	case kind >= reflect.Uint && bits < 64:
		return fmt.Sprintf("an integer from 0 to %d", uint64(math.MaxUint64)>>(64-bits))
	case kind >= reflect.Uint:
		return "an integer from 0"
	case bits < 64:
		return fmt.Sprintf("an integer from %d to %d", -1<<(bits-1), 1<<(bits-1)-1)
	}
	return "an integer"
}

// fieldNames are the JSON names of a struct's fields, embedded ones included.
func fieldNames(t reflect.Type) []string {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	var names []string
	for _, field := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case !field.IsExported() || name == "-" || field.Anonymous && name == "":
		case name != "":
			names = append(names, name)
		default:
			names = append(names, field.Name)
		}
	}
	return names
}
