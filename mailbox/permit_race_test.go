package mailbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"mbox/audit"
)

// An approval whose line this process reads while a claim is being refused for
// want of it is not overlooked.
func TestApprovedDuringClaim(t *testing.T) {
	ctx, now, left := context.Background(), time.Now(), 0
	var b *Box
	b = newBox(t, Options{
		Approval: func(*Task) string { return "it deploys" },
		Now: func() time.Time {
			if left == 0 || !lockOf(b.queue).TryLock() {
				return now
			}
			lockOf(b.queue).Unlock()
			if left--; left == 0 {
				_, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", For: 2 * time.Hour})
				if err := errors.Join(err, b.queue.Update()); err != nil {
					t.Error(err)
				}
			}
			return now
		},
	})
	submit(t, b, deploy("one"))
	tried := 0
	for call := 1; ; call++ { // of the clock: at one of them the look at what has ended is over
		if _, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", For: time.Minute}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour)
		left = call
		c, err := b.Claim(ctx, ClaimRequest{Agent: "d"})
		if left > 0 {
			break // no claim asks the clock so often
		}
		if err != nil {
			if c, err = b.Claim(ctx, ClaimRequest{Agent: "d"}); err != nil {
				t.Fatalf("approved at call %d of the clock: %v", call, err)
			}
		}
		tried++
		if err := c.Release(ctx, "again", 0); err != nil {
			t.Fatal(err)
		}
	}
	if tried == 0 {
		t.Error("no approval came while a claim was refused")
	}
}

// A task that its review refuses is never there, not for a moment: no line tells
// of its creation.
func TestReviewBeforeCreation(t *testing.T) {
	refused := errors.New("not for you")
	b := newBox(t, Options{Review: func(*Task) ([]audit.Entry, error) { return nil, refused }})
	before := b.ledger.End().Seq
	if _, err := b.Submit(t.Context(), &Task{ID: "bad", Task: Request{Title: "x"}}); !errors.Is(err, refused) {
		t.Fatalf("got %v", err)
	}
	if after := b.ledger.End().Seq; after != before {
		t.Errorf("%d lines about a task that was refused", after-before)
	}
	if _, _, err := b.Task(t.Context(), "bad"); !errors.Is(err, ErrNotFound) {
		t.Errorf("the refused task: %v", err)
	}
}
