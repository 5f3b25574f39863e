package schemas

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
)

// here is the address that a schema gets while it is compiled. Nothing can be
// loaded from it, or from anywhere else.
const here = "https://mbox.invalid/schema.json"

// Schema is a compiled JSON Schema. It may be used by many goroutines at once.
type Schema struct {
	compiled *jsonschema.Schema
	source   any // the schema as it was read, to look up which fields are known
}

// Compile reads a JSON Schema (draft 2020-12 unless it says otherwise) as
// strictly as [Decode] reads documents. Formats are checked, not only noted.
// References reach definitions in the same schema and the published
// meta-schemas, never a file or the network.
func Compile(schema []byte) (*Schema, error) {
	source, err := parse(schema)
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(jsonschema.SchemeURLLoader{}) // the default one reads file: references
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	if err := c.AddResource(here, source); err != nil {
		return nil, unusable(err)
	}
	compiled, err := c.Compile(here)
	if err != nil {
		return nil, unusable(err)
	}
	return &Schema{compiled: compiled, source: source}, nil
}

func unusable(err error) *Error {
	return &Error{Path: root, Problem: "is no usable JSON Schema: " + Sentence(err.Error(), 4*maxQuoted), Code: CodeBadValue}
}

// parse inspects a document and reads it into maps, slices and json.Numbers.
func parse(data []byte) (any, error) {
	if e := inspect(data, anyNumber); e != nil {
		return nil, e
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, syntaxError(data, err)
	}
	return doc, nil
}

// Validate is nil when data is a document that the schema allows, read as
// strictly as by [Decode]. Of several failures the [*Error] tells the deepest,
// at one depth an unknown field before a bad value before a missing field, and
// always the same one. Where a value fails all branches of a oneOf or anyOf,
// those of its type count first.
func (s *Schema) Validate(data []byte) error {
	doc, err := parse(data)
	if err != nil {
		return err
	}
	err = s.compiled.Validate(doc)
	if err == nil {
		return nil
	}
	tree, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return &Error{Path: root, Problem: Sentence(err.Error(), 2*maxQuoted), Code: CodeBadValue}
	}
	return s.explain(data, worst(leaves(tree)))
}

// failure is one reason why a document does not match.
type failure struct {
	at     []string // where in the document
	kind   jsonschema.ErrorKind
	schema string // where in the schema
}

// leaves are the failures that a tree of them comes down to.
func leaves(e *jsonschema.ValidationError) []failure {
	var branches [][]failure
	for _, cause := range e.Causes {
		branches = append(branches, leaves(cause))
	}
	switch e.ErrorKind.(type) {
	case *kind.OneOf, *kind.AnyOf:
		if len(branches) > 0 {
			return nearest(branches, len(e.InstanceLocation))
		}
	case *kind.PropertyNames:
		// Its causes speak of the key as if it were the document, and its
		// location shares memory with those that were validated later.
		return []failure{{nil, e.ErrorKind, e.SchemaURL}}
	}
	if len(branches) == 0 {
		return []failure{{e.InstanceLocation, e.ErrorKind, e.SchemaURL}}
	}
	return slices.Concat(branches...)
}

// nearest is the branch of an alternative that the author probably meant: one
// for values of this type, with its constants; the alternatives become one list
// where nothing but types or constants told them apart.
func nearest(branches [][]failure, depth int) []failure {
	byMiss := func(b []failure) int { return miss(b, depth) }
	least := byMiss(slices.MinFunc(branches, func(a, b []failure) int { return cmp.Compare(byMiss(a), byMiss(b)) }))
	branches = slices.DeleteFunc(branches, func(b []failure) bool { return byMiss(b) > least })
	if merged, ok := merge(branches); ok {
		return []failure{merged}
	}
	return slices.MinFunc(branches, func(a, b []failure) int { return compare(worst(a), worst(b)) })
}

func miss(branch []failure, depth int) int {
	total := 0
	for _, f := range branch {
		switch f.kind.(type) {
		case *kind.Type:
			if len(f.at) == depth {
				return 2
			}
		case *kind.Const, *kind.Enum:
			total = 1
		}
	}
	return total
}

// merge makes one failure of branches that each failed at the same place for
// want of another type, or of another constant.
func merge(branches [][]failure) (failure, bool) {
	first := branches[0][0]
	var types []string
	var values []any
	for _, b := range branches {
		if len(b) != 1 || !slices.Equal(b[0].at, first.at) {
			return failure{}, false
		}
		switch k := b[0].kind.(type) {
		case *kind.Type:
			types = append(types, k.Want...)
		case *kind.Const:
			values = append(values, k.Want)
		case *kind.Enum:
			values = append(values, k.Want...)
		default:
			return failure{}, false
		}
	}
	switch k := first.kind.(type) {
	case *kind.Type:
		first.kind = &kind.Type{Got: k.Got, Want: types}
	case *kind.Const:
		first.kind = &kind.Enum{Got: k.Got, Want: values}
	case *kind.Enum:
		first.kind = &kind.Enum{Got: k.Got, Want: values}
	}
	return first, types == nil || values == nil
}

func worst(failures []failure) failure {
	return slices.MinFunc(failures, compare)
}

// compare orders failures by how specific they are. The library walks over Go
// maps, so the order has to be total for an error to be always the same.
func compare(a, b failure) int {
	return cmp.Or(
		cmp.Compare(len(b.at), len(a.at)),
		cmp.Compare(rank(a.kind), rank(b.kind)),
		slices.Compare(a.at, b.at),
		cmp.Compare(a.schema, b.schema),
		slices.Compare(a.kind.KeywordPath(), b.kind.KeywordPath()),
	)
}

func rank(k jsonschema.ErrorKind) int {
	switch k.(type) {
	case *kind.AdditionalProperties, *kind.PropertyNames:
		return 0
	case *kind.Required:
		return 2
	case *kind.Not, *kind.FalseSchema:
		return 3
	}
	return 1
}
