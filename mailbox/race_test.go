package mailbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// TestRule09_ManyAtOnce lets several boxes on one home, as several processes have,
// submit and work at once: every task is completed, once.
func TestRule09_ManyAtOnce(t *testing.T) {
	const boxes, workers, tasks = 4, 4, 60
	first := newBox(t, Options{})
	ctx := t.Context()
	var wg sync.WaitGroup
	var mu sync.Mutex
	sent, done := map[ID]bool{}, map[ID]int{}
	for i := range boxes {
		b, err := Open(ctx, first.Home(), first.Options())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		wg.Go(func() {
			for n := range tasks {
				id, err := b.Submit(ctx, request(fmt.Sprintf("task %d of box %d", n, i)))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				sent[id] = true
				mu.Unlock()
			}
		})
		for range workers {
			wg.Go(func() {
				for {
					mu.Lock()
					enough := len(done) == boxes*tasks
					mu.Unlock()
					if enough {
						return
					}
					c, err := b.Claim(ctx, ClaimRequest{Agent: "coder", Process: true})
					if errors.Is(err, ErrEmpty) {
						continue
					}
					if err == nil {
						err = c.Complete(ctx, Result{Output: jsontext.Value(`1`)})
						c.Close()
					}
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					done[c.ID()]++
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	if len(sent) != boxes*tasks {
		t.Errorf("%d ids for %d tasks", len(sent), boxes*tasks)
	}
	for id := range sent {
		if done[id] != 1 {
			t.Errorf("%s was completed %d times", id, done[id])
		}
	}
}

// TestWaitWakes shows that a waiting claim gets a task that comes later.
func TestWaitWakes(t *testing.T) {
	b := newBox(t, Options{})
	ctx := t.Context()
	got := make(chan ID)
	ready := make(chan struct{})
	go func() {
		close(ready)
		c, err := b.Wait(ctx, ClaimRequest{Agent: "coder"})
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		got <- c.ID()
		_ = c.Release(context.Background(), "test over", 0)
		close(got)
	}()
	<-ready
	id, err := b.Submit(ctx, request("later"))
	if err != nil {
		t.Fatal(err)
	}
	if id != <-got {
		t.Error("another task came")
	}
	<-got
}
