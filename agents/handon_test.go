package agents

import (
	"context"
	"strings"
	"testing"
	"time"

	"mbox/agents/policy"
	"mbox/audit"
	"mbox/audit/delegation"
	"mbox/mailbox"
)

const plan = `{"actions":[
  {"action":"delegate","params":{"role":"coder","task":"write_file","payload":{"path":"note.md","content":"done"},"name":"note"}},
  {"action":"delegate","params":{"role":"tester","task":"file_check","payload":{"path":"coder:note.md"},"after":["note"]}}]}`

func TestCoordinate(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coordinator"].says = []any{
		plan,
		`{"actions":[],"answer":"The note is there."}`,
	}
	id := c.send("coordinator", "Write a note and check that it is there", nil)
	c.works("coordinator", "coder", "tester", "coordinator")
	task, state := c.task(id)
	if state != mailbox.Completed {
		t.Fatalf("%s: %+v", state, task.Result.Error)
	}
	for _, want := range []string{"The note is there.", `"written"`, `"exists"`, `"children"`} {
		if !strings.Contains(string(task.Result.Output), want) {
			t.Errorf("the output has no %s: %s", want, task.Result.Output)
		}
	}
	asked := c.brains["coordinator"].asked
	if len(asked) != 2 || len(asked[1].Messages) != 4 || !strings.Contains(asked[1].Messages[3].Content, "written") {
		t.Fatalf("asked %d times: %+v", len(asked), asked)
	}
	tree, err := c.box.Tree(context.Background(), id)
	if err != nil || len(tree.Children(id)) != 2 || tree.Spent[mailbox.SpentActions] != 2 || tree.Spent[mailbox.SpentTokens] != 14 || tree.Spent[mailbox.SpentChildren] != 2 {
		t.Fatalf("the tree has %+v, %v", tree, err)
	}
}

func TestChildFails(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coordinator"].says = []any{
		`{"actions":[{"action":"delegate","params":{"role":"coder","title":"Think hard"}}]}`,
		`{"actions":[],"answer":"It could not be done."}`,
	}
	c.brains["coder"].says = []any{&BrainError{Fault: BrainRefused, Text: "the model said no"}}
	id := c.send("coordinator", "Something hard", nil)
	c.works("coordinator", "coder", "coordinator")
	task, state := c.task(id)
	if state != mailbox.Completed || !strings.Contains(string(task.Result.Output), "brain_refused") {
		t.Fatalf("%s: %s", state, task.Result.Output)
	}
	if last := c.brains["coordinator"].asked[1].Messages[3].Content; !strings.Contains(last, "the model said no") {
		t.Errorf("the brain was told: %s", last)
	}
}

func TestChildFailsWithoutBrain(t *testing.T) {
	c := newCompany(t, nil)
	id := c.send("coordinator", "x", act("delegate", `{"role":"coder","title":"Think hard"}`))
	c.brains["coder"].says = []any{&BrainError{Fault: BrainRefused, Text: "the model said no"}}
	c.works("coordinator", "coder", "coordinator")
	c.wantFailed(id, "child_failed", "the model said no")
}

// Whom a delegation is for, and what that one may do, is asked before anything
// else of it is looked at, at creation and at the claim.
func TestDelegationIsJudgedInOrder(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		off := team.Members["deployer"]
		off.Enabled = false
		team.Members["deployer"] = off
	})
	for _, q := range []struct {
		to     string
		act    *mailbox.Action
		step   delegation.Step
		reason string
	}{
		{"coordinator", act("delegate", `{"role":"codr","task":"write_file","payload":{"path":1},"name":"/"}`), delegation.StepRole, `no agent and no role "codr"`},
		{"coordinator", act("delegate", `{"role":"codr","title":"x"}`), delegation.StepRole, `no agent and no role "codr"`},
		{"coordinator", act("delegate", `{"role":"deployer","task":"none","payload":{}}`), delegation.StepRole, "deployer is not enabled"},
		{"coordinator", act("delegate", `{"role":"tester","task":"write_file","payload":{"path":1},"name":"/"}`), delegation.StepAction, "tester may not do"},
		{"coordinator", act("delegate", `{"role":"coder","task":"write_file","payload":{"path":1}}`), delegation.StepParameters, ""},
		{"coordinator", act("delegate", `{"task":"write_file"}`), delegation.StepParameters, ""},
		{"codr", act("write_file", `{"path":1}`), delegation.StepRole, `no agent "codr"`},
		{"coder", act("delegate", `{"role":"codr"}`), delegation.StepAction, "coder may not do"},
	} {
		task := &mailbox.Task{Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: q.to}, Mbox: mailbox.Meta{Action: q.act}}
		if _, err := c.box.Submit(t.Context(), task); err == nil || !strings.Contains(err.Error(), q.reason) {
			t.Errorf("%s %s: %v, want %s", q.to, q.act.Params, err, q.reason)
		}
		_, refused := c.team.judge(request{from: "human", to: q.to, name: q.act.Name, params: q.act.Params})
		if refused == nil || refused.step != q.step {
			t.Errorf("%s %s: refused at %v, want %s", q.to, q.act.Params, refused, q.step)
		}
	}
	if n := c.lines(audit.TaskCreated, nil); n != 0 {
		t.Errorf("%d tasks were created", n)
	}
	// Somebody outside may have actions of his own.
	c.send("robot", "x", act("turn_left", `{}`))
}

func TestEscalation(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		coder := team.Policies.Agents["coder"]
		coder.RiskProfile = "free"
		team.Policies.Agents["coder"] = coder
		free := policy.DefaultRiskProfile()
		free.Level = policy.Full
		team.Policies.RiskProfiles["free"] = free
	})
	id := c.send("coordinator", "x", act("delegate", `{"role":"coder","task":"write_file","payload":{"path":"a.md","content":"x"}}`))
	c.works("coordinator")
	c.wantFailed(id, "refused", "escalation")
	if n := c.lines(audit.PolicyDenied, nil); n != 1 {
		t.Errorf("%d refusals by policy", n)
	}
}

func TestDelegationTimeout(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		hasty := policy.DefaultRuntimeProfile()
		hasty.DelegationTimeout = 1
		team.Policies.RuntimeProfiles["default"] = hasty
	})
	id := c.send("coordinator", "x", act("delegate", `{"role":"coder","task":"write_file","payload":{"path":"a.md","content":"x"}}`))
	c.works("coordinator")
	until(t, "the parent to fail", func() bool { c.works("coordinator"); _, state := c.task(id); return state == mailbox.Failed })
	c.wantFailed(id, "child_failed", "deadline_passed")
}

// A brain that hands work to nobody is asked again, like one that asks for an
// action that is not its own; the last attempt says what may help.
func TestHandOnToNobody(t *testing.T) {
	c := newCompany(t, nil)
	nobody := `{"actions":[{"action":"delegate","params":{"role":"nobody","title":"x"}}]}`
	c.brains["coordinator"].says = []any{nobody, nobody, nobody}
	id := c.send("coordinator", "x", nil)
	until(t, "the task to fail", func() bool { c.works("coordinator"); _, state := c.task(id); return state == mailbox.Failed })
	c.wantFailed(id, "reply_forbidden", "there is no agent and no role")
	c.wantFailed(id, "reply_forbidden", "attempt 3 of 3")
	if n := c.lines(audit.TaskCreated, nil); n != 1 {
		t.Errorf("%d tasks were created", n)
	}
}

// What a line of the delegation audit tells of time is all of it: from the task's
// creation, waiting included.
func TestDurationCountsTheWaiting(t *testing.T) {
	c := newCompany(t, nil)
	id := c.send("coder", "x", act("write_file", `{"path":"a.md","content":"x"}`))
	task, _ := c.task(id)
	until(t, "some time to pass", func() bool { return time.Since(task.Created.Time) > 200*time.Millisecond })
	c.works("coder")
	found, err := delegation.Find(t.Context(), c.box.Ledger(), delegation.Query{N: 1})
	if err != nil || len(found) != 1 || found[0].DurationMS < 200 {
		t.Errorf("%+v, %v", found, err)
	}
}
