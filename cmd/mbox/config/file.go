// Package config reads mbox.toml, the files of mbox.d and the environment: what each
// key is set to, where that comes from, and whether it makes sense. A key that nobody
// knows, and a value that cannot be, are errors that name file and line.
//
// A File is complete: what file and environment leave open has its default. From
// it come the mailbox's options, the policies of its agents and the bounds of their
// actions. Nothing is kept between two readings.
package config

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mbox/agents"
	"mbox/agents/policy"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Name is the configuration's name in the home.
const Name = "mbox.toml"

// File is an mbox.toml. Every key is optional; a key that is not here is an
// error that names file and line. agents-home/template/mbox.toml documents
// each of them for people.
type File struct {
	Sync           string            `toml:"sync" json:"sync,omitzero" jsonschema:"enum=standard,enum=strict,enum=none,default=standard,description=what is flushed before an answer: contents and ledger; also folders; nothing"`
	Lease          Duration          `toml:"lease" json:"lease,omitzero" jsonschema:"default=15m,description=how long a claim lasts without a sign of life\\, 1s to 7d"`
	MaxAttempts    int               `toml:"max_attempts" json:"max_attempts,omitzero" jsonschema:"default=3,minimum=1,maximum=100,description=claims before a task has failed for good"`
	PollInterval   Duration          `toml:"poll_interval" json:"poll_interval,omitzero" jsonschema:"default=5s,description=how often the folders are scanned\\, 1s to 60s"`
	StartWithin    Duration          `toml:"start_within" json:"start_within,omitzero" jsonschema:"default=10m,description=a ready task that nobody takes in this time is an alarm"`
	LockWait       Duration          `toml:"lock_wait" json:"lock_wait,omitzero" jsonschema:"default=10s,description=how long a lock is waited for"`
	RetryBase      Duration          `toml:"retry_base" json:"retry_base,omitzero" jsonschema:"default=1s,description=retry n waits retry_base times 2^n\\, with jitter"`
	ArchiveAfter   Duration          `toml:"archive_after" json:"archive_after,omitzero" jsonschema:"default=7d,description=mbox up archives a task so long after its result was delivered\\, an inbox item so long after it was acknowledged; 0s: it does not"`
	AllowNetworkFS bool              `toml:"allow_network_fs" json:"allow_network_fs,omitzero" jsonschema:"default=false,description=work on NFS\\, SMB\\, 9p and FUSE\\, where locks and renames promise less"`
	Audit          Audit             `toml:"audit" json:"audit,omitzero" jsonschema:"description=the ledger"`
	Agents         map[string]*Agent `toml:"agents" json:"agents,omitzero" jsonschema:"description=the registry of agents\\, by name"`

	Roles           map[string]*Role                  `toml:"roles" json:"roles,omitzero" jsonschema:"description=what agents that think are there for\\, by name"`
	RiskProfiles    map[string]*policy.RiskProfile    `toml:"risk_profiles" json:"risk_profiles,omitzero" jsonschema:"description=how far agents are trusted\\, by name"`
	RuntimeProfiles map[string]*policy.RuntimeProfile `toml:"runtime_profiles" json:"runtime_profiles,omitzero" jsonschema:"description=how much agents may use\\, by name"`
	Ollama          Ollama                            `toml:"ollama" json:"ollama,omitzero" jsonschema:"description=where models run on this machine"`
	OpenAI          OpenAI                            `toml:"openai" json:"openai,omitzero" jsonschema:"description=a server that speaks OpenAI's protocol"`
	Postgres        Postgres                          `toml:"postgres" json:"postgres,omitzero" jsonschema:"description=the database in which agents with the backend postgres remember"`
	Qdrant          Qdrant                            `toml:"qdrant" json:"qdrant,omitzero" jsonschema:"description=the server in which agents with the backend qdrant remember"`
	Delegation      Delegation                        `toml:"delegation" json:"delegation,omitzero" jsonschema:"description=how far a tree of tasks may grow"`
	Actions         Actions                           `toml:"actions" json:"actions,omitzero" jsonschema:"description=what bounds each action\\, whoever does it"`
	Bridges         Bridges                           `toml:"bridges" json:"bridges,omitzero" jsonschema:"description=chat systems by which people reach agents\\, by name"`
	Notify          map[string]*Notify                `toml:"notify" json:"notify,omitzero" jsonschema:"description=whom mbox up tells what happens\\, by name"`
	Telemetry       Telemetry                         `toml:"telemetry" json:"telemetry,omitzero" jsonschema:"description=where mbox up sends OpenTelemetry traces"`
	Accept          map[string]*Accept                `toml:"accept" json:"accept,omitzero" jsonschema:"description=checks that results have to pass\\, by name"`
	Logs            Logs                              `toml:"logs" json:"logs,omitzero" jsonschema:"description=what is kept of what agents say"`
	Schedules       map[string]*Schedule              `toml:"schedules" json:"schedules,omitzero" jsonschema:"description=tasks that mbox up sends again and again\\, by name"`
	Serve           *Serve                            `toml:"serve" json:"serve,omitzero" jsonschema:"description=where the doors are\\, for programs and people"`

	origins
	doors      Serve  // [serve], or what holds without it
	provider   string // the kind of brain that PROVIDER asks for
	workspaces string // WORKSPACE_DIR
}

// origins tells where each value comes from, and so what is wrong where.
type origins struct {
	path   string              // of mbox.toml
	files  []source            // what was read: mbox.toml, then those of mbox.d
	where  map[string]place    // of every key that a file sets
	owners map[string]place    // where each unit begins (unitOf)
	above  map[string]bool     // the tables that these keys stand in
	from   map[string]string   // where the value of any other key comes from, if it is no default
	env    func(string) string // the environment
	dead   map[string]bool     // names of agents that were put away, if a setting has a name that nobody has
	naming map[string][]string // the keys that name one of these, by name
	unread []string            // variables that are set and mean nothing to this mbox, each with the reason
}

// Audit is the table [audit].
type Audit struct {
	HashIdentities bool `toml:"hash_identities" json:"hash_identities,omitzero" jsonschema:"default=false,description=sessions and operators enter the ledger as salted hashes"`
	AppendOnly     bool `toml:"append_only" json:"append_only,omitzero" jsonschema:"default=false,description=finished files of the ledger become append-only (chattr +a)\\, by mbox where it may\\, else by hand: mbox doctor says how"`
}

// Logs is the table [logs]: what is kept of what agents say, for mbox logs.
type Logs struct {
	MaxBytes   int      `toml:"max_bytes" json:"max_bytes,omitzero" jsonschema:"default=4194304,minimum=16384,maximum=1073741824,description=of one attempt: what it said last"`
	TotalBytes int      `toml:"total_bytes" json:"total_bytes,omitzero" jsonschema:"default=268435456,minimum=16384,maximum=1099511627776,description=of one agent: its last attempts"`
	MaxAge     Duration `toml:"max_age" json:"max_age,omitzero" jsonschema:"default=30d,description=since an attempt's last word"`
}

func defaultLogs() Logs {
	d := agents.DefaultLogs
	return Logs{MaxBytes: int(d.File), TotalBytes: int(d.Total), MaxAge: Duration(d.Age)}
}

// Bounds are the table as a worker takes it.
func (l *Logs) Bounds() agents.Logs {
	return agents.Logs{File: int64(l.MaxBytes), Total: int64(l.TotalBytes), Age: time.Duration(l.MaxAge)}
}

// Default is the configuration of a home without mbox.toml, whatever the
// environment says.
func Default() *File {
	c, err := Parse(Name, nil)
	if err != nil {
		panic(err) // the defaults are valid; a test holds that
	}
	return c
}

// The defaults are those of mailbox.Options; a test holds the two together.
func defaults() *File {
	return &File{
		Sync: "standard", Lease: Duration(15 * time.Minute), MaxAttempts: 3,
		PollInterval: Duration(5 * time.Second), StartWithin: Duration(10 * time.Minute),
		LockWait: Duration(10 * time.Second), RetryBase: Duration(time.Second), ArchiveAfter: Duration(7 * 24 * time.Hour),
		Logs: defaultLogs(), Ollama: defaultOllama(), Delegation: defaultDelegation(), Actions: defaultActions(),
		origins: origins{where: map[string]place{}, owners: map[string]place{}, from: map[string]string{}, env: func(string) string { return "" }},
	}
}

var modes = map[string]durable.Mode{"standard": durable.Standard, "strict": durable.Strict, "none": durable.None}

// Mode is the mode of flushing that a word names; standard for none.
func Mode(sync string) durable.Mode { return modes[sync] }

// Load reads a home's mbox.toml, the files of its mbox.d and the environment; without
// any of them everything is default.
func Load(home string) (*File, error) {
	files, err := sources(home)
	if err != nil {
		return nil, err
	}
	return parse(filepath.Join(home, Name), files, os.Getenv)
}

// checkWriters refuses a configuration that others can write: they would say what
// is run. A folder that is closed to them keeps them from it too.
func checkWriters(path string) error {
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm()&0o022 == 0 {
		return nil // who reads it has told
	}
	if above, err := os.Stat(filepath.Dir(path)); err == nil && above.Mode().Perm()&0o077 == 0 {
		return nil
	}
	return &Error{File: path, Problem: fmt.Sprintf("others can write it (mode %04o)", info.Mode().Perm()), Hint: "chmod go-w " + path}
}

// Parse reads the text of an mbox.toml by itself, without the environment. Errors are *Error.
func Parse(path string, data []byte) (*File, error) {
	return parse(path, []source{{path: path, name: Name, data: data}}, func(string) string { return "" })
}

// parse reads the texts of mbox.toml, which has this path, and of mbox.d, completes
// them with what the environment and the defaults say, and checks the whole. Errors
// are *Error.
func parse(path string, files []source, env func(string) string) (*File, error) {
	c := defaults()
	c.path, c.files, c.env = path, files, env
	for i := range files {
		if files[i].gone {
			continue
		}
		if err := c.decode(&files[i]); err != nil {
			return nil, err
		}
	}
	c.above = above(c.where)
	c.fillRoles()
	c.fillProfiles()
	if err := c.readEnvironment(); err != nil {
		return nil, err
	}
	c.fillAgents()
	dropPull(c)
	followNames(c)
	leaveOutDead(c)
	fillBridges(c)
	fillSchedules(c)
	if err := c.check(); err != nil {
		return nil, err
	}
	return c, c.checkPolicies()
}

// Unread names the variables that are set and mean nothing to this mbox, each
// with the reason.
func (f *origins) Unread() []string { return f.unread }

// Home is the folder that mbox.toml lies in, absolute.
func (c *File) Home() string {
	dir := filepath.Dir(c.path)
	if abs, err := filepath.Abs(dir); err == nil {
		return abs
	}
	return dir // there is no working folder: no policy can be built
}

// Options are the mailbox's part of the configuration.
func (c *File) Options() mailbox.Options {
	return mailbox.Options{
		Sync: modes[c.Sync], AllowNetworkFS: c.AllowNetworkFS,
		Lease: time.Duration(c.Lease), MaxAttempts: c.MaxAttempts, ScanInterval: time.Duration(c.PollInterval),
		StartWithin: time.Duration(c.StartWithin), LockWait: time.Duration(c.LockWait), RetryBase: time.Duration(c.RetryBase),
		MaxDepth: c.Delegation.MaxDepth, HashIdentities: c.Audit.HashIdentities, AppendOnly: c.Audit.AppendOnly, Agents: c.capabilities(),
		CopyDelay: time.Second,
	}
}

var actionName = schemas.Pattern(`^[a-z][a-z0-9_]{0,63}$`)

// check refuses values that make no sense, with the line where they stand.
func (c *File) check() error {
	if _, known := modes[c.Sync]; !known {
		return c.wrong("sync", "%q is not allowed: want standard, strict or none%s", c.Sync, schemas.Meant(c.Sync, []string{"standard", "strict", "none"}))
	}
	if err := c.checkNumbers("", bound{"max_attempts", c.MaxAttempts, 1, 100}); err != nil {
		return err
	}
	if err := c.checkNumbers("logs.", bound{"max_bytes", c.Logs.MaxBytes, 16 << 10, 1 << 30}, bound{"total_bytes", c.Logs.TotalBytes, 16 << 10, 1 << 40}); err != nil {
		return err
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
		{"archive_after", c.ArchiveAfter, 0, 3650 * day},
		{"logs.max_age", c.Logs.MaxAge, time.Minute, 3650 * day},
	} {
		if err := c.checkSpan(d.key, d.value, d.least, d.most); err != nil {
			return err
		}
	}
	for _, check := range []func() error{c.checkRoles, c.checkProfiles, c.checkBrains, c.checkLimits, c.checkAgents} {
		if err := check(); err != nil {
			return err
		}
	}
	for _, check := range []func(*File) error{checkServe, checkBridges, checkSchedules, checkNotify, checkTelemetry, checkPostgres, checkQdrant, checkAccept} {
		if err := check(c); err != nil {
			return err
		}
	}
	return nil
}
