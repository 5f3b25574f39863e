package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestForAgent(t *testing.T) {
	risk := DefaultRiskProfile()
	risk.AllowedRoots = []string{"", "*", "sub", "/data/x/", "~/y"}
	risk.DelegationPolicy.Mode = "allow"
	c := Config{
		Home: "/m", UserHome: "/u",
		RiskProfiles:    map[string]RiskProfile{"r": risk, "other": DefaultRiskProfile()},
		RuntimeProfiles: map[string]RuntimeProfile{"quick": {MaxActionsPerHour: 3, MaxDelegationDepth: 2}},
		Agents: map[string]Agent{
			"a": {
				RiskProfile: "r", RuntimeProfile: "quick", DelegateSameRiskProfile: true, Delegates: []string{"d", "a"}, Sandbox: "landlock",
				Workspace: Workspace{Access: map[string]string{"b": "read", "bridge:c": "write", "d": "read_write"}, ReadMemoryFrom: []string{"b", "b"}},
			},
			"b":        {RiskProfile: "r", Enabled: true, Workspace: Workspace{Path: "elsewhere/b"}},
			"bridge:c": {RiskProfile: "r"},
			"d":        {RiskProfile: "other", Enabled: true},
			"e":        {RiskProfile: "other", Enabled: true},
		},
	}
	p, err := ForAgent(c, "a")
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []struct {
		what      string
		got, want any
	}{
		{"workspace", p.Workspace, "/m/agents/a/workspace"},
		{"read-write", p.ReadWrite, []string{"/m/agents/a/workspace/sub", "/data/x", "/u/y", "/m/agents/d/workspace"}},
		{"read-only", p.ReadOnlyRoots, []string{"/m/elsewhere/b"}},
		{"write-only", p.WriteOnly, []string{"/m/agents/bridge_c/workspace"}},
		{"private", p.Private, []string{"/m/.mbox", "/m/audit", "/m/memory/sqlite", "/m/tasks/artifacts", "/m/tasks/archive"}},
		{"boundary", p.WorkspaceOnly, true},
		{"delegates", p.Delegates, []string{"b", "d"}},
		{"memory", p.MemoryFrom, []string{"a", "b"}},
		{"sandbox", p.Sandbox, "landlock"},
		{"depth", p.MaxDepth, 2},
		{"runtime", p.Runtime.MaxActionsPerHour, 3},
		{"profile", p.RiskProfileName, "r"},
	} {
		if !reflect.DeepEqual(is.got, is.want) {
			t.Errorf("%s: %v, want %v", is.what, is.got, is.want)
		}
	}
	for _, want := range []string{"/m/tasks", "/m/mbox.toml", "/m/mbox.d", "/m/decisions", "/m/changes", "/m/channels", "/m/agents/bridge_c/agent.toml", "/m/agents/e/state.json", "/m/agents/e/logs", "/m/agents/e/memory", "/m/agents/_archive", "/m/agents/e/deployed", "/m/memory/agent_state.json", "/m/memory/learning.jsonl"} {
		if !slices.Contains(p.Protected, want) {
			t.Errorf("%s is not protected", want)
		}
	}
	if !slices.Contains(p.Forbidden, "/u/.ssh") {
		t.Errorf("~/.ssh is not forbidden: %v", p.Forbidden)
	}
}

// Each step has its say, and no other.
func TestForAgentSteps(t *testing.T) {
	f := newTree(t)
	for name, only := range map[string]bool{"lists": true, "open": false, "full": false, "looks": true} {
		if p := f.policies(t)[name]; p.WorkspaceOnly != only {
			t.Errorf("%s: workspace_only is %v", name, p.WorkspaceOnly)
		}
	}
	if p := f.policy(t, nil); len(p.Delegates) != 0 || p.MayDelegate("reader") == nil {
		t.Errorf("without a mode of delegation: %v", p.Delegates)
	}
	// A second policy shares no list with the first, nor with the profile.
	c := f.config(nil)
	one, _ := ForAgent(c, "coder")
	two, _ := ForAgent(c, "coder")
	one.AllowedCommands[0], one.AutoApprove[0] = "changed", "changed"
	if two.AllowedCommands[0] == "changed" || c.RiskProfiles[DefaultProfile].AutoApprove[0] == "changed" {
		t.Error("policies share their lists")
	}
}

func TestForAgentRefuses(t *testing.T) {
	access := func(sibling, value string) func(*Config) {
		return func(c *Config) {
			c.Agents["a"] = Agent{Workspace: Workspace{Access: map[string]string{sibling: value}}}
		}
	}
	agent := func(a Agent) func(*Config) { return func(c *Config) { c.Agents["a"] = a } }
	for _, c := range []struct {
		key, problem string
		change       func(*Config)
	}{
		{"agents.a", "did you mean \"ab\"?", func(c *Config) { delete(c.Agents, "a"); c.Agents["ab"] = Agent{} }},
		{"agents.a.risk_profile", "risk_profiles.carful]; did you mean \"careful\"?", agent(Agent{RiskProfile: "carful"})},
		{"agents.a.runtime_profile", "runtime_profiles.x]", agent(Agent{RuntimeProfile: "x"})},
		{"agents.a.workspace.access.b", "did you mean \"read\"?", access("b", "raed")},
		{"agents.a.workspace.access.b", "read, write, read_write", access("b", "")},
		{"agents.a.workspace.access.c", "there is no such agent", access("c", "read")},
		{"agents.a.workspace.access.a", "own workspace", access("a", "read")},
		{"agents.a.workspace.read_memory_from[0]", "own memory", agent(Agent{Workspace: Workspace{ReadMemoryFrom: []string{"a"}}})},
		{"agents.a.workspace.read_memory_from[1]", "no agent \"x\"", agent(Agent{Workspace: Workspace{ReadMemoryFrom: []string{"b", "x"}}})},
		{"agents.a.delegates[0]", "no agent \"x\"", agent(Agent{Delegates: []string{"x"}})},
		{"agents.a.sandbox", "none or landlock", agent(Agent{Sandbox: "firejail"})},
		{"agents.a.workspace.path", ".mbox", agent(Agent{Workspace: Workspace{Path: "."}})},
		{"agents.a.workspace.path", ".mbox", agent(Agent{Workspace: Workspace{Path: "/"}})},
		{"agents.a.workspace.path", "tasks", agent(Agent{Workspace: Workspace{Path: "tasks/pending"}})},
		{"agents.a.workspace.path", "audit", agent(Agent{Workspace: Workspace{Path: "x/../audit"}})},
		{"risk_profiles.careful.level", `write "readonly"`, func(c *Config) {
			c.RiskProfiles["careful"] = RiskProfile{Level: "read_only"}
			c.Agents["a"] = Agent{RiskProfile: "careful"}
		}},
		{"runtime_profiles.default.max_actions_per_hour", "write 0 or more", func(c *Config) {
			c.RuntimeProfiles = map[string]RuntimeProfile{"default": {MaxActionsPerHour: -1}}
		}},
	} {
		conf := Config{
			Home: "/m", UserHome: "/u", RiskProfiles: map[string]RiskProfile{"careful": DefaultRiskProfile()},
			Agents: map[string]Agent{"a": {}, "b": {}},
		}
		c.change(&conf)
		p, err := ForAgent(conf, "a")
		if found := invalids(err); p != nil || len(found) != 1 || found[0].Key != c.key || !strings.Contains(found[0].Problem, c.problem) {
			t.Errorf("%s: %v, want %s", c.key, err, c.problem)
		}
	}
	if _, err := ForAgent(Config{Home: "m", Agents: map[string]Agent{"a": {}}}, "a"); err == nil {
		t.Error("a mailbox's folder that is not absolute was taken")
	}
}

// invalids are all that a joined error holds.
func invalids(err error) (out []*Invalid) {
	switch e := err.(type) {
	case nil:
	case *Invalid:
		out = append(out, e)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			out = append(out, invalids(one)...)
		}
	}
	return out
}

func TestCheckTellsEverythingInOrder(t *testing.T) {
	bad := DefaultRiskProfile()
	bad.Level = "ful"
	bad.SandboxBackend = "firejail"
	c := Config{
		Home: "/m", UserHome: "/u", RiskProfiles: map[string]RiskProfile{"x": bad, "b": bad},
		RuntimeProfiles: map[string]RuntimeProfile{"r": {MaxActionsPerHour: -1}},
		Agents:          map[string]Agent{"a": {Sandbox: "?"}},
	}
	keys := func() (out []string) {
		for _, e := range invalids(Check(c)) {
			out = append(out, e.Key)
		}
		return out
	}
	want := []string{"risk_profiles.b.level", "risk_profiles.b.sandbox_backend", "risk_profiles.x.level", "risk_profiles.x.sandbox_backend", "runtime_profiles.r.max_actions_per_hour"}
	if got := keys(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	c.RiskProfiles, c.RuntimeProfiles = nil, nil
	if got := keys(); !slices.Equal(got, []string{"agents.a.sandbox"}) {
		t.Errorf("got %v", got)
	}
	c.Agents = map[string]Agent{"a": {}}
	if err := Check(c); err != nil {
		t.Error(err)
	}
}

func TestCheckRiskProfile(t *testing.T) {
	if err := CheckRiskProfile("x", DefaultRiskProfile()); err != nil {
		t.Errorf("the default profile: %v", err)
	}
	if err := CheckRuntimeProfile("x", DefaultRuntimeProfile()); err != nil {
		t.Errorf("the default profile: %v", err)
	}
	for _, c := range []struct {
		key, problem string
		change       func(*RiskProfile)
	}{
		{"level", `"read_only" is no level; write "readonly"`, func(p *RiskProfile) { p.Level = "read_only" }},
		{"level", `did you mean "supervised"?`, func(p *RiskProfile) { p.Level = "supervized" }},
		{"level", "write one of", func(p *RiskProfile) { p.Level = "" }},
		{"allowed_commands[1]", "without arguments", func(p *RiskProfile) { p.AllowedCommands = []string{"ls", "rm -rf"} }},
		{"forbidden_paths[0]", "begin it with / or ~/", func(p *RiskProfile) { p.ForbiddenPaths = []string{"etc"} }},
		{"forbidden_paths[0]", "begin it with / or ~/", func(p *RiskProfile) { p.ForbiddenPaths = []string{"~root"} }},
		{"allowed_roots[0]", "write the whole path", func(p *RiskProfile) { p.AllowedRoots = []string{"~root/x"} }},
		{"allowed_roots[0]", "NUL", func(p *RiskProfile) { p.AllowedRoots = []string{"a\x00"} }},
		{"shell_env_passthrough[0]", "without =", func(p *RiskProfile) { p.ShellEnvPassthrough = []string{"A=b"} }},
		{"shell_env_passthrough[0]", "patterns", func(p *RiskProfile) { p.ShellEnvPassthrough = []string{"*"} }},
		{"excluded_tools", "allowed_tools too", func(p *RiskProfile) { p.AllowedTools, p.ExcludedTools = []string{"x"}, []string{"x"} }},
		{"delegation_policy.mode", `did you mean "allow"?`, func(p *RiskProfile) { p.DelegationPolicy.Mode = "alow" }},
		{"sandbox_backend", `"docker" is not supported; write none or landlock`, func(p *RiskProfile) { p.SandboxBackend = "docker" }},
		{"sandbox_backend", "sandbox_enabled = true too", func(p *RiskProfile) { p.SandboxBackend = "landlock" }},
		{"sandbox_backend", "sandbox_enabled = false", func(p *RiskProfile) { p.SandboxBackend, p.SandboxEnabled = "none", true }},
	} {
		p := DefaultRiskProfile()
		c.change(&p)
		found := invalids(CheckRiskProfile("x", p))
		if len(found) != 1 || found[0].Key != "risk_profiles.x."+c.key || !strings.Contains(found[0].Problem, c.problem) {
			t.Errorf("%s: %v, want %s", c.key, found, c.problem)
		}
	}
}

// The defaults that the published schema tells are those in force.
func TestDefaultsAreThoseOfTheSchema(t *testing.T) {
	told := 0
	for _, v := range []any{DefaultRiskProfile(), DefaultRuntimeProfile(), DefaultRiskProfile().DelegationPolicy} {
		for field, value := range reflect.ValueOf(v).Fields() {
			for tag := range strings.SplitSeq(field.Tag.Get("jsonschema"), ",") {
				if text, ok := strings.CutPrefix(tag, "default="); ok {
					told++
					if got := strings.TrimSpace(formatted(value)); got != text {
						t.Errorf("%s is %s, its schema says %s", field.Name, got, text)
					}
				}
			}
		}
	}
	if told < 11 {
		t.Errorf("%d defaults in the schema, want 15 or more", told)
	}
}

func formatted(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Int:
		return strconv.FormatInt(v.Int(), 10)
	case reflect.Bool:
		return strconv.FormatBool(v.Bool())
	}
	return v.String()
}

// ForAgent is the only one that makes a Policy: outside tests no other code of
// the module has the words for it.
func TestOnlyForAgentMakesPolicies(t *testing.T) {
	if made := makesPolicies(t, "x.go", "package x\nvar a, b = policy.Policy{}, new(policy.Policy)\nvar c policy.Policy"); len(made) != 3 {
		t.Fatalf("of three ways to make a policy %d are seen: %v", len(made), made)
	}
	top := filepath.Join("..", "..")
	files := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() != "..":
			if name := d.Name(); name == "testdata" || strings.HasPrefix(name, ".") && path != top {
				return fs.SkipDir
			}
			return nil
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		source, err := os.ReadFile(path)
		for _, at := range makesPolicies(t, path, string(source)) {
			if filepath.ToSlash(path) != "../../agents/policy/build.go" {
				t.Errorf("%s: a Policy is made by ForAgent alone", at)
			}
		}
		return err
	})
	if err != nil || files < 50 {
		t.Errorf("%d files: %v", files, err)
	}
}

func makesPolicies(t *testing.T, name, source string) (at []string) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	is := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.Ident:
			return e.Name == "Policy" && file.Name.Name == "policy"
		case *ast.SelectorExpr:
			x, ok := e.X.(*ast.Ident)
			return ok && x.Name == "policy" && e.Sel.Name == "Policy"
		}
		return false
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CompositeLit:
			if is(n.Type) {
				at = append(at, files.Position(n.Pos()).String())
			}
		case *ast.ValueSpec:
			if is(n.Type) {
				at = append(at, files.Position(n.Pos()).String())
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" && len(n.Args) == 1 && is(n.Args[0]) {
				at = append(at, files.Position(n.Pos()).String())
			}
		}
		return true
	})
	return at
}
