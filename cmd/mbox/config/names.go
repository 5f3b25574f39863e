package config

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"

	"mbox/schemas"
)

// former tells what agents are called now, by the names that they had. A name that
// somebody has is none of these.
func former(c *File) map[string]string {
	now := map[string]string{}
	for _, name := range c.AgentNames() {
		for _, old := range c.Agents[name].Formerly {
			if c.Agents[old] == nil {
				now[old] = name
			}
		}
	}
	return now
}

// followNames has every setting that names an agent by a name that it had name it as it
// is called now.
func followNames(c *File) {
	now := former(c)
	if len(now) == 0 {
		return
	}
	follow := func(name *string) {
		if is, was := now[*name]; was {
			*name = is
		}
	}
	for _, a := range c.Agents {
		for _, list := range [][]string{a.Delegates, a.Workspace.ReadMemoryFrom} {
			for i := range list {
				follow(&list[i])
			}
		}
		for old, name := range now {
			if access, set := a.Workspace.Access[old]; set && a.Workspace.Access[name] == "" {
				delete(a.Workspace.Access, old)
				a.Workspace.Access[name] = access
			}
		}
	}
	for _, b := range c.Bridges {
		follow(&b.To)
	}
	for _, s := range c.Schedules {
		follow(&s.To)
	}
	for _, n := range c.Notify {
		follow(&n.Agent)
	}
}

var uuidForm = schemas.Pattern(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// checkNames checks what an agent is known by beside its name.
func checkNames(c *File, key string, a *Agent) error {
	name := strings.TrimPrefix(key, "agents.")
	for _, old := range a.Formerly {
		if problem := AgentProblem(old); problem != "" {
			return c.wrong(key+".formerly", "%s", problem)
		}
	}
	if a.UUID != "" && !uuidForm().MatchString(a.UUID) {
		return c.wrong(key+".uuid", "%s is no UUID: mbox agent birth makes one", quoted(a.UUID))
	}
	if err := c.checkWord(key+".units", a.Units, []string{"", "systemd", "launchd"}); err != nil {
		return err
	}
	for _, other := range c.AgentNames() {
		o := c.Agents[other]
		if other == name || slices.Contains(a.Formerly, other) || slices.Contains(o.Formerly, name) {
			continue // while its name is changed an agent has two entries
		}
		if a.UUID != "" && o.UUID == a.UUID {
			return c.wrong(key+".uuid", "that is %s, too", other)
		}
		for _, old := range a.Formerly {
			if slices.Contains(o.Formerly, old) {
				return c.wrong(key+".formerly", "%s was called %s, too", other, old)
			}
		}
	}
	return nil
}

// Rename is the text of the file that mbox agent birth has made for an agent, for another
// name, with what else stands there, and the configuration with it in the place of the
// old one. An error says that the table stands elsewhere, or not as mbox writes it, or
// that the settings make no sense with it.
func Rename(c *File, from, to string) (text []byte, next *File, err error) {
	key, name := "agents."+from, Dir+"/"+from+".toml"
	at := c.owners[key]
	if at.source == nil || at.name != name {
		return nil, nil, &Error{File: c.at(key).path, Line: c.at(key).line, Problem: fmt.Sprintf("[%s] was not written by mbox agent birth", key), Hint: "change its name there, where it has no tasks"}
	}
	formerly := slices.DeleteFunc(slices.Clone(c.Agents[from].Formerly), func(old string) bool { return old == to })
	text, err = setKey(c, renamed(at.data, from, to), key, "formerly", append(formerly, from))
	if err != nil {
		return nil, nil, err
	}
	files := instead(instead(c.files, c.Home(), name, nil), c.Home(), Dir+"/"+to+".toml", text)
	next, err = parse(filepath.Join(c.Home(), Name), files, c.env)
	return text, next, err
}

// setKey sets a key of a table, which is c's and stands at the same lines of text. What
// else stands there stays. An error says that it is not written as mbox writes it.
func setKey(c *File, text []byte, table, key string, value any) ([]byte, error) {
	line, err := toml.Marshal(map[string]any{key: value})
	if err != nil {
		return nil, err
	}
	lines := strings.SplitAfter(string(text), "\n")
	head, set := c.where[table], c.where[table+"."+key]
	switch {
	case set.source != nil && alone(lines[set.line-1], key):
		lines[set.line-1] = string(line)
	case set.source == nil && head.source != nil && strings.HasPrefix(strings.TrimSpace(lines[head.line-1]), "["):
		if !strings.HasSuffix(lines[head.line-1], "\n") {
			lines[head.line-1] += "\n"
		}
		lines = slices.Insert(lines, head.line, string(line))
	default:
		at := c.at(table)
		return nil, &Error{File: at.path, Line: at.line, Problem: table + " is not written as mbox writes it", Hint: "want a line [" + table + "], and " + key + ", if it is there, in one line behind it"}
	}
	return []byte(strings.Join(lines, "")), nil
}

// alone tells whether a line is this key and its whole value.
func alone(line, key string) bool {
	var is map[string]any
	return toml.Unmarshal([]byte(line), &is) == nil && len(is) == 1 && is[key] != nil
}

// Upgrade is the text of the file that mbox agent birth has made for an agent, with other
// values of some keys of its table, and the configuration with that.
func Upgrade(c *File, name string, values map[string]string) (text []byte, next *File, err error) {
	key, file := "agents."+name, Dir+"/"+name+".toml"
	at := c.owners[key]
	if at.source == nil || at.name != file {
		return nil, nil, &Error{File: c.at(key).path, Line: c.at(key).line, Problem: fmt.Sprintf("[%s] was not written by mbox agent birth", key), Hint: "change it there"}
	}
	next, text = c, at.data
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if text, err = setKey(next, text, key, k, values[k]); err == nil {
			next, err = parse(filepath.Join(c.Home(), Name), instead(c.files, c.Home(), file, text), c.env)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return text, next, nil
}

// renamed gives an agent's tables in a well-formed text another name.
func renamed(data []byte, from, to string) []byte {
	var out bytes.Buffer
	done := 0
	swap := func(at unstable.Range) {
		out.Write(data[done:at.Offset])
		out.WriteString(to)
		done = int(at.Offset + at.Length)
	}
	var p unstable.Parser
	p.Reset(data)
	table := []string{}
	for p.NextExpression() {
		e := p.Expression()
		if e.Kind != unstable.KeyValue && e.Kind != unstable.Table && e.Kind != unstable.ArrayTable {
			continue
		}
		if e.Kind != unstable.KeyValue {
			table = nil
		}
		path := slices.Clone(table)
		for it := e.Key(); it.Next(); {
			n := it.Node()
			if len(path) == 1 && path[0] == "agents" && string(n.Data) == from {
				swap(n.Raw)
			}
			path = append(path, string(n.Data))
		}
		if e.Kind != unstable.KeyValue {
			table = path
		}
	}
	out.Write(data[done:])
	return out.Bytes()
}
