package agents

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"mbox/agents/policy"
	"mbox/mailbox"
)

// asking is a company whose coder needs an approval for each write_file.
func asking(t *testing.T) *company {
	return newCompany(t, func(team *Team) {
		ask := policy.DefaultRiskProfile()
		ask.AlwaysAsk = []string{"write_file"}
		team.Policies.RiskProfiles["default"] = ask
	})
}

// approve lets a task run, as a person does.
func (c *company) approve(id mailbox.ID) {
	c.Helper()
	if _, err := c.box.Approve(context.Background(), id, mailbox.Consent{By: "human", From: "a test", For: time.Hour}); err != nil {
		c.Fatal(err)
	}
}

// waitsFor are the children that a task waits for, held until somebody approves
// them: nobody may do them yet.
func (c *company) waitsFor(id mailbox.ID, n int) []mailbox.ID {
	c.Helper()
	task, state := c.task(id)
	if state != mailbox.Pending || len(task.Mbox.WaitsFor) != n {
		c.Fatalf("the task is %s and waits for %v: %+v", state, task.Mbox.WaitsFor, task.Result.Error)
	}
	return task.Mbox.WaitsFor
}

const writesTwice = `{"actions":[
  {"action":"write_file","params":{"path":"a.md","content":"x"}},
  {"action":"read_file","params":{"path":"a.md"}}]}`

// Each action that a model asks for and a person has to approve is a task of its
// own, for the same agent, with its parameters; none is done before, and none out
// of turn. Its brain is told what came of them.
func TestAlwaysAskOfAReply(t *testing.T) {
	c := asking(t)
	c.brains["coder"].says = []any{writesTwice, `{"actions":[],"answer":"Written."}`}
	id := c.send("coder", "Write", nil)
	c.works("coder", "coder")
	kids := c.waitsFor(id, 2)
	first, _ := c.task(kids[0])
	if m := first.Mbox; first.Assignment.TargetAgent != "coder" || first.Source.Agent != "coder" || m.Depth != 0 || m.ParentID != id ||
		m.Action.Name != "write_file" || !strings.Contains(string(m.Action.Params), `"a.md"`) || c.file("coder", "a.md") != "" {
		t.Fatalf("the first child is %+v", first)
	}
	c.approve(kids[0])
	c.works("coder")
	c.brains["coder"].mu.Lock()
	last := c.brains["coder"].asked[1].Messages[3].Content
	c.brains["coder"].mu.Unlock()
	if !strings.Contains(last, `"written"`) || !strings.Contains(last, "had to be approved") || !strings.Contains(last, "write_file, task") {
		t.Errorf("it is told: %s", last)
	}
	task, state := c.task(id)
	if state != mailbox.Completed || c.file("coder", "a.md") != "x" || !strings.Contains(string(task.Result.Output), `"content": "x"`) {
		t.Errorf("the task is %s: %s", state, task.Result.Output)
	}
	c.wantDecisions(
		"coder coder write_file delivered", "coder coder read_file delivered",
		"coder coder write_file delivered", "coder coder read_file delivered",
	)
}

// A person says no: nothing is done, and the brain is told.
func TestAlwaysAskDenied(t *testing.T) {
	c := asking(t)
	c.brains["coder"].says = []any{writesTwice, `{"actions":[],"answer":"I may not."}`}
	id := c.send("coder", "Write", nil)
	c.works("coder")
	if err := c.box.Cancel(context.Background(), c.waitsFor(id, 2)[0], "human", "not that"); err != nil {
		t.Fatal(err)
	}
	c.works("coder")
	if task, state := c.task(id); state != mailbox.Completed || !strings.Contains(string(task.Result.Output), "not that") || c.file("coder", "a.md") != "" {
		t.Errorf("the task is %s: %s", state, task.Result.Output)
	}
}

// What has still to be thought up cannot be approved, before nor after.
func TestThoughtNotApproved(t *testing.T) {
	c := asking(t)
	c.brains["coder"].says = []any{writesTwice}
	id := c.send("coder", "Write", nil)
	var refused *mailbox.Refusal
	if _, err := c.box.Approve(context.Background(), id, mailbox.Consent{By: "human", From: "a test", For: time.Hour}); !errors.As(err, &refused) {
		t.Fatalf("approved: %v", err)
	}
	c.works("coder")
	c.waitsFor(id, 2)
	if _, err := c.box.Approve(context.Background(), id, mailbox.Consent{By: "human", From: "a test", For: time.Hour}); !errors.As(err, &refused) {
		t.Fatalf("approved: %v", err)
	}
}

// An approved action is done at any depth at which its agent may think of it.
func TestOwnActionIsNoHandOver(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		ask := policy.DefaultRiskProfile()
		ask.AlwaysAsk = []string{"write_file"}
		team.Policies.RiskProfiles["asks"] = ask
		team.Policies.Agents["coder"] = policy.Agent{Enabled: true, RiskProfile: "asks"}
		team.MaxDepth = 2
	})
	c.brains["coder"].says = []any{`{"actions":[{"action":"write_file","params":{"path":"a.md","content":"x"}}]}`, `{"actions":[]}`}
	id := c.send("coordinator", "x", act("delegate", handsToCoder))
	c.works("coordinator", "coder")
	thinks := c.waitsFor(id, 1)[0]
	child := c.waitsFor(thinks, 1)[0]
	c.approve(child)
	c.works("coder", "coordinator")
	if _, state := c.task(id); state != mailbox.Completed || c.file("coder", "a.md") != "x" {
		t.Errorf("the root is %s", state)
	}
	if task, _ := c.task(child); task.Mbox.Depth != 1 || task.Mbox.RootID != id {
		t.Errorf("the child is %+v", task.Mbox)
	}
}

// A delegation that has to be approved is one by itself: what came after another of
// its reply comes after that one's task. Approved once, it is not asked for again
// when its children have ended.
func TestDelegationsAreApproved(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		lead := team.Policies.RiskProfiles["lead"]
		lead.AlwaysAsk = []string{"delegate"}
		team.Policies.RiskProfiles["lead"] = lead
		asks := policy.DefaultRiskProfile() // who hands work on has no more rights
		asks.AlwaysAsk = []string{"delegate"}
		team.Policies.RiskProfiles["default"] = asks
	})
	c.brains["coordinator"].says = []any{plan, `{"actions":[],"answer":"Both are done."}`}
	id := c.send("coordinator", "Write and check", nil)
	c.works("coordinator", "coordinator")
	kids := c.waitsFor(id, 2)
	second, _ := c.task(kids[1])
	if d := second.Mbox.DependsOn; len(d) != 1 || d[0] != kids[0] || strings.Contains(string(second.Mbox.Action.Params), "after") {
		t.Fatalf("the second comes after %v: %s", d, second.Mbox.Action.Params)
	}
	c.approve(kids[0])
	c.works("coordinator", "coder", "coordinator")
	if _, state := c.task(kids[0]); state != mailbox.Completed {
		t.Fatalf("the first is %s", state)
	}
	c.approve(kids[1])
	c.works("coordinator", "tester", "coordinator", "coordinator")
	if task, state := c.task(id); state != mailbox.Completed || !strings.Contains(string(task.Result.Output), "Both are done.") {
		t.Errorf("the task is %s: %+v", state, task.Result.Error)
	}
}

// A deployment that a model thinks of starts containers only once it is approved.
func TestDeploymentOfAReply(t *testing.T) {
	c := newCompany(t, func(team *Team) { team.Compose.Run = true })
	c.brains["deployer"].says = []any{`{"actions":[{"action":"deploy_compose","params":{"compose":"services:\n  web:\n    image: nginx:1\n"}}]}`}
	id := c.send("deployer", "Deploy", nil)
	c.works("deployer")
	child, state := c.task(c.waitsFor(id, 1)[0])
	if state != mailbox.Pending || c.team.Approval(child) != "deploy_compose starts containers" {
		t.Errorf("the child is %s", state)
	}
}

// A tree that has had all its children asks for no more approvals.
func TestApprovalsAreInTheBudget(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		ask := policy.DefaultRiskProfile()
		ask.AlwaysAsk = []string{"*"}
		team.Policies.RiskProfiles["default"] = ask
		team.Budget = mailbox.Budget{mailbox.SpentChildren: 1}
	})
	c.brains["coder"].says = []any{writesTwice, writesTwice, writesTwice}
	id := c.send("coder", "Write", nil)
	until(t, "the task to fail", func() bool { c.works("coder"); _, state := c.task(id); return state == mailbox.Failed })
	c.wantFailed(id, "reply_forbidden", "may have 1 children")
}

// A task for anybody is held for an approval by who wants to take it.
func TestAlwaysAskOfAny(t *testing.T) {
	c := asking(t)
	registry := map[string]mailbox.Capabilities{"coder": {Actions: []string{"write_file"}}}
	box, err := mailbox.Open(context.Background(), c.box.Home(), mailbox.Options{
		Agents: registry, Review: c.team.Review, Approval: c.team.Approval, Sync: c.box.Options().Sync,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	c.box = box
	id := c.send("any", "Write", act("write_file", `{"path":"a.md","content":"x"}`))
	w := c.member("coder")
	w.Once = true
	if err := w.Run(context.Background()); err != nil && !errors.Is(err, mailbox.ErrEmpty) {
		t.Fatal(err)
	}
	if task, state := c.task(id); state == mailbox.Completed || c.file("coder", "a.md") != "" {
		t.Errorf("the task is %s without an approval: %s", state, task.Result.Output)
	}
}
