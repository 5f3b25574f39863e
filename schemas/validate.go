package schemas

import (
	"bytes"
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"
)

// Validate is nil when data is a document that the schema allows, read as
// strictly as by [Decode]. Of several faults the [*Error] tells the deepest, at
// one depth an unknown field before a bad value before a missing field, and
// always the same one. Where a value fails all branches of a oneOf or anyOf,
// those of its type count first.
func (s *Schema) Validate(data []byte) error {
	if e := inspect(data, anyNumber); e != nil {
		return e
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a double would be too coarse for integers
	var doc any
	if err := d.Decode(&doc); err != nil {
		return syntaxError(data, err)
	}
	if faults := s.top.check(doc, spot{path: root}); len(faults) > 0 {
		return worst(faults).err
	}
	return nil
}

// check holds a value against a rule. What it returns has the same order each
// time, for [worst] tells the first of several that are equally bad.
func (r *rule) check(v any, at spot) (faults []fault) {
	if r.never {
		return []fault{at.fault(never, &Error{Problem: "is not allowed", Code: CodeBadValue})}
	}
	if r.target != nil {
		faults = r.target.check(v, at)
	}
	if r.Type != "" && !isOf(r.Type, v) {
		return append(faults, at.wrongType(v, r.Type))
	}
	if r.Enum != nil && !slices.ContainsFunc(r.Enum, func(want any) bool { return equal(v, want) }) {
		faults = append(faults, at.wrongValue(v, r.Enum...))
	}
	if r.Const != nil && v != any(*r.Const) {
		faults = append(faults, at.wrongValue(v, *r.Const))
	}
	switch v := v.(type) {
	case string:
		faults = append(faults, r.checkText(v, at)...)
	case json.Number:
		faults = append(faults, r.checkNumber(v, at)...)
	case []any:
		faults = append(faults, r.checkArray(v, at)...)
	case map[string]any:
		faults = append(faults, r.checkObject(v, at)...)
	}
	return slices.Concat(faults, checkBranches(r.OneOf, true, v, at), checkBranches(r.AnyOf, false, v, at))
}

func isOf(kind string, v any) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case string:
		return kind == "string"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	case json.Number:
		return kind == "number" || kind == "integer" && rational(v).IsInt()
	}
	return false
}

// equal compares a value of a document with one of a schema, which is a double
// where it is a number.
func equal(v, want any) bool {
	if n, ok := v.(json.Number); ok {
		f, ok := want.(float64)
		return ok && rational(n).Cmp(new(big.Rat).SetFloat64(f)) == 0
	}
	return v == want
}

// rational is a number as it is written: [inspect] bounds what that costs.
func rational(n json.Number) *big.Rat {
	r, _ := new(big.Rat).SetString(n.String())
	return r
}

func (r *rule) checkText(v string, at spot) (faults []fault) {
	if f, wrong := at.size(utf8.RuneCountInString(v), "characters", r.MinLength, r.MaxLength); wrong {
		faults = append(faults, f)
	}
	if r.Shape != nil && !r.Shape.MatchString(v) {
		faults = append(faults, at.fault(bad, &Error{Problem: Quote(v) + " is not allowed", Want: "text that matches " + Sentence(r.Shape.String(), 2*maxQuoted), Code: CodeBadValue}))
	}
	if r.Format != "" && !formatted(r.Format, v) {
		faults = append(faults, at.fault(bad, &Error{Problem: Quote(v) + " is not allowed", Want: "text in the format " + r.Format, Code: CodeBadValue}))
	}
	return faults
}

func formatted(format, v string) bool {
	if format == "date" {
		v += "T00:00:00Z"
	}
	return new(time.Time).UnmarshalText([]byte(v)) == nil
}

// size tells a value that has too few or too many of something.
func (p spot) size(n int, of string, least, most *int) (fault, bool) {
	problem := "has " + strconv.Itoa(n) + " " + of
	switch {
	case least != nil && n < *least:
		return p.fault(bad, &Error{Problem: problem, Want: "at least " + strconv.Itoa(*least), Code: CodeBadValue}), true
	case most != nil && n > *most:
		return p.fault(bad, &Error{Problem: problem, Want: "at most " + strconv.Itoa(*most), Code: CodeTooLong}), true
	}
	return fault{}, false
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (r *rule) checkNumber(v json.Number, at spot) []fault {
	n := rational(v)
	switch {
	case r.Minimum != nil && n.Cmp(new(big.Rat).SetFloat64(*r.Minimum)) < 0:
		return []fault{at.fault(bad, &Error{Problem: decimal(n) + " is too small", Want: "at least " + plain(*r.Minimum), Code: CodeBadValue})}
	case r.Maximum != nil && n.Cmp(new(big.Rat).SetFloat64(*r.Maximum)) > 0:
		return []fault{at.fault(bad, &Error{Problem: decimal(n) + " is too large", Want: "at most " + plain(*r.Maximum), Code: CodeBadValue})}
	}
	return nil
}

func (r *rule) checkArray(items []any, at spot) (faults []fault) {
	if f, wrong := at.size(len(items), "items", r.MinItems, r.MaxItems); wrong {
		faults = append(faults, f)
	}
	if r.Items != nil {
		for i, v := range items {
			faults = append(faults, r.Items.check(v, at.item(i))...)
		}
	}
	return faults
}

func (r *rule) checkObject(fields map[string]any, at spot) (faults []fault) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		rule, known := r.Fields[key]
		switch {
		case known:
			faults = append(faults, rule.check(fields[key], at.field(key))...)
		case r.Others == nil:
		case r.Others.never:
			faults = append(faults, at.fault(unknown, unknownField(member(at.path, key), key, slices.Sorted(maps.Keys(r.Fields)))))
		default:
			faults = append(faults, r.Others.check(fields[key], at.field(key))...)
		}
	}
	for _, key := range r.Required {
		if _, there := fields[key]; !there {
			faults = append(faults, at.fault(missing, &Error{Path: member(at.path, key), Problem: "missing", Code: CodeMissingField}))
		}
	}
	return faults
}
