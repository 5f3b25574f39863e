package config

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"mbox/agents"
	"mbox/agents/action"
	"mbox/agents/policy"
)

// read reads a configuration with an environment of NAME=VALUE.
func read(t *testing.T, text string, env ...string) *File {
	t.Helper()
	c, err := parse("/home/you/agents/mbox.toml", []source{{path: "/home/you/agents/mbox.toml", name: Name, data: []byte(text)}}, environ(env))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return c
}

func environ(env []string) func(string) string {
	return func(name string) string {
		for _, e := range env {
			if value, ok := strings.CutPrefix(e, name+"="); ok {
				return value
			}
		}
		return ""
	}
}

func equal(t *testing.T, what string, have, want any) {
	t.Helper()
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%s\nhave %+v\nwant %+v", what, have, want)
	}
}

// The four roles, as agents/roles.yml of ColDBase and its allowed table have them.
func TestDefaultRoles(t *testing.T) {
	have := read(t, "").TeamRoles()
	for _, want := range []struct {
		name, model, actions string
		tokens               int
		timeout              time.Duration
	}{
		{"coordinator", "tinyllama", "delegate", 4096, 300 * time.Second},
		{"coder", "phi4-mini", "write_file read_file", 3072, 300 * time.Second},
		{"deployer", "phi4-mini", "deploy_compose", 2048, 600 * time.Second},
		{"tester", "tinyllama", "http_check file_check", 2048, 300 * time.Second},
	} {
		r := have[want.name]
		if r.Name != want.name || r.Model != want.model || strings.Join(r.Actions, " ") != want.actions || r.MaxTokens != want.tokens || r.Timeout != want.timeout {
			t.Errorf("have %+v, want %+v", r, want)
		}
		if r.Folder != map[string]string{"coder": "projects"}[want.name] {
			t.Errorf("the folder of %s is %q", want.name, r.Folder)
		}
		if r.Purpose == "" || len(r.Capabilities) == 0 || len(r.Fallback) != 0 {
			t.Errorf("%+v", r)
		}
		delete(have, want.name)
	}
	equal(t, "more roles", have, map[string]agents.Role{})
}

// The profiles' defaults are those that the field's description lists.
func TestDefaultProfiles(t *testing.T) {
	commands := "git npm cargo ls cat grep find echo pwd wc head tail date df du uname uptime hostname python python3 pip node"
	if runtime.GOOS == "linux" {
		commands += " free"
	}
	risk := policy.RiskProfile{
		Level: "supervised", WorkspaceOnly: true, AllowedCommands: strings.Fields(commands),
		ForbiddenPaths:               strings.Fields("/etc /root /home /usr /bin /sbin /lib /opt /boot /dev /proc /sys /var /tmp ~/.ssh ~/.gnupg ~/.aws ~/.config"),
		RequireApprovalForMediumRisk: true, BlockHighRiskCommands: true,
		AutoApprove:      strings.Fields("file_read memory_recall web_search_tool web_fetch calculator glob_search content_search image_info weather tool_search browser browser_open write_file read_file file_check http_check delegate"),
		DelegationPolicy: policy.DelegationPolicy{Mode: "forbidden"},
	}
	usage := policy.RuntimeProfile{
		MaxActionsPerHour: 20, AgenticTimeoutSecs: 300, MemoryRecallLimit: 5,
	}
	have := read(t, "[risk_profiles.mine]\n[runtime_profiles.mine]\n").Policy()
	trusting := risk
	trusting.DelegationPolicy.Mode = "allow"
	equal(t, "risk profiles", have.RiskProfiles, map[string]policy.RiskProfile{"default": risk, "mine": risk, "coordinator": trusting})
	equal(t, "runtime profiles", have.RuntimeProfiles, map[string]policy.RuntimeProfile{"default": usage, "mine": usage})
	equal(t, "home", have.Home, "/home/you/agents")
}

// Without a table there are four agents, and three of them are on.
func TestDefaultAgents(t *testing.T) {
	c := read(t, "")
	equal(t, "registry", c.AgentNames(), []string{"coder", "coordinator", "deployer", "tester"})
	reads := map[string]string{"coder": "read"}
	want := map[string]policy.Agent{
		"coder":       {Enabled: true, RiskProfile: "default"},
		"tester":      {Enabled: true, RiskProfile: "default", Workspace: policy.Workspace{Access: reads}},
		"deployer":    {Enabled: false, RiskProfile: "default"},
		"coordinator": {Enabled: true, RiskProfile: "coordinator", Workspace: policy.Workspace{Access: reads}, Delegates: []string{"coder", "tester"}},
	}
	for name, p := range want {
		p.Workspace.Path, p.RuntimeProfile, p.DelegateSameRiskProfile = "agents/"+name+"/workspace", "default", true
		want[name] = p
		a := c.Agents[name]
		if a.Role != name || a.Exec != "" || a.Brain.Kind != "ollama" || a.Brain.URL != "http://127.0.0.1:11434" || a.Concurrency != 1 || a.Memory.Backend != "none" {
			t.Errorf("%s: %+v", name, a)
		}
		if own := c.Options().Agents[name]; !own.OnlyNamed || own.Disabled == a.Enabled {
			t.Errorf("%s may take %+v", name, own)
		}
	}
	equal(t, "policies", c.Policy().Agents, want)
	equal(t, "with the deployer", read(t, "[agents.deployer]\nenabled = true").Agents["coordinator"].Delegates, []string{"coder", "tester", "deployer"})
	equal(t, "without the tester", read(t, "[agents.tester]\nenabled = false").Agents["coordinator"].Delegates, []string{"coder"})
}

func TestDefaultLimits(t *testing.T) {
	c := read(t, "")
	equal(t, "delegation", c.Delegation, Delegation{MaxDepth: 3, MaxChildren: 16, MaxActions: 100, MaxTokens: 200_000, MaxSeconds: 3600})
	equal(t, "ollama", c.Ollama, Ollama{URL: "http://127.0.0.1:11434", KeepAlive: "5m", NumCtx: 4096, Parallel: 1})
	equal(t, "openai", c.OpenAI, OpenAI{})
	equal(t, "write_file", c.Limits(), action.Limits{
		Extensions: strings.Fields(".txt .md .json .yaml .yml .cfg .conf .ini .log"), MaxBytes: 100_000,
		Registries: strings.Fields("docker.io ghcr.io quay.io registry.gitlab.com registry.k8s.io gcr.io mcr.microsoft.com public.ecr.aws"),
	})
	equal(t, "http_check", c.HTTP(), action.HTTPOptions{Never: []string{"127.0.0.1:42617", "127.0.0.1:11434"}})
	equal(t, "deploy_compose", c.Compose(), action.ComposeOptions{})
	for text, want := range map[string]time.Duration{"5m": 5 * time.Minute, "7d": 7 * 24 * time.Hour, "1d12h": 36 * time.Hour, "0": 0, "0s": 0, "-1": -1} {
		if d := read(t, "[ollama]\nkeep_alive = '"+text+"'").Ollama.Keep(); d == nil || *d != want {
			t.Errorf("keep_alive = %q is %v, want %v", text, d, want)
		}
	}
	list := read(t, "[actions.write_file]\nextensions = ['.py', '']")
	equal(t, "a shorter list", list.Limits().Extensions, []string{".py", ""})
}

// A table changes what it names, wherever its keys stand, and no more.
func TestTablesChangeWhatTheyName(t *testing.T) {
	c := read(t, `
roles.reviewer = { purpose = "Reads.", actions = ["read_file"], fallback = ["tinyllama"] }
risk_profiles.careful = { level = "readonly", delegation_policy = { mode = "allow" }, workspace_only = false }
[runtime_profiles.default]
max_actions_per_hour = 0
[roles.tester]
max_tokens = 10
[agents.coder]
brain.kind = "none"
timeout = "20s"
[agents.reviewer]
role = "reviewer"
risk_profile = "careful"
types = ["analysis"]
brain = { model = "qwen3:1.7b", temperature = 0 }
workspace = { access = { coder = "read", tester = "read_write" } }
delegates = ["coder"]
delegate_same_risk_profile = false
[agents.deployer]
role = "reviewer"
[agents.plain]
types = ["other"]
enabled = false
`)
	roles := c.TeamRoles()
	equal(t, "a fifth role", roles["reviewer"], agents.Role{
		Name: "reviewer", Purpose: "Reads.", Model: "phi4-mini", Fallback: []string{"tinyllama"},
		Actions: []string{"read_file"}, MaxTokens: 2048, Timeout: 300 * time.Second,
	})
	if r := roles["tester"]; r.MaxTokens != 10 || r.Model != "tinyllama" || !r.Allows("http_check") || r.Allows("write_file") {
		t.Errorf("tester: %+v", r)
	}
	p := c.Policy()
	if r := p.RiskProfiles["careful"]; r.Level != "readonly" || r.WorkspaceOnly || r.DelegationPolicy.Mode != "allow" || !r.BlockHighRiskCommands {
		t.Errorf("careful: %+v", r)
	}
	if r := p.RuntimeProfiles["default"]; r.MaxActionsPerHour != 0 || r.AgenticTimeoutSecs != 300 {
		t.Errorf("default: %+v", r)
	}
	if c.Agents["coder"].Timeout != Duration(20*time.Second) || c.Agents["reviewer"].Timeout != Duration(300*time.Second) {
		t.Errorf("timeouts: coder %v, reviewer %v", c.Agents["coder"].Timeout, c.Agents["reviewer"].Timeout)
	}
	if a := c.Agents["coder"]; a.Role != "coder" || a.Brain.Kind != "none" || a.Brain.Model != "" || !a.OnlyNamed {
		t.Errorf("coder: %+v", a)
	}
	a := c.Agents["reviewer"]
	if a.OnlyNamed || a.DelegateSameRiskProfile || a.Brain.Kind != "ollama" || a.Brain.Temperature == nil || *a.Brain.Temperature != 0 {
		t.Errorf("reviewer: %+v", a)
	}
	equal(t, "access", p.Agents["reviewer"].Workspace.Access, map[string]string{"coder": "read", "tester": "read_write"})
	if role, has := c.RoleOf("reviewer"); !has || role.Model != "qwen3:1.7b" || role.Purpose != "Reads." {
		t.Errorf("its role: %+v", role)
	}
	if _, has := c.RoleOf("plain"); has || c.Agents["plain"].Brain.Kind != "none" || c.Agents["plain"].Enabled {
		t.Errorf("plain: %+v", c.Agents["plain"])
	}
	equal(t, "access by one dotted key", read(t, "[agents.tester]\nworkspace.access.deployer = 'write'").Agents["tester"].Workspace.Access, map[string]string{"deployer": "write"})
	if c.Agents["deployer"].Enabled {
		t.Error("another role has switched the deployer on")
	}
}

// Tables from before there were roles mean what they meant.
func TestOldAgentTables(t *testing.T) {
	c := read(t, `
[agents.coder]
exec = "./coder.sh"
[agents.tester]
types = ["research"]
concurrency = 2
[agents.deployer]
exec = "./deploy.sh"
[agents.coordinator]
actions = ["something_else"]
`)
	if a := c.Agents["coder"]; a.Role != "" || a.Brain.Kind != "none" || a.OnlyNamed || !a.Enabled || a.Workspace.Access != nil {
		t.Errorf("coder: %+v", a)
	}
	if a := c.Agents["tester"]; a.OnlyNamed || a.Concurrency != 2 {
		t.Errorf("tester: %+v", a)
	}
	if !c.Agents["deployer"].Enabled || !read(t, "[agents.deployer]\ntypes = ['other']").Agents["deployer"].Enabled {
		t.Error("an own deployer is not on")
	}
	if a := c.Agents["coordinator"]; a.OnlyNamed || a.Actions[0] != "something_else" {
		t.Errorf("coordinator: %+v", a)
	}
}

// An inline table is as good as any other: what it sets is set.
func TestInlineTables(t *testing.T) {
	c := read(t, "agents = { a = { enabled = false, concurrency = 7 } }\nrisk_profiles.x = { workspace_only = false }")
	if a := c.Agents["a"]; a.Enabled || a.Concurrency != 7 || c.RiskProfiles["x"].WorkspaceOnly {
		t.Errorf("%+v, %+v", a, c.RiskProfiles["x"])
	}
	equal(t, "origin", c.origin("agents.a.enabled"), "mbox.toml:1")
	equal(t, "origin", c.origin("risk_profiles.x.workspace_only"), "mbox.toml:2")
}

// Both names of the tasks of a cycle mean one setting.
func TestCycleNames(t *testing.T) {
	for text, want := range map[string]int{"": 0, "max_tasks_per_cycle = 3": 3, "max_messages_per_cycle = 4": 4, "max_tasks_per_cycle = 5\nmax_messages_per_cycle = 5": 5} {
		c, err := Parse(Name, []byte("[agents.a]\n"+text))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Agents["a"].PerCycle(); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}
