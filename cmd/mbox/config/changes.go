package config

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mbox/audit"
)

// Watch tells whether a home's mbox.toml, or what lies in its mbox.d, has changed
// since it was last looked at.
type Watch struct {
	home string
	seen []source
}

// Watch begins with what c was read from.
func (c *File) Watch() *Watch { return &Watch{c.Home(), c.files} }

// Changed looks at the files. What cannot be read is nothing, with an error.
func (w *Watch) Changed() (bool, error) {
	files, err := sources(w.home)
	changed := !slices.EqualFunc(files, w.seen, func(a, b source) bool { return a.name == b.name && bytes.Equal(a.data, b.data) })
	w.seen = files
	return changed, err
}

// Changes tells which settings another configuration has otherwise. Of a table that
// came or went, such as that of an agent, the name says it all.
func (c *File) Changes(other *File) string {
	before, after := c.settings(), other.settings()
	differ := map[string]bool{}
	note := func(mine, theirs map[string]string, what string) {
		for key, value := range mine {
			if is, known := theirs[key]; known && is == value {
				continue
			}
			if table, named := tableOf(key); named && !hasTable(theirs, table) {
				key = table + " (" + what + ")"
			}
			differ[key] = true
		}
	}
	note(before, after, "gone")
	note(after, before, "new")
	keys := slices.Sorted(maps.Keys(differ))
	const most = 12
	switch n := len(keys); {
	case n == 0:
		return "no setting has changed"
	case n > most:
		return fmt.Sprintf("%s and %d more hold from now on", strings.Join(keys[:most], ", "), n-most)
	}
	return strings.Join(keys, ", ") + " from now on"
}

// State is what a record tells of the settings.
func (c *File) State() string {
	var off, models []string
	for _, name := range c.AgentNames() {
		role, thinks := c.RoleOf(name)
		switch a := c.Agents[name]; {
		case !a.Enabled:
			off = append(off, name)
		case thinks && (a.Brain.Kind == "ollama" || a.Brain.Kind == "openai"):
			models = append(models, name+" "+role.Model)
		}
	}
	settings := c.settings()
	var all strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&all, "%s = %q\n", key, settings[key])
	}
	return fmt.Sprintf("Disabled agents: %s\n\nModels: %s\n\nAll settings: %s",
		cmp.Or(strings.Join(off, ", "), "none"), cmp.Or(strings.Join(models, ", "), "none"), audit.Hash([]byte(all.String())))
}

// settings are the values of all keys.
func (c *File) settings() map[string]string {
	all := map[string]string{}
	for _, v := range c.Values() {
		all[v.Key] = v.Value
	}
	return all
}

// tableOf is the table of a key that has a name of its own, such as agents.NAME.
func tableOf(key string) (table string, named bool) {
	parts := strings.SplitN(key, ".", 3)
	if len(parts) < 3 {
		return "", false
	}
	return parts[0] + "." + parts[1], true
}

func hasTable(settings map[string]string, table string) bool {
	for key := range settings {
		if strings.HasPrefix(key, table+".") {
			return true
		}
	}
	return false
}
