package agents

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	agentshome "mbox/agents-home"
	"mbox/agents/policy"
	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
	"mbox/schemas"
)

// script is a brain that says what it is told to, one reply after another; an

// element is a reply's text, an error, or a function that is called.

type script struct {
	mu     sync.Mutex
	says   []any
	asked  []Thought
	probes int
	ready  error
}

func (s *script) Think(ctx context.Context, t Thought) (Reply, error) {
	s.mu.Lock()
	s.asked = append(s.asked, t)
	if len(s.says) == 0 {
		s.mu.Unlock()
		return Reply{}, errors.New("the script has ended")
	}
	next := s.says[0]
	if fault, is := next.(panicking); is {
		s.says = s.says[1:]
		s.mu.Unlock()
		panic(string(fault))
	}
	s.says = s.says[1:]
	s.mu.Unlock()
	if t.Heard != nil {
		t.Heard()
	}
	switch next := next.(type) {
	case error:
		return Reply{}, next
	case func(context.Context) (Reply, error):
		return next(ctx)
	}
	return Reply{Text: next.(string), Model: "script", Tokens: 7}, nil
}

func (s *script) Ready(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	return s.ready
}

func (s *script) calls() (thoughts, probes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.asked), s.probes
}

// company is a scene with the default team, whose brains follow scripts.

type company struct {
	*scene
	team   *Team
	brains map[string]*script
}

// newCompany makes a team of the four default roles. change may change it before

// the mailbox is opened.

func newCompany(t *testing.T, change func(*Team)) *company {
	t.Helper()
	c := &company{brains: map[string]*script{}}
	c.team = &Team{
		Roles: DefaultRoles(), Members: map[string]Member{}, Actions: policy.NewWindow(math.MaxInt, nil),
		Salt: []byte("salt"), Prompts: Prompts{Builtin: mustSub(t)},
		Policies: policy.Config{
			RiskProfiles:    map[string]policy.RiskProfile{"default": policy.DefaultRiskProfile()},
			RuntimeProfiles: map[string]policy.RuntimeProfile{"default": policy.DefaultRuntimeProfile()},
			Agents:          map[string]policy.Agent{},
		},
	}
	lead := policy.DefaultRiskProfile()
	lead.DelegationPolicy.Mode = "allow"
	c.team.Policies.RiskProfiles["lead"] = lead
	registry := map[string]mailbox.Capabilities{}
	for _, name := range []string{"coordinator", "coder", "deployer", "tester"} {
		brain := &script{}
		c.brains[name] = brain
		c.team.Members[name] = Member{Enabled: true, Role: name, Brain: brain}
		c.team.Policies.Agents[name] = policy.Agent{Enabled: true}
		registry[name] = mailbox.Capabilities{OnlyNamed: true}
	}
	reads := policy.Workspace{Access: map[string]string{"coder": "read"}}
	c.team.Policies.Agents["tester"] = policy.Agent{Enabled: true, Workspace: reads}
	c.team.Policies.Agents["coordinator"] = policy.Agent{Enabled: true, RiskProfile: "lead", Delegates: []string{"coder", "tester"}, Workspace: reads}
	if change != nil {
		change(c.team)
	}
	c.scene = newScene(t, mailbox.Options{Agents: registry, Review: c.team.Review, Approval: c.team.Approval, Folders: c.team.Folders})
	c.team.Policies.Home = c.box.Home()
	return c
}

func mustSub(t *testing.T) fs.FS {
	t.Helper()
	sub, err := fs.Sub(agentshome.Prompts, "prompts")
	if err != nil {
		t.Fatal(err)
	}
	return sub
}

// send submits a task for an agent.

func (c *company) send(to, title string, act *mailbox.Action) mailbox.ID {
	c.Helper()
	id, err := c.box.Submit(context.Background(), &mailbox.Task{
		Task: mailbox.Request{Title: title}, Assignment: mailbox.Assignment{TargetAgent: to}, Mbox: mailbox.Meta{Action: act},
	})
	if err != nil {
		c.Fatal(err)
	}
	return id
}

func act(name, params string) *mailbox.Action {
	return &mailbox.Action{Name: name, Params: jsontext.Value(params)}
}

// works lets agents work, one after another, until there is nothing to claim for

// each.

func (c *company) works(names ...string) {
	c.Helper()
	for _, name := range names {
		c.once(c.member(name))
	}
}

func (c *company) member(name string) *Worker {
	return &Worker{Box: c.box, Agent: name, Team: c.team, Grace: time.Second, Log: zerolog.New(c.log)}
}

// file is the content of a file in an agent's workspace; "" if it is not there.

func (c *company) file(agent, name string) string {
	data, err := os.ReadFile(filepath.Join(c.box.Home(), "agents", agent, "workspace", c.team.role(agent).Folder, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.Fatal(err)
	}
	return string(data)
}

// decisions are the delegation lines, as "from to task decision step".

func (c *company) decisions() (out []string) {
	c.Helper()
	c.lines(audit.DelegationEvent, func(e *audit.Entry) {
		var d delegation.Details
		if err := e.Detail(&d); err != nil {
			c.Fatal(err)
		}
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s %s %s", d.FromAgent, d.ToAgent, d.Task, d.Decision, d.Step)))
	})
	return out
}

func (c *company) lines(event audit.Event, visit func(*audit.Entry)) (n int) {
	c.Helper()
	r := c.box.Ledger().Read(audit.Position{})
	defer r.Close()
	for {
		line, err := r.Next()
		if err != nil {
			return n
		}
		e, err := line.Decode()
		if err != nil {
			c.Fatal(err)
		}
		if e.Event == event {
			n++
			if visit != nil {
				visit(&e)
			}
		}
	}
}

func (c *company) wantDecisions(want ...string) {
	c.Helper()
	if got := c.decisions(); !slices.Equal(got, want) {
		c.Errorf("decisions:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestActionTasks(t *testing.T) {
	c := newCompany(t, nil)
	note := c.send("coder", "Note", act("write_file", `{"path":"notes/a.md","content":"hello"}`))
	c.works("coder")
	done, state := c.task(note)
	if state != mailbox.Completed || !strings.Contains(string(done.Result.Output), `"written"`) || c.file("coder", "notes/a.md") != "hello" {
		t.Fatalf("%s: %s %+v", state, done.Result.Output, done.Result.Error)
	}
	read := c.send("coder", "Read", act("read_file", `{"path":"notes/a.md"}`))
	c.works("coder")
	if done, _ := c.task(read); !strings.Contains(string(done.Result.Output), "hello") {
		t.Fatalf("read: %s %+v", done.Result.Output, done.Result.Error)
	}
	check := c.send("tester", "Check", act("file_check", `{"path":"nothing.md"}`))
	c.works("tester")
	if done, state := c.task(check); state != mailbox.Completed || !strings.Contains(string(done.Result.Output), `"missing"`) {
		t.Fatalf("check: %s %s", state, done.Result.Output)
	}
	c.wantDecisions(
		"human coder write_file delivered", "human coder write_file delivered",
		"human coder read_file delivered", "human coder read_file delivered",
		"human tester file_check delivered", "human tester file_check delivered",
	)
	for name, brain := range c.brains {
		if thoughts, probes := brain.calls(); thoughts+probes > 0 {
			t.Errorf("the brain of %s was asked %d times and probed %d times", name, thoughts, probes)
		}
	}
}

func TestRefusedAtCreation(t *testing.T) {
	for _, q := range []struct {
		to, name, params, step, says string
	}{
		{"coder", "http_check", `{"url":"https://example.org/"}`, "action", "write_file"},
		{"tester", "write_file", `{"path":"a.md","content":""}`, "action", "file_check"},
		{"coordinator", "write_file", `{"path":"a.md","content":""}`, "action", "delegate"},
		{"coder", "write_files", `{}`, "action", "write_file"},
		{"coder", "write_file", `{"path":"../a.md","content":""}`, "parameters", "mbox.action.params.path"},
		{"coder", "write_file", `{"path":"a.md","content":"","mode":"0777"}`, "parameters", "mode"},
		{"coder", "write_file", `{"path":"a.exe","content":""}`, "parameters", "path"},
	} {
		t.Run(q.to+" "+q.name+" "+q.step, func(t *testing.T) {
			c := newCompany(t, nil)
			_, err := c.box.Submit(context.Background(), &mailbox.Task{
				Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: q.to}, Mbox: mailbox.Meta{Action: act(q.name, q.params)},
			})
			if err == nil || !strings.Contains(err.Error(), q.says) {
				t.Fatalf("got %v, want something about %s", err, q.says)
			}
			c.wantDecisions(fmt.Sprintf("human %s %s rejected %s", q.to, q.name, q.step))
		})
	}
}

// What was allowed when the task came may be forbidden when it is claimed.

// Nothing of a task for an agent that is not enabled is looked at: it waits, and
// is judged by whoever takes it.
func TestNotEnabledIsNotParsed(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		m := team.Members["deployer"]
		m.Enabled = false
		team.Members["deployer"] = m
	})
	bad := act("deploy_compose", `{"compose":"services: ["}`)
	c.send("deployer", "Deploy", bad)
	c.wantDecisions()
	c.team.Members["deployer"] = Member{Enabled: true, Role: "deployer"}
	var refused *schemas.Error
	_, err := c.box.Submit(context.Background(), &mailbox.Task{
		Task: mailbox.Request{Title: "Deploy"}, Assignment: mailbox.Assignment{TargetAgent: "deployer"}, Mbox: mailbox.Meta{Action: bad},
	})
	if !errors.As(err, &refused) || refused.Path != "mbox.action.params.compose" {
		t.Errorf("got %v", err)
	}
}

// What programs run by themselves an agent writes only if its role says so, which
// a delegation does not change.
func TestAutorunFiles(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		r := team.Roles["deployer"]
		r.Actions, r.Autorun = []string{"write_file"}, true
		team.Roles["deployer"] = r
	})
	hook := `{"path":".vscode/tasks.json","content":"{}"}`
	for to, want := range map[string]delegation.Step{"coder": delegation.StepParameters, "deployer": ""} {
		var step delegation.Step
		if _, refused := c.team.judge(request{from: "human", to: to, name: "write_file", params: jsontext.Value(hook)}); refused != nil {
			step = refused.step
		}
		if step != want {
			t.Errorf("%s is refused at %q, want %q", to, step, want)
		}
	}
	q := request{from: "human", to: "coordinator", name: "delegate", params: jsontext.Value(`{"role":"coder","task":"write_file","payload":` + hook + `}`)}
	if _, refused := c.team.judge(q); refused != nil {
		t.Errorf("the coordinator may not ask: %v", refused)
	}
}

func TestRefusedAtClaim(t *testing.T) {
	c := newCompany(t, nil)
	id := c.send("coder", "Note", act("write_file", `{"path":"a.md","content":"x"}`))
	role := c.team.Roles["coder"]
	role.Actions = []string{"read_file"}
	c.team.Roles["coder"] = role
	c.works("coder")
	c.wantFailed(id, "refused", "action")
	if c.file("coder", "a.md") != "" {
		t.Error("the file was written")
	}
	c.wantDecisions("human coder write_file delivered", "human coder write_file rejected action")
}

// A failed child is reported to its parent's brain, not hidden.

// A parent without a brain fails when a child has failed, and names it.

// A brain that does not answer burns no attempt, and its agent takes no task

// that has to be thought about; one that carries an action it does take.

// A task that is cancelled while its agent thinks stops the thought.

// A child's agent may not have more rights than its parent's.

func TestActionBudget(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		two := policy.DefaultRuntimeProfile()
		two.MaxActionsPerHour = 2
		team.Policies.RuntimeProfiles["default"] = two
	})
	var ids []mailbox.ID
	for i := range 3 {
		ids = append(ids, c.send("coder", "x", act("write_file", fmt.Sprintf(`{"path":"%d.md","content":"x"}`, i))))
	}
	c.works("coder")
	states := map[mailbox.State]int{}
	for _, id := range ids {
		task, state := c.task(id)
		states[state]++
		if state == mailbox.Pending && (task.Mbox.Attempt != 0 || task.Mbox.NotBefore == nil || time.Until(task.Mbox.NotBefore.Time) < 50*time.Minute) {
			t.Errorf("it waits with %+v", task.Mbox)
		}
	}
	if states[mailbox.Completed] != 2 || states[mailbox.Pending] != 1 {
		t.Errorf("%v", states)
	}
}

// What comes from outside stands between marks that it cannot guess, with its

// origin; a file that the agent may not read is not there.

// Agentic: the brain sees what its actions did, and may act again.

// An agent with nothing to do asks its brain nothing, not even whether it is

// there.

// A child that nobody takes in the time that the profile gives fails, and its

// parent is told.

// An agentic task has its own time limit.

// What auto_approve does not name waits for an operator, with a supervised agent.

func TestAutoApprove(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		careful := policy.DefaultRiskProfile()
		careful.AutoApprove = []string{"read_file"}
		team.Policies.RiskProfiles["default"] = careful
	})
	wrote := c.send("coder", "Write", act("write_file", `{"path":"a.md","content":"x"}`))
	read := c.send("coder", "Read", act("read_file", `{"path":"a.md"}`))
	c.works("coder")
	if _, state := c.task(wrote); state != mailbox.Pending {
		t.Fatalf("what nobody approved is %s", state)
	}
	if _, state := c.task(read); state != mailbox.Completed {
		t.Fatalf("what needs no approval is %s", state)
	}
	if _, err := c.box.Approve(context.Background(), wrote, mailbox.Consent{By: "human", From: "a test", Why: "fine", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	c.works("coder")
	if _, state := c.task(wrote); state != mailbox.Completed || c.file("coder", "a.md") != "x" {
		t.Fatalf("what was approved is %s", state)
	}
}

// An agent can write into the workspace of another one that has never worked.
func TestWriteIntoAWorkspaceThatIsNotThereYet(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		coder := team.Policies.Agents["coder"]
		coder.Workspace.Access = map[string]string{"tester": "write"}
		team.Policies.Agents["coder"] = coder
	})
	at := filepath.Join(c.box.AgentDir("tester"), "workspace")
	if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("the workspace is there already: %v", err)
	}
	id := c.send("coder", "x", act("write_file", `{"path":"tester:plans/a.md","content":"x"}`))
	own := c.send("coder", "x", act("write_file", `{"path":"projects/site/a.md","content":"x"}`))
	c.works("coder")
	for id, path := range map[mailbox.ID]string{
		id: filepath.Join(at, "plans", "a.md"), own: filepath.Join(c.box.AgentDir("coder"), "workspace", "projects", "site", "a.md"),
	} {
		if task, state := c.task(id); state != mailbox.Completed {
			t.Errorf("%s: %s %+v", path, state, task.Result.Error)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "x" {
			t.Errorf("%q, %v", data, err)
		}
	}
	if info, err := os.Lstat(c.box.AgentDir("tester")); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
}

// Who is asked for by a name can take the task, where anybody of that name or role can.
func TestFindMember(t *testing.T) {
	on, off := Member{Enabled: true, Role: "coder"}, Member{Role: "coder"}
	for _, c := range []struct {
		all  Members
		want string
		ok   bool
	}{
		{Members{"coder": on, "alpha": on}, "coder", true},
		{Members{"coder": off, "beta": on, "alpha": off}, "beta", true},
		{Members{"coder": off, "alpha": off}, "coder", true},
		{Members{"beta": on, "alpha": on}, "alpha", true},
		{Members{"alpha": off}, "coder", false},
	} {
		if got, m, ok := c.all.Find("coder"); got != c.want || ok != c.ok || m.Enabled != c.all[got].Enabled {
			t.Errorf("%+v: %s %+v %v, want %s", c.all, got, m, ok, c.want)
		}
	}
}
