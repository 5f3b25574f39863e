package mailbox

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mbox/schemas"
)

// TestNoID: what is no task's id is bad data for every verb, and names no file.
func TestNoID(t *testing.T) {
	b := newBox(t, Options{})
	for _, id := range []ID{"", "../x", "a/b", "x\x00", ID(strings.Repeat("x", 300)), "é", ".x"} {
		for name, verb := range map[string]func(context.Context) error{
			"cancel":  func(ctx context.Context) error { return b.Cancel(ctx, id, "human", "no") },
			"retry":   func(ctx context.Context) error { return b.Retry(ctx, id, "human", "again") },
			"approve": func(ctx context.Context) error { _, err := b.Approve(ctx, id, Consent{By: "human"}); return err },
			"task":    func(ctx context.Context) error { _, _, err := b.Task(ctx, id); return err },
			"why":     func(ctx context.Context) error { _, err := b.Why(ctx, id); return err },
			"held":    func(ctx context.Context) error { _, err := b.Held(ctx, id, "token"); return err },
		} {
			var bad *schemas.Error
			if err := verb(t.Context()); !errors.As(err, &bad) || bad.Path != "id" {
				t.Errorf("%s %q: %v", name, id, err)
			}
		}
	}
}
