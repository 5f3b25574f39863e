package agents

import (
	"context"
	"errors"
	"testing"
	"time"

	"mbox/agents/policy"
	"mbox/audit"
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

// What always_ask names is asked for whoever wants it: a model too, whose task
// nobody has approved. Nothing of its reply is done then.
func TestAlwaysAskOfAReply(t *testing.T) {
	c := asking(t)
	c.brains["coder"].says = []any{
		`{"actions":[{"action":"read_file","params":{"path":"b.md"}},{"action":"write_file","params":{"path":"a.md","content":"x"}}]}`,
	}
	id := c.send("coder", "Write", nil)
	c.works("coder")
	if c.file("coder", "a.md") != "" {
		t.Error("the file was written")
	}
	task, state := c.task(id)
	if state != mailbox.Failed {
		t.Errorf("the task is %s: %+v", state, task.Result.Error)
	}
	c.wantDecisions("coder coder write_file rejected policy")
	if n := c.lines(audit.PolicyDenied, nil); n != 1 {
		t.Errorf("%d refusals by policy", n)
	}
}

// Approved as it is, a task may do what always_ask names, thought up or not.
func TestAlwaysAskApproved(t *testing.T) {
	c := asking(t)
	c.brains["coder"].says = []any{`{"actions":[{"action":"write_file","params":{"path":"a.md","content":"x"}}]}`}
	id := c.send("coder", "Write", nil)
	if _, err := c.box.Approve(context.Background(), id, "human", "", time.Hour); err != nil {
		t.Fatal(err)
	}
	c.works("coder")
	if _, state := c.task(id); state != mailbox.Completed || c.file("coder", "a.md") != "x" {
		t.Errorf("the task is %s", state)
	}
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
