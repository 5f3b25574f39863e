package agents

import (
	"context"
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
