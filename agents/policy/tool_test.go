package policy

import (
	"errors"
	"testing"
)

func rule(err error) string {
	var d *Denied
	if errors.As(err, &d) {
		return d.Rule
	}
	return ""
}

func TestTool(t *testing.T) {
	for _, c := range []struct {
		allowed, excluded []string
		tool, want        string
	}{
		{nil, nil, "anything", ""},
		{nil, []string{"x"}, "x", "tool_excluded"},
		{nil, []string{"x"}, "y", ""},
		{[]string{"x"}, nil, "x", ""},
		{[]string{"x"}, nil, "y", "tool_not_allowed"},
		{[]string{"x"}, []string{"x"}, "x", "tool_excluded"},
		{nil, []string{"*"}, "x", "tool_excluded"},
		{[]string{"x"}, []string{"*"}, "x", "tool_excluded"},
		{[]string{"*"}, nil, "x", ""},
	} {
		p := &Policy{AllowedTools: c.allowed, ExcludedTools: c.excluded}
		if got := rule(p.Tool(c.tool)); got != c.want {
			t.Errorf("%v: %q, want %q", c, got, c.want)
		}
	}
}

func TestNeedsApproval(t *testing.T) {
	for _, c := range []struct {
		level     string
		auto, ask []string
		want      bool
	}{
		{Supervised, nil, nil, true},
		{Supervised, []string{"x"}, nil, false},
		{Supervised, []string{"*"}, nil, false},
		{Supervised, []string{"*"}, []string{"x"}, true},
		{Supervised, []string{"x"}, []string{"*"}, true},
		{Full, nil, nil, false},
		{Full, nil, []string{"x"}, true},
		{ReadOnly, nil, nil, true},
		{ReadOnly, []string{"x"}, nil, false},
		{ReadOnly, nil, []string{"x"}, true},
		{"", nil, nil, true},
	} {
		p := &Policy{Level: c.level, AutoApprove: c.auto, AlwaysAsk: c.ask}
		if got := p.NeedsApproval("x"); got != c.want {
			t.Errorf("%v: %v", c, got)
		}
	}
	// What the built-in roles do works without further set-up.
	p := &Policy{Level: Supervised, AutoApprove: DefaultRiskProfile().AutoApprove}
	for tool, want := range map[string]bool{"write_file": false, "read_file": false, "file_check": false, "http_check": false, "delegate": false, "deploy_compose": true} {
		if p.NeedsApproval(tool) != want {
			t.Errorf("%s: by default approval is %v", tool, !want)
		}
	}
}

func TestMayDelegate(t *testing.T) {
	f := newTree(t)
	c := f.config(func(r *RiskProfile, a *Agent) {
		r.DelegationPolicy.Mode, a.DelegateSameRiskProfile, a.Delegates = "allow", true, []string{"stranger"}
	})
	other := DefaultRiskProfile()
	c.RiskProfiles["other"] = other
	c.Agents["reader"] = Agent{Enabled: true}                          // a peer
	c.Agents["pair"] = Agent{Enabled: false}                           // a peer that is off
	c.Agents["dropbox"] = Agent{Enabled: true, RiskProfile: "other"}   // no peer
	c.Agents["stranger"] = Agent{Enabled: false, RiskProfile: "other"} // named
	p, err := ForAgent(c, "coder")
	f.must(t, err)
	for target, want := range map[string]string{
		"reader": "", "stranger": "", "pair": "delegation_target", "dropbox": "delegation_target",
		"coder": "delegation_self", "nobody": "delegation_target", "": "delegation_target",
	} {
		err := p.MayDelegate(target)
		if got := rule(err); got != want {
			t.Errorf("%s: %q, want %q", target, got, want)
		}
		var d *Denied
		if errors.As(err, &d) {
			f.showable(t, d)
		}
	}
	forbidden, err := ForAgent(c, "dropbox")
	f.must(t, err)
	if got := rule(forbidden.MayDelegate("coder")); got != "delegation_forbidden" {
		t.Errorf("without a mode: %q", got)
	}
}
