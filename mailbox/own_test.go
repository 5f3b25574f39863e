package mailbox

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"mbox/audit"
)

// own is a child that its agent will do itself.
func own(agent string) Child {
	c := child(agent, "deploy by "+agent)
	c.Task.Mbox.Action = &Action{Name: "deploy"}
	return c
}

// What an agent will do itself, once it is approved, is no hand-over: it is as deep
// as its task, closes no circle, and its task waits for it.
func TestOwnChildren(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	b := guarded(t, &now)
	submit(t, b, &Task{ID: "parent", Task: Request{Title: "Hand on"}, Assignment: Assignment{TargetAgent: "boss"}})
	delegate(t, claimAs(t, b, "boss"), "", child("one", "1"))
	delegate(t, claimAs(t, b, "one"), "", child("two", "2"))
	two := claimAs(t, b, "two")
	if two.Task.Mbox.Depth != 2 {
		t.Fatalf("its depth is %d", two.Task.Mbox.Depth)
	}
	ids, err := two.Delegate(ctx, Delegation{Own: true, Children: []Child{own("two")}})
	if err != nil {
		t.Fatal(err)
	}
	nothingFor(t, b, "two")
	w, err := b.Why(ctx, ids[0])
	if err != nil || !strings.HasPrefix(w.Approve, "sha256:") || !strings.Contains(w.Summary, "mbox approve "+string(ids[0])) {
		t.Fatalf("why: %+v, %v", w, err)
	}
	if _, err := b.Approve(ctx, ids[0], Consent{By: "human", From: "a test", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	c := claimAs(t, b, "two")
	if m := c.Task.Mbox; c.ID() != ids[0] || m.Depth != 2 || m.ParentID != two.ID() || m.RootID != "parent" || c.Task.Source.Agent != "two" {
		t.Fatalf("claimed %s: %+v", c.ID(), m)
	}
	if err := c.Complete(ctx, Result{}); err != nil {
		t.Fatal(err)
	}
	if c := claimAs(t, b, "two"); c.ID() != two.ID() {
		t.Fatalf("claimed %s, want the parent", c.ID())
	}
}

// Neither another's work nor something to think about comes in by that door.
func TestOwnChildrenRefused(t *testing.T) {
	for name, c := range map[string]Child{"for another": own("other"), "to think about": child("boss", "Think")} {
		t.Run(name, func(t *testing.T) {
			_, claim := family(t, Options{})
			_, err := claim.Delegate(context.Background(), Delegation{Own: true, Children: []Child{own("boss"), c}})
			var r *Refusal
			if !errors.As(err, &r) || r.Step != "parameters" {
				t.Fatalf("got %v", err)
			}
		})
	}
	_, claim := family(t, Options{})
	_, err := claim.Delegate(context.Background(), Delegation{Children: []Child{own("boss")}})
	var r *Refusal
	if !errors.As(err, &r) || r.Step != "cycle" {
		t.Fatalf("handed to itself: %v", err)
	}
}

// Nobody approves what has still to be thought up.
func TestApproveNeedsAnAction(t *testing.T) {
	b := newBox(t, Options{Approval: func(*Task) string { return "always" }})
	submit(t, b, &Task{ID: "think", Task: Request{Title: "Think"}})
	a, err := b.Approve(context.Background(), "think", Consent{By: "human", From: "a test", For: time.Hour})
	var r *Refusal
	if !errors.As(err, &r) || r.Step != "approval" || a != nil {
		t.Fatalf("got %+v, %v", a, err)
	}
	if ds, err := b.Decisions(context.Background()); err != nil || len(ds) != 0 {
		t.Fatalf("%d decisions, %v", len(ds), err)
	}
}

// The record and the line tell from where an approval came.
func TestApprovalTellsItsDoor(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	b := guarded(t, &now)
	submit(t, b, deploy("one"))
	if _, err := b.Approve(ctx, "one", Consent{By: "human", From: "terminal /dev/pts/\x1b[2J7", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	ds, err := b.Decisions(ctx)
	if err != nil || len(ds) != 1 || !strings.Contains(ds[0].Decision, `Approved by human (terminal /dev/pts/\x1b[2J7) until`) {
		t.Fatalf("%+v, %v", ds, err)
	}
	if e := lineOf(t, b, audit.DecisionEvent); e == nil || !strings.Contains(string(e.Details), `"from":"terminal /dev/pts/\\x1b[2J7"`) {
		t.Fatalf("no line: %v", e)
	}
}

// Whoever holds a claim works, and nobody else; a child too.
func TestWorking(t *testing.T) {
	ctx := context.Background()
	b := newBox(t, Options{})
	submit(t, b, &Task{ID: "one", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "coder"}})
	who := func() map[int]string {
		t.Helper()
		working, err := b.Working(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return working
	}
	if w := who(); len(w) != 0 {
		t.Fatalf("nobody works, and there are %v", w)
	}
	c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: true})
	if err != nil {
		t.Fatal(err)
	}
	if w := who(); len(w) != 1 || w[os.Getpid()] != "coder" {
		t.Fatalf("this process works, and there are %v", w)
	}
	if err := c.Started(os.Getppid()); err != nil {
		t.Fatal(err)
	}
	if w := who(); len(w) != 2 || w[os.Getppid()] != "coder" {
		t.Fatalf("its child works too, and there are %v", w)
	}
	if err := c.Complete(ctx, Result{}); err != nil {
		t.Fatal(err)
	}
	if w := who(); len(w) != 0 {
		t.Fatalf("nobody works any more, and there are %v", w)
	}
}
