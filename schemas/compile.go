package schemas

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Schema is a compiled JSON Schema. It may be used by many goroutines at once.
type Schema struct{ top rule }

// Compile reads a JSON Schema (draft 2020-12) as strictly as [Decode] reads
// documents. It knows the keywords that [Of] writes, and anyOf and const, which
// mbox gives to models; a schema with any other is refused, for what it asks
// would not be checked. Enumerations hold no objects and arrays, constants are
// strings; formats are date and date-time, and are checked. References reach
// the definitions of the same schema, nothing else.
//
// The validators that others keep compile their meta-schemas at every start of
// the program (5 to 8 ms), or tell an error as a text that has the place in the
// schema and not the place in the document. The tests hold this one to such a
// validator.
func Compile(schema []byte) (*Schema, error) {
	s := new(Schema)
	if err := Decode(schema, &s.top); err != nil {
		return nil, err
	}
	if err := s.top.link(s.top.Definitions); err != nil {
		return nil, err
	}
	for _, d := range s.top.Definitions {
		if d.endless() {
			return nil, unusable("a definition leads to itself")
		}
	}
	return s, nil
}

// rule is a schema, or a part of one: what a value has to be.
type rule struct {
	Dialect     string           `json:"$schema"`
	Definitions map[string]*rule `json:"$defs"` // read at the top only
	Reference   string           `json:"$ref"`
	Description string           `json:"description"`
	Default     jsontext.Value   `json:"default"`

	Type   string         `json:"type"`
	Enum   []any          `json:"enum"`
	Const  *string        `json:"const"`
	OneOf  []*rule        `json:"oneOf"`
	AnyOf  []*rule        `json:"anyOf"`
	Format string         `json:"format"`
	Shape  *regexp.Regexp `json:"pattern"`

	Fields    map[string]*rule `json:"properties"`
	Required  []string         `json:"required"`
	Others    *rule            `json:"additionalProperties"`
	Items     *rule            `json:"items"`
	MinItems  *int             `json:"minItems"`
	MaxItems  *int             `json:"maxItems"`
	MinLength *int             `json:"minLength"`
	MaxLength *int             `json:"maxLength"`
	Minimum   *float64         `json:"minimum"`
	Maximum   *float64         `json:"maximum"`

	never  bool  // the schema false: no value fits
	target *rule // what Reference names
}

// UnmarshalJSONFrom reads the schemas true and false as well.
func (r *rule) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if kind := d.PeekKind(); kind == 't' || kind == 'f' {
		r.never = kind == 'f'
		return d.SkipValue()
	}
	type keywords rule
	return json.UnmarshalDecode(d, (*keywords)(r))
}

func unusable(why string) error {
	return &Error{Path: root, Problem: "is no usable JSON Schema: " + why, Code: CodeBadValue}
}

const dialect = "https://json-schema.org/draft/2020-12/schema"

// checkWord refuses a word that is none of those known.
func checkWord(word string, known ...string) error {
	if word == "" || slices.Contains(known, word) {
		return nil
	}
	return unusable(Quote(word) + " is none of " + strings.Join(known, ", "))
}

// link points the references of a rule and its parts at their definitions.
func (r *rule) link(definitions map[string]*rule) error {
	if r == nil {
		return unusable("null where a schema belongs")
	}
	if err := cmp.Or(checkWord(r.Dialect, dialect), checkWord(r.Type, slices.Sorted(maps.Keys(typeNames))...), checkWord(r.Format, "date", "date-time")); err != nil {
		return err
	}
	if slices.ContainsFunc(r.Enum, func(v any) bool { return isOf("object", v) || isOf("array", v) }) {
		return unusable("enum has an object or an array")
	}
	if name, ok := strings.CutPrefix(r.Reference, "#/$defs/"); r.Reference != "" {
		if r.target = definitions[name]; !ok || r.target == nil {
			return unusable("there is no definition " + Quote(r.Reference))
		}
	}
	parts := slices.Concat(r.OneOf, r.AnyOf, slices.Collect(maps.Values(r.Fields)), slices.Collect(maps.Values(r.Definitions)))
	for _, part := range []*rule{r.Others, r.Items} {
		if part != nil {
			parts = append(parts, part)
		}
	}
	for _, part := range parts {
		if err := part.link(definitions); err != nil {
			return err
		}
	}
	return nil
}

// endless tells whether judging a value by a rule leads to judging the same
// value by it again. above are those that it is being judged by.
func (r *rule) endless(above ...*rule) bool {
	if slices.Contains(above, r) {
		return true
	}
	above = append(slices.Clip(above), r)
	return r.target != nil && r.target.endless(above...) ||
		slices.ContainsFunc(slices.Concat(r.OneOf, r.AnyOf), func(part *rule) bool { return part.endless(above...) })
}
