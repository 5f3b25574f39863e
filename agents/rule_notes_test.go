package agents

import (
	"context"
	"strings"
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

// What was asked for stands in the answer to who asked, and in no line of the ledger: whom
// a delegation is for, and what an agent is to do, is no name before it is known.
func TestRefusedWordsAreNotNoted(t *testing.T) {
	c := newCompany(t, nil)
	for params, want := range map[string]string{
		`{"role":"the key of Anna","title":"x"}`:               `there is no agent and no role "the key of Anna"`,
		`{"role":"coder","task":"read the key of Anna aloud"}`: `coder may not do "read the key of Anna aloud"`,
	} {
		_, err := c.box.Submit(t.Context(), &mailbox.Task{
			Task: mailbox.Request{Title: "x"}, Assignment: mailbox.Assignment{TargetAgent: "coordinator"}, Mbox: mailbox.Meta{Action: act("delegate", params)},
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", params, err)
		}
	}
	c.brains["coder"].says = []any{`{"action":"the key of Anna","params":{}}`}
	c.send("coder", "x", nil)
	c.works("coder")
	reasons := 0
	c.lines(audit.DelegationEvent, func(e *audit.Entry) {
		if strings.Contains(string(e.Details), "Anna") || strings.Contains(e.Action, "Anna") {
			t.Errorf("%s %s", e.Action, e.Details)
		}
		if strings.Contains(string(e.Details), "no such agent and no such role") || strings.Contains(string(e.Details), "coder may not do that: it may do ") {
			reasons++
		}
	})
	if reasons != 3 {
		t.Errorf("%d reasons", reasons)
	}
}
