package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox/channel"
	"mbox/mailbox/task"
	"mbox/schemas"
)

func (c *File) checkAgents() error {
	for _, name := range c.AgentNames() {
		if problem := AgentProblem(name); problem != "" {
			return c.wrong("agents."+name, "%s", problem)
		}
		if channel.Group(name) {
			return advise(c.wrong("agents."+name, "%s is a group in channels", quoted(name)), "give that agent another name, also in what names it")
		}
		if other := audit.Folder(name); other != name && c.Agents[other] != nil {
			return c.wrong("agents."+name, "its folder, agents/%s, is that of another agent: want one name or the other", other)
		}
		if err := c.checkAgent(name, c.Agents[name]); err != nil {
			return err
		}
	}
	return nil
}

// checkAgent refuses what makes no sense in an agent's table.
func (c *File) checkAgent(name string, a *Agent) error {
	key := "agents." + name
	for _, check := range []func(key string, a *Agent) error{
		c.checkTaking, c.checkMind, c.checkCommand, c.checkBrain, c.checkRights, c.checkWorkspace, c.checkDelegates, c.checkMemory,
	} {
		if err := check(key, a); err != nil {
			return err
		}
	}
	if err := checkPlace(c, key, a); err != nil {
		return err
	}
	return checkNames(c, key, a)
}

// checkTaking checks what the agent takes, and how.
func (f *origins) checkTaking(key string, a *Agent) error {
	for _, t := range a.Types {
		if err := f.checkWord(key+".types", t, task.Types); err != nil {
			return err
		}
	}
	for _, action := range a.Actions {
		if !actionName().MatchString(action) {
			return f.wrong(key+".actions", "%q is no action name: want %s", schemas.Sentence(action, 40), actionName())
		}
	}
	if err := f.checkNumbers(key, bound{".concurrency", a.Concurrency, 1, 64}); err != nil {
		return err
	}
	if a.Timeout < Duration(time.Second) {
		return f.wrong(key+".timeout", "%s is not allowed: want at least 1s", cmp.Or(Span(time.Duration(a.Timeout)), "0s"))
	}
	if a.DreamEvery != 0 && (a.DreamEvery < Duration(time.Minute) || a.DreamEvery > Duration(30*24*time.Hour)) {
		return f.wrong(key+".dream_every", "%s is not allowed: want 1m to 720h, or 0s for never", Span(time.Duration(a.DreamEvery)))
	}
	if err := f.checkNumbers(key, bound{".max_memory_lines", a.MaxMemoryLines, 10, 10_000}); err != nil {
		return err
	}
	if err := f.checkNumbers(key, bound{".max_tasks_per_cycle", a.MaxTasksPerCycle, 0, 10_000}, bound{".max_messages_per_cycle", a.MaxMessagesPerCycle, 0, 10_000}); err != nil {
		return err
	}
	if n := a.MaxTasksPerCycle; n != 0 && a.MaxMessagesPerCycle != 0 && n != a.MaxMessagesPerCycle {
		return f.wrong(key+".max_messages_per_cycle", "is another name of max_tasks_per_cycle, which is %d: want the one or the other", n)
	}
	if a.IdleInterval < Duration(time.Second) || a.IdleInterval > Duration(time.Hour) {
		return f.wrong(key+".idle_interval", "%s is not allowed: want 1s to 1h", cmp.Or(Span(time.Duration(a.IdleInterval)), "0s"))
	}
	if a.Silence != 0 && a.Silence < Duration(time.Second) {
		return f.wrong(key+".silence", "%s is not allowed: want at least 1s, or 0s for none", Span(time.Duration(a.Silence)))
	}
	return nil
}

// OneAtATime refuses the table of an agent that was born where it does several tasks at
// once: it has one home.
func OneAtATime(c *File, name string) error {
	a := c.Agents[name]
	if a == nil || a.Concurrency <= 1 {
		return nil
	}
	return advise(c.wrong("agents."+name+".concurrency", "%d is not allowed: %s was born, and does one task at a time in its home", a.Concurrency, name), "leave concurrency out, or let mbox agent birth make another agent")
}

// checkMind holds exec, role and brain apart.
func (c *File) checkMind(key string, a *Agent) error {
	thinks := a.Brain.Kind != "none"
	whole := a.runtimes()
	if len(whole) > 1 {
		return c.wrong(key+whole[1], "%s does its tasks already: want the one or the other", strings.TrimPrefix(whole[0], "."))
	}
	if a.Whole() && (a.Role != "" || thinks) {
		return advise(c.wrong(key+whole[0], "does a task whole, and role and brain are for an agent that thinks: an agent has the one or the other"),
			`leave %s out, or role and brain; a command that only thinks is brain = { kind = "exec", command = "…" }`, strings.TrimPrefix(whole[0], "."))
	}
	if own := workspaceOf(strings.TrimPrefix(key, "agents.")); a.Whole() && filepath.Clean(a.Workspace.Path) != own {
		return c.wrong(key+".workspace.path", "a command works in %s: leave it out, or name the folder in allowed_roots of its risk profile", own)
	}
	if a.Role == "" && thinks {
		return advise(c.wrong(key+".brain.kind", "what thinks needs a role, which tells what it may do"), `role = "coder" in [%s], or another name of [roles]`, key)
	}
	if a.Role == "" && c.mentions(key+".brain") && !c.has(key+".brain.kind") {
		return advise(c.wrong(key+".brain", "it has no role, and so it does not think"), `role = "coder" in [%s], or another name of [roles]`, key)
	}
	if a.Role == "" {
		return nil
	}
	if err := checkName(c, key+".role", a.Role, "roles", c.Roles); err != nil {
		return err
	}
	if !c.has(key + ".role") {
		return nil // the table is of before there were roles: what is not allowed is refused when it comes
	}
	for _, action := range a.Actions {
		if allowed := c.Roles[a.Role].Actions; !slices.Contains(allowed, action) {
			return advise(c.wrong(key+".actions", "the role %s does not allow %s", a.Role, action), "actions in [roles.%s] says what it allows", a.Role)
		}
	}
	return nil
}

// checkBrain refuses an unknown kind, and keys that are for another one.
func (c *File) checkBrain(key string, a *Agent) error {
	b := &a.Brain
	key += ".brain"
	if err := c.checkWord(key+".kind", b.Kind, brainKinds); err != nil {
		return err
	}
	server := []string{"ollama", "openai"}
	for _, k := range []struct {
		name  string
		set   bool
		kinds []string
	}{
		{"model", b.Model != "", server},
		{"url", b.URL != "", server},
		{"temperature", b.Temperature != nil, server},
		{"key_file", b.KeyFile != "", []string{"openai"}},
		{"key_env", b.KeyEnv != "", []string{"openai"}},
		{"command", b.Command != "", []string{"exec"}},
	} {
		if k.set && !slices.Contains(k.kinds, b.Kind) {
			return c.wrong(key+"."+k.name, "a brain of kind %q has none: it is for %s", b.Kind, strings.Join(k.kinds, " and "))
		}
	}
	if t := b.Temperature; t != nil && !(*t >= 0 && *t <= 2) {
		return c.wrong(key+".temperature", "%v is not allowed: want 0 to 2", *t)
	}
	switch b.Kind {
	case "exec":
		if strings.TrimSpace(b.Command) == "" {
			return advise(c.wrong(key, `kind "exec" needs a command`), `command = "claude -p" in [%s]`, key)
		}
	case "ollama", "openai":
		return c.checkServer(key, a)
	}
	return nil
}

func (c *File) checkServer(key string, a *Agent) error {
	b := &a.Brain
	if b.Kind == "ollama" {
		if err := c.checkOllama(key+".url", &b.URL); err != nil {
			return err
		}
		return c.checkModels(key+".model", b.Model)
	}
	if b.URL == "" {
		return advise(c.wrong(key, `kind "openai" needs the address of a server`), `url = "https://…/v1" in [openai]`)
	}
	if _, problem := parseEndpoint(b.URL); problem != "" {
		return c.wrongSecret(key+".url", "%s", problem)
	}
	if c.origin(key+".model") == "default" {
		return advise(c.wrong(key, `kind "openai" needs a model: %s is one of Ollama's`, b.Model), `model = "…" in [%s] or in [roles.%s]`, key, a.Role)
	}
	if err := c.checkModels(key+".model", b.Model); err != nil {
		return err
	}
	return c.checkKey(key, b.URL, b.KeyFile, b.KeyEnv)
}

// checkRights checks the names of profiles and of the sandbox.
func (c *File) checkRights(key string, a *Agent) error {
	if err := checkName(c, key+".risk_profile", a.RiskProfile, "risk_profiles", c.RiskProfiles); err != nil {
		return err
	}
	if err := checkName(c, key+".runtime_profile", a.RuntimeProfile, "runtime_profiles", c.RuntimeProfiles); err != nil {
		return err
	}
	if err := checkWatched(c, key+".watch_channels", a.WatchChannels); err != nil {
		return err
	}
	return c.checkWord(key+".sandbox", a.Sandbox, []string{"", "none", "landlock"})
}

func checkWatched(c *File, key string, names []string) error {
	for _, name := range names {
		var bad *schemas.Error
		if errors.As(channel.CheckName(name), &bad) {
			return c.wrong(key, "%s: want %s", bad.Problem, bad.Want)
		}
	}
	return nil
}

// ownFolders are those of the home where no agent works.
var ownFolders = []string{".", ".mbox", "audit", "tasks", "decisions", "changes", "channels", "memory", Dir}

func (c *File) checkWorkspace(key string, a *Agent) error {
	w := a.Workspace
	if !filepath.IsAbs(w.Path) && !filepath.IsLocal(w.Path) {
		return c.wrong(key+".workspace.path", "%s is not allowed: want a folder of the mailbox, or an absolute path", quoted(w.Path))
	}
	if problem := c.placeProblem(w.Path); problem != "" {
		return c.wrong(key+".workspace.path", "%s", problem)
	}
	for _, other := range slices.Sorted(maps.Keys(w.Access)) {
		at := key + ".workspace.access." + other
		if err := c.checkSibling(at, key, other); err != nil {
			return err
		}
		if err := c.checkWord(at, w.Access[other], []string{"read", "write", "read_write"}); err != nil {
			return err
		}
	}
	for _, other := range w.ReadMemoryFrom {
		at := key + ".workspace.read_memory_from"
		if err := c.checkSibling(at, key, other); err != nil {
			return err
		}
		if c.Agents[other].Memory.Backend == MemoryNone {
			return c.wrong(at, `%s has no memory: its memory.backend is "none"`, other)
		}
	}
	return nil
}

// placeProblem tells why no agent may work in a folder; "" if one may.
func (c *File) placeProblem(path string) string {
	inside := path
	if filepath.IsAbs(path) {
		inside = c.inHome(path)
	}
	first, _, _ := strings.Cut(filepath.ToSlash(filepath.Clean(inside)), "/")
	if slices.Contains(ownFolders, first) || strings.ContainsRune(path, 0) || filepath.IsAbs(path) && c.holdsHome(path) {
		return quoted(path) + " is no place for an agent to work in"
	}
	return ""
}

// holdsHome tells whether the mailbox lies in a folder.
func (c *File) holdsHome(path string) bool {
	rel, err := filepath.Rel(path, c.Home())
	return err == nil && filepath.IsLocal(rel)
}

// inHome makes an absolute path relative to the home, where it lies in it.
func (c *File) inHome(path string) string {
	rel, err := filepath.Rel(c.Home(), path)
	if err != nil || !filepath.IsLocal(rel) {
		return filepath.Clean(path)
	}
	return rel
}

// checkSibling wants another agent of the registry.
func (c *File) checkSibling(at, key, other string) error {
	if key == "agents."+other {
		return c.wrong(at, "%s is the agent itself", other)
	}
	return checkName(c, at, other, "agents", c.Agents)
}

func (c *File) checkDelegates(key string, a *Agent) error {
	for _, other := range a.Delegates {
		if err := c.checkSibling(key+".delegates", key, other); err != nil {
			return err
		}
	}
	if len(a.Delegates) > 0 && c.RiskProfiles[a.RiskProfile].DelegationPolicy.Mode != "allow" {
		return advise(c.wrong(key+".delegates", "the risk profile %s forbids to hand work on", a.RiskProfile),
			`risk_profile = "coordinator", or delegation_policy.mode = "allow" in [risk_profiles.%s]`, a.RiskProfile)
	}
	return nil
}

func (f *origins) checkMemory(key string, a *Agent) error {
	if a.Memory.Backend == "lucid" {
		return advise(f.wrong(key+".memory.backend", `"lucid" is a closed tool, which mbox cannot use by itself`),
			`memory.backend = "exec", with an adapter to it as memory.command: mbox help memory`)
	}
	if err := f.checkWord(key+".memory.backend", a.Memory.Backend, memoryBackends); err != nil {
		return err
	}
	switch {
	case a.Memory.Backend == MemoryExec && strings.TrimSpace(a.Memory.Command) == "":
		return advise(f.wrong(key+".memory.backend", "no command says which program remembers"), `memory.command = "…": mbox help memory`)
	case a.Memory.Backend != MemoryExec && a.Memory.Command != "":
		return advise(f.wrong(key+".memory.command", "the backend %q has no program", a.Memory.Backend), `memory.backend = "exec", or no command`)
	case strings.ContainsRune(a.Memory.Command, 0):
		return f.wrong(key+".memory.command", "a command cannot hold NUL")
	}
	if a.Memory.EmbedModel != "" && !slices.Contains(meantMemories, a.Memory.Backend) {
		return advise(f.wrong(key+".memory.embed_model", "the backend %q finds by words alone", a.Memory.Backend), `memory.backend = "sqlite", or no embed_model`)
	}
	return nil
}

// checkName wants a name that has a table.
func checkName[T any](c *File, key, name, table string, tables map[string]T) error {
	if _, known := tables[name]; known {
		return nil
	}
	known := slices.Sorted(maps.Keys(tables))
	return c.wrong(key, "there is no [%s.%s]: want one of %s%s", table, schemas.Sentence(name, 40), schemas.Sentence(strings.Join(known, ", "), 200), schemas.Meant(name, known))
}

// AgentProblem tells why name cannot be an agent's; "" if it can.
func AgentProblem(name string) string {
	var e *schemas.Error
	if !errors.As(task.CheckAgent(name), &e) {
		return ""
	}
	return e.Problem + "; want " + e.Want
}

// StrangerProblem tells why name cannot be that of an agent of c's: for a file that
// registers agents it has to be one of them. "" if it can.
func StrangerProblem(c *File, name string) string {
	if problem := AgentProblem(name); problem != "" || c.Agents[name] != nil || !c.mentions("agents") {
		return problem
	}
	return fmt.Sprintf("there is no [agents.%s] in %s%s", schemas.Sentence(name, 80), Name, schemas.Meant(name, c.AgentNames()))
}
