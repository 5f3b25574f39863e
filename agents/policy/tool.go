package policy

import (
	"slices"
	"strings"

	"mbox/schemas"
)

// Tool decides whether the agent may use a tool (an action of mbox, or a tool of
// its brain) at all: not one of excluded_tools, and one of allowed_tools unless
// that list is empty. In both * is every tool. It is one of two gates: an action
// needs the role's leave too, which is denied by default. The error is a [*Denied].
func (p *Policy) Tool(name string) error {
	table := "risk_profiles." + p.RiskProfileName
	switch {
	case listed(p.ExcludedTools, name):
		return &Denied{
			Rule: "tool_excluded", What: "use " + schemas.Quote(name), Why: "the risk profile excludes this tool",
			Hint: "take it out of " + table + ".excluded_tools in mbox.toml",
		}
	case len(p.AllowedTools) > 0 && !listed(p.AllowedTools, name):
		return &Denied{
			Rule: "tool_not_allowed", What: "use " + schemas.Quote(name), Why: "the risk profile allows only other tools",
			Hint: "add it to " + table + ".allowed_tools in mbox.toml",
		}
	}
	return nil
}

// NeedsApproval tells whether somebody must approve each use of a tool: always
// for always_ask, whatever else is set; else not for auto_approve, nor for an
// agent of level full. In both lists * is every tool.
func (p *Policy) NeedsApproval(tool string) bool {
	return p.MustAsk(tool) || p.Level != Full && !listed(p.AutoApprove, tool)
}

// MustAsk tells whether always_ask names a tool.
func (p *Policy) MustAsk(tool string) bool { return listed(p.AlwaysAsk, tool) }

func listed(list []string, tool string) bool {
	return slices.Contains(list, tool) || slices.Contains(list, "*")
}

// MayDelegate decides whether the agent may hand work to another one. The error
// is a [*Denied]. Whether the other's rights exceed its own, [Policy.Beyond]
// tells.
func (p *Policy) MayDelegate(target string) error {
	if target != p.Agent && slices.Contains(p.Delegates, target) {
		return nil
	}
	d := &Denied{What: "delegate to " + schemas.Quote(target)}
	switch {
	case p.Delegation != delegationAllow:
		d.Rule, d.Why = "delegation_forbidden", "the risk profile forbids delegation"
		d.Hint = "set risk_profiles." + p.RiskProfileName + `.delegation_policy.mode = "allow" in mbox.toml`
	case target == p.Agent:
		d.Rule, d.Why = "delegation_self", "an agent cannot delegate to itself"
		d.Hint = "name one of agents." + p.Agent + ".delegates in mbox.toml: " + orNone(p.Delegates)
	default:
		d.Rule, d.Why = "delegation_target", "it is not among the agents that this one may delegate to"
		d.Hint = "add it to agents." + p.Agent + ".delegates in mbox.toml; now there: " + orNone(p.Delegates)
	}
	return d
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return schemas.Sentence(strings.Join(names, ", "), 200)
}
