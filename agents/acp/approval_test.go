package acp

import (
	"context"
	"os"
	"strings"
	"testing"

	"mbox/agents"
	"mbox/agents/policy"
	"mbox/mailbox"
)

// profiled changes the risk profile of the scene's agent.
func (s *scene) profiled(change func(*policy.RiskProfile)) {
	risk := s.team.Policies.RiskProfiles["default"]
	change(&risk)
	s.team.Policies.RiskProfiles["default"] = risk
}

// there tells whether the agent's workspace has a file.
func (s *scene) there(name string) bool {
	_, err := os.Stat(s.box.AgentDir("claude") + "/workspace/" + name)
	return err == nil
}

// What always_ask names and what is risky in a terminal a person allows, whatever
// answers the program's own permissions: the question is held, names its tool, and is
// done only when it is approved.
func TestToolsAskAnyway(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*policy.RiskProfile)
		tool    string
		guarded string // what must not be there before
	}{
		"write_file, permissions approved": {func(r *policy.RiskProfile) {
			r.AutoApprove, r.AlwaysAsk, r.RequireApprovalForMediumRisk = append(r.AutoApprove, agents.Permission), []string{"write_file"}, false
		}, "write_file", "a.md"},
		"write_file at level full": {func(r *policy.RiskProfile) { r.Level, r.AlwaysAsk = policy.Full, []string{"write_file"} }, "write_file", "a.md"},
		"a command at risk":        {func(r *policy.RiskProfile) { r.AutoApprove = append(r.AutoApprove, agents.Permission) }, agents.Terminal, "b.md"},
		"terminals always": {func(r *policy.RiskProfile) {
			r.AutoApprove, r.RequireApprovalForMediumRisk, r.AlwaysAsk = append(r.AutoApprove, "*"), false, []string{agents.Terminal}
		}, agents.Terminal, "b.md"},
		"terminals at level full": {func(r *policy.RiskProfile) { r.Level, r.AlwaysAsk = policy.Full, []string{agents.Terminal} }, agents.Terminal, "b.md"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, "guarded")
			s.profiled(func(r *policy.RiskProfile) { r.AllowedCommands = []string{"touch"}; c.change(r) })
			id := s.send("x")
			s.works()
			question := s.question(id)
			asked, _ := s.task(question)
			if params := string(asked.Mbox.Action.Params); !strings.Contains(params, `"tool": "`+c.tool+`"`) || !strings.Contains(asked.Task.Title, c.tool) {
				t.Errorf("the question is %q: %s", asked.Task.Title, params)
			}
			s.works()
			if _, state := s.task(question); state != mailbox.Pending || s.there(c.guarded) {
				t.Fatalf("nobody has said yes, the question is %s, %s there: %v", state, c.guarded, s.there(c.guarded))
			}
			s.approve(question)
			s.works()
			if got := s.answer(id).Answer; got != `"" ""` {
				t.Errorf("it was told %s", got)
			}
		})
	}
}

// An approval of one tool's request answers no request of another tool, though it is
// the same letter for letter.
func TestApprovalIsForItsTool(t *testing.T) {
	s := newScene(t, "twin")
	s.profiled(func(r *policy.RiskProfile) { r.AlwaysAsk = []string{"write_file"} })
	id := s.send("x")
	s.works()
	first := s.question(id)
	s.approve(first)
	s.works()
	if s.there("a.md") {
		t.Fatal("the approval of a permission has written a file")
	}
	second := s.question(id)
	s.approve(second)
	s.works()
	if got := s.answer(id).Answer; second == first || got != "wrote " || !s.there("a.md") {
		t.Errorf("it was told %q", got)
	}
}

// A question that names no tool, as those of an earlier mbox, needs a person.
func TestQuestionWithoutTool(t *testing.T) {
	s := newScene(t, "good")
	s.profiled(func(r *policy.RiskProfile) { r.AutoApprove = append(r.AutoApprove, agents.Permission) })
	for _, params := range []string{`{"title":"x","request":{"path":"a.md"},"sha256":""}`, `{"tool":"deploy_compose","request":{}}`, `{"tool":"terminal","request":5}`, `[]`} {
		id, err := s.box.Submit(context.Background(), &mailbox.Task{
			Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "claude"}, Source: mailbox.Source{Agent: "claude"},
			Mbox: mailbox.Meta{Action: &mailbox.Action{Name: agents.Permission, Params: []byte(params)}},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.works()
		if _, state := s.task(id); state != mailbox.Pending {
			t.Errorf("%s is %s", params, state)
		}
	}
}

// A question that could be claimed without an approval, since the configuration was
// another one then, is answered with no.
func TestQuestionClaimedUnapproved(t *testing.T) {
	s := newScene(t, "guarded")
	s.profiled(func(r *policy.RiskProfile) {
		r.AllowedCommands, r.AutoApprove, r.AlwaysAsk = []string{"touch"}, append(r.AutoApprove, agents.Permission), []string{"write_file"}
	})
	id := s.send("x")
	s.works()
	question := s.question(id)
	lax, err := mailbox.Open(context.Background(), s.box.Home(), mailbox.Options{Sync: s.box.Options().Sync, MaxAttempts: 1, Review: s.team.Review})
	if err != nil {
		t.Fatal(err)
	}
	defer lax.Close()
	s.worker.Box = lax
	s.works()
	task, state := s.task(question)
	if state != mailbox.Failed || !strings.Contains(task.Result.Error.Message, "nobody has approved") || s.there("a.md") {
		t.Errorf("the question is %s: %+v", state, task.Result.Error)
	}
}
