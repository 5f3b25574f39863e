package mailbox

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
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
	// A result that is refused: nothing was written.
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	if err := c.Complete(context.Background(), Result{Output: jsontext.Value(deep)}); err == nil {
		t.Fatal("the result was taken")
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
