package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// configFile is the configuration's name in the home.
const configFile = "mbox.toml"

// Config is mbox.toml. Every key is optional; a key that is not here is an
// error that names file and line. agents-home/template/mbox.toml documents
// each of them for people.
type Config struct {
	Sync           string            `toml:"sync" json:"sync,omitzero" jsonschema:"enum=standard,enum=strict,enum=none,default=standard,description=what is flushed before an answer: contents and ledger; also folders; nothing"`
	Lease          Duration          `toml:"lease" json:"lease,omitzero" jsonschema:"default=15m,description=how long a claim lasts without a sign of life\\, 1s to 7d"`
	MaxAttempts    int               `toml:"max_attempts" json:"max_attempts,omitzero" jsonschema:"default=3,minimum=1,maximum=100,description=claims before a task has failed for good"`
	PollInterval   Duration          `toml:"poll_interval" json:"poll_interval,omitzero" jsonschema:"default=5s,description=how often the folders are scanned\\, 1s to 60s"`
	StartWithin    Duration          `toml:"start_within" json:"start_within,omitzero" jsonschema:"default=10m,description=a ready task that nobody takes in this time is an alarm"`
	LockWait       Duration          `toml:"lock_wait" json:"lock_wait,omitzero" jsonschema:"default=10s,description=how long a lock is waited for"`
	RetryBase      Duration          `toml:"retry_base" json:"retry_base,omitzero" jsonschema:"default=1s,description=retry n waits retry_base times 2^n\\, with jitter"`
	AllowNetworkFS bool              `toml:"allow_network_fs" json:"allow_network_fs,omitzero" jsonschema:"default=false,description=work on NFS\\, SMB\\, 9p and FUSE\\, where locks and renames promise less"`
	Audit          AuditConfig       `toml:"audit" json:"audit,omitzero" jsonschema:"description=the ledger"`
	Agents         map[string]*Agent `toml:"agents" json:"agents,omitzero" jsonschema:"description=the registry of agents\\, by name"`

	path   string         // of the file
	where  map[string]int // line of every key that the file sets
	source []byte
}

// AuditConfig is the table [audit].
type AuditConfig struct {
	HashIdentities bool `toml:"hash_identities" json:"hash_identities,omitzero" jsonschema:"default=false,description=sessions enter the ledger as salted hashes"`
}

// Agent is a table [agents.NAME].
type Agent struct {
	Enabled     bool     `toml:"enabled" json:"enabled,omitzero" jsonschema:"default=true,description=false: takes nothing\\, and mbox up does not run it"`
	Types       []string `toml:"types" json:"types,omitzero" jsonschema:"description=task types that it takes from any"`
	Actions     []string `toml:"actions" json:"actions,omitzero" jsonschema:"description=actions that it takes from any"`
	OnlyNamed   bool     `toml:"only_named" json:"only_named,omitzero" jsonschema:"default=false,description=takes only what names it"`
	Exec        string   `toml:"exec" json:"exec,omitzero" jsonschema:"description=the command that does its tasks under mbox up"`
	Concurrency int      `toml:"concurrency" json:"concurrency,omitzero" jsonschema:"default=1,minimum=1,maximum=64,description=tasks at once"`
	Timeout     Duration `toml:"timeout" json:"timeout,omitzero" jsonschema:"default=1h,description=longest run of the command"`
}

// The defaults are those of mailbox.Options; a test holds the two together.
func defaultConfig() *Config {
	return &Config{
		Sync: "standard", Lease: Duration(15 * time.Minute), MaxAttempts: 3,
		PollInterval: Duration(5 * time.Second), StartWithin: Duration(10 * time.Minute),
		LockWait: Duration(10 * time.Second), RetryBase: Duration(time.Second),
	}
}

const defaultTimeout = Duration(time.Hour)

var modes = map[string]durable.Mode{"standard": durable.Standard, "strict": durable.Strict, "none": durable.None}

// loadConfig reads a home's mbox.toml; without one everything is default.
func loadConfig(home string) (*Config, error) {
	path := filepath.Join(home, configFile)
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return nil, err
	}
	return parseConfig(path, data)
}

// parseConfig reads the text of an mbox.toml. Errors are *configError.
func parseConfig(path string, data []byte) (*Config, error) {
	c := defaultConfig()
	c.path, c.source = path, data
	if err := c.decode(data); err != nil {
		return nil, err
	}
	for name, a := range c.Agents {
		c.complete(name, a)
	}
	return c, c.check()
}

// complete fills in what an agent's table leaves open.
func (c *Config) complete(name string, a *Agent) {
	if _, set := c.where["agents."+name+".enabled"]; !set {
		a.Enabled = true
	}
	if _, set := c.where["agents."+name+".concurrency"]; !set {
		a.Concurrency = 1
	}
	if a.Timeout == 0 {
		a.Timeout = defaultTimeout
	}
}

// options are the mailbox's part of the configuration.
func (c *Config) options() mailbox.Options {
	o := mailbox.Options{
		Sync: modes[c.Sync], AllowNetworkFS: c.AllowNetworkFS,
		Lease: time.Duration(c.Lease), MaxAttempts: c.MaxAttempts, ScanInterval: time.Duration(c.PollInterval),
		StartWithin: time.Duration(c.StartWithin), LockWait: time.Duration(c.LockWait), RetryBase: time.Duration(c.RetryBase),
		HashIdentities: c.Audit.HashIdentities, Agents: map[string]mailbox.Capabilities{},
	}
	for name, a := range c.Agents {
		o.Agents[name] = mailbox.Capabilities{Types: a.Types, Actions: a.Actions, OnlyNamed: a.OnlyNamed, Paused: !a.Enabled}
	}
	return o
}

var actionName = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)

// check refuses values that make no sense, with the line where they stand.
func (c *Config) check() error {
	if _, known := modes[c.Sync]; !known {
		return c.wrong("sync", "%q is not allowed: want standard, strict or none%s", c.Sync, meant(c.Sync, []string{"standard", "strict", "none"}))
	}
	if c.MaxAttempts < 1 || c.MaxAttempts > 100 {
		return c.wrong("max_attempts", "%d is not allowed: want 1 to 100", c.MaxAttempts)
	}
	const day = 24 * time.Hour
	for _, d := range []struct {
		key         string
		value       Duration
		least, most time.Duration
	}{
		{"lease", c.Lease, time.Second, 7 * day},
		{"poll_interval", c.PollInterval, time.Second, time.Minute},
		{"start_within", c.StartWithin, time.Second, 365 * day},
		{"lock_wait", c.LockWait, time.Millisecond, time.Hour},
		{"retry_base", c.RetryBase, time.Millisecond, time.Hour},
	} {
		if v := time.Duration(d.value); v < d.least || v > d.most {
			return c.wrong(d.key, "%s is not allowed: want %s to %s", or(span(v), "0s"), span(d.least), span(d.most))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if err := c.checkAgent(name, c.Agents[name]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkAgent(name string, a *Agent) error {
	key := "agents." + name
	if problem := agentProblem(name); problem != "" {
		return c.wrong(key, "%s", problem)
	}
	for _, t := range a.Types {
		if !slices.Contains(mailbox.Types, t) {
			return c.wrong(key+".types", "%q is not allowed: want one of %s%s", clean(t, 40), strings.Join(mailbox.Types, ", "), meant(t, mailbox.Types))
		}
	}
	for _, action := range a.Actions {
		if !actionName.MatchString(action) {
			return c.wrong(key+".actions", "%q is no action name: want %s", clean(action, 40), actionName)
		}
	}
	if a.Concurrency < 1 || a.Concurrency > 64 {
		return c.wrong(key+".concurrency", "%d is not allowed: want 1 to 64", a.Concurrency)
	}
	if a.Timeout < Duration(time.Second) {
		return c.wrong(key+".timeout", "%s is not allowed: want at least 1s", span(time.Duration(a.Timeout)))
	}
	return nil
}
