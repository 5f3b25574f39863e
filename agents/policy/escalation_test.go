package policy

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// somePolicy draws a policy from few values, so that two often compare.
func somePolicy(t *rapid.T, label string) *Policy {
	paths := func(name string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/a", "/a/b", "/a/b/c", "/ab", "/d"}), 0, 3, rapid.ID).Draw(t, label+name)
	}
	tools := func(name string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x", "y", "*"}), 0, 2, rapid.ID).Draw(t, label+name)
	}
	few := func(name string) int { return rapid.IntRange(0, 2).Draw(t, label+name) }
	yes := func(name string) bool { return rapid.Bool().Draw(t, label+name) }
	return &Policy{
		Agent: "a", RiskProfileName: "r", Level: rapid.SampledFrom([]string{ReadOnly, Supervised, Full}).Draw(t, label+"level"),
		ReadWrite: paths("rw"), ReadOnlyRoots: paths("ro"), WriteOnly: paths("wo"), Forbidden: paths("forbidden"),
		AllowedCommands: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"ls", "cat", "rm", "*"}), 0, 4, rapid.ID).Draw(t, label+"commands"),
		EnvPassthrough:  rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B"}), 0, 2, rapid.ID).Draw(t, label+"env"),
		MemoryFrom:      append([]string{"a"}, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"b", "c"}), 0, 2, rapid.ID).Draw(t, label+"memory")...),
		AlwaysAsk:       tools("ask"), AutoApprove: tools("auto"), AllowedTools: tools("allowed"), ExcludedTools: tools("excluded"),
		Delegates: rapid.SliceOfN(rapid.Just("d"), 0, 1).Draw(t, label+"delegates"), MaxDepth: few("depth"),
		Exec: yes("exec"), Sandbox: rapid.SampledFrom([]string{sandboxNone, sandboxLandlock}).Draw(t, label+"sandbox"), SandboxNetwork: yes("network"),
		WorkspaceOnly: yes("boundary"), BlockHighRisk: yes("high"), RequireMediumApproval: yes("medium"),
		Runtime: RuntimeProfile{MaxActionsPerHour: few("actions")},
	}
}

// narrower draws a policy that is at most p: it drops and lowers.
func narrower(t *rapid.T, p *Policy, label string) *Policy {
	q := *p
	some := func(name string, of []string) []string {
		return slices.DeleteFunc(slices.Clone(of), func(string) bool { return rapid.Bool().Draw(t, label+name) })
	}
	q.ReadWrite, q.ReadOnlyRoots, q.WriteOnly = some("rw", p.ReadWrite), some("ro", p.ReadOnlyRoots), some("wo", p.WriteOnly)
	q.AllowedCommands, q.EnvPassthrough = some("commands", p.AllowedCommands), some("env", p.EnvPassthrough)
	q.MemoryFrom = some("memory", p.MemoryFrom)
	q.Runtime.MaxActionsPerHour -= rapid.IntRange(0, 1).Draw(t, label+"actions")
	q.WorkspaceOnly = p.WorkspaceOnly || rapid.Bool().Draw(t, label+"boundary")
	q.Forbidden = append(slices.Clone(p.Forbidden), "/more")
	q.AutoApprove, q.AlwaysAsk = some("auto", p.AutoApprove), append(slices.Clone(p.AlwaysAsk), "more")
	q.ExcludedTools = append(slices.Clone(p.ExcludedTools), "more")
	q.Delegates = some("delegates", p.Delegates)
	return &q
}

func TestBeyondIsAnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := somePolicy(t, "a.")
		b := rapid.OneOf(rapid.Just(narrower(t, a, "b.")), rapid.Just(somePolicy(t, "b."))).Draw(t, "b")
		c := rapid.OneOf(rapid.Just(narrower(t, b, "c.")), rapid.Just(somePolicy(t, "c."))).Draw(t, "c")
		if err := a.Beyond(a); err != nil {
			t.Fatalf("beyond itself: %v", err)
		}
		if err := narrower(t, a, "n.").Beyond(a); err != nil {
			t.Fatalf("a narrower one is beyond: %v", err)
		}
		if c.Beyond(b) == nil && b.Beyond(a) == nil {
			if err := c.Beyond(a); err != nil {
				t.Fatalf("within what is within: %v", err)
			}
		}
	})
}

// parentOfAll is a policy that can be exceeded on every axis.
func parentOfAll() *Policy {
	return &Policy{
		Agent: "a", RiskProfileName: "r", Level: Supervised, WorkspaceOnly: true, BlockHighRisk: true, RequireMediumApproval: true,
		ReadWrite: []string{"/a"}, ReadOnlyRoots: []string{"/b"}, WriteOnly: []string{"/c"}, Forbidden: []string{"/must"},
		AllowedCommands: []string{"ls"}, EnvPassthrough: []string{"A"}, MemoryFrom: []string{"a"},
		Sandbox: sandboxLandlock, AllowedTools: []string{"t", "u", "v"}, ExcludedTools: []string{"t"},
		AutoApprove: []string{"u"}, AlwaysAsk: []string{"u"}, Delegates: []string{"d"}, MaxDepth: 1,
		Runtime: RuntimeProfile{MaxActionsPerHour: 2},
	}
}

// grantsNothing are the fields of a policy that no axis compares, and why.
var grantsNothing = map[string]string{
	"Agent":                      "who it is",
	"Workspace":                  "each agent works in its own",
	"Siblings":                   "names for what the lists open",
	"Dead":                       "names of no folder",
	"Protected":                  "mbox's own files: no key of mbox.toml has a say",
	"Self":                       "each agent reads its own home, by its name",
	"Memory":                     "each agent writes its own, by its name",
	"Private":                    "mbox's own files: no key of mbox.toml has a say",
	"Home":                       "one for all agents of a mailbox",
	"UserHome":                   "one for all agents of a mailbox",
	"RiskProfileName":            "a name",
	"Delegation":                 "without it Delegates is empty",
	"Runtime.Agentic":            "how it works; what it does is counted by max_actions_per_hour and the tree's budget",
	"Runtime.MaxToolIterations":  "how it works; what it does is counted by max_actions_per_hour and the tree's budget",
	"Runtime.MaxDelegationDepth": "compared as MaxDepth",
	"Runtime.DelegationTimeout":  "a bound on others, not on it",
	"Runtime.AgenticTimeoutSecs": "how long it works; the tree's budget counts the seconds",
	"Runtime.MemoryRecallLimit":  "how much it is told at once; whose memory is compared as MemoryFrom",
}

// fieldsOf are the leaves of a struct, by name; those of profiles and tables in it
// with theirs before.
func fieldsOf(t reflect.Type, table string) (names []string) {
	for f := range t.Fields() {
		if f.Type.Kind() == reflect.Struct {
			names = append(names, fieldsOf(f.Type, table+f.Name+".")...)
			continue
		}
		names = append(names, table+f.Name)
	}
	return names
}

// A field of a policy stands in one axis, or does not matter: a new one has to say
// which.
func TestEveryRightHasAnAxis(t *testing.T) {
	seen := map[string]string{}
	for _, a := range axes {
		for field := range strings.FieldsSeq(a.of) {
			if seen[field] != "" {
				t.Errorf("%s stands in %s and in %s", field, seen[field], a.name)
			}
			seen[field] = a.name
		}
	}
	why := maps.Clone(grantsNothing)
	for _, field := range fieldsOf(reflect.TypeFor[Policy](), "") {
		if (seen[field] == "") == (why[field] == "") {
			t.Errorf("Policy.%s: either an axis compares it (%q), or grantsNothing says why none does (%q)", field, seen[field], why[field])
		}
		delete(seen, field)
		delete(why, field)
	}
	if len(seen)+len(why) > 0 {
		t.Errorf("there is no field %v %v", seen, why)
	}
}

// changes are policies that differ from p in one field: each way that there is to
// change a value of its kind.
func changes(p *Policy, field string) (out []*Policy) {
	at := func(q *Policy) reflect.Value {
		v := reflect.ValueOf(q).Elem()
		for name := range strings.SplitSeq(field, ".") {
			v = v.FieldByName(name)
		}
		return v
	}
	add := func(value any) {
		q := *p
		at(&q).Set(reflect.ValueOf(value))
		out = append(out, &q)
	}
	switch was := at(p).Interface().(type) {
	case bool:
		add(!was)
	case int:
		add(was + 1)
		add(0)
	case string:
		for _, word := range []string{ReadOnly, Full, sandboxNone, sandboxLandlock} {
			add(word)
		}
	case []string:
		add(append(slices.Clone(was), "/new"))
		add(append(slices.Clone(was), "curl"))
		add(append(slices.Clone(was), "*"))
		add(slices.Clone(was[1:]))
		add([]string(nil))
	}
	return out
}

// Each field of each axis can make a child exceed its parent, and on that axis; and
// what says so is fit to be shown.
func TestEveryAxisHolds(t *testing.T) {
	f := newTree(t)
	for _, a := range axes {
		for field := range strings.FieldsSeq(a.of) {
			if field == "Delegates" {
				continue // alone it grants no depth
			}
			parent, found := parentOfAll(), 0
			if field == "Exec" {
				parent.Sandbox = sandboxNone // in a sandbox a program is bounded
			}
			for _, child := range changes(parent, field) {
				var e *Escalation
				var d *Denied
				err := child.Beyond(parent)
				if !errors.As(err, &e) || e.Axis != a.name {
					continue
				}
				found++
				if e.Child == "" || e.Child == e.Parent || !errors.As(err, &d) || d.Rule != "escalation_"+a.name || d.Error() != err.Error() {
					t.Errorf("%s: %v", field, err)
				}
				f.showable(t, d)
				if back := parent.Beyond(child); errors.As(back, &e) && e.Axis == a.name {
					t.Errorf("%s: the narrower is beyond the wider: %v", field, back)
				}
			}
			if found == 0 {
				t.Errorf("%s: no change of %s is beyond the parent", a.name, field)
			}
		}
	}
}

// Where a child is beyond on two axes, the first in the table is named.
func TestBeyondNamesTheFirstAxis(t *testing.T) {
	parent := parentOfAll()
	child := *parent
	child.SandboxNetwork, child.BlockHighRisk, child.Runtime.MaxActionsPerHour = true, false, 3
	for _, want := range []string{"max_actions_per_hour", "block_high_risk_commands", "sandbox_network"} {
		var e *Escalation
		if err := child.Beyond(parent); !errors.As(err, &e) || e.Axis != want {
			t.Fatalf("%v, want %s", err, want)
		}
		switch want {
		case "max_actions_per_hour":
			child.Runtime.MaxActionsPerHour = 2
		case "block_high_risk_commands":
			child.BlockHighRisk = true
		}
	}
}

func TestBeyond(t *testing.T) {
	exec, caged := Policy{Exec: true}, Policy{Exec: true, Sandbox: sandboxLandlock}
	for _, c := range []struct {
		child, parent Policy
		axis          string
	}{
		{Policy{ReadOnlyRoots: []string{"/a/b"}}, Policy{ReadWrite: []string{"/a"}}, ""},
		{Policy{WriteOnly: []string{"/a"}}, Policy{ReadWrite: []string{"/a"}}, ""},
		{Policy{ReadWrite: []string{"/a"}}, Policy{ReadOnlyRoots: []string{"/a"}, WriteOnly: []string{"/a"}}, "read_write_roots"},
		{Policy{ReadOnlyRoots: []string{"/a"}}, Policy{WriteOnly: []string{"/a"}}, "read_only_roots"},
		{Policy{WriteOnly: []string{"/a"}}, Policy{ReadOnlyRoots: []string{"/a"}}, "write_only_roots"},
		{Policy{ReadWrite: []string{"/ab"}}, Policy{ReadWrite: []string{"/a"}}, "read_write_roots"},
		{Policy{ReadWrite: []string{"/a"}}, Policy{ReadWrite: []string{"/a/b"}}, "read_write_roots"},
		{Policy{AllowedCommands: []string{"ls"}}, Policy{AllowedCommands: []string{"*"}}, ""},
		{Policy{AllowedCommands: []string{"*"}}, Policy{AllowedCommands: []string{"ls"}}, "allowed_commands"},
		{Policy{AllowedCommands: []string{"rm"}}, Policy{AllowedCommands: []string{"*"}}, "allowed_commands"}, // * alone runs no rm
		{Policy{AllowedCommands: []string{"/bin/rm"}}, Policy{AllowedCommands: []string{"*"}}, "allowed_commands"},
		{Policy{Forbidden: []string{"/a"}}, Policy{Forbidden: []string{"/a/b"}}, ""},
		{Policy{Forbidden: []string{"/a/b"}}, Policy{Forbidden: []string{"/a"}}, "forbidden_paths"},
		{Policy{WorkspaceOnly: true}, Policy{}, ""},
		{Policy{Agent: "c", MemoryFrom: []string{"c", "d"}}, Policy{Agent: "p", MemoryFrom: []string{"p", "d"}}, ""},
		{Policy{Agent: "c", MemoryFrom: []string{"c", "p"}}, Policy{Agent: "p", MemoryFrom: []string{"p"}}, ""},
		{Policy{Agent: "c", MemoryFrom: []string{"c", "d"}}, Policy{Agent: "p", MemoryFrom: []string{"p"}}, "read_memory_from"},
		{Policy{Level: "?"}, Policy{Level: ReadOnly}, ""}, // an unknown level can do nothing
		{Policy{Level: ReadOnly}, Policy{Level: "?"}, "level"},
		// A program against a role, and against a program.
		{exec, Policy{}, "exec"},
		{exec, caged, "sandbox"},
		{exec, exec, ""},
		{exec, Policy{Level: Full}, ""},
		{caged, Policy{}, ""},
		{caged, exec, ""},
		// What is used without asking: the lists, each against the other.
		{Policy{AutoApprove: []string{"x"}}, Policy{}, "auto_approve"},
		{Policy{AutoApprove: []string{"x"}}, Policy{Level: Full}, ""},
		{Policy{AutoApprove: []string{"x"}}, Policy{AutoApprove: []string{"*"}, AlwaysAsk: []string{"x"}}, "always_ask"},
		{Policy{AutoApprove: []string{"x"}, AlwaysAsk: []string{"*"}}, Policy{AlwaysAsk: []string{"x"}}, ""},
		{Policy{AutoApprove: []string{"*"}}, Policy{AutoApprove: []string{"x"}}, "auto_approve"},
		{Policy{AutoApprove: []string{"*"}, AllowedTools: []string{"x"}}, Policy{AutoApprove: []string{"x"}}, ""},
		{Policy{Level: ReadOnly}, Policy{Level: Supervised}, ""},
		{Policy{AllowedTools: []string{"x"}}, Policy{ExcludedTools: []string{"y"}}, ""},
		{Policy{}, Policy{AllowedTools: []string{"x"}}, "allowed_tools"},
		{Policy{}, Policy{ExcludedTools: []string{"x"}}, "excluded_tools"},
		{Policy{Delegates: []string{"x"}}, Policy{Delegates: []string{"y"}, MaxDepth: 2}, "max_delegation_depth"},
		{Policy{Delegates: []string{"x"}, MaxDepth: 2}, Policy{Delegates: []string{"y"}, MaxDepth: 2}, ""},
		{Policy{}, Policy{Delegates: []string{"y"}, MaxDepth: 2}, ""},
	} {
		err := c.child.Beyond(&c.parent)
		var e *Escalation
		if errors.As(err, &e); c.axis == "" && err != nil || c.axis != "" && (e == nil || e.Axis != c.axis) {
			t.Errorf("%+v in %+v: %v, want %q", c.child, c.parent, err, c.axis)
		}
	}
}

// Roots are compared by what they lead to, not by what they are called.
func TestBeyondFollowsRoots(t *testing.T) {
	f := newTree(t)
	data, link := f.at("data"), f.at("link-to-data")
	out := f.at("data/to-free") // lies in data, and leads out of it
	for _, c := range []struct {
		child, parent Policy
		axis          string
	}{
		{Policy{ReadWrite: []string{link}}, Policy{ReadWrite: []string{data}}, ""},
		{Policy{ReadWrite: []string{data}}, Policy{ReadWrite: []string{link}}, ""},
		{Policy{ReadWrite: []string{out}}, Policy{ReadWrite: []string{data}}, "read_write_roots"},
		{Policy{ReadOnlyRoots: []string{out}}, Policy{ReadOnlyRoots: []string{link}}, "read_only_roots"},
		{Policy{WriteOnly: []string{out}}, Policy{WriteOnly: []string{data}}, "write_only_roots"},
		{Policy{Forbidden: []string{link}}, Policy{Forbidden: []string{data}}, ""},
		{Policy{Forbidden: []string{out}}, Policy{Forbidden: []string{data}}, "forbidden_paths"},
	} {
		err := c.child.Beyond(&c.parent)
		var e *Escalation
		if errors.As(err, &e); c.axis == "" && err != nil || c.axis != "" && (e == nil || e.Axis != c.axis) {
			t.Errorf("%v in %v: %v, want %q", c.child.ReadWrite, c.parent.ReadWrite, err, c.axis)
		}
	}
}

// inNoPolicy are the keys of profiles and agents that no policy is made of, and
// why they grant nothing.
var inNoPolicy = map[string]string{
	"RiskProfile.SandboxBackend": "has to agree with sandbox_enabled",
	"Agent.Enabled":              "whether it works at all",
}

// Each key of a profile and of an agent's table changes the policy that is made of
// it, so that an axis compares it, or says why it does not matter.
func TestEveryKeyIsInThePolicy(t *testing.T) {
	base := Config{
		Home: "/m", UserHome: "/u", RiskProfiles: map[string]RiskProfile{"default": DefaultRiskProfile()},
		RuntimeProfiles: map[string]RuntimeProfile{"default": DefaultRuntimeProfile()},
		Agents:          map[string]Agent{"a": {Enabled: true}, "b": {Enabled: true}},
	}
	risk := base.RiskProfiles["default"]
	risk.DelegationPolicy.Mode = delegationAllow
	base.RiskProfiles["default"] = risk
	why := maps.Clone(inNoPolicy)
	for _, table := range []struct {
		of   reflect.Type
		with func(c *Config, set func(reflect.Value))
	}{
		{reflect.TypeFor[RiskProfile](), func(c *Config, set func(reflect.Value)) {
			p := c.RiskProfiles["default"]
			set(reflect.ValueOf(&p).Elem())
			c.RiskProfiles = map[string]RiskProfile{"default": p, "other": DefaultRiskProfile()}
		}},
		{reflect.TypeFor[RuntimeProfile](), func(c *Config, set func(reflect.Value)) {
			p := c.RuntimeProfiles["default"]
			set(reflect.ValueOf(&p).Elem())
			c.RuntimeProfiles = map[string]RuntimeProfile{"default": p}
		}},
		{reflect.TypeFor[Agent](), func(c *Config, set func(reflect.Value)) {
			c.RiskProfiles = map[string]RiskProfile{"default": risk, "other": {Level: ReadOnly}}
			c.RuntimeProfiles = map[string]RuntimeProfile{"default": c.RuntimeProfiles["default"], "other": {MaxActionsPerHour: 1}}
			a := c.Agents["a"]
			set(reflect.ValueOf(&a).Elem())
			c.Agents = map[string]Agent{"a": a, "b": c.Agents["b"]}
		}},
	} {
		for _, field := range fieldsOf(table.of, "") {
			name := table.of.Name() + "." + field
			if why[name] != "" {
				delete(why, name)
				continue
			}
			if !matters(t, base, table.with, field) {
				t.Errorf("%s changes nothing in a policy: let ForAgent take it and an axis compare it, or say in inNoPolicy why it does not matter", name)
			}
		}
	}
	if len(why) > 0 {
		t.Errorf("there is no key %v", why)
	}
}

// matters tells whether some value of a key makes another policy.
func matters(t *testing.T, base Config, with func(*Config, func(reflect.Value)), field string) bool {
	policyWith := func(value any) *Policy {
		c := base
		with(&c, func(table reflect.Value) {
			for name := range strings.SplitSeq(field, ".") {
				table = table.FieldByName(name)
			}
			if v := reflect.ValueOf(value); v.IsValid() && v.CanConvert(table.Type()) && v.Kind() == table.Kind() {
				table.Set(v.Convert(table.Type()))
			}
		})
		p, err := ForAgent(c, "a")
		if err != nil {
			return nil
		}
		return p
	}
	was := policyWith(nil)
	if was == nil {
		t.Fatal("the configuration is no good")
	}
	for _, value := range []any{
		true, false, 1, 7, Full, delegationForbidden, sandboxLandlock, "other", "b", "/x", []string{"b"}, []string{"/x"}, []string{"ls"}, map[string]string{"b": "read"},
	} {
		if p := policyWith(value); p != nil && !reflect.DeepEqual(p, was) {
			return true
		}
	}
	return false
}
