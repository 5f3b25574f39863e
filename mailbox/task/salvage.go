package task

import (
	"cmp"
	"reflect"
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
	var sections map[string]jsontext.Value
	if json.Unmarshal(data, &sections) == nil {
		for name, fields := range taskFields() {
			if section, ok := sections[name]; ok {
				t.salvageSection(name, section, fields)
			}
		}
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

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (t *Task) salvageSection(name string, section jsontext.Value, fields []string) {
	if section.Kind() != '{' {
		t.salvageField(map[string]jsontext.Value{name: section})
		return
	}
	var values map[string]jsontext.Value
	if json.Unmarshal(section, &values) != nil {
		return
	}
	for _, field := range fields {
		value, ok := values[field]
		if !ok {
			continue
		}
		inner, err := json.Marshal(map[string]jsontext.Value{field: value}, jsontext.AllowDuplicateNames(true))
		if err == nil {
			t.salvageField(map[string]jsontext.Value{name: inner})
		}
	}
}

// salvageField takes one field over if the task is valid with it.
func (t *Task) salvageField(field map[string]jsontext.Value) {
	data, err := json.Marshal(field, jsontext.AllowDuplicateNames(true))
	if err != nil {
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
