package policy

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"mbox/schemas"
)

// An axis is a right of which a child may have no more than its parent.
type axis struct {
	name   string
	of     string // the fields of Policy that it compares
	within func(child, parent *Policy) bool
	show   func(*Policy) string // what a policy has of it
	key    string               // narrows it in mbox.toml; % is the agent's table, # that of its risk profile
}

// axes are all of them, in the order in which they are compared: those that
// ZeroClaw has, memory, and those of mbox. A field of Policy that stands in none
// grants nothing, and the tests say why.
var axes = []axis{
	{"level", "Level", func(p, q *Policy) bool { return rank(p.Level) <= rank(q.Level) }, func(p *Policy) string { return p.Level }, "#.level"},
	{
		"read_write_roots", "ReadWrite", func(p, q *Policy) bool { return covered(p.ReadWrite, q.ReadWrite) },
		func(p *Policy) string { return list(p.ReadWrite) }, "#.allowed_roots or %.workspace.access",
	},
	{
		"read_only_roots", "ReadOnlyRoots", func(p, q *Policy) bool { return covered(p.ReadOnlyRoots, q.ReadWrite, q.ReadOnlyRoots) },
		func(p *Policy) string { return list(p.ReadWrite, p.ReadOnlyRoots) }, "%.workspace.access",
	},
	{
		"write_only_roots", "WriteOnly", func(p, q *Policy) bool { return covered(p.WriteOnly, q.ReadWrite, q.WriteOnly) },
		func(p *Policy) string { return list(p.ReadWrite, p.WriteOnly) }, "%.workspace.access",
	},
	{
		"allowed_commands", "AllowedCommands", func(p, q *Policy) bool { return commandsWithin(p.AllowedCommands, q.AllowedCommands) },
		func(p *Policy) string { return list(p.AllowedCommands) }, "#.allowed_commands",
	},
	brake("workspace_only", "WorkspaceOnly", "#.workspace_only or %.workspace.unrestricted_filesystem", func(p *Policy) bool { return p.WorkspaceOnly }),
	{
		"forbidden_paths", "Forbidden", func(p, q *Policy) bool { return covered(q.Forbidden, p.Forbidden) },
		func(p *Policy) string { return list(p.Forbidden) }, "#.forbidden_paths",
	},
	{
		"shell_env_passthrough", "EnvPassthrough", func(p, q *Policy) bool { return subset(p.EnvPassthrough, q.EnvPassthrough) },
		func(p *Policy) string { return list(p.EnvPassthrough) }, "#.shell_env_passthrough",
	},
	limit("max_actions_per_hour", "Runtime.MaxActionsPerHour", func(p *Policy) int { return p.Runtime.MaxActionsPerHour }),
	brake("block_high_risk_commands", "BlockHighRisk", "#.block_high_risk_commands", func(p *Policy) bool { return p.BlockHighRisk }),
	brake("require_approval_for_medium_risk", "RequireMediumApproval", "#.require_approval_for_medium_risk", func(p *Policy) bool { return p.RequireMediumApproval }),
	{
		"read_memory_from", "MemoryFrom", func(p, q *Policy) bool { return subset(others(p), q.MemoryFrom) },
		func(p *Policy) string { return list(p.MemoryFrom) }, "%.workspace.read_memory_from",
	},
	{
		"sandbox", "Sandbox", func(p, q *Policy) bool { return p.Sandbox == sandboxLandlock || q.Sandbox != sandboxLandlock },
		func(p *Policy) string { return p.Sandbox }, "%.sandbox or #.sandbox_enabled",
	},
	{
		"sandbox_network", "SandboxNetwork", func(p, q *Policy) bool { return !p.SandboxNetwork || q.SandboxNetwork },
		func(p *Policy) string { return yes(p.SandboxNetwork) }, "#.sandbox_network",
	},
	{
		"exec", "Exec", func(p, q *Policy) bool { return !p.unbounded() || q.unbounded() || q.Level == Full },
		func(p *Policy) string { return yes(p.unbounded()) + " (neither a role nor a sandbox bounds it)" }, `% (a role, or sandbox = "landlock")`,
	},
	{
		"always_ask", "AlwaysAsk", func(p, q *Policy) bool {
			return noTool(p, q, func(tool string) bool { return p.free(tool) && listed(q.AlwaysAsk, tool) })
		},
		func(p *Policy) string { return list(p.AlwaysAsk) }, "#.always_ask",
	},
	{
		"auto_approve", "AutoApprove", func(p, q *Policy) bool {
			return noTool(p, q, func(tool string) bool { return p.free(tool) && q.NeedsApproval(tool) })
		},
		func(p *Policy) string { return list(p.AutoApprove) }, "#.auto_approve",
	},
	{
		"allowed_tools", "AllowedTools", func(p, q *Policy) bool {
			return noTool(p, q, func(tool string) bool {
				return p.Tool(tool) == nil && len(q.AllowedTools) > 0 && !listed(q.AllowedTools, tool)
			})
		},
		func(p *Policy) string { return list(p.AllowedTools) }, "#.allowed_tools",
	},
	{
		"excluded_tools", "ExcludedTools", func(p, q *Policy) bool {
			return noTool(p, q, func(tool string) bool { return p.Tool(tool) == nil && listed(q.ExcludedTools, tool) })
		},
		func(p *Policy) string { return list(p.ExcludedTools) }, "#.excluded_tools",
	},
	limit("max_delegation_depth", "MaxDepth Delegates", (*Policy).reach),
}

// brake is an axis of a bound that a child may not drop.
func brake(name, of, key string, has func(*Policy) bool) axis {
	return axis{
		name, of, func(p, q *Policy) bool { return has(p) || !has(q) },
		func(p *Policy) string { return yes(has(p)) }, key,
	}
}

// limit is an axis of a number that a child may not exceed.
func limit(name, of string, get func(*Policy) int) axis {
	return axis{
		name, of, func(p, q *Policy) bool { return get(p) <= get(q) },
		func(p *Policy) string { return strconv.Itoa(get(p)) }, "the child's runtime_profiles key " + name,
	}
}

// Escalation is a child that may do more than its parent, on the first axis on
// which it does. It unwraps to a [*Denied] whose rule is escalation_ and the axis.
type Escalation struct {
	Axis          string // the name of one
	Child, Parent string // the two values, fit to be shown

	child, parent string // agents
	key           string // of mbox.toml, that narrows it
}

func (e *Escalation) Error() string { return e.denied().Error() }

func (e *Escalation) Unwrap() error { return e.denied() }

func (e *Escalation) denied() *Denied {
	return &Denied{
		Rule: "escalation_" + e.Axis,
		What: fmt.Sprintf("%s for %s", schemas.Quote(e.child), schemas.Quote(e.parent)),
		Why:  fmt.Sprintf("it would have more rights than who hands it the work: %s is %s, and there %s", e.Axis, e.Child, e.Parent),
		Hint: "narrow " + e.key + " in mbox.toml, or widen that of agents." + e.parent,
	}
}

// Beyond tells whether the agent may do anything that its parent, who hands it
// work, may not: nil, or an [*Escalation] for the first axis. Roots lie within
// roots by what they lead to; * in a list of commands holds every command that is
// not of high risk. The workspaces themselves are not compared: each agent works
// in its own, and a root in the parent's workspace is still one that no list of
// the parent names. The agent's own memory is always its own. Whom the agent may
// hand work to is held against the agent in turn. But for memory Beyond is a
// partial order: p is not beyond p, and what is not beyond q is not beyond what q
// is not beyond.
func (p *Policy) Beyond(parent *Policy) error { return p.beyond(parent, axes) }

// Bare tells whether the agent may do what another one asks of it by a message, or by a
// task that is nobody's child: nil, or an [*Escalation]. Each does that with its own
// rights, so that only one is compared: a program that nothing bounds works for one like
// it, and for an agent of level full.
func (p *Policy) Bare(asker *Policy) error {
	return p.beyond(asker, slices.DeleteFunc(slices.Clone(axes), func(a axis) bool { return a.name != "exec" }))
}

func (p *Policy) beyond(parent *Policy, rights []axis) error {
	for _, a := range rights {
		if !a.within(p, parent) {
			key := strings.NewReplacer("#", "risk_profiles."+p.RiskProfileName, "%", "agents."+p.Agent).Replace(a.key)
			return &Escalation{Axis: a.name, Child: a.show(p), Parent: a.show(parent), child: p.Agent, parent: parent.Agent, key: key}
		}
	}
	return nil
}

// unbounded tells whether the agent does its tasks by a program that can do what
// the user can.
func (p *Policy) unbounded() bool { return p.Exec && p.Sandbox != sandboxLandlock }

// free tells whether the agent uses a tool without asking anybody.
func (p *Policy) free(tool string) bool { return p.Tool(tool) == nil && !p.NeedsApproval(tool) }

// noTool tells whether there is no tool of which all this is true; one that
// neither policy names stands for all of those.
func noTool(p, q *Policy, beyond func(tool string) bool) bool {
	return !slices.ContainsFunc(slices.Concat(
		p.AlwaysAsk, p.AutoApprove, p.AllowedTools, p.ExcludedTools, q.AlwaysAsk, q.AutoApprove, q.AllowedTools, q.ExcludedTools,
		[]string{"any other tool"},
	), beyond)
}

// reach is how deep the agent may hand work on: not at all where it may hand it to
// nobody, and as deep as any where its profile names no depth.
func (p *Policy) reach() int {
	switch {
	case len(p.Delegates) == 0:
		return 0
	case p.MaxDepth == 0:
		return math.MaxInt32
	}
	return p.MaxDepth
}

// rank orders levels; an unknown one has no rights, as everywhere.
func rank(level string) int { return slices.Index([]string{ReadOnly, Supervised, Full}, level) }

// covered tells whether each path lies in one of the folders, by what they lead to.
// What cannot be followed counts as it is written.
func covered(paths []string, folders ...[]string) bool {
	led := func(path string) string {
		if to, err := resolve(path); err == nil {
			return to
		}
		return path
	}
	all := slices.Concat(folders...)
	return !slices.ContainsFunc(paths, func(path string) bool {
		return !slices.ContainsFunc(all, func(folder string) bool { return within(led(path), led(folder)) })
	})
}

// subset tells whether each word stands in another list.
func subset(words, of []string) bool {
	return !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(of, w) })
}

// commandsWithin is subset, with * for every command but those of high risk:
// they are allowed by name only.
func commandsWithin(commands, of []string) bool {
	all := slices.Contains(of, "*")
	return !slices.ContainsFunc(commands, func(name string) bool {
		risk, _ := riskOf(name, nil)
		return !slices.Contains(of, name) && (!all || risk == High)
	})
}

func others(p *Policy) []string {
	return slices.DeleteFunc(slices.Clone(p.MemoryFrom), func(name string) bool { return name == p.Agent })
}

func list(lists ...[]string) string {
	return "[" + schemas.Sentence(strings.Join(slices.Concat(lists...), " "), 200) + "]"
}

func yes(b bool) string { return strconv.FormatBool(b) }
