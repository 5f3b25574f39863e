package schemas

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/invopop/jsonschema"
)

var (
	textOutput   = reflect.TypeFor[encoding.TextMarshaler]()
	ownSchema    = reflect.TypeFor[interface{ JSONSchema() *jsonschema.Schema }]()
	notInDefName = Pattern(`[^A-Za-z0-9_.-]+`)
)

// Of gives the JSON Schema (draft 2020-12) of v's type, indented, with a
// newline at the end, the same bytes every time. Structs take no other keys
// than their fields; a field is required unless its tag says omitzero or
// omitempty; jsonschema tags add the rest. The schema has no $id, so it does
// not change when code moves.
//
// It is right about four things of which the library is not: a jsontext.Value
// takes anything, a type that writes itself as text is a string, one that is a
// time.Time otherwise written is a time, and an unsigned integer is not negative.
func Of(v any) (schema []byte, err error) {
	t := reflect.TypeOf(v)
	if t == nil {
		return nil, fmt.Errorf("schemas: nil has no schema")
	}
	defer func() {
		if p := recover(); p != nil { // the library panics where a type has no JSON
			schema, err = nil, fmt.Errorf("schemas: %s has no schema: %v", t, p)
		}
	}()
	names := definitionNames{}
	out, err := reflectSchema(t, names, true)
	if err == nil && refersTo(out, names, t) {
		// A type that contains itself cannot be unfolded at the top: the
		// library would leave the references and drop what they refer to.
		out, err = reflectSchema(t, names, false)
	}
	return out, err
}

func reflectSchema(t reflect.Type, names definitionNames, expand bool) ([]byte, error) {
	r := jsonschema.Reflector{Anonymous: true, ExpandedStruct: expand, Mapper: better, Namer: names.of}
	raw, err := json.Marshal(r.ReflectFromType(t))
	if err != nil {
		return nil, fmt.Errorf("schemas: %s: %w", t, err)
	}
	out, err := jsontext.AppendFormat(nil, raw, jsontext.WithIndent("  "))
	if err != nil {
		return nil, fmt.Errorf("schemas: %s: %w", t, err)
	}
	return append(out, '\n'), nil
}

func refersTo(schema []byte, names definitionNames, t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return bytes.Contains(schema, []byte(`"#/$defs/`+names.of(t)+`"`))
}

// definitionNames gives each named type one name under $defs. The library
// takes the bare name, and would use one definition for two types of the same
// name; here the second gets its package in front.
type definitionNames map[string]reflect.Type

func (d definitionNames) of(t reflect.Type) string {
	if t.PkgPath() == "" {
		return t.Name()
	}
	name := notInDefName().ReplaceAllString(t.Name(), "_")
	if d.taken(name, t) {
		name = strings.ReplaceAll(t.PkgPath(), "/", ".") + "." + name
	}
	for d.taken(name, t) { // types inside functions
		name += "_"
	}
	d[name] = t
	return name
}

func (d definitionNames) taken(name string, t reflect.Type) bool {
	other, taken := d[name]
	return taken && other != t
}

// better is where the library's own idea of a type does not match what
// [Encode] writes; nil elsewhere.
func better(t reflect.Type) *jsonschema.Schema {
	switch kind := t.Kind(); {
	case t == rawType:
		return &jsonschema.Schema{}
	case t == timeType, t.Implements(ownSchema):
		return nil
	case kind == reflect.Struct && t.NumField() == 1 && t.Field(0).Anonymous && t.Field(0).Type == timeType:
		return &jsonschema.Schema{Type: "string", Format: "date-time"}
	case t.Implements(textOutput), reflect.PointerTo(t).Implements(textOutput):
		return &jsonschema.Schema{Type: "string"}
	case kind >= reflect.Uint && kind <= reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: "0"}
	}
	return nil
}
