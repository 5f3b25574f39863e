package agents

import (
	"context"
	"fmt"
	"testing"
	"time"

	"mbox/agents/policy"
	"mbox/audit"
	"mbox/mailbox"
)

// Handing work on is an action, and counts as one in the hour: an agent that may
// do nothing at all hands nothing on, and nothing of a reply that asks for more
// than is left is handed on.
func TestDelegationsCount(t *testing.T) {
	for _, most := range []int{0, 1} {
		c := newCompany(t, func(team *Team) {
			few := policy.DefaultRuntimeProfile()
			few.MaxActionsPerHour = most
			team.Policies.RuntimeProfiles["default"] = few
		})
		c.brains["coordinator"].says = []any{plan}
		id := c.send("coordinator", "Hand on", nil)
		c.works("coordinator")
		if n := c.lines(audit.TaskCreated, nil); n != 1 {
			t.Errorf("%d an hour: %d tasks were created", most, n-1)
		}
		if _, state := c.task(id); state != mailbox.Pending {
			t.Errorf("%d an hour: the task is %s", most, state)
		}
	}
}

// Names of senders are what tasks say: an agent does no more for many of them than
// for ten.
func TestHourOfManySenders(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		few := policy.DefaultRuntimeProfile()
		few.MaxActionsPerHour = 1
		team.Policies.RuntimeProfiles["default"] = few
	})
	for i := range manySenders + 2 {
		sender := fmt.Sprintf("user-%d", i)
		_, err := c.box.Submit(context.Background(), &mailbox.Task{
			Task: mailbox.Request{Title: "x"}, Source: mailbox.Source{Agent: "human", User: sender},
			Assignment: mailbox.Assignment{TargetAgent: "coder"},
			Mbox:       mailbox.Meta{Action: act("write_file", fmt.Sprintf(`{"path":"%d.md","content":"x"}`, i))},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	c.works("coder")
	done := 0
	for i := range manySenders + 2 {
		if c.file("coder", fmt.Sprintf("%d.md", i)) != "" {
			done++
		}
	}
	if done != manySenders {
		t.Errorf("%d actions were done, want %d", done, manySenders)
	}
}

// The time that an attempt takes is debited to its tree when it hands work on too.
func TestDelegationCostsTime(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coordinator"].says = []any{func(ctx context.Context) (Reply, error) {
		time.Sleep(600 * time.Millisecond)
		return Reply{Text: plan, Model: "script", Tokens: 7}, nil
	}}
	id := c.send("coordinator", "Hand on", nil)
	c.works("coordinator")
	tree, err := c.box.Tree(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	if tree.Spent[mailbox.SpentSeconds] != 1 || tree.Spent[mailbox.SpentTokens] != 7 {
		t.Errorf("debited %v", tree.Spent)
	}
}
