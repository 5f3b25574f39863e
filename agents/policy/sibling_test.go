package policy

import (
	"errors"
	"testing"
)

// NAME:path is a path in the workspace of the agent of that name, which it has or had,
// if there is access to it; of an agent without access, or one that is dead, nothing,
// and of no agent just a name.
func TestSiblingPaths(t *testing.T) {
	c := Config{Home: "/srv/agents", Agents: map[string]Agent{
		"coder": {Enabled: true}, "other": {Enabled: true},
		"tester": {Enabled: true, Workspace: Workspace{Access: map[string]string{"coder": "read"}}},
	}, Former: map[string]string{"ada": "coder", "eve": "other", "me": "tester"}, Dead: func(name string) bool { return name == "grace" }}
	p, err := ForAgent(c, "tester")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"coder:a.md":   "/srv/agents/agents/coder/workspace/a.md",
		"tester:a.md":  "/srv/agents/agents/tester/workspace/a.md",
		"nobody:a.md":  "/srv/agents/agents/tester/workspace/nobody:a.md",
		"coder:/a/b":   "/srv/agents/agents/coder/workspace/a/b",
		"other:a.md":   "",
		"coder:../a":   "",
		"coder:.mbox":  "/srv/agents/agents/coder/workspace/.mbox",
		"coder:a/../b": "",
		"ada:a.md":     "/srv/agents/agents/coder/workspace/a.md",
		"me:a.md":      "/srv/agents/agents/tester/workspace/a.md",
		"eve:a.md":     "",
		"grace:a.md":   "",
	} {
		place, err := p.Read(path)
		var denied *Denied
		switch {
		case want == "" && (!errors.As(err, &denied) || place != Place{}):
			t.Errorf("%s: %+v, %v; want a refusal", path, place, err)
		case want != "" && (err != nil || place.Path() != want):
			t.Errorf("%s: %s, %v; want %s", path, place.Path(), err, want)
		}
	}
	if _, err := p.Write("coder:a.md"); err == nil {
		t.Error("what may only be read may be written")
	}
}
