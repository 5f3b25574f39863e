package agents

import (
	"context"
	"testing"

	"mbox/audit"
	"mbox/mailbox"
)

// The same task sent again writes no line.
func TestSentAgainIsNoDecision(t *testing.T) {
	c := newCompany(t, nil)
	task := &mailbox.Task{
		ID: "note", Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "coder"},
		Mbox: mailbox.Meta{Action: act("write_file", `{"path":"a.md","content":"x"}`)},
	}
	for range 2 {
		if _, err := c.box.Submit(context.Background(), task); err != nil {
			t.Fatal(err)
		}
	}
	c.wantDecisions("human coder write_file delivered")
}

// A reply with an action that there is not, that the agent may not do, or whose
// parameters are wrong is refused in the ledger too, by the first check that it
// fails.
func TestRefusedReplyIsNoted(t *testing.T) {
	for _, q := range []struct{ reply, want string }{
		{`{"action":"rm","params":{}}`, "coder coder rm rejected action"},
		{`{"action":"deploy_compose","params":{"compose":""}}`, "coder coder deploy_compose rejected action"},
		{`{"action":"http_check","params":{"url":7}}`, "coder coder http_check rejected action"},
		{`{"action":"write_file","params":{"path":7}}`, "coder coder write_file rejected parameters"},
		{`{"actions":[{"action":"write_file","params":{"path":"a.md","content":"x"}},{"action":"write_file","params":{"path":"a.md"}}]}`, "coder coder write_file rejected parameters"},
	} {
		c := newCompany(t, nil)
		c.brains["coder"].says = []any{q.reply}
		_, err := c.box.Submit(context.Background(), &mailbox.Task{
			Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "coder"}, Mbox: mailbox.Meta{MaxAttempts: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.works("coder")
		c.wantDecisions(q.want)
		if c.lines(audit.TaskFailed, nil) != 1 || c.file("coder", "a.md") != "" {
			t.Errorf("%s: the task did not fail, or a part was done", q.reply)
		}
	}
}
