package schemas

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// spot is where in the document a value stands.
type spot struct {
	path  string
	depth int
}

func (p spot) field(key string) spot { return spot{member(p.path, key), p.depth + 1} }

func (p spot) item(i int) spot { return spot{element(p.path, strconv.Itoa(i)), p.depth + 1} }

// fault is one reason why a document does not fit.
type fault struct {
	depth  int
	rank   int
	err    *Error
	types  []string // what the value's type should have been
	values []any    // what the value should have been
}

// Of faults at one depth the lowest is told.
const (
	unknown = iota
	bad
	missing
	never
)

func (p spot) fault(rank int, err *Error) fault {
	if err.Path == "" {
		err.Path = p.path
	}
	return fault{depth: p.depth, rank: rank, err: err}
}

func (p spot) wrongType(v any, want ...string) fault {
	f := p.fault(bad, &Error{Problem: "is " + typeOf(v), Want: joinTypes(want), Code: CodeWrongType})
	f.types = want
	return f
}

func (p spot) wrongValue(v any, want ...any) fault {
	f := p.fault(bad, &Error{Problem: show(v) + " is not allowed", Want: listValues(want), Code: CodeBadValue})
	f.values = want
	return f
}

func worst(faults []fault) fault { return slices.MinFunc(faults, compare) }

func compare(a, b fault) int {
	return cmp.Or(cmp.Compare(b.depth, a.depth), cmp.Compare(a.rank, b.rank))
}

// checkBranches holds a value against alternatives, of which one has to fit, and
// one only where that is asked for.
func checkBranches(branches []*rule, one bool, v any, at spot) []fault {
	var faults [][]fault
	for _, b := range branches {
		if f := b.check(v, at); len(f) > 0 {
			faults = append(faults, f)
		}
	}
	switch fit := len(branches) - len(faults); {
	case len(branches) == 0, fit == 1, fit > 1 && !one:
		return nil
	case fit > 1:
		return []fault{at.fault(bad, &Error{Problem: "can be read in two ways", Want: "what matches one form only", Code: CodeBadValue})}
	}
	return nearest(faults, at.depth)
}

// nearest is the branch of an alternative that the author probably meant: one
// for values of this type, with its constants; the alternatives become one list
// where nothing but types or constants told them apart.
func nearest(branches [][]fault, depth int) []fault {
	miss := func(branch []fault) (most int) {
		for _, f := range branch {
			switch {
			case f.types != nil && f.depth == depth:
				return 2
			case f.values != nil:
				most = 1
			}
		}
		return most
	}
	least := miss(slices.MinFunc(branches, func(a, b []fault) int { return cmp.Compare(miss(a), miss(b)) }))
	branches = slices.DeleteFunc(branches, func(b []fault) bool { return miss(b) > least })
	if f, ok := merge(branches); ok {
		return []fault{f}
	}
	return slices.MinFunc(branches, func(a, b []fault) int { return compare(worst(a), worst(b)) })
}

// merge makes one fault of branches that each failed at the same place for want
// of another type, or of another constant.
func merge(branches [][]fault) (fault, bool) {
	first := branches[0][0]
	var types []string
	var values []any
	for _, b := range branches {
		if len(b) != 1 || b[0].err.Path != first.err.Path || b[0].types == nil && b[0].values == nil {
			return fault{}, false
		}
		types, values = append(types, b[0].types...), append(values, b[0].values...)
	}
	if types != nil && values != nil {
		return fault{}, false
	}
	first.err.Want = joinTypes(types) + listValues(values)
	first.types, first.values = types, values
	return first, true
}

var typeNames = map[string]string{
	"string": "a string", "number": "a number", "integer": "an integer",
	"boolean": "true or false", "array": "an array", "object": "an object", "null": "null",
}

// typeOf tells what a value is.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case []any:
		return "an array"
	case map[string]any:
		return "an object"
	}
	return "a number"
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

// listValues lists values of a schema; only strange ones are quoted.
func listValues(values []any) string {
	var out []string
	for _, v := range values {
		text := show(v)
		if s, ok := v.(string); ok && made(s, letters+"0123456789_.:/-") {
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
