package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mbox/schemas"
)

// configError is something wrong in mbox.toml.
type configError struct {
	file    string
	line    int // from 1; 0 where none is known
	problem string
	excerpt string // the lines around it, with a mark
	hint    string
}

func (e *configError) Error() string {
	if e.line == 0 {
		return e.file + ": " + e.problem
	}
	return fmt.Sprintf("%s:%d: %s", e.file, e.line, e.problem)
}

// decode reads the text strictly into c and notes where each key stands.
func (c *Config) decode(data []byte) error {
	d := toml.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(c)
	var unknown *toml.StrictMissingError
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		return c.unknownKey(&unknown.Errors[0])
	case errors.As(err, &bad):
		line, _ := bad.Position()
		return &configError{file: c.path, line: line, problem: badValue(bad), excerpt: bad.String()}
	case err != nil:
		return &configError{file: c.path, problem: err.Error()}
	}
	c.where = linesOf(data)
	return nil
}

// badValue tells the key and what is wrong, without the library's name and Go's
// types.
func badValue(e *toml.DecodeError) string {
	text := strings.TrimPrefix(e.Error(), "toml: ")
	if key := strings.Join(e.Key(), "."); key != "" {
		text = key + ": " + text
	}
	return text
}

func (c *Config) unknownKey(e *toml.DecodeError) error {
	line, _ := e.Position()
	out := &configError{
		file: c.path, line: line, excerpt: e.String(),
		problem: fmt.Sprintf("unknown key %s", clean(strings.Join(e.Key(), "."), 100)),
		hint:    "mbox schema print config lists every key",
	}
	known, wrong := knownKeys(reflect.TypeFor[Config](), e.Key())
	if near := schemas.Suggest(wrong, known); near != "" {
		out.hint = fmt.Sprintf("did you mean %s?", near)
	}
	return out
}

// knownKeys walks down a key's path to the first part that is unknown, and
// tells what is known there.
func knownKeys(t reflect.Type, path []string) (known []string, wrong string) {
	for _, part := range path {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
			continue
		}
		if t.Kind() != reflect.Struct {
			return nil, part
		}
		next, names := fieldOf(t, part)
		if next == nil {
			return names, part
		}
		t = next
	}
	return nil, ""
}

func fieldOf(t reflect.Type, key string) (field reflect.Type, names []string) {
	for f := range t.Fields() {
		tag := f.Tag.Get("toml")
		if tag == "" {
			continue
		}
		names = append(names, tag)
		if tag == key {
			field = f.Type
		}
	}
	return field, names
}

// linesOf tells on which line each key and table of a well-formed text stands.
func linesOf(data []byte) map[string]int {
	where := map[string]int{}
	var p unstable.Parser
	p.Reset(data)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue && e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		if e.Kind == unstable.KeyValue {
			noteValue(where, table, e, data)
			continue
		}
		key, line := keyOf(e, data)
		where[key], table = line, key+"."
	}
	return where
}

// noteValue notes a key, and those of the inline table that it is set to.
func noteValue(where map[string]int, table string, e *unstable.Node, data []byte) {
	key, line := keyOf(e, data)
	key = table + key
	where[key] = line
	if v := e.Value(); v.Kind == unstable.InlineTable {
		for it := v.Children(); it.Next(); {
			noteValue(where, key+".", it.Node(), data)
		}
	}
}

func keyOf(e *unstable.Node, data []byte) (key string, line int) {
	var parts []string
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if parts == nil {
			line = bytes.Count(data[:n.Raw.Offset], []byte{'\n'}) + 1
		}
		parts = append(parts, string(n.Data))
	}
	return strings.Join(parts, "."), line
}

// line is where a key is set, or the table that would hold it; 0 for neither.
func (c *Config) line(key string) int {
	for key != "" {
		if line, ok := c.where[key]; ok {
			return line
		}
		key = key[:max(strings.LastIndexByte(key, '.'), 0)]
	}
	return 0
}

// wrong is an error about the value of a key.
func (c *Config) wrong(key, format string, a ...any) error {
	e := &configError{file: c.path, line: c.line(key), problem: key + ": " + fmt.Sprintf(format, a...)}
	if e.line > 0 {
		text := strings.TrimRight(strings.Split(string(c.source), "\n")[e.line-1], "\r")
		e.excerpt = fmt.Sprintf("%d| %s\n%s| %s", e.line, text, strings.Repeat(" ", len(fmt.Sprint(e.line))), strings.Repeat("~", len([]rune(text))))
	}
	return e
}

// origin tells where a key's value comes from: "default" or "mbox.toml:LINE".
func (c *Config) origin(key string) string {
	if line, ok := c.where[key]; ok {
		return fmt.Sprintf("%s:%d", configFile, line)
	}
	return "default"
}

// values lists every setting in force and where it comes from.
func (c *Config) values() []value {
	var out []value
	add := func(key string, v any) { out = append(out, value{key, fmt.Sprint(v), c.origin(key)}) }
	add("sync", c.Sync)
	add("lease", c.Lease)
	add("max_attempts", c.MaxAttempts)
	add("poll_interval", c.PollInterval)
	add("start_within", c.StartWithin)
	add("lock_wait", c.LockWait)
	add("retry_base", c.RetryBase)
	add("allow_network_fs", c.AllowNetworkFS)
	add("audit.hash_identities", c.Audit.HashIdentities)
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		a, table := c.Agents[name], "agents."+name+"."
		add(table+"enabled", a.Enabled)
		add(table+"types", strings.Join(a.Types, ", "))
		add(table+"actions", strings.Join(a.Actions, ", "))
		add(table+"only_named", a.OnlyNamed)
		if a.Exec != "" {
			add(table+"exec", a.Exec)
			add(table+"concurrency", a.Concurrency)
			add(table+"timeout", a.Timeout)
		}
	}
	return out
}
