package mailbox

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/durable"
)

// A child is what its parent handed on. Somebody who guesses the key that mbox
// knows a child by, and sends a task with it before, does not become the child.
func TestChildKeyIsNobodyElses(t *testing.T) {
	b, c := family(t, Options{})
	forged, err := b.Submit(context.Background(), &Task{
		ID: "forged", Task: Request{Title: "Not what was asked"}, Assignment: Assignment{TargetAgent: "stranger"},
		Mbox: Meta{IdempotencyKey: c.childKey(0)},
	})
	if err == nil {
		finish(t, b, "stranger", true)
	}
	ids := delegate(t, c, "", child("coder", "Write"))
	if slices.Contains(ids, forged) {
		t.Fatalf("the parent waits for %s, which a stranger sent", forged)
	}
	_, made := stateOfTask(t, b, ids[0])
	if made.Mbox.ParentID != "parent" || made.Assignment.TargetAgent != "coder" {
		t.Fatalf("the child is %+v", made)
	}
}

// What an attempt has spent is debited once, even if the line that was to tell of
// it could not be written at first.
func TestSpentIsNotLost(t *testing.T) {
	b, c := family(t, Options{})
	c.Spend(Budget{SpentTokens: 70})
	remove := durable.SetFault(func(_ durable.Op, path string) (bool, error) {
		if strings.Contains(path, "/.mbox/tmp/") {
			return false, errInjected
		}
		return true, nil
	})
	err := c.Complete(context.Background(), Result{Output: jsontext.Value(`"done"`)})
	remove()
	if err == nil {
		t.Fatal("nothing failed")
	}
	if err := c.Complete(context.Background(), Result{Output: jsontext.Value(`"done"`)}); err != nil {
		t.Fatal(err)
	}
	tree, err := b.Tree(context.Background(), "parent")
	if err != nil {
		t.Fatal(err)
	}
	if tree.Spent[SpentTokens] != 70 {
		t.Errorf("debited %v", tree.Spent)
	}
}

// Two agents of a tree that hand work on at the same moment do not get round its
// budget together, nor close a circle between them.
func TestDelegateSideBySide(t *testing.T) {
	for range 5 {
		b, c := family(t, Options{})
		_, err := c.Delegate(context.Background(), Delegation{
			Children: []Child{child("left", "a"), child("right", "b")}, Budget: Budget{SpentChildren: 3},
		})
		if err != nil {
			t.Fatal(err)
		}
		var both sync.WaitGroup
		for from, to := range map[string]string{"left": "right", "right": "left"} {
			claim := claimAs(t, b, from)
			both.Go(func() {
				_, err := claim.Delegate(context.Background(), Delegation{Children: []Child{child(to, "x")}})
				var refused *Refusal
				if err != nil && !errors.As(err, &refused) {
					t.Error(err)
				}
			})
		}
		both.Wait()
		tree, err := b.Tree(context.Background(), "parent")
		if err != nil {
			t.Fatal(err)
		}
		if n := tree.Spent[SpentChildren]; n != 3 {
			t.Fatalf("the tree has %d children, want 3", n)
		}
	}
}
