package action

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// Reply is what a model has said: actions to be done in their order, and what it
// has to say itself.
type Reply struct {
	Actions []Action
	Answer  string
}

// ErrNotJSON says that there is no whole JSON object or list in a reply.
var ErrNotJSON = errors.New("the reply holds no JSON object or list")

// Refused is an action of a reply that cannot be, as it was asked for.
type Refused struct {
	Action string
	Params jsontext.Value
	err    error
}

func (r *Refused) Error() string { return r.err.Error() }

// Unwrap is the [*Unknown] or the [*schemas.Error].
func (r *Refused) Unwrap() error { return r.err }

// ParseReply finds the actions in what a model wrote: in the whole text, else in
// the widest {…} or [...] of it, whichever begins first, for models like to say
// something around it. It may be one action, a list of them, or an object with
// actions and an answer.
//
// A reply is taken whole or not at all: text that was cut off is never mistaken
// for the shorter reply that some part of it would be. The error matches
// [ErrNotJSON], or is an [*Unknown], or a [*schemas.Error] with the JSON path.
func ParseReply(text string) (Reply, error) {
	data, err := extract(text)
	if err != nil {
		return Reply{}, err
	}
	reply, items, place, err := shape(data)
	if err != nil {
		return Reply{}, err
	}
	if len(items) > MaxActions {
		return Reply{}, &schemas.Error{
			Path: place(-1), Problem: fmt.Sprintf("has %d actions", len(items)),
			Want: fmt.Sprintf("at most %d", MaxActions), Code: schemas.CodeTooLong,
		}
	}
	for i, item := range items {
		a, err := item.parse()
		if err != nil {
			return Reply{}, &Refused{Action: item.Action, Params: item.Params, err: under(place(i), err)}
		}
		reply.Actions = append(reply.Actions, a)
	}
	if err := checkLabels(reply.Actions, place); err != nil {
		return Reply{}, err
	}
	return reply, nil
}

// extract is the JSON in a text.
func extract(text string) (jsontext.Value, error) {
	text = strings.TrimSpace(text)
	first, err := read(text)
	if err == nil && (first[0] == '{' || first[0] == '[') || err != nil && !notJSON(err) {
		return first, err
	}
	if begun(text, err) {
		return nil, fmt.Errorf("%w: %v", ErrNotJSON, err)
	}
	for _, span := range spans(text) {
		inner, err := read(text[span[0]:span[1]])
		if err != nil && notJSON(err) {
			continue
		}
		if err == nil && (string(inner) == "[]" || partOfMore(text[:span[0]], text[span[1]:])) {
			break
		}
		return inner, err
	}
	return nil, ErrNotJSON
}

// begun tells whether a text that is no JSON was meant to be, from its first
// character on: it was cut off, or is broken, and what lies in it may be anything.
func begun(text string, err error) bool {
	var e *schemas.Error
	if !errors.As(err, &e) {
		return false
	}
	return strings.HasPrefix(text, "{") && e.Code != schemas.CodeTrailingData ||
		strings.HasPrefix(text, "[") && e.Code == schemas.CodeTruncated
}

func read(text string) (jsontext.Value, error) {
	var v jsontext.Value
	if err := schemas.Decode([]byte(text), &v); err != nil {
		return nil, err
	}
	return v, nil
}

// notJSON tells whether an error says that a text is no JSON document, and not
// that it is a bad one (a key twice, too deep, too large).
func notJSON(err error) bool {
	var e *schemas.Error
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains([]string{
		schemas.CodeNotJSON, schemas.CodeTruncated, schemas.CodeTrailingData, schemas.CodeEmpty, schemas.CodeBOM,
	}, e.Code)
}

// spans are the widest […] and {…}, the one that begins first in front: the
// other may lie inside it.
func spans(text string) (out [][2]int) {
	for _, pair := range []string{"[]", "{}"} {
		from, to := strings.IndexByte(text, pair[0]), strings.LastIndexByte(text, pair[1])
		if from >= 0 && to > from {
			out = append(out, [2]int{from, to + 1})
		}
	}
	slices.SortFunc(out, func(a, b [2]int) int { return a[0] - b[0] })
	return out
}

// partOfMore tells whether a piece of JSON stands in a larger one that is
// broken: an element of a list that was cut off is not the reply.
func partOfMore(before, after string) bool {
	before, after = strings.TrimSpace(before), strings.TrimSpace(after)
	if strings.HasPrefix(after, ",") || strings.HasPrefix(after, "]") || strings.HasPrefix(after, "}") {
		return true
	}
	if strings.HasSuffix(before, "[") || strings.HasSuffix(before, ",") {
		return true
	}
	key, colon := strings.CutSuffix(before, ":")
	return colon && strings.HasSuffix(strings.TrimSpace(key), `"`)
}

// item is an action as a reply writes it.
type item struct {
	Action string         `json:"action"`
	Params jsontext.Value `json:"params"`
}

func (i item) parse() (Action, error) {
	if i.Action == "" {
		return nil, &schemas.Error{Path: "action", Problem: "is missing", Want: "the name of an action", Code: schemas.CodeMissingField}
	}
	return Parse(i.Action, i.Params)
}

// shape tells which of the three shapes a reply has. place names an item's
// place in it, or that of the whole list (-1).
func shape(data jsontext.Value) (reply Reply, items []item, place func(int) string, err error) {
	list := func(name string) func(int) string {
		return func(i int) string {
			if i < 0 {
				return name
			}
			return fmt.Sprintf("%s[%d]", name, i)
		}
	}
	if data.Kind() == '[' {
		return reply, items, list("$"), schemas.Decode(data, &items)
	}
	var keys map[string]jsontext.Value
	if err := schemas.Decode(data, &keys); err != nil {
		return reply, nil, nil, err
	}
	if _, single := keys["action"]; single {
		items = make([]item, 1)
		return reply, items, func(int) string { return "" }, schemas.Decode(data, &items[0])
	}
	if len(keys) == 0 {
		return reply, nil, nil, &schemas.Error{Path: "actions", Problem: "is missing", Want: "an action, a list of them, or an answer", Code: schemas.CodeMissingField}
	}
	var whole struct {
		Actions []item `json:"actions"`
		Answer  string `json:"answer"`
	}
	err = schemas.Decode(data, &whole)
	return Reply{Answer: whole.Answer}, whole.Actions, list("actions"), err
}

// checkLabels sees that the names of a reply's delegations are different, and
// that what one of them waits for has been named before it: so no two of them
// wait for each other.
func checkLabels(actions []Action, place func(int) string) error {
	named := map[string]int{}
	for i, a := range actions {
		d, ok := a.(*Delegate)
		if !ok || d.Label == "" {
			continue
		}
		if _, taken := named[d.Label]; taken {
			return under(place(i), fault("name", schemas.CodeBadValue, schemas.Quote(d.Label)+" names another delegation of this reply", ""))
		}
		named[d.Label] = i
	}
	for i, a := range actions {
		d, ok := a.(*Delegate)
		if !ok {
			continue
		}
		for n, label := range d.After {
			if at, here := named[label]; here && at >= i {
				return under(place(i), fault(fmt.Sprintf("after[%d]", n), schemas.CodeBadValue,
					schemas.Quote(label)+" does not stand before this delegation", "the name of an earlier one, or a task's id"))
			}
		}
	}
	return nil
}
