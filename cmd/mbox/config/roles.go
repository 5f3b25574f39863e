package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"mbox/agents"
	"mbox/schemas"
)

// Role is a table [roles.NAME].
type Role struct {
	Purpose      string   `toml:"purpose" json:"purpose,omitzero" jsonschema:"description=what it is there for\\, one sentence"`
	Model        string   `toml:"model" json:"model,omitzero" jsonschema:"default=phi4-mini,description=the model that it thinks with"`
	Fallback     []string `toml:"fallback" json:"fallback,omitzero" jsonschema:"description=models for when that one cannot answer\\, in this order"`
	Capabilities []string `toml:"capabilities" json:"capabilities,omitzero" jsonschema:"description=words for what it can do; they allow nothing"`
	Actions      []string `toml:"actions" json:"actions,omitzero" jsonschema:"description=actions that it may do; all others are refused,enum=write_file,enum=read_file,enum=file_check,enum=http_check,enum=deploy_compose,enum=delegate"`
	Folder       string   `toml:"folder" json:"folder,omitzero" jsonschema:"description=where its relative paths begin\\, from the workspace of its agent"`
	Autorun      bool     `toml:"autorun_files" json:"autorun_files,omitzero" jsonschema:"default=false,description=write_file takes names that programs run by themselves: dotfiles\\, package.json and the like"`
	MaxTokens    int      `toml:"max_tokens" json:"max_tokens,omitzero" jsonschema:"default=2048,minimum=1,maximum=131072,description=longest reply"`
	Timeout      Duration `toml:"timeout" json:"timeout,omitzero" jsonschema:"default=5m,description=longest wait for a reply"`
}

// actionNames are the actions there are.
var actionNames = []string{"write_file", "read_file", "file_check", "http_check", "deploy_compose", "delegate"}

// Names that tables and models may have.
var (
	tableName  = schemas.Pattern(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	modelName  = schemas.Pattern(`^[A-Za-z0-9][A-Za-z0-9._:/@-]{0,127}$`)
	abilityFit = schemas.Pattern(`^[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}$`)
)

// fillRoles puts the built-in roles under what the file says of them.
func (c *File) fillRoles() {
	if c.Roles == nil {
		c.Roles = map[string]*Role{}
	}
	builtin := agents.DefaultRoles()
	for name := range builtin {
		if c.Roles[name] == nil {
			c.Roles[name] = &Role{}
		}
	}
	for name, r := range c.Roles {
		base, known := builtin[name]
		if !known {
			base = agents.Role{Model: agents.DefaultModel, MaxTokens: agents.DefaultMaxTokens, Timeout: agents.DefaultTimeout}
		}
		fill(c, "roles."+name, r, &Role{
			Purpose: base.Purpose, Model: base.Model, Fallback: base.Fallback, Capabilities: base.Capabilities,
			Actions: base.Actions, Folder: base.Folder, MaxTokens: base.MaxTokens, Timeout: Duration(base.Timeout),
		})
	}
}

// TeamRoles are all roles, as package agents takes them.
func (c *File) TeamRoles() map[string]agents.Role {
	out := map[string]agents.Role{}
	for name, r := range c.Roles {
		out[name] = r.named(name)
	}
	return out
}

func (r *Role) named(name string) agents.Role {
	return agents.Role{
		Name: name, Purpose: r.Purpose, Model: r.Model, Fallback: slices.Clone(r.Fallback),
		Capabilities: slices.Clone(r.Capabilities), Actions: slices.Clone(r.Actions),
		Folder: r.Folder, Autorun: r.Autorun, MaxTokens: r.MaxTokens, Timeout: time.Duration(r.Timeout),
	}
}

// RoleOf is an agent's role, with the model that this agent asks.
func (c *File) RoleOf(agent string) (role agents.Role, has bool) {
	a := c.Agents[agent]
	if a == nil || c.Roles[a.Role] == nil {
		return role, false
	}
	role = c.Roles[a.Role].named(a.Role)
	role.Model = cmp.Or(a.Brain.Model, role.Model)
	return role, true
}

func (c *File) checkRoles() error { return checkTables(c, "roles", "role", c.Roles, c.checkRole) }

func (c *File) checkRole(key string, r *Role) error {
	if len(r.Purpose) > 1000 {
		return c.wrong(key+".purpose", "has %d bytes: want at most 1000", len(r.Purpose))
	}
	if err := c.checkModels(key+".model", r.Model); err != nil {
		return err
	}
	if err := c.checkModels(key+".fallback", r.Fallback...); err != nil {
		return err
	}
	for _, word := range r.Capabilities {
		if !abilityFit().MatchString(word) {
			return c.wrong(key+".capabilities", "%q is not allowed: want a word or two", schemas.Sentence(word, 40))
		}
	}
	if err := c.checkWords(key+".actions", r.Actions, actionNames); err != nil {
		return err
	}
	if r.Folder != "" && rootProblem(r.Folder) != "" {
		return c.wrong(key+".folder", "%s", rootProblem(r.Folder))
	}
	if err := c.checkNumbers(key, bound{".max_tokens", r.MaxTokens, 1, 131072}); err != nil {
		return err
	}
	return c.checkSpan(key+".timeout", r.Timeout, time.Second, 24*time.Hour)
}

func (f *origins) checkModels(key string, names ...string) error {
	for _, name := range names {
		if problem := modelProblem(name); problem != "" {
			return f.wrong(key, "%s", problem)
		}
	}
	return nil
}

func modelProblem(name string) string {
	if modelName().MatchString(name) {
		return ""
	}
	return quoted(name) + ` is no name of a model: want something like "phi4-mini" or "llama3.2:3b"`
}

// roleVariable is the variable that names a role's model.
func roleVariable(role string) string {
	return "ZEROCLAW_MODEL_" + strings.ToUpper(strings.ReplaceAll(role, "-", "_"))
}
