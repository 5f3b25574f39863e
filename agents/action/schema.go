package action

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

const (
	// MaxActions is how many actions one reply may have.
	MaxActions = 16
	// modelText bounds every string that a model is led to write: llama.cpp
	// refuses a grammar with more repetitions (MAX_REPETITION_THRESHOLD). A
	// longer text is no less valid, where a model writes one without a grammar.
	modelText = 2000
)

// Schema is the JSON Schema of a reply with the named actions and no others,
// for a model that takes one (Ollama's format). It has no references, and every
// text and list in it is bounded, so that no model can write without end.
func Schema(names []string) ([]byte, error) {
	var branches []jsontext.Value
	for _, name := range names {
		b, err := branchesOf(name)
		if err != nil {
			return nil, err
		}
		branches = append(branches, b...)
	}
	answer := jsontext.Value(fmt.Sprintf(`{"type":"string","maxLength":%d}`, modelText))
	fields := []field{{"answer", answer, true}}
	if len(branches) > 0 {
		list := fmt.Appendf(nil, `{"type":"array","maxItems":%d,"items":%s}`, MaxActions, anyOf(branches))
		fields = slices.Insert(fields, 0, field{"actions", list, true})
	}
	return jsontext.AppendFormat(nil, object(fields), jsontext.WithIndent("  "))
}

// branchesOf are the forms that an action of a reply can have: one, but for a
// delegation, whose payload depends on its task.
func branchesOf(name string) ([]jsontext.Value, error) {
	params, err := paramsOf(name)
	if err != nil {
		return nil, err
	}
	if name != "delegate" {
		return []jsontext.Value{branch(name, params)}, nil
	}
	common, err := without(params, "task", "payload", "description", "title", "after")
	if err != nil {
		return nil, err
	}
	after := fmt.Appendf(nil, `{"type":"array","maxItems":%d,"items":%s}`, MaxActions, bounded(128))
	common = append(common, field{"after", after, false})
	branches := []jsontext.Value{branch(name, object(slices.Concat(common,
		[]field{{"title", bounded(200), true}, {"description", bounded(modelText), false}})))}
	for _, task := range Names() {
		if task == name {
			continue
		}
		payload, err := paramsOf(task)
		if err != nil {
			return nil, err
		}
		branches = append(branches, branch(name, object(slices.Concat(common,
			[]field{{"task", constant(task), true}, {"payload", payload, true}}))))
	}
	return branches, nil
}

func branch(name string, params jsontext.Value) jsontext.Value {
	return object([]field{{"action", constant(name), true}, {"params", params, true}})
}

// paramsOf is the schema of an action's parameters, made fit for a model.
func paramsOf(name string) (jsontext.Value, error) {
	k, known := kindOf(name)
	if !known {
		return nil, &Unknown{Path: "action", Name: name, Near: schemas.Suggest(name, Names())}
	}
	source, err := schemas.Of(k.make())
	if err != nil {
		return nil, err
	}
	return forModel(source)
}

// A field is a property of an object's schema.
type field struct {
	name     string
	schema   jsontext.Value
	required bool
}

// object is the schema of an object with these fields and no others, in their
// order: a model writes them in it.
func object(fields []field) jsontext.Value {
	var properties, required bytes.Buffer
	for i, f := range fields {
		if i > 0 {
			properties.WriteByte(',')
		}
		fmt.Fprintf(&properties, "%q:%s", f.name, f.schema)
		if f.required && required.Len() > 0 {
			required.WriteByte(',')
		}
		if f.required {
			fmt.Fprintf(&required, "%q", f.name)
		}
	}
	return fmt.Appendf(nil, `{"type":"object","properties":{%s},"required":[%s],"additionalProperties":false}`,
		&properties, &required)
}

func anyOf(branches []jsontext.Value) jsontext.Value {
	return fmt.Appendf(nil, `{"anyOf":[%s]}`, bytes.Join(asBytes(branches), []byte{','}))
}

func asBytes(values []jsontext.Value) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = v
	}
	return out
}

func constant(text string) jsontext.Value { return fmt.Appendf(nil, `{"const":%q}`, text) }

func bounded(max int) jsontext.Value {
	return fmt.Appendf(nil, `{"type":"string","maxLength":%d}`, max)
}

// forModel copies a schema without its $schema, with every maxLength at most
// modelText.
func forModel(source []byte) (jsontext.Value, error) {
	d, out := jsontext.NewDecoder(bytes.NewReader(source)), new(bytes.Buffer)
	e := jsontext.NewEncoder(out)
	for {
		token, err := d.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSpace(out.Bytes()), nil
		}
		if err != nil {
			return nil, err
		}
		name := ""
		if kind, n := d.StackIndex(d.StackDepth()); kind == '{' && n%2 == 1 && token.Kind() == '"' {
			name = token.String()
		}
		if err := copyToken(d, e, token.Clone(), name); err != nil {
			return nil, err
		}
	}
}

func copyToken(d *jsontext.Decoder, e *jsontext.Encoder, token jsontext.Token, name string) error {
	if name == "$schema" {
		return d.SkipValue()
	}
	if err := e.WriteToken(token); err != nil || name != "maxLength" || d.PeekKind() != '0' {
		return err
	}
	limit, err := d.ReadValue()
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(string(limit))
	if err != nil {
		return err
	}
	return e.WriteToken(jsontext.Int(int64(min(n, modelText))))
}

// without are the fields of an object's schema but for those named.
func without(schema jsontext.Value, names ...string) ([]field, error) {
	var parts struct {
		Properties jsontext.Value `json:"properties"`
		Required   []string       `json:"required"`
		Type       string         `json:"type"`
		Closed     bool           `json:"additionalProperties"`
	}
	if err := schemas.Decode(schema, &parts); err != nil {
		return nil, err
	}
	d := jsontext.NewDecoder(bytes.NewReader(parts.Properties))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	var fields []field
	for d.PeekKind() == '"' {
		token, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, name) {
			fields = append(fields, field{name, value.Clone(), slices.Contains(parts.Required, name)})
		}
	}
	return fields, nil
}
