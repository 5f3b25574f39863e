// Package policy decides what an agent may do: which paths it may read and
// write, which commands it may run, whom it may ask, and how much.
//
// A [Policy] is built by [ForAgent] from the configuration and by nothing else.
// It only decides: it opens nothing, runs nothing and writes nothing (to follow
// symlinks it asks the file system where they lead). Whoever acts asks first,
// and acts on what the answer names. Every refusal is a [*Denied], or an
// [*Escalation] that unwraps to one.
//
// A Policy never changes once it is built, so any number of goroutines may ask
// it; so may they a [Window].
//
// What it cannot do: between two processes of one user a policy is cooperative.
// The table of commands stops accidents and careless models, not a program that
// is allowed to run and means harm; only the sandbox holds that.
package policy

import "time"

// Config is what policies are made from: the tables of mbox.toml that matter
// here, with every default filled in.
type Config struct {
	Home            string // the mailbox's folder, absolute
	UserHome        string // what ~ stands for; "": os.UserHomeDir
	RiskProfiles    map[string]RiskProfile
	RuntimeProfiles map[string]RuntimeProfile
	Agents          map[string]Agent
	Former          map[string]string      // names that agents had, and nobody has now → what these are called
	Dead            func(name string) bool // tells the names of agents that were put away; nil: there are none
}

// Levels of autonomy, from the least on.
const (
	ReadOnly   = "readonly"
	Supervised = "supervised"
	Full       = "full"
)

// RiskProfile is a table [risk_profiles.NAME]: how far an agent is trusted.
type RiskProfile struct {
	Level                        string           `toml:"level" json:"level,omitzero" jsonschema:"enum=readonly,enum=supervised,enum=full,default=supervised,description=how much the agent may do by itself"`
	WorkspaceOnly                bool             `toml:"workspace_only" json:"workspace_only,omitzero" jsonschema:"default=true,description=nothing outside the workspace and the lists"`
	AllowedCommands              []string         `toml:"allowed_commands" json:"allowed_commands,omitzero" jsonschema:"description=commands that may be run"`
	ForbiddenPaths               []string         `toml:"forbidden_paths" json:"forbidden_paths,omitzero" jsonschema:"description=never touched\\, unless a list names what lies in them"`
	RequireApprovalForMediumRisk bool             `toml:"require_approval_for_medium_risk" json:"require_approval_for_medium_risk,omitzero" jsonschema:"default=true"`
	BlockHighRiskCommands        bool             `toml:"block_high_risk_commands" json:"block_high_risk_commands,omitzero" jsonschema:"default=true"`
	ShellEnvPassthrough          []string         `toml:"shell_env_passthrough" json:"shell_env_passthrough,omitzero" jsonschema:"description=environment variables that commands get"`
	AutoApprove                  []string         `toml:"auto_approve" json:"auto_approve,omitzero" jsonschema:"description=tools that need no approval"`
	AlwaysAsk                    []string         `toml:"always_ask" json:"always_ask,omitzero" jsonschema:"description=tools that always need approval"`
	AllowedRoots                 []string         `toml:"allowed_roots" json:"allowed_roots,omitzero" jsonschema:"description=folders besides the workspace\\, read and write; relative ones from the workspace"`
	DelegationPolicy             DelegationPolicy `toml:"delegation_policy" json:"delegation_policy,omitzero"`
	AllowedTools                 []string         `toml:"allowed_tools" json:"allowed_tools,omitzero" jsonschema:"description=empty: any that the role allows"`
	ExcludedTools                []string         `toml:"excluded_tools" json:"excluded_tools,omitzero"`
	SandboxEnabled               bool             `toml:"sandbox_enabled" json:"sandbox_enabled,omitzero" jsonschema:"default=false"`
	SandboxBackend               string           `toml:"sandbox_backend" json:"sandbox_backend,omitzero" jsonschema:"enum=,enum=none,enum=landlock"`
	SandboxNetwork               bool             `toml:"sandbox_network" json:"sandbox_network,omitzero" jsonschema:"default=false,description=what is confined may use the network"`
}

// DelegationPolicy says whether an agent may hand work on.
type DelegationPolicy struct {
	Mode string `toml:"mode" json:"mode,omitzero" jsonschema:"enum=forbidden,enum=allow,default=forbidden"`
}

// RuntimeProfile is a table [runtime_profiles.NAME]: how much an agent may use.
type RuntimeProfile struct {
	Agentic            bool `toml:"agentic" json:"agentic,omitzero" jsonschema:"default=false,description=the model sees what its actions did\\, and may act again"`
	MaxToolIterations  int  `toml:"max_tool_iterations" json:"max_tool_iterations,omitzero" jsonschema:"default=0,minimum=0,description=rounds of an agentic task; 0: 10"`
	MaxActionsPerHour  int  `toml:"max_actions_per_hour" json:"max_actions_per_hour,omitzero" jsonschema:"default=20,minimum=0,description=in any hour; 0: none at all"`
	MaxDelegationDepth int  `toml:"max_delegation_depth" json:"max_delegation_depth,omitzero" jsonschema:"default=0,minimum=0,description=0: the general limit"`
	DelegationTimeout  int  `toml:"delegation_timeout_secs" json:"delegation_timeout_secs,omitzero" jsonschema:"default=0,minimum=0,description=a child that nobody has taken by then fails; 0: it waits\\, and start_within raises the alarm"`
	AgenticTimeoutSecs int  `toml:"agentic_timeout_secs" json:"agentic_timeout_secs,omitzero" jsonschema:"default=300,minimum=0,description=of an agentic task; 0: 300"`
	MemoryRecallLimit  int  `toml:"memory_recall_limit" json:"memory_recall_limit,omitzero" jsonschema:"default=5,minimum=1,maximum=1000,description=entries that come to its mind at once"`
}

// Agent is what of a table [agents.NAME] decides its rights.
type Agent struct {
	Enabled                 bool
	RiskProfile             string // a key of Config.RiskProfiles; "" is "default"
	RuntimeProfile          string // a key of Config.RuntimeProfiles; "" is "default"
	Workspace               Workspace
	Delegates               []string // agents that it may hand work to
	DelegateSameRiskProfile bool     // and to the enabled agents of its own risk profile
	Sandbox                 string   // "", "none" or "landlock"; "" takes the risk profile's
	Exec                    bool     // no role bounds it: a command of its own does its tasks, or somebody outside
}

// Workspace is a table [agents.NAME.workspace].
type Workspace struct {
	Path                   string            `toml:"path" json:"path,omitzero" jsonschema:"description=from the mailbox's folder; agents/NAME/workspace"`
	Access                 map[string]string `toml:"access" json:"access,omitzero" jsonschema:"description=workspaces of other agents: read\\, write or read_write"`
	UnrestrictedFilesystem bool              `toml:"unrestricted_filesystem" json:"unrestricted_filesystem,omitzero" jsonschema:"default=false"`
	ReadMemoryFrom         []string          `toml:"read_memory_from" json:"read_memory_from,omitzero"`
}

// Denied is a refusal by policy. The ledger gets it as policy_denied, the
// command line answers 73.
type Denied struct {
	Rule string // stable name of the rule: "path_outside", "command_not_allowed", …
	What string // what was asked for, fit to be shown
	Why  string // one sentence
	Hint string // what would have to be changed, and where

	Free time.Time // of a budget that is used up: when there is something again; zero where nobody knows
}

func (d *Denied) Error() string {
	text := d.What + ": " + d.Why
	if d.Hint != "" {
		text += "; " + d.Hint
	}
	return text
}

// Policy is what one agent may do.
type Policy struct {
	Agent         string
	Level         string
	Workspace     string   // absolute; the boundary
	WorkspaceOnly bool     // nothing outside Workspace and the lists
	ReadWrite     []string // absolute folders outside the workspace
	ReadOnlyRoots []string
	WriteOnly     []string
	Siblings      map[string]string // agents → their workspaces, "" for those that it has no access to; NAME:path is a path there
	Dead          func(string) bool // tells the agents that have none any more; nil: there are none
	Forbidden     []string          // absolute; explicit roots go before them
	Protected     []string          // absolute: never written, whatever a list says (.mbox, audit, tasks, mbox.toml, mbox.d, …)
	Private       []string          // absolute: nor read (.mbox, audit, tasks/artifacts, tasks/archive)
	Self          []string          // absolute: what its confined commands read of its home, if it was born: who it is, what it remembers
	Memory        string            // absolute: the file there that they write, though it is protected
	Home          string            // the mailbox's folder: mbox.toml* and agents/*/agent.toml, logs, state.json there are protected too
	UserHome      string            // what ~ stands for; "" refuses paths with it

	AllowedCommands        []string
	EnvPassthrough         []string
	RequireMediumApproval  bool
	BlockHighRisk          bool
	AutoApprove, AlwaysAsk []string
	AllowedTools           []string // empty: any
	ExcludedTools          []string

	Delegation      string   // the mode: "allow" or "forbidden"
	Delegates       []string // whom it may hand work to; empty where delegation is forbidden
	MaxDepth        int      // of delegation; 0: the general limit
	MemoryFrom      []string // agents whose memory it may recall, itself first
	Sandbox         string   // "none" or "landlock"
	SandboxNetwork  bool     // inside it the network can be used
	Exec            bool     // a program does its tasks, not the actions of a role
	Runtime         RuntimeProfile
	RiskProfileName string
}
