package task

import (
	"bytes"
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/schemas"
)

// Salvage makes a task with an id of those fields of a bad drop that are valid by
// themselves and beside each other. Each field of a task is tried once, however
// many others there are. Which id the drop claims does not matter: it may be
// another task's.
func Salvage(id ID, data []byte) *Task {
	t := &Task{ID: id}
	known := taskFields()
	for name, section := range membersOf(data, slices.Collect(maps.Keys(known))) {
		t.salvageSection(name, section, known[name])
	}
	t.ID = id
	t.Task.Title = cmp.Or(t.Task.Title, "(no valid title)")
	return t
}

// taskFields are the names of a task's fields, by those of its sections.
var taskFields = sync.OnceValue(func() map[string][]string {
	sections := map[string][]string{}
	for section := range reflect.TypeFor[Task]().Fields() {
		var fields []string
		if section.Type.Kind() == reflect.Struct {
			for field := range section.Type.Fields() {
				fields = append(fields, jsonName(field))
			}
		}
		sections[jsonName(section)] = fields
	}
	return sections
})

// membersOf are the members of an object that have one of these names, none of what is
// no object. Members of other names cost no memory: a drop may have a hundred thousand.
func membersOf(object jsontext.Value, names []string) map[string]jsontext.Value {
	found := map[string]jsontext.Value{}
	if object.Kind() != '{' {
		return found
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(object), jsontext.AllowDuplicateNames(true))
	_, _ = d.ReadToken() // it is the '{'
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			break
		}
		key := name.String()
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		if slices.Contains(names, key) {
			found[key] = value.Clone()
		}
	}
	return found
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (t *Task) salvageSection(name string, section jsontext.Value, fields []string) {
	if section.Kind() != '{' {
		t.salvageField(map[string]any{name: section})
		return
	}
	for field, value := range membersOf(section, fields) {
		t.salvageField(map[string]any{name: map[string]jsontext.Value{field: value}})
	}
}

// salvageField takes one field over, in its section, if the task is valid with it.
func (t *Task) salvageField(field map[string]any) {
	data, err := json.Marshal(field, jsontext.AllowDuplicateNames(true))
	if err != nil || len(data)+Indents(data) > MaxNew {
		return
	}
	alone := Task{ID: t.ID, Task: Request{Title: "x"}}
	if schemas.Decode(data, &alone) != nil || alone.Forged() != nil || alone.Validate() != nil {
		return
	}
	with := *t
	if schemas.Decode(data, &with) == nil {
		*t = with
	}
}
