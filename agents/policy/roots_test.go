package policy

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// What the lists open is refused at the start if it is a symlink, or could become
// one.
func TestCheckRoots(t *testing.T) {
	f := newTree(t)
	f.must(t, os.MkdirAll(f.at("apart/sub"), 0o700))
	f.must(t, os.MkdirAll(f.at("other"), 0o700))
	f.must(t, os.Symlink(f.at("apart"), f.at("to-apart")))
	for _, c := range []struct {
		roots  []string
		access map[string]string
		want   string
	}{
		{[]string{"{T}/apart", "{T}/other"}, nil, ""},
		{[]string{"{T}/not-there"}, nil, ""},
		{[]string{"{W}"}, nil, ""},
		{[]string{"{T}/apart", "{T}/apart"}, nil, ""},
		{[]string{"{T}/to-apart/sub"}, nil, ""}, // nobody but the operator writes there
		{nil, map[string]string{"reader": "read"}, ""},
		{[]string{"{T}/to-apart"}, nil, "is a symlink"},
		{[]string{"sub"}, nil, "could become"},
		{[]string{"{T}/apart", "{T}/apart/sub"}, nil, "could become"},
		{[]string{"{T}/apart", "{T}/to-apart/sub"}, nil, "could become"},
		{[]string{"{H}/agents/reader"}, map[string]string{"reader": "read"}, "could become"},
	} {
		p := f.policy(t, func(r *RiskProfile, a *Agent) {
			r.AllowedRoots, a.Workspace.Access = nil, c.access
			for _, root := range c.roots {
				r.AllowedRoots = append(r.AllowedRoots, f.fill(root))
			}
		})
		err := p.CheckRoots()
		var bad *Invalid
		if (c.want == "") != (err == nil) || err != nil && (!errors.As(err, &bad) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, %v: %v, want %q", c.roots, c.access, err, c.want)
		}
	}
}

// What one agent may use could also become a symlink by the hand of another.
func TestCheckRootsOfOthers(t *testing.T) {
	f := newTree(t)
	f.must(t, os.MkdirAll(f.at("apart/sub/deep"), 0o700))
	f.must(t, os.Symlink(f.at("user"), f.at("apart/planted")))
	with := func(workspace string, roots ...string) *Policy {
		return f.policy(t, func(r *RiskProfile, a *Agent) {
			r.AllowedRoots, a.Workspace = nil, Workspace{Path: f.fill(workspace)}
			for _, root := range roots {
				r.AllowedRoots = append(r.AllowedRoots, f.fill(root))
			}
		})
	}
	other := with("{T}/free", "{T}/apart")
	other.Agent = "other"
	for _, c := range []struct {
		p    *Policy
		good bool
	}{
		{with("{W}", "{T}/data"), true},
		{with("{W}", "{T}/apart"), true}, // nobody can replace what is shared
		{with("{T}/apart"), true},
		{with("{W}", "{T}/apart/sub"), false},
		{with("{W}", "{T}/apart/sub/deep"), false},
		{with("{W}", "{T}/apart/not-there"), false},
		{with("{W}", "{T}/apart/planted/x"), false}, // where it leads by now is in no such folder
		{with("{W}", "{T}/free/into"), false},
		{with("{T}/apart/sub"), false},
	} {
		err := c.p.CheckRoots(other)
		if (err == nil) != c.good || err != nil && !strings.Contains(err.Error(), "agents.other may write") {
			t.Errorf("%s, %v: %v", c.p.Workspace, c.p.ReadWrite, err)
		}
		if err := c.p.CheckRoots(); err != nil {
			t.Errorf("%s, %v, alone: %v", c.p.Workspace, c.p.ReadWrite, err)
		}
	}
	if err := with("{T}/apart/sub", "{T}/apart").CheckRoots(); err == nil {
		t.Error("an agent may replace its own workspace")
	}
}
