package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"mbox/schemas"
)

// The axes along which a child may not exceed its parent, in the order in which
// they are compared.
const (
	AxisLevel       = "level"
	AxisReadWrite   = "read_write_roots"
	AxisReadOnly    = "read_only_roots"
	AxisWriteOnly   = "write_only_roots"
	AxisCommands    = "allowed_commands"
	AxisBoundary    = "workspace_only"
	AxisForbidden   = "forbidden_paths"
	AxisEnvironment = "shell_env_passthrough"
	AxisActions     = "max_actions_per_hour"
	AxisCost        = "max_cost_per_day_cents"
	AxisTimeout     = "shell_timeout_secs"
	AxisHighRisk    = "block_high_risk_commands"
	AxisMediumRisk  = "require_approval_for_medium_risk"
	AxisMemory      = "read_memory_from"
)

// Axes are the thirteen axes of rights, and that of memory.
var Axes = []string{
	AxisLevel, AxisReadWrite, AxisReadOnly, AxisWriteOnly, AxisCommands, AxisBoundary, AxisForbidden,
	AxisEnvironment, AxisActions, AxisCost, AxisTimeout, AxisHighRisk, AxisMediumRisk, AxisMemory,
}

// Escalation is a child that may do more than its parent, on the first axis on
// which it does. It unwraps to a [*Denied] whose rule is escalation_ and the axis.
type Escalation struct {
	Axis          string // one of Axes
	Child, Parent string // the two values, fit to be shown

	child, parent, profile string // agents, and the child's risk profile
}

func (e *Escalation) Error() string { return e.denied().Error() }

func (e *Escalation) Unwrap() error { return e.denied() }

func (e *Escalation) denied() *Denied {
	return &Denied{
		Rule: "escalation_" + e.Axis,
		What: fmt.Sprintf("%s for %s", schemas.Quote(e.child), schemas.Quote(e.parent)),
		Why:  fmt.Sprintf("it would have more rights than who hands it the work: %s is %s, and there %s", e.Axis, e.Child, e.Parent),
		Hint: e.hint(),
	}
}

// hint names the key that the axis comes from.
func (e *Escalation) hint() string {
	key := "risk_profiles." + e.profile + "." + e.Axis
	switch e.Axis {
	case AxisReadWrite:
		key = "risk_profiles." + e.profile + ".allowed_roots or agents." + e.child + ".workspace.access"
	case AxisReadOnly, AxisWriteOnly:
		key = "agents." + e.child + ".workspace.access"
	case AxisBoundary:
		key += " or agents." + e.child + ".workspace.unrestricted_filesystem"
	case AxisActions, AxisCost, AxisTimeout:
		key = "the child's runtime_profiles key " + e.Axis
	case AxisMemory:
		key = "agents." + e.child + ".workspace.read_memory_from"
	}
	return "narrow " + key + " in mbox.toml, or widen that of agents." + e.parent
}

// Beyond tells whether the agent may do anything that its parent, who hands it
// work, may not: nil, or an [*Escalation] for the first axis. Roots lie within
// roots by path; * in a list of commands holds every command that is not of high
// risk. The workspaces themselves are not compared: each agent works in its own,
// and a root in the parent's workspace is still one that no list of the parent
// names. The agent's own memory is always its own. On the thirteen axes Beyond is
// a partial order: p is not beyond p, and what is not beyond q is not beyond what
// q is not beyond.
func (p *Policy) Beyond(parent *Policy) error {
	q := parent
	for _, a := range []struct {
		name          string
		within        bool
		child, parent string
	}{
		{AxisLevel, rank(p.Level) <= rank(q.Level), p.Level, q.Level},
		{AxisReadWrite, covered(p.ReadWrite, q.ReadWrite), list(p.ReadWrite), list(q.ReadWrite)},
		{AxisReadOnly, covered(p.ReadOnlyRoots, q.ReadWrite, q.ReadOnlyRoots), list(p.ReadOnlyRoots), list(q.ReadWrite, q.ReadOnlyRoots)},
		{AxisWriteOnly, covered(p.WriteOnly, q.ReadWrite, q.WriteOnly), list(p.WriteOnly), list(q.ReadWrite, q.WriteOnly)},
		{AxisCommands, commandsWithin(p.AllowedCommands, q.AllowedCommands), list(p.AllowedCommands), list(q.AllowedCommands)},
		{AxisBoundary, p.WorkspaceOnly || !q.WorkspaceOnly, yes(p.WorkspaceOnly), yes(q.WorkspaceOnly)},
		{AxisForbidden, covered(q.Forbidden, p.Forbidden), list(p.Forbidden), list(q.Forbidden)},
		{AxisEnvironment, subset(p.EnvPassthrough, q.EnvPassthrough), list(p.EnvPassthrough), list(q.EnvPassthrough)},
		{AxisActions, p.Runtime.MaxActionsPerHour <= q.Runtime.MaxActionsPerHour, number(p.Runtime.MaxActionsPerHour), number(q.Runtime.MaxActionsPerHour)},
		{AxisCost, p.Runtime.MaxCostPerDayCents <= q.Runtime.MaxCostPerDayCents, number(p.Runtime.MaxCostPerDayCents), number(q.Runtime.MaxCostPerDayCents)},
		{AxisTimeout, p.Runtime.ShellTimeoutSecs <= q.Runtime.ShellTimeoutSecs, number(p.Runtime.ShellTimeoutSecs), number(q.Runtime.ShellTimeoutSecs)},
		{AxisHighRisk, p.BlockHighRisk || !q.BlockHighRisk, yes(p.BlockHighRisk), yes(q.BlockHighRisk)},
		{AxisMediumRisk, p.RequireMediumApproval || !q.RequireMediumApproval, yes(p.RequireMediumApproval), yes(q.RequireMediumApproval)},
		{AxisMemory, subset(others(p), q.MemoryFrom), list(p.MemoryFrom), list(q.MemoryFrom)},
	} {
		if !a.within {
			return &Escalation{Axis: a.name, Child: a.child, Parent: a.parent, child: p.Agent, parent: q.Agent, profile: p.RiskProfileName}
		}
	}
	return nil
}

// rank orders levels; an unknown one has no rights, as everywhere.
func rank(level string) int { return slices.Index([]string{ReadOnly, Supervised, Full}, level) }

// covered tells whether each path lies in one of the folders.
func covered(paths []string, folders ...[]string) bool {
	all := slices.Concat(folders...)
	return !slices.ContainsFunc(paths, func(path string) bool {
		return !slices.ContainsFunc(all, func(folder string) bool { return within(path, folder) })
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

func number(n int) string { return strconv.Itoa(n) }
