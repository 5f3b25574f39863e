package mailbox

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"mbox/mailbox/task"
	"mbox/schemas"
)

// A task that nobody has taken by its deadline fails, whether it is ready, waits
// for its time or for another task, and also when it comes from a snapshot. One
// that was taken in time does not.
func TestDeadlinePasses(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	clock := func() time.Time { return now }
	b := newBox(t, Options{Now: clock})
	soon, later := task.At(now.Add(time.Minute)), task.At(now.Add(time.Hour))
	for id, m := range map[ID]Meta{
		"ready": {Deadline: &soon}, "early": {Deadline: &soon, NotBefore: &later}, "blocked": {Deadline: &soon, DependsOn: []ID{"never"}},
		"taken": {Deadline: &soon}, "patient": {Deadline: &later}, "without": {},
	} {
		submit(t, b, &Task{ID: id, Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: string(id)}, Mbox: m})
	}
	if err := claimAs(t, b, "taken").Release(ctx, "not now", 0); err != nil {
		t.Fatal(err)
	}
	saved(t, b)
	now = now.Add(2 * time.Minute)
	again, err := Open(ctx, b.Home(), b.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := again.Scan(ctx); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[ID]State{
		"ready": Failed, "early": Failed, "blocked": Failed, "taken": Pending, "patient": Pending, "without": Pending,
	} {
		state, task := stateOfTask(t, b, id)
		if state != want || want == Failed && task.Result.Error.Code != "deadline_passed" {
			t.Errorf("%s is %s, %+v; want %s", id, state, task.Result.Error, want)
		}
	}
	for _, agent := range []string{"taken", "patient", "without"} {
		if c := claimAs(t, b, agent); string(c.ID()) != agent {
			t.Errorf("%s claimed %s", agent, c.ID())
		}
	}
}

// A new task whose deadline has passed is refused; one that was sent before is found again.
func TestDeadlineThatHasPassed(t *testing.T) {
	ctx, clk := t.Context(), newClock()
	b := newBox(t, clk.options())
	soon := task.At(clk.now().Add(time.Minute))
	byID := &Task{ID: "named", Task: Request{Title: "x"}, Mbox: Meta{Deadline: &soon}}
	byKey := &Task{Task: Request{Title: "x"}, Mbox: Meta{Deadline: &soon, IdempotencyKey: "k"}}
	var first []ID
	for _, sent := range []*Task{byID, byKey} {
		first = append(first, submit(t, b, sent))
	}
	clk.turn(time.Minute)
	for i, sent := range []*Task{byID, byKey} {
		if again := submit(t, b, sent); again != first[i] {
			t.Errorf("sent again it is %s, and was %s", again, first[i])
		}
	}
	var wrong *schemas.Error
	if _, err := b.Submit(ctx, &Task{Task: Request{Title: "x"}, Mbox: Meta{Deadline: &soon}}); !errors.As(err, &wrong) || wrong.Path != "mbox.deadline" {
		t.Errorf("a new one: %v", err)
	}
}

// A retry takes a deadline away that has passed, and says so in its line; one that is
// still to come stays.
func TestRetryTakesAPassedDeadlineAway(t *testing.T) {
	ctx, clk := t.Context(), newClock()
	b := newBox(t, clk.options())
	soon, later := task.At(clk.now().Add(time.Minute)), task.At(clk.now().Add(time.Hour))
	submit(t, b, &Task{ID: "late", Task: Request{Title: "x"}, Mbox: Meta{Deadline: &soon}})
	submit(t, b, &Task{ID: "early", Task: Request{Title: "x"}, Mbox: Meta{Deadline: &later}})
	must(t, b.Cancel(ctx, "early", "human", "why"))
	clk.turn(2 * time.Minute)
	mustScan(t, b)
	for _, id := range []ID{"late", "early"} {
		must(t, b.Retry(ctx, id, "human", "again"))
		must(t, b.Retry(ctx, id, "human", "again")) // said again
	}
	mustScan(t, b)
	for id, kept := range map[ID]bool{"late": false, "early": true} {
		state, now := stateOfTask(t, b, id)
		if state != Pending || (now.Mbox.Deadline != nil) != kept {
			t.Errorf("%s is %s, deadline %v", id, state, now.Mbox.Deadline)
		}
		all := lines(t, b, id)
		if last := all[len(all)-1]; strings.Contains(last.Action, "without its deadline") == kept {
			t.Errorf("%s: %s", id, last.Action)
		}
	}
}

// A task whose deadline passes while its shard is held is looked at again.
func TestDeadlineBusy(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	b := newBox(t, Options{Now: func() time.Time { return now }, LockWait: time.Millisecond})
	soon := task.At(now.Add(time.Minute))
	submit(t, b, &Task{ID: "late", Task: Request{Title: "x"}, Mbox: Meta{Deadline: &soon}})
	other, err := Open(ctx, b.Home(), b.Options())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	s, err := other.lockShard(ctx, "late")
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	if err := b.dependencies.resolve(ctx); err != nil {
		t.Fatal(err)
	}
	s.unlock()
	now = now.Add(time.Second)
	if err := b.dependencies.resolve(ctx); err != nil {
		t.Fatal(err)
	}
	if state, _ := stateOfTask(t, b, "late"); state != Failed {
		t.Fatalf("it is %s", state)
	}
}
