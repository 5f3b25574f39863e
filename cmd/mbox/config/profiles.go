package config

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"mbox/agents"
	"mbox/agents/action"
	"mbox/agents/policy"
	"mbox/schemas"
)

// coordinatorProfile is the risk profile of the built-in coordinator: the
// default one, but work may be handed on.
const coordinatorProfile = "coordinator"

// fillProfiles makes the built-in profiles, and puts the defaults under what
// the file says of any.
func (c *File) fillProfiles() {
	if c.RiskProfiles == nil {
		c.RiskProfiles = map[string]*policy.RiskProfile{}
	}
	if c.RuntimeProfiles == nil {
		c.RuntimeProfiles = map[string]*policy.RuntimeProfile{}
	}
	for _, name := range []string{"default", coordinatorProfile} {
		if c.RiskProfiles[name] == nil {
			c.RiskProfiles[name] = &policy.RiskProfile{}
		}
	}
	if c.RuntimeProfiles["default"] == nil {
		c.RuntimeProfiles["default"] = &policy.RuntimeProfile{}
	}
	for name, p := range c.RiskProfiles {
		base := policy.DefaultRiskProfile()
		if name == coordinatorProfile {
			base.DelegationPolicy.Mode = "allow"
		}
		fill(c, "risk_profiles."+name, p, &base)
	}
	for name, p := range c.RuntimeProfiles {
		base := policy.DefaultRuntimeProfile()
		fill(c, "runtime_profiles."+name, p, &base)
	}
}

// Policy is what policies are made from, with everything filled in.
func (c *File) Policy() policy.Config {
	out := policy.Config{
		Home:            c.Home(),
		RiskProfiles:    map[string]policy.RiskProfile{},
		RuntimeProfiles: map[string]policy.RuntimeProfile{},
		Agents:          map[string]policy.Agent{},
		Former:          former(c),
		Dead:            func(name string) bool { return deadNames(c)[name] },
	}
	for name, p := range c.RiskProfiles {
		out.RiskProfiles[name] = *p
	}
	for name, p := range c.RuntimeProfiles {
		out.RuntimeProfiles[name] = *p
	}
	for name, a := range c.Agents {
		out.Agents[name] = policy.Agent{
			Enabled: a.Enabled, RiskProfile: a.RiskProfile, RuntimeProfile: a.RuntimeProfile, Workspace: a.Workspace,
			Delegates: a.Delegates, DelegateSameRiskProfile: a.DelegateSameRiskProfile, Sandbox: a.Sandbox, Exec: a.Role == "",
		}
	}
	return out
}

// Confined are the enabled agents whose commands are to be confined.
func (c *File) Confined() (names []string) {
	all := c.Policy()
	for _, name := range c.AgentNames() {
		p, err := policy.ForAgent(all, name)
		if c.Agents[name].Enabled && (err != nil || p.Sandbox == "landlock") {
			names = append(names, name)
		}
	}
	return names
}

// checkPolicies builds every agent's policy: what cannot be one is an error of
// the key at fault.
func (c *File) checkPolicies() error {
	err := policy.Check(c.Policy())
	var bad *policy.Invalid
	if errors.As(err, &bad) {
		return c.wrong(bad.Key, "%s", schemas.Sentence(bad.Problem, 300))
	}
	return err
}

func (c *File) checkProfiles() error {
	if err := checkTables(c, "risk_profiles", "profile", c.RiskProfiles, c.checkRiskProfile); err != nil {
		return err
	}
	return checkTables(c, "runtime_profiles", "profile", c.RuntimeProfiles, c.checkRuntimeProfile)
}

func (f *origins) checkRiskProfile(key string, p *policy.RiskProfile) error {
	if strings.EqualFold(p.Level, "read_only") || strings.EqualFold(p.Level, "read-only") {
		return f.wrong(key+".level", `%q is spelled "readonly"`, p.Level)
	}
	for _, w := range []struct {
		key, value string
		known      []string
	}{
		{".level", p.Level, []string{policy.ReadOnly, policy.Supervised, policy.Full}},
		{".delegation_policy.mode", p.DelegationPolicy.Mode, []string{"forbidden", "allow"}},
		{".sandbox_backend", p.SandboxBackend, []string{"", "none", "landlock"}},
	} {
		if err := f.checkWord(key+w.key, w.value, w.known); err != nil {
			return err
		}
	}
	if err := f.checkTools(key, p); err != nil {
		return err
	}
	if p.SandboxEnabled && p.SandboxBackend == "none" {
		return f.wrong(key+".sandbox_backend", `"none" contradicts sandbox_enabled = true: want "landlock"`)
	}
	for _, path := range p.ForbiddenPaths {
		if !filepath.IsAbs(path) && path != "~" && !strings.HasPrefix(path, "~/") || strings.ContainsRune(path, 0) {
			return f.wrong(key+".forbidden_paths", "%s is not allowed: want a path that begins with / or ~/", quoted(path))
		}
	}
	return nil
}

// checkTools refuses names of tools that nobody has: who mistypes one would ask for
// nothing, or exclude nothing. Those that ZeroClaw has besides can be allowed, as
// they are by default, which means nothing; to ask for them would be a promise.
func (f *origins) checkTools(key string, p *policy.RiskProfile) error {
	if slices.Contains(p.AutoApprove, agents.Terminal) {
		return f.wrong(key+".auto_approve", `"terminal" would approve nothing, since the risk of each command decides: want require_approval_for_medium_risk = false, or fewer allowed_commands`)
	}
	own := append(action.Names(), agents.Permission, agents.Terminal, "*")
	others := slices.Concat(own, policy.DefaultRiskProfile().AutoApprove)
	for _, l := range []struct {
		key          string
		tools, known []string
	}{
		{".always_ask", p.AlwaysAsk, own},
		{".excluded_tools", p.ExcludedTools, own},
		{".auto_approve", p.AutoApprove, others},
		{".allowed_tools", p.AllowedTools, others},
	} {
		for _, tool := range l.tools {
			if slices.Contains(l.known, tool) || strings.TrimSpace(tool) == "" {
				continue
			}
			return f.wrong(key+l.key, "%s is no action: want %s%s", quoted(tool), oneOfThese(own), schemas.Meant(tool, l.known))
		}
	}
	return nil
}

func (f *origins) checkRuntimeProfile(key string, p *policy.RuntimeProfile) error {
	const day = 24 * 3600
	return f.checkNumbers(key,
		bound{".max_tool_iterations", p.MaxToolIterations, 0, 1000},
		bound{".max_actions_per_hour", p.MaxActionsPerHour, 0, math.MaxInt32},
		bound{".max_delegation_depth", p.MaxDelegationDepth, 0, 10},
		bound{".delegation_timeout_secs", p.DelegationTimeout, 0, day},
		bound{".agentic_timeout_secs", p.AgenticTimeoutSecs, 0, day},
		bound{".memory_recall_limit", p.MemoryRecallLimit, 1, 1000})
}
