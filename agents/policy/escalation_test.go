package policy

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// somePolicy draws a policy from few values, so that two often compare.
func somePolicy(t *rapid.T, label string) *Policy {
	paths := func(name string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"/a", "/a/b", "/a/b/c", "/ab", "/d"}), 0, 3, rapid.ID).Draw(t, label+name)
	}
	few := func(name string) int { return rapid.IntRange(0, 2).Draw(t, label+name) }
	yes := func(name string) bool { return rapid.Bool().Draw(t, label+name) }
	return &Policy{
		Agent: "a", RiskProfileName: "r", Level: rapid.SampledFrom([]string{ReadOnly, Supervised, Full}).Draw(t, label+"level"),
		ReadWrite: paths("rw"), ReadOnlyRoots: paths("ro"), WriteOnly: paths("wo"), Forbidden: paths("forbidden"),
		AllowedCommands: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"ls", "cat", "rm", "*"}), 0, 4, rapid.ID).Draw(t, label+"commands"),
		EnvPassthrough:  rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"A", "B"}), 0, 2, rapid.ID).Draw(t, label+"env"),
		MemoryFrom:      append([]string{"a"}, rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"b", "c"}), 0, 2, rapid.ID).Draw(t, label+"memory")...),
		WorkspaceOnly:   yes("boundary"), BlockHighRisk: yes("high"), RequireMediumApproval: yes("medium"),
		Runtime: RuntimeProfile{MaxActionsPerHour: few("actions"), MaxCostPerDayCents: few("cost"), ShellTimeoutSecs: few("timeout")},
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

// wider widens a policy on one axis alone, beyond what any drawn parent has.
var wider = map[string]func(*Policy){
	AxisLevel:       func(p *Policy) { p.Level = Full },
	AxisReadWrite:   func(p *Policy) { p.ReadWrite = append(p.ReadWrite, "/new") },
	AxisReadOnly:    func(p *Policy) { p.ReadOnlyRoots = append(p.ReadOnlyRoots, "/new") },
	AxisWriteOnly:   func(p *Policy) { p.WriteOnly = append(p.WriteOnly, "/new") },
	AxisCommands:    func(p *Policy) { p.AllowedCommands = append(p.AllowedCommands, "curl") },
	AxisBoundary:    func(p *Policy) { p.WorkspaceOnly = false },
	AxisForbidden:   func(p *Policy) { p.Forbidden = nil },
	AxisEnvironment: func(p *Policy) { p.EnvPassthrough = append(p.EnvPassthrough, "NEW") },
	AxisActions:     func(p *Policy) { p.Runtime.MaxActionsPerHour++ },
	AxisCost:        func(p *Policy) { p.Runtime.MaxCostPerDayCents++ },
	AxisTimeout:     func(p *Policy) { p.Runtime.ShellTimeoutSecs++ },
	AxisHighRisk:    func(p *Policy) { p.BlockHighRisk = false },
	AxisMediumRisk:  func(p *Policy) { p.RequireMediumApproval = false },
	AxisMemory:      func(p *Policy) { p.MemoryFrom = append(p.MemoryFrom, "new") },
}

func TestBeyondNamesTheAxis(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parent := somePolicy(t, "")
		// So that each can be widened.
		parent.Level, parent.WorkspaceOnly, parent.BlockHighRisk, parent.RequireMediumApproval = Supervised, true, true, true
		parent.Forbidden = append(parent.Forbidden, "/must")
		first := rapid.SampledFrom(Axes).Draw(t, "axis")
		also := rapid.SampledFrom(Axes).Draw(t, "also")
		child := *parent
		for _, axis := range []string{first, also} {
			wider[axis](&child)
		}
		want := Axes[min(slices.Index(Axes, first), slices.Index(Axes, also))]
		var e *Escalation
		var d *Denied
		err := child.Beyond(parent)
		if !errors.As(err, &e) || e.Axis != want || e.Child == "" || e.Parent == "" || e.Child == e.Parent && first == also {
			t.Fatalf("widened on %s and %s: %v", first, also, err)
		}
		if !errors.As(err, &d) || d.Rule != "escalation_"+want || d.Error() != err.Error() {
			t.Fatalf("not a refusal: %v", err)
		}
		if err := parent.Beyond(&child); err != nil {
			t.Fatalf("the narrower is beyond the wider: %v", err)
		}
	})
}

func TestBeyond(t *testing.T) {
	if len(Axes) != 14 || len(wider) != 14 {
		t.Fatalf("%d axes, %d ways to widen", len(Axes), len(wider))
	}
	for _, c := range []struct {
		child, parent Policy
		axis          string
	}{
		{Policy{ReadOnlyRoots: []string{"/a/b"}}, Policy{ReadWrite: []string{"/a"}}, ""},
		{Policy{WriteOnly: []string{"/a"}}, Policy{ReadWrite: []string{"/a"}}, ""},
		{Policy{ReadWrite: []string{"/a"}}, Policy{ReadOnlyRoots: []string{"/a"}, WriteOnly: []string{"/a"}}, AxisReadWrite},
		{Policy{ReadOnlyRoots: []string{"/a"}}, Policy{WriteOnly: []string{"/a"}}, AxisReadOnly},
		{Policy{WriteOnly: []string{"/a"}}, Policy{ReadOnlyRoots: []string{"/a"}}, AxisWriteOnly},
		{Policy{ReadWrite: []string{"/ab"}}, Policy{ReadWrite: []string{"/a"}}, AxisReadWrite},
		{Policy{ReadWrite: []string{"/a"}}, Policy{ReadWrite: []string{"/a/b"}}, AxisReadWrite},
		{Policy{AllowedCommands: []string{"ls"}}, Policy{AllowedCommands: []string{"*"}}, ""},
		{Policy{AllowedCommands: []string{"*"}}, Policy{AllowedCommands: []string{"ls"}}, AxisCommands},
		{Policy{AllowedCommands: []string{"rm"}}, Policy{AllowedCommands: []string{"*"}}, AxisCommands}, // * alone runs no rm
		{Policy{AllowedCommands: []string{"/bin/rm"}}, Policy{AllowedCommands: []string{"*"}}, AxisCommands},
		{Policy{Forbidden: []string{"/a"}}, Policy{Forbidden: []string{"/a/b"}}, ""},
		{Policy{Forbidden: []string{"/a/b"}}, Policy{Forbidden: []string{"/a"}}, AxisForbidden},
		{Policy{WorkspaceOnly: true}, Policy{}, ""},
		{Policy{Agent: "c", MemoryFrom: []string{"c", "d"}}, Policy{Agent: "p", MemoryFrom: []string{"p", "d"}}, ""},
		{Policy{Agent: "c", MemoryFrom: []string{"c", "p"}}, Policy{Agent: "p", MemoryFrom: []string{"p"}}, ""},
		{Policy{Agent: "c", MemoryFrom: []string{"c", "d"}}, Policy{Agent: "p", MemoryFrom: []string{"p"}}, AxisMemory},
		{Policy{Level: "?"}, Policy{Level: ReadOnly}, ""}, // an unknown level can do nothing
		{Policy{Level: ReadOnly}, Policy{Level: "?"}, AxisLevel},
	} {
		err := c.child.Beyond(&c.parent)
		var e *Escalation
		if errors.As(err, &e); c.axis == "" && err != nil || c.axis != "" && (e == nil || e.Axis != c.axis) {
			t.Errorf("%+v in %+v: %v, want %q", c.child, c.parent, err, c.axis)
		}
	}
}

// Whatever the axis, the refusal is fit to be shown.
func TestEscalationTellsWhatToChange(t *testing.T) {
	f := newTree(t)
	for _, axis := range Axes {
		parent := f.policy(t, nil)
		child := *parent
		wider[axis](&child)
		var d *Denied
		if !errors.As(fmt.Errorf("x: %w", child.Beyond(parent)), &d) {
			t.Fatalf("%s is no refusal", axis)
		}
		f.showable(t, d)
	}
}
