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
