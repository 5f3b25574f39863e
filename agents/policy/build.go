package policy

import (
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"

	"mbox/schemas"
)

// ForAgent builds the policy of one agent, in four steps, and is the only way to
// get one:
//
//  1. the agent's risk profile and runtime profile;
//  2. the boundary, which is its workspace;
//  3. the workspaces of other agents that workspace.access opens to it, each on
//     the list of its access: read, write (which cannot read) or read_write;
//  4. workspace.unrestricted_filesystem, which takes the boundary away.
//
// It does not touch the mailbox: no folder need be there yet. The error is an
// [*Invalid], or several joined, that names keys of mbox.toml.
func ForAgent(c Config, name string) (*Policy, error) {
	b, err := newBuilder(c, name)
	if err != nil {
		return nil, err
	}
	p := &Policy{Agent: name, Home: b.Home, UserHome: b.UserHome, Exec: b.agent.Exec}
	b.startFromProfiles(p)
	b.setBoundary(p)
	b.openSiblings(p)
	b.liftBoundary(p)
	b.protect(p)
	b.setSelf(p)
	b.setDelegates(p)
	b.setMemory(p)
	b.setSandbox(p)
	if err := b.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// A builder holds what the steps read, and collects what is wrong.
type builder struct {
	Config
	faults
	name    string
	agent   Agent
	risk    RiskProfile
	runtime RuntimeProfile
}

func newBuilder(c Config, name string) (*builder, error) {
	agent, known := c.Agents[name]
	if !known {
		return nil, &Invalid{Key: "agents." + name, Problem: "there is no such agent; " + orMeant(name, slices.Sorted(maps.Keys(c.Agents)))}
	}
	if !filepath.IsAbs(c.Home) {
		return nil, fmt.Errorf("the mailbox's folder %s is not absolute", schemas.Quote(c.Home))
	}
	c.Home = filepath.Clean(c.Home)
	if c.UserHome == "" {
		c.UserHome = userHome()
	}
	b := &builder{Config: c, faults: faults{table: "agents." + name}, name: name, agent: agent}
	b.risk = profile(b, "risk_profile", agent.RiskProfile, c.RiskProfiles, DefaultRiskProfile)
	b.runtime = profile(b, "runtime_profile", agent.RuntimeProfile, c.RuntimeProfiles, DefaultRuntimeProfile)
	if err := b.err(); err != nil {
		return nil, err
	}
	if err := CheckRiskProfile(orDefault(agent.RiskProfile), b.risk); err != nil {
		return nil, err
	}
	return b, CheckRuntimeProfile(orDefault(agent.RuntimeProfile), b.runtime)
}

// userHome is "" where nobody knows it, as in a service without HOME whose user
// is in no list. Paths with ~ are then refused where they are used.
func userHome() string {
	if dir, err := os.UserHomeDir(); err == nil && filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	if u, err := user.Current(); err == nil && filepath.IsAbs(u.HomeDir) {
		return filepath.Clean(u.HomeDir)
	}
	return ""
}

func profile[P any](b *builder, key, name string, among map[string]P, otherwise func() P) P {
	p, known := among[orDefault(name)]
	if !known && orDefault(name) == DefaultProfile {
		return otherwise()
	}
	if !known {
		b.add(key, "there is no [%ss.%s]; %s", key, schemas.Sentence(name, 80), orMeant(name, append(slices.Sorted(maps.Keys(among)), DefaultProfile)))
	}
	return p
}

func orDefault(profile string) string {
	if profile == "" {
		return DefaultProfile
	}
	return profile
}

// startFromProfiles is step 1. An agent of level full has no boundary, whatever
// workspace_only says.
func (b *builder) startFromProfiles(p *Policy) {
	r := b.risk
	p.RiskProfileName = orDefault(b.agent.RiskProfile)
	p.Level = r.Level
	p.WorkspaceOnly = r.WorkspaceOnly && r.Level != Full
	p.AllowedCommands = words(r.AllowedCommands)
	p.EnvPassthrough = slices.Clone(r.ShellEnvPassthrough)
	p.RequireMediumApproval = r.RequireApprovalForMediumRisk
	p.BlockHighRisk = r.BlockHighRiskCommands
	p.AutoApprove = words(r.AutoApprove)
	p.AlwaysAsk = words(r.AlwaysAsk)
	p.AllowedTools = words(r.AllowedTools)
	p.ExcludedTools = words(r.ExcludedTools)
	p.Runtime = b.runtime
	p.MaxDepth = b.runtime.MaxDelegationDepth
	for i, path := range r.ForbiddenPaths {
		if strings.HasPrefix(path, "~") && b.UserHome == "" {
			b.found = append(b.found, &Invalid{
				Key:     fmt.Sprintf("risk_profiles.%s.forbidden_paths[%d]", p.RiskProfileName, i),
				Problem: schemas.Quote(path) + ": nobody knows this user's home; set HOME, or write the whole path",
			})
		}
		p.Forbidden = append(p.Forbidden, b.absolute(path, "/"))
	}
}

// words drops blank entries, which would otherwise be an empty name.
func words(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(w string) bool { return strings.TrimSpace(w) == "" })
}

// setBoundary is step 2. Relative allowed_roots begin in the workspace.
func (b *builder) setBoundary(p *Policy) {
	p.Workspace = b.workspace(b.name, b.agent)
	for _, name := range protectedFolders {
		if folder := filepath.Join(b.Home, name); within(folder, p.Workspace) || within(p.Workspace, folder) {
			b.add("workspace.path", "%s has the mailbox's folder %s in it, or lies in it; name a folder of the agent's own", schemas.Quote(b.agent.Workspace.Path), name)
			break
		}
	}
	for _, root := range b.risk.AllowedRoots {
		if root = strings.TrimSpace(root); root != "" && root != "*" {
			p.ReadWrite = append(p.ReadWrite, b.absolute(root, p.Workspace))
		}
	}
}

// openSiblings is step 3.
func (b *builder) openSiblings(p *Policy) {
	access := b.agent.Workspace.Access
	p.Siblings, p.Dead = map[string]string{b.name: p.Workspace}, b.Dead
	for other := range b.Agents {
		if other != b.name {
			p.Siblings[other] = "" // known, and closed until access opens it
		}
	}
	for _, sibling := range slices.Sorted(maps.Keys(access)) {
		key := "workspace.access." + sibling
		other, known := b.Agents[sibling]
		switch {
		case sibling == b.name:
			b.add(key, "an agent has all rights in its own workspace; take the line out")
			continue
		case !known:
			b.add(key, "there is no such agent; %s", orMeant(sibling, slices.Sorted(maps.Keys(b.Agents))))
			continue
		}
		workspace := b.workspace(sibling, other)
		p.Siblings[sibling] = workspace
		switch access[sibling] {
		case "read":
			p.ReadOnlyRoots = append(p.ReadOnlyRoots, workspace)
		case "write":
			p.WriteOnly = append(p.WriteOnly, workspace)
		case "read_write":
			p.ReadWrite = append(p.ReadWrite, workspace)
		default:
			b.add(key, "%s is no access; %s", schemas.Quote(access[sibling]), orMeant(access[sibling], []string{"read", "write", "read_write"}))
		}
	}
	for old, now := range b.Former {
		p.Siblings[old] = p.Siblings[now]
	}
}

// liftBoundary is step 4.
func (b *builder) liftBoundary(p *Policy) {
	if b.agent.Workspace.UnrestrictedFilesystem {
		p.WorkspaceOnly = false
	}
}

// What mbox alone writes in its folder. The first three nobody else reads, nor the
// artifacts: a task gets copies of those that it may read.
var (
	protectedFolders = []string{".mbox", "audit", "memory/sqlite", "tasks", "decisions", "changes", "channels", "prompts", "mbox.d", "agents/_archive"}
	protectedFiles   = []string{"mbox.toml", "memory/agent_state.json", "memory/task_queue.json", "memory/learning.jsonl"}

	protectedOfAgents = []string{"agent.toml", "logs", "memory", "state.json", deployed} // in agents/<name>
)

// What of its home a born agent's confined commands read. Of all that they write only
// its memory, as a file: the dreams beside it are mbox's.
var (
	selfOfAgents   = []string{"CLAUDE.md", "SOUL.md", "IDENTITY.md", "heartbeat.md", "agent.toml", "state.json", "memory"}
	memoryOfAgents = filepath.Join("memory", "memory.md")
)

// deployed is the folder of an agent's home with the copies of folders that its
// services run with.
const deployed = "deployed"

// Deployed is where the agent's services have the folders that were approved.
func (p *Policy) Deployed() string {
	return filepath.Join(p.Home, "agents", folder(p.Agent), deployed)
}

// protect names what mbox alone writes. It is no step of its own: no key of the
// configuration has a say in it.
func (b *builder) protect(p *Policy) {
	for _, name := range slices.Concat(protectedFolders, protectedFiles) {
		p.Protected = append(p.Protected, filepath.Join(b.Home, filepath.FromSlash(name)))
	}
	p.Private = append(slices.Clone(p.Protected[:3]), filepath.Join(b.Home, "tasks", "artifacts"), filepath.Join(b.Home, "tasks", "archive"))
	for _, agent := range slices.Sorted(maps.Keys(b.Agents)) {
		home := filepath.Join(b.Home, "agents", folder(agent))
		for _, name := range protectedOfAgents {
			p.Protected = append(p.Protected, filepath.Join(home, name))
		}
	}
}

// setDelegates lists whom the agent may hand work to: the enabled agents of its
// risk profile, and those that it names; never itself.
func (b *builder) setDelegates(p *Policy) {
	p.Delegation = b.risk.DelegationPolicy.Mode
	if p.Delegation == "" {
		p.Delegation = delegationForbidden
	}
	may := map[string]bool{}
	for i, name := range b.agent.Delegates {
		if _, known := b.Agents[name]; !known {
			b.add(fmt.Sprintf("delegates[%d]", i), "there is no agent %s; %s", schemas.Quote(name), orMeant(name, slices.Sorted(maps.Keys(b.Agents))))
		}
		may[name] = true
	}
	for name, other := range b.Agents {
		peer := other.Enabled && orDefault(other.RiskProfile) == p.RiskProfileName
		may[name] = may[name] || peer && b.agent.DelegateSameRiskProfile
	}
	for _, name := range slices.Sorted(maps.Keys(may)) {
		if may[name] && name != b.name && p.Delegation == delegationAllow {
			p.Delegates = append(p.Delegates, name)
		}
	}
}

// setSelf names what an agent has of itself.
func (b *builder) setSelf(p *Policy) {
	home := filepath.Join(b.Home, "agents", folder(b.name))
	for _, name := range selfOfAgents {
		p.Self = append(p.Self, filepath.Join(home, name))
	}
	p.Memory = filepath.Join(home, memoryOfAgents)
}

func (b *builder) setMemory(p *Policy) {
	p.MemoryFrom = []string{b.name}
	for i, name := range b.agent.Workspace.ReadMemoryFrom {
		key := fmt.Sprintf("workspace.read_memory_from[%d]", i)
		switch _, known := b.Agents[name]; {
		case name == b.name:
			b.add(key, "an agent always reads its own memory; take the entry out")
		case !known:
			b.add(key, "there is no agent %s; %s", schemas.Quote(name), orMeant(name, slices.Sorted(maps.Keys(b.Agents))))
		case !slices.Contains(p.MemoryFrom, name):
			p.MemoryFrom = append(p.MemoryFrom, name)
		}
	}
}

func (b *builder) setSandbox(p *Policy) {
	p.Sandbox, p.SandboxNetwork = sandboxNone, b.risk.SandboxNetwork
	if b.risk.SandboxEnabled {
		p.Sandbox = sandboxLandlock
	}
	switch b.agent.Sandbox {
	case "":
	case sandboxNone, sandboxLandlock:
		p.Sandbox = b.agent.Sandbox
	default:
		b.add("sandbox", "%s is not supported; write none or landlock", schemas.Quote(b.agent.Sandbox))
	}
}

// workspace is where an agent's own files are.
func (b *builder) workspace(name string, a Agent) string {
	if a.Workspace.Path == "" {
		return filepath.Join(b.Home, "agents", folder(name), "workspace")
	}
	return b.absolute(a.Workspace.Path, b.Home)
}

// folder is an agent's name as a folder has it.
func folder(agent string) string { return strings.ReplaceAll(agent, ":", "_") }

// absolute resolves ~ and what is relative, without asking the disk.
func (b *builder) absolute(path, from string) string {
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') && b.UserHome != "" {
		return filepath.Join(b.UserHome, rest)
	}
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(from, path)
}
