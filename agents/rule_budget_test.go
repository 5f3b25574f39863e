package agents

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"mbox/agents/policy"
	"mbox/audit"
	"mbox/mailbox"
)

// A new process gives nobody a new hour: no agent that was born, whatever name it had, nor
// one of mbox.toml.
func TestHourOverRestarts(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		few := policy.DefaultRuntimeProfile()
		few.MaxActionsPerHour = 3
		team.Policies.RuntimeProfiles["default"] = few
	})
	n := 0
	sends := func(user string, count int) (ids []mailbox.ID) {
		for range count {
			n++
			id, err := c.box.Submit(t.Context(), &mailbox.Task{
				Task: mailbox.Request{Title: "x"}, Source: mailbox.Source{Agent: "human", User: user},
				Assignment: mailbox.Assignment{TargetAgent: "coder"},
				Mbox:       mailbox.Meta{Action: act("write_file", fmt.Sprintf(`{"path":"%d.md","content":"x"}`, n))},
			})
			c.must(err)
			ids = append(ids, id)
		}
		return ids
	}
	restart := func() *Worker {
		c.team.Actions = policy.NewWindow(math.MaxInt, nil)
		w := c.member("coder")
		settle(t, w, &keeper{})
		return w
	}
	done := func(ids []mailbox.ID) (n int) {
		for _, id := range ids {
			if _, state := c.task(id); state == mailbox.Completed {
				n++
			}
		}
		return n
	}
	first := sends("anna", 2)
	c.once(restart())
	if done(first) != 2 {
		t.Fatal("the first two are not done")
	}
	second := sends("anna", 2)
	w := restart()
	c.once(w)
	c.once(w) // counts nothing twice
	if got := done(second); got != 1 {
		t.Errorf("%d more were done in this hour, want 1", got)
	}
	if used := c.team.Actions.Used("coder"); used != 3 {
		t.Errorf("%d are counted", used)
	}
	other := sends("bert", 1)
	c.once(restart())
	if done(other) != 1 {
		t.Error("another sender's hour is full")
	}
	w = restart()
	w.Home = nil
	third := sends("anna", 1)
	c.once(w)
	if done(third) != 0 {
		t.Error("an agent without a home has another hour")
	}
	past := c.box.Options()
	past.Now = func() time.Time { return time.Now().Add(-2 * policy.Hour) }
	early, err := mailbox.Open(t.Context(), c.box.Home(), past)
	c.must(err)
	defer early.Close()
	c.must(early.Note(t.Context(), audit.Entry{Event: audit.DelegationEvent, Agent: "tester", Action: "said while the clock was set back"}))
	c.once(restart())
	if used := c.team.Actions.Used("coder"); used != 4 {
		t.Errorf("behind a clock that was set back %d are counted", used)
	}
}

// Work that is handed on counts over a restart as well.
func TestHourOfDelegations(t *testing.T) {
	c := newCompany(t, func(team *Team) {
		few := policy.DefaultRuntimeProfile()
		few.MaxActionsPerHour = 2
		team.Policies.RuntimeProfiles["default"] = few
	})
	c.brains["coordinator"].says = []any{plan, plan}
	c.send("coordinator", "Hand on", nil)
	c.works("coordinator")
	c.team.Actions = policy.NewWindow(math.MaxInt, nil)
	second := c.send("coordinator", "Hand on", nil)
	w := c.member("coordinator")
	settle(t, w, &keeper{})
	c.once(w)
	if used := c.team.Actions.Used("coordinator"); used != 2 {
		t.Errorf("%d are counted, want 2", used)
	}
	if n := c.lines(audit.TaskCreated, nil); n != 4 {
		t.Errorf("%d tasks were created, want the two and the children of the first", n)
	}
	if _, state := c.task(second); state != mailbox.Pending {
		t.Errorf("the second is %s", state)
	}
}

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
