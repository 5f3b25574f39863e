package config

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/pelletier/go-toml/v2"

	"mbox/agents"
	"mbox/agents/policy"
	"mbox/audit"
	"mbox/mailbox"
)

// Agent is a table [agents.NAME]. An agent has exec, or another
// runtime, which does its tasks whole, or a role, for which it thinks and acts, or neither, and is somebody
// outside who calls mbox claim.
type Agent struct {
	Enabled                 bool              `toml:"enabled" json:"enabled,omitzero" jsonschema:"default=true,description=false: takes nothing\\, and mbox up does not run it"`
	Types                   []string          `toml:"types" json:"types,omitzero" jsonschema:"description=task types that it takes from any"`
	Actions                 []string          `toml:"actions" json:"actions,omitzero" jsonschema:"description=actions that it takes from any"`
	OnlyNamed               bool              `toml:"only_named" json:"only_named,omitzero" jsonschema:"default=false,description=takes only what names it; the default of an agent with a role and without types and actions is true"`
	Exec                    string            `toml:"exec" json:"exec,omitzero" jsonschema:"description=the command that does its tasks under mbox up"`
	ACP                     string            `toml:"acp" json:"acp,omitzero" jsonschema:"description=a program that speaks the Agent Client Protocol and does its tasks"`
	AgentZero               AgentZero         `toml:"agentzero" json:"agentzero,omitzero" jsonschema:"description=an Agent Zero that does its tasks"`
	ExecFormat              string            `toml:"exec_format" json:"exec_format,omitzero" jsonschema:"enum=json,enum=lines,enum=jsonl:claude,enum=jsonl:codex,enum=jsonl:gemini,default=json,description=how the command writes on stdout"`
	Exit                    map[string]string `toml:"exit" json:"exit,omitempty" jsonschema:"description=what exit codes beside 0 and 75 mean: release or final"`
	Quota                   []string          `toml:"quota" json:"quota,omitempty" jsonschema:"description=regular expressions for a message that the account has nothing left; the group reset is when that ends"`
	Account                 string            `toml:"account" json:"account,omitzero" jsonschema:"description=the account that it works on; agents of one account wait together. Not set: its own"`
	Accept                  []string          `toml:"accept" json:"accept,omitempty" jsonschema:"description=names of [accept.NAME]: the checks that each of its results has to pass"`
	ExpectOutput            bool              `toml:"expect_output" json:"expect_output,omitzero" jsonschema:"default=false,description=an empty result is a failure"`
	Concurrency             int               `toml:"concurrency" json:"concurrency,omitzero" jsonschema:"default=1,minimum=1,maximum=64,description=tasks at once"`
	Timeout                 Duration          `toml:"timeout" json:"timeout,omitzero" jsonschema:"default=1h,description=longest run of the command; with a role: longest work on a task\\, instead of the role's"`
	Silence                 Duration          `toml:"silence" json:"silence,omitzero" jsonschema:"default=0s,description=longest that the command may write nothing; 0s: until timeout"`
	IdleInterval            Duration          `toml:"idle_interval" json:"idle_interval,omitzero" jsonschema:"default=30s,description=how often its worker says that it is there\\, if the agent was born"`
	MaxTasksPerCycle        int               `toml:"max_tasks_per_cycle" json:"max_tasks_per_cycle,omitzero" jsonschema:"default=0,minimum=0,maximum=10000,description=tasks that it claims from one idle_interval to the next\\, if the agent was born; 0: any number"`
	MaxMessagesPerCycle     int               `toml:"max_messages_per_cycle" json:"max_messages_per_cycle,omitzero" jsonschema:"default=0,minimum=0,maximum=10000,description=another name of max_tasks_per_cycle"`
	Role                    string            `toml:"role" json:"role,omitzero" jsonschema:"description=a name of [roles]"`
	RiskProfile             string            `toml:"risk_profile" json:"risk_profile,omitzero" jsonschema:"default=default,description=a name of [risk_profiles]"`
	RuntimeProfile          string            `toml:"runtime_profile" json:"runtime_profile,omitzero" jsonschema:"default=default,description=a name of [runtime_profiles]"`
	Brain                   Brain             `toml:"brain" json:"brain,omitzero" jsonschema:"description=what it thinks with"`
	Workspace               policy.Workspace  `toml:"workspace" json:"workspace,omitzero" jsonschema:"description=where it works"`
	Delegates               []string          `toml:"delegates" json:"delegates,omitzero" jsonschema:"description=agents that it may hand work to"`
	DelegateSameRiskProfile bool              `toml:"delegate_same_risk_profile" json:"delegate_same_risk_profile,omitzero" jsonschema:"default=true,description=and all those of its own risk profile"`
	Sandbox                 string            `toml:"sandbox" json:"sandbox,omitzero" jsonschema:"enum=,enum=none,enum=landlock,description=what confines its commands; not set: as its risk profile says"`
	WatchChannels           []string          `toml:"watch_channels" json:"watch_channels,omitzero" jsonschema:"description=channels whose messages come into its inbox\\, whether they name it or not"`
	Memory                  Memory            `toml:"memory" json:"memory,omitzero" jsonschema:"description=what it remembers"`
	DreamEvery              Duration          `toml:"dream_every" json:"dream_every,omitzero" jsonschema:"default=4h,description=how often mbox up has it tidy its memory\\, if the agent was born; 0s: never"`
	MaxMemoryLines          int               `toml:"max_memory_lines" json:"max_memory_lines,omitzero" jsonschema:"default=500,minimum=10,maximum=10000,description=lines of memory/memory.md that a dream leaves"`
	Version                 string            `toml:"version" json:"version,omitzero" jsonschema:"description=of its program\\, as --version prints it\\, or how that begins: it does no task with another one"`
	Units                   string            `toml:"units" json:"units,omitzero" jsonschema:"enum=,enum=systemd,enum=launchd,description=whose units its birth has written\\, and its way back from the archive writes"`
	UUID                    string            `toml:"uuid" json:"uuid,omitzero" jsonschema:"description=what it is known by in shared memories whatever its name; mbox agent birth makes it"`
	Formerly                []string          `toml:"formerly" json:"formerly,omitzero" jsonschema:"description=names that it had: what names one of them means it; mbox agent rename writes them"`
}

// runtimes are the keys by which something else does an agent's tasks whole.
func (a *Agent) runtimes() (keys []string) {
	for _, r := range []struct {
		key string
		set bool
	}{{".exec", a.Exec != ""}, {".acp", a.ACP != ""}, {".agentzero", a.AgentZero != AgentZero{}}} {
		if r.set {
			keys = append(keys, r.key)
		}
	}
	return keys
}

// Whole tells whether something else does the agent's tasks whole.
func (a *Agent) Whole() bool { return len(a.runtimes()) > 0 }

// PerCycle is max_tasks_per_cycle, by whichever name it was given.
func (a *Agent) PerCycle() int { return cmp.Or(a.MaxTasksPerCycle, a.MaxMessagesPerCycle) }

// HasWorker tells whether mbox up does the agent's tasks, if it is enabled.
func (a *Agent) HasWorker() bool { return a.Whole() || a.Role != "" }

// Command is what does the agent's tasks; "" where that is no command.
func (a *Agent) Command() string { return cmp.Or(a.Exec, a.ACP) }

// AgentZero is a table [agents.NAME.agentzero].
type AgentZero struct {
	URL     string `toml:"url" json:"url,omitzero" jsonschema:"description=the whole address of its api_message"`
	KeyFile string `toml:"key_file" json:"key_file,omitzero" jsonschema:"description=a private file that holds its API key"`
}

// Memory is a table [agents.NAME.memory].
type Memory struct {
	Backend    string `toml:"backend" json:"backend,omitzero" jsonschema:"enum=none,enum=markdown,enum=sqlite,enum=postgres,enum=qdrant,enum=exec,default=none,description=where it remembers"`
	Command    string `toml:"command" json:"command,omitzero" jsonschema:"description=with exec: the program that remembers\\, for /bin/sh -c"`
	EmbedModel string `toml:"embed_model" json:"embed_model,omitzero" jsonschema:"description=with sqlite\\, postgres and qdrant: the model of [ollama] that finds by meaning (nomic-embed-text); not set: by words alone"`
}

// The backends of memories that are built.
const (
	MemoryNone     = "none"
	MemoryMarkdown = "markdown"
	MemorySQLite   = "sqlite"
	MemoryPostgres = "postgres"
	MemoryQdrant   = "qdrant"
	MemoryExec     = "exec"
)

// memoryBackends are all, and meantMemories those that can find by meaning.
var (
	memoryBackends = []string{MemoryNone, MemoryMarkdown, MemorySQLite, MemoryPostgres, MemoryQdrant, MemoryExec}
	meantMemories  = []string{MemorySQLite, MemoryPostgres, MemoryQdrant}
)

// How often agents that were born dream, and what that leaves of a memory.
const (
	DefaultDreams      = Duration(4 * time.Hour)
	DefaultMemoryLines = 500
)

// DefaultTimeout is how long a command may run where nothing else is said.
const DefaultTimeout = Duration(time.Hour)

// fillAgents adds the four built-in agents and puts the defaults under what the
// file says of any.
func (c *File) fillAgents() {
	if c.Agents == nil {
		c.Agents = map[string]*Agent{}
	}
	for name := range agents.DefaultRoles() {
		if c.Agents[name] == nil {
			c.Agents[name] = &Agent{}
		}
	}
	for name, a := range c.Agents {
		c.fillAgent(name, a)
	}
	if chief := c.Agents["coordinator"]; chief.Role == "coordinator" && !c.has("agents.coordinator.delegates") {
		chief.Delegates = c.team(chief)
	}
}

// fillAgent fills in what an agent's table leaves open. The deployer is off
// until it is switched on; a table that gives it a command or says what it takes
// from any is one for an agent of the owner's, and switches it on.
func (c *File) fillAgent(name string, a *Agent) {
	key := "agents." + name
	def := Agent{
		Enabled: true, ExecFormat: string(agents.FormatJSON), Concurrency: 1, Timeout: DefaultTimeout, IdleInterval: Duration(agents.DefaultIdle), DreamEvery: DefaultDreams, MaxMemoryLines: DefaultMemoryLines, RiskProfile: "default", RuntimeProfile: "default",
		DelegateSameRiskProfile: true, Memory: Memory{Backend: MemoryNone}, Brain: Brain{Kind: "none"},
		Workspace: policy.Workspace{Path: workspaceOf(name)},
	}
	if name == "deployer" && !a.Whole() && len(a.Types)+len(a.Actions) == 0 {
		def.Enabled = false
	}
	role := a.Role
	if _, known := agents.DefaultRoles()[name]; known && !a.Whole() && !c.has(key+".role") {
		builtinAgent(name, &def)
		role = name
	}
	if role != "" {
		def.OnlyNamed = len(a.Types)+len(a.Actions) == 0
		def.Brain.Kind = cmp.Or(c.provider, "ollama")
		if r := c.Roles[role]; r != nil {
			def.Timeout = r.Timeout
			c.inherit(key+".timeout", "roles."+role+".timeout")
		}
		c.shareWorkspace(key, &def)
	}
	def.Brain = c.brainOf(key, cmp.Or(a.Brain.Kind, def.Brain.Kind), role)
	fill(c, key, a, &def)
}

// workspaceOf is where an agent works whose table names no other folder, from the
// home.
func workspaceOf(name string) string { return filepath.Join("agents", audit.Folder(name), "workspace") }

// builtinAgent makes def what the agent of this name is without a table.
func builtinAgent(name string, def *Agent) {
	def.Role = name
	reads := map[string]string{"coder": "read"} // what the coder has written can be checked
	switch name {
	case "coordinator":
		def.RiskProfile = coordinatorProfile
		def.Workspace.Access = reads // who hands work on has to have the rights itself
	case "tester":
		def.Workspace.Access = reads
	}
}

// shareWorkspace puts an agent into the folder that WORKSPACE_DIR names: there
// all agents with a role work together.
func (c *File) shareWorkspace(key string, def *Agent) {
	if c.workspaces == "" {
		return
	}
	def.Workspace.Path, def.Workspace.Access = c.workspaces, nil
	if !c.has(key + ".workspace.path") {
		c.from[key+".workspace.path"] = "WORKSPACE_DIR"
	}
}

// brainOf is the brain that an agent has where its table says no more than the
// kind. The rest comes from [ollama] or [openai], and the role.
func (c *File) brainOf(agent, kind, role string) Brain {
	b := Brain{Kind: kind}
	table := ""
	switch kind {
	case "ollama":
		b.URL, table = c.Ollama.URL, "ollama"
	case "openai":
		b.URL, table = c.OpenAI.URL, "openai"
		if !c.has(agent+".brain.key_file") && !c.has(agent+".brain.key_env") && !c.has(agent+".brain.url") {
			b.KeyFile, b.KeyEnv = c.OpenAI.KeyFile, c.OpenAI.KeyEnv
		}
	default:
		return b
	}
	c.inherit(agent+".brain.url", table+".url")
	if r := c.Roles[role]; r != nil {
		b.Model = r.Model
		c.inherit(agent+".brain.model", "roles."+role+".model")
	}
	return b
}

// team is whom the built-in coordinator may hand work to.
func (c *File) team(chief *Agent) (names []string) {
	if p := c.RiskProfiles[chief.RiskProfile]; p == nil || p.DelegationPolicy.Mode != "allow" {
		return nil
	}
	for _, name := range []string{"coder", "tester", "deployer"} {
		if c.Agents[name].Enabled {
			names = append(names, name)
		}
	}
	return names
}

// capabilities are the mailbox's part of the agents: who may take what.
func (c *File) capabilities() map[string]mailbox.Capabilities {
	out := map[string]mailbox.Capabilities{}
	for name, a := range c.Agents {
		unasked := !c.mentions("agents." + name) // one of the four: nobody has said that it is to be there
		out[name] = mailbox.Capabilities{Unasked: unasked, Types: a.Types, Actions: a.Actions, OnlyNamed: a.OnlyNamed, Disabled: !a.Enabled, Watches: a.WatchChannels, Accept: a.Accept, ExpectOutput: a.ExpectOutput}
	}
	return out
}

// AgentNames are those of all agents there are.
func (c *File) AgentNames() []string { return slices.Sorted(maps.Keys(c.Agents)) }

// AgentText is the text of the file that mbox agent birth keeps an agent's table in: what
// is said of it, and no default.
func AgentText(name string, a *Agent) ([]byte, error) {
	written := map[string]any{}
	for key, text := range map[string]string{"role": a.Role, "exec": a.Exec, "acp": a.ACP, "units": a.Units, "uuid": a.UUID} {
		if text != "" {
			written[key] = text
		}
	}
	if len(a.Types) > 0 {
		written["types"] = a.Types
	}
	return toml.Marshal(map[string]any{"agents": map[string]any{name: written}})
}
