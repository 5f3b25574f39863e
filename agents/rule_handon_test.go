package agents

import (
	"context"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"mbox/audit"
	"mbox/mailbox"
	"mbox/mailbox/durable"
)

// A child of which only the line is written when the disk fails is a child: the
// delegation goes on with it once the disk works again.
func TestHandOnOverACommittedChild(t *testing.T) {
	c := newCompany(t, nil)
	var armed atomic.Bool
	c.brains["coordinator"].says = []any{func(context.Context) (Reply, error) {
		armed.Store(true)
		return Reply{Text: plan, Model: "script"}, nil
	}}
	id := c.send("coordinator", "Hand on", nil)
	failed := 0
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpMove && strings.Contains(path, "task-") && armed.CompareAndSwap(true, false) {
			failed++
			return false, syscall.EIO
		}
		return true, nil
	})
	defer remove()
	c.works("coordinator")
	remove()
	if failed != 1 {
		t.Fatalf("the disk failed %d times", failed)
	}
	if n := c.lines(audit.TaskCreated, nil); n != 3 {
		t.Errorf("%d tasks were created, want the task and two children", n)
	}
	task, state := c.task(id)
	if state != mailbox.Pending || len(task.Mbox.WaitsFor) != 2 {
		t.Errorf("the parent is %s and waits for %v", state, task.Mbox.WaitsFor)
	}
	c.works("coder", "tester")
}
