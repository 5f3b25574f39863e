package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"mbox/audit"
	"mbox/audit/record"
)

// editedConfig is how the description of a record begins that recordEdit writes.
const editedConfig = "What mbox up runs by has changed: "

// recordEdit writes a change record where the settings are not those of the last
// such record, or of the first start the defaults: which agents are off, which
// model each has been given, and a hash of every setting. It is written when mbox
// up takes the settings over; was is what ran before, nil at the start.
func (v *service) recordEdit(ctx context.Context, was *Config) error {
	known, err := v.box.Changes(ctx)
	if err != nil {
		return err
	}
	before := defaultState()
	for _, c := range known {
		if strings.HasPrefix(c.Description, editedConfig) {
			before = c.After
		}
	}
	after := v.config.state()
	if after == before {
		return nil
	}
	what := "see the hash"
	if was != nil {
		what = was.changes(v.config)
	}
	_, err = v.box.Change(ctx, record.Change{
		Agent: "human", Type: "config",
		Description:  editedConfig + what + ".",
		Rationale:    "Somebody who may write mbox.toml or set mbox's environment has changed it. mbox up records it when it takes it over.",
		Before:       before,
		After:        after,
		Rollback:     "Put back what stood in mbox.toml; mbox up reads it again.",
		Verification: "mbox doctor shows every setting and where it comes from.",
	})
	return err
}

// state is what a record tells of the settings.
func (c *Config) state() string {
	var off, models []string
	for _, name := range c.agentNames() {
		role, thinks := c.roleOf(name)
		switch a := c.Agents[name]; {
		case !a.Enabled:
			off = append(off, name)
		case thinks && (a.Brain.Kind == "ollama" || a.Brain.Kind == "openai"):
			models = append(models, name+" "+role.Model)
		}
	}
	settings := map[string]string{}
	for _, v := range c.values() {
		settings[v.Key] = v.Value
	}
	var all strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&all, "%s = %q\n", key, settings[key])
	}
	return fmt.Sprintf("Disabled agents: %s\n\nModels: %s\n\nAll settings: %s",
		or(strings.Join(off, ", "), "none"), or(strings.Join(models, ", "), "none"), audit.Hash([]byte(all.String())))
}

func defaultState() string {
	c, err := parseConfig(configFile, nil)
	if err != nil {
		return "" // the defaults are valid; a test holds that
	}
	return c.state()
}
