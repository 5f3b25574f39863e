package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"mbox/agents"
)

// Value is a setting and where it comes from.
type Value struct {
	Key   string `json:"key"`
	Value string `json:"value"`
	From  string `json:"from"`

	Plain bool `json:"-"` // stands in the table that people read, too
}

const isDefault = "default"

// origin tells where a key's value comes from: "default", "mbox.toml:LINE", the same
// of a file of mbox.d, or the name of a variable.
func (f *origins) origin(key string) string {
	if at, ok := f.where[key]; ok {
		return at.String()
	}
	return cmp.Or(f.from[key], isDefault)
}

// inherit notes that a key takes its value from another one.
func (f *origins) inherit(key, other string) {
	if from := f.origin(other); !f.has(key) && from != isDefault {
		f.from[key] = from
	}
}

// Values lists every setting in force and where it comes from.
func (c *File) Values() []Value {
	var out []Value
	played := c.played()
	c.walk("", reflect.ValueOf(*c), func(key string, v any) {
		text, from := fmt.Sprint(v), c.origin(key)
		out = append(out, Value{key, text, from, c.has(key) || c.plain(played, key, text != "", from != isDefault)})
	})
	if from := c.from["serve.address"]; c.Serve == nil && from != "" {
		out = append(out, Value{"serve.address", c.doors.Address, from, true}) // mbox serve obeys it without the table, too
	}
	return out
}

// walk calls visit for every key, tables in the order of the struct, names
// sorted.
func (f *origins) walk(key string, v reflect.Value, visit func(key string, v any)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			f.walk(key, v.Elem(), visit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if tag := v.Type().Field(i).Tag.Get("toml"); tag != "" {
				f.walk(strings.TrimPrefix(key+"."+tag, "."), v.Field(i), visit)
			}
		}
	case reflect.Map:
		for _, name := range keysOfMap(v) {
			f.walk(key+"."+name, v.MapIndex(reflect.ValueOf(name)), visit)
		}
	case reflect.Slice:
		visit(key, strings.Join(v.Interface().([]string), ", "))
	default:
		visit(key, v.Interface())
	}
}

func keysOfMap(m reflect.Value) (keys []string) {
	for _, k := range m.MapKeys() {
		keys = append(keys, k.String())
	}
	slices.Sort(keys)
	return keys
}

// What people see of roles and agents that are in force, besides what is set.
var (
	plainOfRole  = []string{"model", "actions", "max_tokens", "timeout"}
	plainOfAgent = slices.Clip([]string{"types", "actions", "exec", "role", "risk_profile", "brain.kind", "brain.model"})
)

// plain tells whether people see a key that the file does not set: what is in
// force, as long as it is something; of roles and agents the chief of it, and
// what a variable has set.
func (c *File) plain(played map[string]bool, key string, something, set bool) bool {
	table, rest, _ := strings.Cut(key, ".")
	name, rest, _ := strings.Cut(rest, ".")
	switch table {
	case "roles":
		return something && played[name] && (set || slices.Contains(plainOfRole, rest))
	case "agents":
		return rest == "enabled" || something && c.Agents[name].Enabled && (set || slices.Contains(c.plainOf(name), rest))
	case "risk_profiles", "runtime_profiles", "bridges", "notify", "schedules":
		return false
	}
	return something
}

func (c *File) plainOf(agent string) []string {
	if c.Agents[agent].Whole() {
		return append(plainOfAgent, "concurrency", "timeout", "silence")
	}
	return plainOfAgent
}

// played are the roles that enabled agents have.
func (c *File) played() map[string]bool {
	roles := map[string]bool{}
	for _, a := range c.Agents {
		roles[a.Role] = roles[a.Role] || a.Enabled
	}
	return roles
}

// agentsThatThink are the names of agents that have a role, by their tables or
// because they are built in. It is asked before the tables are completed.
func (c *File) agentsThatThink() (names []string) {
	builtin := agents.DefaultRoles()
	for name, a := range c.Agents {
		if _, known := builtin[name]; a.Role != "" || known && !a.Whole() && !c.has("agents."+name+".role") {
			names = append(names, name)
		}
	}
	for name := range builtin {
		if c.Agents[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
