package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What a file leaves open, the environment may set, and after it the defaults:
// file, role's variable, general variable, default. The names are those that
// agents had before mbox; MBOX_MODEL is mbox's own and goes before them. An
// empty variable is none.

// readEnvironment sets what the file does not.
func (c *File) readEnvironment() error {
	for _, read := range []func() error{c.readModels, c.readOllama, c.readProvider, c.readTimeouts, c.readWorkspaces, c.readLimits} {
		if err := read(); err != nil {
			return err
		}
	}
	return fillServe(c)
}

// take sets a key from the first variable that is set, if the file does not set
// it. set returns what is wrong with the value, without the value where that
// may hold a secret.
func (f *origins) take(key string, set func(value string) (problem string), variables ...string) error {
	if f.has(key) {
		return nil
	}
	for _, name := range variables {
		value := f.env(name)
		if value == "" {
			continue
		}
		if problem := set(value); problem != "" {
			return wrongVariable(name, problem)
		}
		f.from[key] = name
		return nil
	}
	return nil
}

func wrongVariable(name, problem string) error {
	return &Error{File: "the variable " + name, Problem: problem, Hint: "unset " + name + ", or set it right; mbox.toml goes before it"}
}

func (c *File) readModels() error {
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		set := func(value string) string { c.Roles[name].Model = value; return modelProblem(value) }
		if err := c.take("roles."+name+".model", set, "MBOX_MODEL", roleVariable(name), "ZEROCLAW_MODEL"); err != nil {
			return err
		}
	}
	return c.take("ollama.pull", c.setPull, "OLLAMA_MODELS_PREPULL", "ZEROCLAW_MODEL")
}

// dropPull pulls no model of ZEROCLAW_MODEL, which says what agents think with, where none
// thinks with Ollama.
func dropPull(c *File) {
	thinks := func(a *Agent) bool { return a.Enabled && a.Role != "" && a.Brain.Kind == "ollama" }
	if c.from["ollama.pull"] == "ZEROCLAW_MODEL" && !slices.ContainsFunc(slices.Collect(maps.Values(c.Agents)), thinks) {
		c.Ollama.Pull = nil
		delete(c.from, "ollama.pull")
	}
}

// setPull takes a list of models; auto is none, but the one that is there.
func (c *File) setPull(value string) string {
	c.Ollama.Pull = slices.DeleteFunc(commaList(value), func(model string) bool { return model == "auto" })
	for _, model := range c.Ollama.Pull {
		if problem := modelProblem(model); problem != "" {
			return problem
		}
	}
	return ""
}

func (c *File) readOllama() error {
	return c.take("ollama.url", c.setOllama, "OLLAMA_URL", "OLLAMA_HOST", "ZEROCLAW_API_ENDPOINT")
}

func (c *File) setOllama(value string) (problem string) {
	c.Ollama.URL, problem = ollamaURL(value)
	return problem
}

// readProvider reads the pair of variables that choose another model server.
// PROVIDER alone is a name that many programs use for something else.
func (c *File) readProvider() error {
	const provider, address = "PROVIDER", "ZEROCLAW_PROVIDER_URL"
	kind := c.env(provider)
	if c.env(address) == "" {
		if kind != "" {
			c.unread = append(c.unread, provider+" is set, and not used: it goes with "+address+", which is not set")
		}
		return nil
	}
	switch kind {
	case "ollama":
		if c.from["ollama.url"] != "" {
			return nil
		}
		return c.take("ollama.url", c.setOllama, address)
	case "openai":
		c.provider = kind
		for _, name := range c.agentsThatThink() {
			if key := "agents." + name + ".brain.kind"; !c.has(key) {
				c.from[key] = provider
			}
		}
	case "":
	default:
		return wrongVariable(provider, quoted(kind)+" is not allowed: want ollama or openai")
	}
	return c.take("openai.url", func(value string) string {
		c.OpenAI.URL = value
		_, problem := parseEndpoint(value)
		return problem
	}, address)
}

func (c *File) readTimeouts() error {
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		err := c.take("roles."+name+".timeout", func(value string) string {
			n, problem := variableNumber(value, 1, 24*3600)
			c.Roles[name].Timeout = Duration(time.Duration(n) * time.Second)
			return problem
		}, "ZEROCLAW_TIMEOUT_SECONDS")
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *File) readWorkspaces() error {
	dir := c.env("WORKSPACE_DIR")
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) || strings.ContainsRune(dir, 0) {
		return wrongVariable("WORKSPACE_DIR", quoted(dir)+" is not allowed: want an absolute path")
	}
	c.workspaces = filepath.Clean(dir)
	if problem := c.placeProblem(c.workspaces); problem != "" {
		return wrongVariable("WORKSPACE_DIR", problem)
	}
	return nil
}

func (c *File) readLimits() error {
	err := c.take("delegation.max_depth", func(value string) (problem string) {
		c.Delegation.MaxDepth, problem = variableNumber(value, 1, 10)
		return problem
	}, "MAX_DELEGATION_DEPTH")
	if err != nil {
		return err
	}
	return c.take("actions.write_file.roots", func(value string) string {
		c.Actions.WriteFile.Roots = commaList(value)
		for _, root := range c.Actions.WriteFile.Roots {
			if problem := rootProblem(root); problem != "" {
				return problem
			}
		}
		return ""
	}, "ALLOWED_WRITE_ROOTS")
}

func variableNumber(value string, least, most int) (n int, problem string) {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n < least || n > most {
		return 0, fmt.Sprintf("%s is not allowed: want a whole number from %d to %d", quoted(value), least, most)
	}
	return n, ""
}

// commaList takes a list apart; what is empty between commas is nothing.
func commaList(value string) (list []string) {
	for word := range strings.SplitSeq(value, ",") {
		if word = strings.TrimSpace(word); word != "" {
			list = append(list, word)
		}
	}
	return list
}
