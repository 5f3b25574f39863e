package config

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"mbox/agents"
	"mbox/agents/action"
	"mbox/mailbox"
	"mbox/schemas"
)

// Accept is a table [accept.NAME]: a check that results have to pass. It has one of
// file, schema, command and url.
type Accept struct {
	File    string   `toml:"file" json:"file,omitzero" jsonschema:"description=a file that is there\\, among the artifacts or in the workspace"`
	Schema  string   `toml:"schema" json:"schema,omitzero" jsonschema:"description=file with the JSON Schema of the output; relative ones from the mailbox's folder"`
	Command string   `toml:"command" json:"command,omitzero" jsonschema:"description=a command that ends with 0; the output is its standard input"`
	URL     string   `toml:"url" json:"url,omitzero" jsonschema:"description=an address that answers"`
	Status  int      `toml:"status" json:"status,omitzero" jsonschema:"minimum=100,maximum=599,description=with url: the status that is expected; else any below 400"`
	Header  string   `toml:"header" json:"header,omitzero" jsonschema:"description=with url: NAME: TEXT\\, a header that has the text in it"`
	Text    string   `toml:"text" json:"text,omitzero" jsonschema:"description=with url: a text that is expected in the body"`
	Timeout Duration `toml:"timeout" json:"timeout,omitzero" jsonschema:"default=5m,description=with command: how long it may take"`
}

// defaultCheckTime is how long a command of a check may take.
const defaultCheckTime = Duration(5 * time.Minute)

// check is what the agents make of the table.
func (a *Accept) check(home string) agents.Check {
	c := agents.Check{File: a.File, Schema: a.Schema, Command: a.Command, Timeout: time.Duration(a.Timeout)}
	if a.Schema != "" && !filepath.IsAbs(a.Schema) {
		c.Schema = filepath.Join(home, a.Schema)
	}
	if a.URL != "" {
		c.HTTP = &action.HTTPCheck{URL: a.URL, Status: a.Status, Header: a.Header, Text: a.Text}
	}
	return c
}

// Checks are what results have to pass, by their names.
func Checks(c *File) map[string]agents.Check {
	all := map[string]agents.Check{}
	for name, a := range c.Accept {
		all[name] = a.check(c.Home())
	}
	return all
}

// checkAccept refuses checks that nothing could pass, or everything.
func checkAccept(c *File) error {
	if _, taken := c.Accept[mailbox.OutputCheck]; taken {
		return advise(c.wrong("accept."+mailbox.OutputCheck, "the name is reserved for expect_output"), "another name")
	}
	err := checkTables(c, "accept", "check", c.Accept, func(key string, a *Accept) error {
		set := 0
		for _, way := range []string{a.File, a.Schema, a.Command, a.URL} {
			if way != "" {
				set++
			}
		}
		switch {
		case set != 1:
			return advise(c.wrong(key, "it does not say what is checked, or says it twice"), "want one of file, schema, command and url")
		case a.URL == "" && (a.Status != 0 || a.Header != "" || a.Text != ""):
			return c.wrong(key, "status, header and text are of a check with url")
		case a.Command == "" && c.has(key+".timeout"):
			return c.wrong(key+".timeout", "only a check with command has one")
		case a.File != "" && !filepath.IsLocal(a.File):
			return c.wrong(key+".file", "%s is not allowed: want a path in the workspace", quoted(a.File))
		case a.Command != "":
			fill(c, key, a, &Accept{Timeout: defaultCheckTime})
			return c.checkSpan(key+".timeout", a.Timeout, time.Second, 24*time.Hour)
		case a.URL != "":
			var bad *schemas.Error
			if err := a.check(c.Home()).HTTP.Validate(action.Limits{}); errors.As(err, &bad) {
				return c.wrong(key, "%s: want %s", bad.Problem, bad.Want)
			}
		}
		return nil
	})
	for _, name := range c.AgentNames() {
		for i, check := range c.Agents[name].Accept {
			key := "agents." + name + ".accept"
			if err == nil {
				err = checkName(c, key, check, "accept", c.Accept)
			}
			if err == nil && slices.Contains(c.Agents[name].Accept[:i], check) {
				err = c.wrong(key, "%s stands there twice", quoted(check))
			}
		}
	}
	return err
}
