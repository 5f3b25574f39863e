package action

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// kinds is every action there is. Adding one is a type, a file and a line here.
var kinds = []kind{
	{"delegate", func() Action { return &Delegate{} }},
	{"deploy_compose", func() Action { return &DeployCompose{} }},
	{"file_check", func() Action { return &FileCheck{} }},
	{"http_check", func() Action { return &HTTPCheck{} }},
	{"read_file", func() Action { return &ReadFile{} }},
	{"write_file", func() Action { return &WriteFile{} }},
}

type kind struct {
	name string
	make func() Action // with zero parameters
}

// Names are the actions that there are, sorted.
func Names() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.name
	}
	return names
}

func kindOf(name string) (kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return kind{}, false
	}
	return kinds[i], true
}

// Unknown says that there is no action of that name.
type Unknown struct {
	Path string // where the name stands: action, actions[1].action, params.task
	Name string
	Near string // what was probably meant; "" where nothing is near
}

func (u *Unknown) Error() string {
	text := u.Path + ": there is no action " + schemas.Quote(u.Name)
	if u.Near != "" {
		return text + "; did you mean " + schemas.Quote(u.Near) + "?"
	}
	return text + "; want one of " + strings.Join(Names(), ", ")
}

// Parse makes an action of a name and parameters as they stand in a task or a
// reply. The error is an [*Unknown], or a [*schemas.Error] whose path begins
// with params; nothing is done, and nothing but the shape is checked yet.
func Parse(name string, params jsontext.Value) (Action, error) {
	if crowded(params) {
		return nil, &schemas.Error{Path: "params", Problem: fmt.Sprintf("has more than %d keys and values", maxValues), Code: schemas.CodeTooLong}
	}
	return parse(name, params, 1)
}

// maxValues is far more than any action has. Parameters are read several times,
// and those of a delegation again at each level.
const maxValues = 1000

func crowded(params jsontext.Value) bool {
	d := jsontext.NewDecoder(bytes.NewBuffer(params), jsontext.AllowDuplicateNames(true))
	for range maxValues {
		if _, err := d.ReadToken(); err != nil {
			return false // their end, or no JSON
		}
	}
	return true
}

// parse is Parse at a depth of delegations.
func parse(name string, params jsontext.Value, depth int) (Action, error) {
	k, known := kindOf(name)
	if !known {
		return nil, &Unknown{Path: "action", Name: name, Near: schemas.Suggest(name, Names())}
	}
	a, err := k.decode(params)
	if err != nil {
		return nil, under("params", err)
	}
	if d, ok := a.(*Delegate); ok {
		if err := d.parseInner(depth); err != nil {
			return nil, under("params", err)
		}
	}
	return a, nil
}

// decode reads parameters strictly into the action's type, and then holds them
// against its schema, which knows what is required and how long it may be.
func (k kind) decode(params jsontext.Value) (Action, error) {
	if len(params) == 0 {
		return nil, &schemas.Error{Problem: "is missing", Want: "an object", Code: schemas.CodeMissingField}
	}
	a := k.make()
	if err := schemas.Decode(params, a); err != nil {
		return nil, err
	}
	schema, err := compiled(k.name)
	if err != nil {
		return nil, err
	}
	if err := schema.Validate(params); err != nil {
		return nil, err
	}
	return a, nil
}

var checked = struct {
	sync.Mutex
	byName map[string]*schemas.Schema
}{byName: map[string]*schemas.Schema{}}

// compiled is the schema of an action's parameters, made when it is first asked
// for: most runs of mbox need none of them.
func compiled(name string) (*schemas.Schema, error) {
	checked.Lock()
	defer checked.Unlock()
	if s := checked.byName[name]; s != nil {
		return s, nil
	}
	k, _ := kindOf(name)
	source, err := schemas.Of(k.make())
	if err != nil {
		return nil, err
	}
	s, err := schemas.Compile(source)
	if err == nil {
		checked.byName[name] = s
	}
	return s, err
}

// under puts the place of a part in front of the path in its error.
func under(place string, err error) error {
	var invalid *schemas.Error
	var unknown *Unknown
	switch {
	case errors.As(err, &unknown):
		out := *unknown
		out.Path = join(place, out.Path)
		return &out
	case errors.As(err, &invalid):
		out := *invalid
		out.Path = join(place, out.Path)
		return &out
	}
	return err
}

func join(place, path string) string {
	switch {
	case path == "" || path == "$":
		return place
	case strings.HasPrefix(path, "$["):
		return place + path[1:]
	case place == "" || strings.HasPrefix(path, "["):
		return place + path
	}
	return place + "." + path
}

// fault is one thing that is wrong with a parameter.
func fault(path, code, problem, want string) error {
	return &schemas.Error{Path: "params." + path, Code: code, Problem: problem, Want: want}
}
