package config

import (
	"cmp"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/agents/action"
	"mbox/schemas"
)

// Delegation is the table [delegation]: how far a tree of tasks may grow. The
// budgets are those of a whole tree, from its root on.
type Delegation struct {
	MaxDepth    int `toml:"max_depth" json:"max_depth,omitzero" jsonschema:"default=3,minimum=1,maximum=10,description=tasks of this depth are refused; a root has depth 0"`
	MaxChildren int `toml:"max_children" json:"max_children,omitzero" jsonschema:"default=16,minimum=1,maximum=1000,description=tasks handed on in one tree"`
	MaxActions  int `toml:"max_actions" json:"max_actions,omitzero" jsonschema:"default=100,minimum=1,maximum=1000000,description=actions done in one tree"`
	MaxTokens   int `toml:"max_tokens" json:"max_tokens,omitzero" jsonschema:"default=200000,minimum=1,maximum=1000000000,description=tokens of models spent in one tree"`
	MaxSeconds  int `toml:"max_seconds" json:"max_seconds,omitzero" jsonschema:"default=3600,minimum=1,maximum=2592000,description=seconds worked in one tree"`
}

// Actions is the table [actions]: what bounds each action, whoever does it.
type Actions struct {
	WriteFile     WriteFile     `toml:"write_file" json:"write_file,omitzero" jsonschema:"description=what may be written"`
	HTTPCheck     HTTPCheck     `toml:"http_check" json:"http_check,omitzero" jsonschema:"description=what may be asked"`
	DeployCompose DeployCompose `toml:"deploy_compose" json:"deploy_compose,omitzero" jsonschema:"description=what may be deployed"`
}

// WriteFile is the table [actions.write_file].
type WriteFile struct {
	Extensions []string `toml:"extensions" json:"extensions,omitzero" jsonschema:"description=of files that may be written\\, with the dot; an empty one is a name without"`
	MaxBytes   int      `toml:"max_bytes" json:"max_bytes,omitzero" jsonschema:"default=100000,minimum=1,maximum=1000000,description=of one file"`
	Roots      []string `toml:"roots" json:"roots,omitzero" jsonschema:"description=folders of the workspace that may be written into; none: all of it"`
}

// HTTPCheck is the table [actions.http_check].
type HTTPCheck struct {
	Loopback []string `toml:"loopback" json:"loopback,omitzero" jsonschema:"description=host:port pairs of this machine that may be asked"`
}

// DeployCompose is the table [actions.deploy_compose].
type DeployCompose struct {
	Run    bool `toml:"run" json:"run,omitzero" jsonschema:"default=false,description=run docker compose for a task that was approved; else it is a dry run"`
	Socket bool `toml:"socket" json:"socket,omitzero" jsonschema:"default=false,description=services may mount the engine's socket"`

	Registries []string `toml:"registries" json:"registries,omitzero" jsonschema:"description=where images may come from\\, as image names begin; docker.io: those that name none"`
}

func defaultDelegation() Delegation {
	return Delegation{MaxDepth: 3, MaxChildren: 16, MaxActions: 100, MaxTokens: 200_000, MaxSeconds: 3600}
}

func defaultActions() Actions {
	return Actions{WriteFile: WriteFile{
		Extensions: []string{".txt", ".md", ".json", ".yaml", ".yml", ".cfg", ".conf", ".ini", ".log"},
		MaxBytes:   100_000,
	}, DeployCompose: DeployCompose{Registries: action.DefaultRegistries()}}
}

// Limits bound the parameters of actions.
func (c *File) Limits() action.Limits {
	w := c.Actions.WriteFile
	return action.Limits{Extensions: slices.Clone(w.Extensions), MaxBytes: w.MaxBytes, WriteRoots: slices.Clone(w.Roots), Registries: slices.Clone(c.Actions.DeployCompose.Registries)}
}

// HTTP is what http_check may ask on this machine, and what it may not
// whatever that list says.
func (c *File) HTTP() action.HTTPOptions {
	o := action.HTTPOptions{Loopback: slices.Clone(c.Actions.HTTPCheck.Loopback), Never: append(c.doors.listens(), c.Bridges.listen()...)}
	servers := []string{c.Ollama.URL, c.OpenAI.URL}
	for _, name := range c.AgentNames() {
		servers = append(servers, c.Agents[name].AgentZero.URL)
	}
	for _, own := range servers {
		if at := hostPort(own); at != "" {
			o.Never = append(o.Never, at)
		}
	}
	return o
}

// Compose is what deploy_compose may do besides.
func (c *File) Compose() action.ComposeOptions {
	return action.ComposeOptions{Run: c.Actions.DeployCompose.Run, Socket: c.Actions.DeployCompose.Socket}
}

func (c *File) checkLimits() error {
	d, w := c.Delegation, c.Actions.WriteFile
	if err := c.checkNumbers("",
		bound{"delegation.max_depth", d.MaxDepth, 1, 10},
		bound{"delegation.max_children", d.MaxChildren, 1, 1000},
		bound{"delegation.max_actions", d.MaxActions, 1, 1_000_000},
		bound{"delegation.max_tokens", d.MaxTokens, 1, 1_000_000_000},
		bound{"delegation.max_seconds", d.MaxSeconds, 1, 30 * 24 * 3600},
		bound{"actions.write_file.max_bytes", w.MaxBytes, 1, 1_000_000}); err != nil {
		return err
	}
	for _, e := range w.Extensions {
		if !extension().MatchString(e) {
			return c.wrong("actions.write_file.extensions", `%q is no extension: want one like ".txt", or "" for names without`, schemas.Sentence(e, 40))
		}
	}
	for _, r := range w.Roots {
		if problem := rootProblem(r); problem != "" {
			return c.wrong("actions.write_file.roots", "%s", problem)
		}
	}
	for _, at := range c.Actions.HTTPCheck.Loopback {
		if !isLoopbackPair(at) {
			return c.wrong("actions.http_check.loopback", `%q is not allowed: want host:port of this machine, such as "127.0.0.1:8080"`, schemas.Sentence(at, 60))
		}
	}
	for _, r := range c.Actions.DeployCompose.Registries {
		if !registry().MatchString(r) {
			return c.wrong("actions.deploy_compose.registries", `%s is no registry: want a host's name, perhaps with a port, such as "ghcr.io" or "localhost:5000"`, quoted(r))
		}
	}
	return nil
}

var registry = schemas.Pattern(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[0-9]{1,5})?$`)

var extension = schemas.Pattern(`^(\.[a-z0-9][a-z0-9_+-]{0,15})?$`)

// rootProblem tells why a folder cannot be a root to write into; "" if it can.
func rootProblem(root string) string {
	clear := path.Clean(root)
	if root == "" || len(root) > 200 || strings.ContainsAny(root, "\x00\\") || path.IsAbs(root) || clear == ".." || strings.HasPrefix(clear, "../") ||
		slices.Contains(strings.Split(root, "/"), "..") {
		return quoted(root) + ` is not allowed: want a folder of the workspace, such as "projects" or "docs/drafts"`
	}
	return ""
}

func isLoopbackPair(at string) bool {
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return false
	}
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && n > 0 && isLoopback(host)
}

// isLoopback tells whether a host is this machine by itself, without asking DNS.
func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}

// The checks that many keys share.

// checkTables checks the tables of one kind, and their names.
func checkTables[T any](c *File, kind, what string, tables map[string]T, check func(key string, table T) error) error {
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		key := kind + "." + name
		if !tableName().MatchString(name) {
			return c.wrong(key, "%q is no name of a %s: want %s", schemas.Sentence(name, 40), what, tableName())
		}
		if err := check(key, tables[name]); err != nil {
			return err
		}
	}
	return nil
}

// bound is a number that a key is set to, and what it may be.
type bound struct {
	key            string
	n, least, most int
}

// checkNumbers checks the numbers of a table.
func (f *origins) checkNumbers(table string, numbers ...bound) error {
	for _, b := range numbers {
		if b.n < b.least || b.n > b.most {
			return f.wrong(table+b.key, "%d is not allowed: want %d to %d", b.n, b.least, b.most)
		}
	}
	return nil
}

func (f *origins) checkSpan(key string, d Duration, least, most time.Duration) error {
	if v := time.Duration(d); v < least || v > most {
		return f.wrong(key, "%s is not allowed: want %s to %s", cmp.Or(Span(v), "0s"), Span(least), Span(most))
	}
	return nil
}

// checkWords wants each word among those known, and none twice.
func (f *origins) checkWords(key string, words, known []string) error {
	for i, w := range words {
		if err := f.checkWord(key, w, known); err != nil {
			return err
		}
		if slices.Contains(words[:i], w) {
			return f.wrong(key, "%s stands there twice", w)
		}
	}
	return nil
}

func (f *origins) checkWord(key, word string, known []string) error {
	if slices.Contains(known, word) {
		return nil
	}
	return f.wrong(key, "%s is not allowed: want %s%s", quoted(word), oneOfThese(known), schemas.Meant(word, known))
}
