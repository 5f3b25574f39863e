package agents

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"mbox/agents/policy"
	"mbox/mailbox"
)

const handsToCoder = `{"role":"coder","title":"Write"}`

// bareCoder makes the coder a program that nothing bounds.
func bareCoder(team *Team) {
	coder := team.Policies.Agents["coder"]
	coder.Exec = true
	team.Policies.Agents["coder"] = coder
}

// commandRan has a command work as coder, and lists the tasks that it was run for.
func (c *company) commandRan() []string {
	c.Helper()
	w := c.worker(`echo "$MBOX_TASK_ID" >> "$OUT/ran"`)
	w.Team = c.team
	c.once(w)
	return strings.Fields(c.written("ran"))
}

// Whoever acts by a role hands nothing to a program that neither a role nor a
// sandbox bounds; to one in a sandbox it may.
func TestExecAgainstRole(t *testing.T) {
	for _, c := range []struct {
		name    string
		change  func(lead *policy.RiskProfile, coder *policy.Agent)
		refused bool
	}{
		{"a program", func(_ *policy.RiskProfile, coder *policy.Agent) { coder.Exec = true }, true},
		{"in a sandbox", func(_ *policy.RiskProfile, coder *policy.Agent) { coder.Exec, coder.Sandbox = true, "landlock" }, false},
		{"from one that may do all", func(lead *policy.RiskProfile, coder *policy.Agent) { coder.Exec, lead.Level = true, policy.Full }, false},
		{"a role", func(*policy.RiskProfile, *policy.Agent) {}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			co := newCompany(t, func(team *Team) {
				lead, coder := team.Policies.RiskProfiles["lead"], team.Policies.Agents["coder"]
				c.change(&lead, &coder)
				team.Policies.RiskProfiles["lead"], team.Policies.Agents["coder"] = lead, coder
			})
			id := co.send("coordinator", "x", act("delegate", handsToCoder))
			co.works("coordinator")
			if c.refused {
				co.wantFailed(id, "refused", "exec is true")
				return
			}
			if task, state := co.task(id); state != mailbox.Pending || len(task.Mbox.WaitsFor) != 1 {
				t.Errorf("it is %s: %+v", state, task.Result.Error)
			}
		})
	}
}

// How deep an agent's work may go is for its own profile to say, also where what it
// hands on is an action of somebody whose profile says more.
func TestDepthIsTheParents(t *testing.T) {
	for _, handsOn := range []string{handsToCoder, `{"role":"coder","task":"write_file","payload":{"path":"a.md","content":"x"}}`} {
		c := newCompany(t, func(team *Team) {
			shallow := policy.DefaultRuntimeProfile()
			shallow.MaxDelegationDepth = 1
			team.Policies.RuntimeProfiles["shallow"] = shallow
			lead := team.Policies.Agents["coordinator"]
			lead.RuntimeProfile = "shallow"
			team.Policies.Agents["coordinator"] = lead
		})
		id := c.send("coordinator", "x", act("delegate", handsOn))
		c.works("coordinator")
		c.wantFailed(id, "refused", "delegation depth limit reached (1/1)")
	}
}

// What was a role's when the work was handed on, and is worked at by a command, is
// refused when it is claimed: the command does not run.
func TestExecAgainstRoleAtClaim(t *testing.T) {
	c := newCompany(t, nil)
	c.send("coordinator", "x", act("delegate", handsToCoder))
	c.works("coordinator")
	own := c.send("coder", "From a person", nil)
	if ran := c.commandRan(); len(ran) != 1 || ran[0] != string(own) {
		t.Errorf("the command has run for %v, not for %s alone", ran, own)
	}
	c.wantDecisions("human coordinator delegate delivered", "coordinator coder task delivered", "coordinator coder task rejected escalation")
}

// Another name of who handed work on takes no rights away from the check of it.
func TestRenamedParentAtClaim(t *testing.T) {
	c := newCompany(t, nil)
	c.send("coordinator", "x", act("delegate", handsToCoder))
	c.works("coordinator")
	if err := mailbox.RenameAgent(t.Context(), c.box, "human", "coordinator", "chief", ""); err != nil {
		t.Fatal(err)
	}
	c.team.Members["chief"], c.team.Policies.Agents["chief"] = c.team.Members["coordinator"], c.team.Policies.Agents["coordinator"]
	delete(c.team.Members, "coordinator")
	delete(c.team.Policies.Agents, "coordinator")
	if ran := c.commandRan(); len(ran) > 0 {
		t.Errorf("the command has run for %v", ran)
	}
	c.wantDecisions("human coordinator delegate delivered", "coordinator coder task delivered", "chief coder task rejected escalation")
}

// A brain is not told of agents that it cannot hand work to.
func TestPeersHaveNoMoreRights(t *testing.T) {
	c := newCompany(t, bareCoder)
	c.brains["coordinator"].says = []any{`{"actions":[],"answer":"Done."}`}
	c.send("coordinator", "x", nil)
	c.works("coordinator")
	system := c.brains["coordinator"].asked[0].Messages[0].Content
	if strings.Contains(system, "- coder:") || !strings.Contains(system, "- tester:") {
		t.Errorf("it is told:\n%s", system)
	}
}

// A bare program does nothing for an agent that is bounded: not what its model says in a
// channel, and not what comes in a task that is nobody's child. It gets an answer to what
// it has said itself, and what people ask.
func TestBareProgramIsAsked(t *testing.T) {
	c := newCompany(t, nil)
	for _, p := range []mailbox.Post{{Channel: "office", Text: "All", From: "human", Create: true}, {ID: "asks", Channel: "office", Text: "Is it green?", From: "coder"}} {
		if _, _, _, err := mailbox.PostMessage(t.Context(), c.box, p); err != nil {
			t.Fatal(err)
		}
	}
	says := func(id, from, replyTo string) mailbox.ID {
		t.Helper()
		m, _, _, err := mailbox.PostMessage(t.Context(), c.box, mailbox.Post{ID: id, Channel: "office", Text: "@coder " + id, From: from, ReplyTo: replyTo})
		if err != nil {
			t.Fatal(err)
		}
		return c.item(m).ID
	}
	says("from-a-model", "tester", "")
	says("to-another", "tester", "from-a-model")
	want := []string{string(says("answer", "tester", "asks")), string(says("from-a-person", "human", ""))}
	if _, err := c.box.Submit(t.Context(), &mailbox.Task{
		Source: mailbox.Source{Agent: "tester"}, Task: mailbox.Request{Title: "sent"}, Assignment: mailbox.Assignment{TargetAgent: "coder"},
	}); err != nil {
		t.Fatal(err) // by its role it may be asked
	}
	if ran := c.commandRan(); !slices.Equal(ran, want) {
		t.Errorf("the command has run for %v, want %v", ran, want)
	}
	c.wantDecisions("tester coder task rejected escalation", "tester coder task rejected escalation", "tester coder task rejected escalation")
}

// What would be refused at its claim is refused when it is sent.
func TestBareProgramIsSent(t *testing.T) {
	c := newCompany(t, bareCoder)
	for from, refused := range map[string]bool{"tester": true, "coder": false, "human": false, "stranger": false} {
		_, err := c.box.Submit(t.Context(), &mailbox.Task{
			Source: mailbox.Source{Agent: from}, Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "coder"},
		})
		var no *RefusedError
		if got := errors.As(err, &no) && no.Step == "escalation" && strings.Contains(no.Reason, "neither a role nor a sandbox bounds it"); got != refused || !got && err != nil {
			t.Errorf("%s: %v", from, err)
		}
	}
	c.wantDecisions("tester coder task rejected escalation")
}
