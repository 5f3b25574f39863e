package mailbox

import (
	"context"
	"errors"
	"sync"
	"testing"

	"mbox/schemas"
)

// A tick has one task, however many fire it at once; another tick has another one.
func TestATickHasOneTask(t *testing.T) {
	first := newBox(t, Options{})
	ctx := context.Background()
	const routers = 6
	ids, made := make([]ID, routers), make([]bool, routers)
	var firing sync.WaitGroup
	for i := range routers {
		b, err := Open(ctx, first.Home(), first.Options())
		must(t, err)
		defer b.Close()
		firing.Go(func() {
			var err error
			if ids[i], made[i], err = Fire(ctx, b, &Task{Task: Request{Title: "Nightly"}}, "nightly", "2026-11-24T02:30"); err != nil {
				t.Error(err)
			}
		})
	}
	firing.Wait()
	makers := 0
	for i := range ids {
		if ids[i] != ids[0] || ids[0] == "" {
			t.Errorf("the tick has the tasks %v", ids)
		}
		if made[i] {
			makers++
		}
	}
	if makers != 1 {
		t.Errorf("%d have made its task", makers)
	}
	b := first
	if id, err := Fired(b, "nightly", "2026-11-24T02:30"); err != nil || id != ids[0] {
		t.Errorf("the tick has %q, %v", id, err)
	}
	for _, other := range [][2]string{{"nightly", "2026-11-25T02:30"}, {"weekly", "2026-11-24T02:30"}} {
		if id, err := Fired(b, other[0], other[1]); err != nil || id != "" {
			t.Errorf("%v has %q before it is fired, %v", other, id, err)
		}
		if id, made, err := Fire(ctx, b, &Task{Task: Request{Title: "Nightly"}}, other[0], other[1]); err != nil || !made || id == ids[0] {
			t.Errorf("%v has %q (made %v), %v", other, id, made, err)
		}
	}
	got, _, err := b.Task(ctx, ids[0])
	if err != nil || got.Mbox.Trigger != "schedule:nightly:2026-11-24T02:30" {
		t.Errorf("its trigger is %q, %v", got.Mbox.Trigger, err)
	}
}

// Whoever guesses a tick's key and sends a task with it keeps the schedule from nothing,
// and nobody can say that a schedule sent his task.
func TestNobodyTakesATick(t *testing.T) {
	b := newBox(t, Options{})
	ctx := context.Background()
	const key = "schedule:nightly:2026-11-24T02:30"
	mine := &Task{Task: Request{Title: "Mine"}}
	mine.Mbox.IdempotencyKey = key
	own, err := b.Submit(ctx, mine)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := Fired(b, "nightly", "2026-11-24T02:30"); err != nil || id != "" {
		t.Errorf("a stranger's task is the tick's: %q, %v", id, err)
	}
	id, made, err := Fire(ctx, b, &Task{Task: Request{Title: "Nightly"}}, "nightly", "2026-11-24T02:30")
	if err != nil || !made || id == own {
		t.Errorf("the tick has %q (made %v), the stranger's is %q; %v", id, made, own, err)
	}
	var bad *schemas.Error
	forged := &Task{Task: Request{Title: "Mine"}}
	forged.Mbox.Trigger = key
	if _, err := b.Submit(ctx, forged); !errors.As(err, &bad) || bad.Path != "mbox.trigger" {
		t.Errorf("a trigger of one's own: %v", err)
	}
	if _, _, err := Fire(ctx, b, mine, "nightly", "x"); !errors.As(err, &bad) || bad.Path != "mbox.idempotency_key" {
		t.Errorf("a key of one's own: %v", err)
	}
}
