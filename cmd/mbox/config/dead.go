package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/pelletier/go-toml/v2"

	"mbox/mailbox/durable"
)

// archive is where entries of dead agents lie, from the home: NAME-TIME/agent.toml.
const archive = "agents/_archive"

// leaveOutDead takes the names of dead agents out of the settings that grant something to
// others: an agent that was put away is no fault of a table that names it, and its way
// into the archive has to lead past all of them. Bridges, schedules and notifications keep
// the name: what a bridge or a notification sends it is refused, as for any dead agent, and
// the task of a schedule waits for it.
func leaveOutDead(c *File) {
	found := map[string][]string{} // keys by names that nobody has
	stranger := func(key, name string) bool {
		is := name != "" && c.Agents[name] == nil
		if is {
			found[name] = append(found[name], key)
		}
		return is
	}
	for _, name := range c.AgentNames() {
		key, a := "agents."+name, c.Agents[name]
		for _, other := range a.Delegates {
			stranger(key+".delegates", other)
		}
		for _, other := range a.Workspace.ReadMemoryFrom {
			stranger(key+".workspace.read_memory_from", other)
		}
		for other := range a.Workspace.Access {
			stranger(key+".workspace.access."+other, other)
		}
	}
	for name, b := range c.Bridges {
		stranger("bridges."+name+".to", b.To)
	}
	for name, s := range c.Schedules {
		if s.To != "any" {
			stranger("schedules."+name+".to", s.To)
		}
	}
	for name, n := range c.Notify {
		stranger("notify."+name+".agent", n.Agent)
	}
	if len(found) == 0 {
		return // and the archive is not read
	}
	c.dead = deadNames(c)
	maps.DeleteFunc(found, func(name string, _ []string) bool { return !c.dead[name] })
	c.naming = found
	dead := func(name string) bool { return c.dead[name] }
	for _, a := range c.Agents {
		a.Delegates = slices.DeleteFunc(a.Delegates, dead)
		a.Workspace.ReadMemoryFrom = slices.DeleteFunc(a.Workspace.ReadMemoryFrom, dead)
		maps.DeleteFunc(a.Workspace.Access, func(name, _ string) bool { return dead(name) })
	}
}

// deadNames are those of agents that were put away and have not come back, and what these
// were called before.
func deadNames(c *File) map[string]bool {
	dead := map[string]bool{}
	for _, f := range c.files {
		if f.gone {
			addNames(dead, f.data)
		}
	}
	for _, text := range archived(c) {
		addNames(dead, text)
	}
	maps.DeleteFunc(dead, func(name string, _ bool) bool { return c.Agents[name] != nil })
	return dead
}

// archived are the entries that lie in the archive.
func archived(c *File) (texts [][]byte) {
	if !filepath.IsAbs(c.path) {
		return nil // it is no home's
	}
	entries, _ := os.ReadDir(filepath.Join(c.Home(), archive)) // none is there before the first death
	for _, e := range entries {
		if text, err := durable.Read(filepath.Join(c.Home(), archive, e.Name(), "agent.toml"), maxSize); err == nil {
			texts = append(texts, text)
		}
	}
	return texts
}

// addNames adds those of the agents that an entry makes.
func addNames(to map[string]bool, entry []byte) {
	var is struct {
		Agents map[string]struct {
			Formerly []string `toml:"formerly"`
		} `toml:"agents"`
	}
	if toml.Unmarshal(entry, &is) != nil {
		return
	}
	for name, a := range is.Agents {
		for _, one := range append(a.Formerly, name) {
			to[one] = true
		}
	}
}

// NamingDead are the settings that name an agent that is dead, by file, line and key.
func NamingDead(c *File) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(c.naming)) {
		for _, key := range slices.Sorted(slices.Values(c.naming[name])) {
			all = append(all, fmt.Sprintf("%s: %s names %s", c.at(key), key, name))
		}
	}
	return all
}
