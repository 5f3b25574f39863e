package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// urgently changes the priority alone.
func urgently(t *Task) error { t.Task.Priority = "urgent"; return nil }

func toAgent(name string) func(*Task) error {
	return func(t *Task) error { t.Assignment.TargetAgent = name; return nil }
}

func after(ids ...ID) func(*Task) error {
	return func(t *Task) error { t.Mbox.DependsOn = ids; return nil }
}

// edited changes a task, which has to name these fields.
func edited(t *testing.T, b *Box, id ID, change func(*Task) error, want ...string) {
	t.Helper()
	fields, err := Edit(t.Context(), b, id, "human", "a test", change)
	if err != nil || !slices.Equal(fields, want) {
		t.Fatalf("edit %s: %q, %v; want %q", id, fields, err, want)
	}
}

func refusesEdit(t *testing.T, b *Box, id ID, by string, change func(*Task) error, want string) error {
	t.Helper()
	had := movesOf(t, b, id)
	fields, err := Edit(t.Context(), b, id, by, "a test", change)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("edit %s: %q, %v; want %q", id, fields, err, want)
	}
	if n := movesOf(t, b, id); n != had {
		t.Fatalf("%d lines were written", n-had)
	}
	return err
}

// An edit changes each field that is the sender's to choose; its line names them and
// has no value; what else changes does counts for nothing.
func TestEdit(t *testing.T) {
	b := newBox(t, Options{})
	sent(t, b, "a")
	at := task.At(time.Now().Add(time.Hour))
	late := task.At(time.Now().Add(2 * time.Hour))
	all := func(n *Task) error {
		n.Task.Title, n.Task.Description, n.Task.Priority = "secret title", "secret words", "high"
		n.Assignment.TargetAgent, n.Mbox.NotBefore, n.Mbox.Deadline = "writer", &at, &late
		n.Mbox.DependsOn, n.Mbox.Labels = []ID{"before"}, jsontext.Value(`{"secret":"label"}`)
		n.Mbox.Action, n.Source.Agent, n.Mbox.MaxAttempts, n.ID, n.Mbox.Epoch = &Action{Name: "deploy"}, "mallory", 99, "other", 7
		return nil
	}
	edited(t, b, "a", all, "task.title", "task.description", "task.priority", "assignment.target_agent",
		"mbox.not_before", "mbox.deadline", "mbox.depends_on", "mbox.labels")
	state, got := stateOfTask(t, b, "a")
	if state != Pending || got.Task.Title != "secret title" || got.Task.Description != "secret words" || got.Task.Priority != "high" ||
		got.Assignment.TargetAgent != "writer" || !got.Mbox.NotBefore.Equal(at.Time) || !got.Mbox.Deadline.Equal(late.Time) ||
		!slices.Equal(got.Mbox.DependsOn, []ID{"before"}) || !strings.Contains(string(got.Mbox.Labels), "label") {
		t.Fatalf("%s %+v", state, got)
	}
	if got.Mbox.Action != nil || got.Source.Agent == "mallory" || got.Mbox.MaxAttempts == 99 || got.Mbox.Epoch != 0 {
		t.Errorf("what nobody may change is another: %+v", got)
	}
	e, m, err := b.ledger.LastMove("a")
	must(t, err)
	if e.Event != audit.TaskEdited || m.Leaves() != Pending || m.Enters() != Pending || len(m.Fields) != 8 || e.Agent != "human" {
		t.Errorf("its line: %s %+v", e.Event, m)
	}
	if strings.Contains(string(e.Details)+e.Action, "secret") {
		t.Errorf("its line has a value: %s %s", e.Action, e.Details)
	}
	had := movesOf(t, b, "a")
	edited(t, b, "a", all) // said again
	edited(t, b, "a", func(n *Task) error { n.Mbox.Labels = jsontext.Value(` {"secret" : "label" } `); return nil })
	if n := movesOf(t, b, "a"); n != had {
		t.Errorf("what was so already has %d lines", n-had)
	}
	edited(t, b, "a", func(n *Task) error {
		n.Mbox.NotBefore, n.Mbox.Deadline, n.Mbox.DependsOn, n.Mbox.Labels = nil, nil, nil, nil
		n.Task.Priority, n.Assignment.TargetAgent = "", ""
		return nil
	}, "task.priority", "assignment.target_agent", "mbox.not_before", "mbox.deadline", "mbox.depends_on", "mbox.labels")
	if c := claimAs(t, b, "anybody"); c.ID() != "a" || c.Task.Task.Priority != "normal" {
		t.Errorf("claimed %s, %s", c.ID(), c.Task.Task.Priority)
	}
}

// The checks of a new task hold for an edited one.
func TestEditRefused(t *testing.T) {
	c := newClock()
	b := newBox(t, c.options())
	submit(t, b, &Task{ID: "a", Source: Source{Agent: "asker"}, Task: Request{Title: "x"}})
	early, late := task.At(c.now().Add(time.Minute)), task.At(c.now().Add(time.Hour))
	for want, change := range map[string]func(*Task) error{
		"there is no title":           func(n *Task) error { n.Task.Title = " "; return nil },
		"\"soon\" is not allowed":     func(n *Task) error { n.Task.Priority = "soon"; return nil },
		"is no agent name":            toAgent("Not An Agent"),
		"cannot depend on itself":     after("A"),
		"stands there twice":          after("x", "X"),
		"it is no object":             func(n *Task) error { n.Mbox.Labels = jsontext.Value(`[1]`); return nil },
		"lies before mbox.not_before": func(n *Task) error { n.Mbox.NotBefore, n.Mbox.Deadline = &late, &early; return nil },
		"bytes":                       func(n *Task) error { n.Task.Description = strings.Repeat("x", MaxDescription+1); return nil },
		"the task file would have": func(n *Task) error {
			n.Mbox.Labels = jsontext.Value(`{"x":"` + strings.Repeat("x", MaxNew) + `"}`)
			return nil
		},
		"not what the caller wanted": func(*Task) error { return errors.New("not what the caller wanted") },
	} {
		refusesEdit(t, b, "a", "human", change, want)
	}
	var refusal *Refusal
	if err := refusesEdit(t, b, "a", "other", urgently, "other did not send it"); !errors.As(err, &refusal) {
		t.Errorf("%T", err)
	}
	if fields, err := Edit(t.Context(), b, "a", "asker", "mine", urgently); err != nil || len(fields) != 1 {
		t.Errorf("its sender: %q %v", fields, err)
	}
	if err := refusesEdit(t, b, "nothing", "human", urgently, "not found"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	cl := claimAs(t, b, "coder")
	if err := refusesEdit(t, b, "a", "human", toAgent("writer"), "it is in-progress"); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
	edited(t, b, "a", urgently) // it is so already
	must(t, cl.Release(t.Context(), "later", 0))
	refusesEdit(t, b, "a", "human", func(n *Task) error { n.Mbox.Deadline = &late; return nil }, "it was taken once")
	cl = claimAs(t, b, "coder")
	must(t, cl.Complete(t.Context(), Result{}))
	if err := refusesEdit(t, b, "a", "human", toAgent("writer"), "it is completed"); !errors.Is(err, ErrConflict) {
		t.Error(err)
	}
}

// A drop that is no task yet is none to be edited.
func TestEditDrop(t *testing.T) {
	b := newBox(t, Options{})
	b.drop(t, "d.json", titled(""))
	if err := refusesEdit(t, b, "d", "human", urgently, "not found"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	must(t, os.Remove(b.pending("d.json")))
}

// The queue follows an edit at once, in the process that made it and in others: who
// may take the task, and which comes first.
func TestEditOrdersTheQueue(t *testing.T) {
	b := newBox(t, Options{})
	other, err := Open(t.Context(), b.Home(), b.o)
	must(t, err)
	defer other.Close()
	for _, id := range []ID{"a", "b", "c"} {
		submit(t, b, &Task{ID: id, Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "coder"}})
	}
	if _, err := other.Index(); err != nil {
		t.Fatal(err)
	}
	edited(t, b, "c", urgently, "task.priority")
	edited(t, b, "b", toAgent("writer"), "assignment.target_agent")
	if c := claimAs(t, other, "coder"); c.ID() != "c" {
		t.Errorf("the urgent one comes first: %s", c.ID())
	}
	if c := claimAs(t, other, "writer"); c.ID() != "b" {
		t.Errorf("writer has %s", c.ID())
	}
	if c := claimAs(t, b, "coder"); c.ID() != "a" {
		t.Errorf("coder has %s", c.ID())
	}
	nothingFor(t, b, "coder")
}

// Times and dependencies bind from the edit on, and no longer when they are taken away.
func TestEditReadiness(t *testing.T) {
	c := newClock()
	b := newBox(t, c.options())
	sent(t, b, "a")
	sent(t, b, "b")
	edited(t, b, "a", after("b"), "mbox.depends_on")
	claim := claimAs(t, b, "coder")
	if claim.ID() != "b" {
		t.Fatalf("claimed %s", claim.ID())
	}
	nothingFor(t, b, "coder")
	must(t, claim.Complete(t.Context(), Result{}))
	at := task.At(c.now().Add(time.Hour))
	edited(t, b, "a", func(n *Task) error { n.Mbox.NotBefore = &at; return nil }, "mbox.not_before")
	nothingFor(t, b, "coder")
	c.turn(2 * time.Hour)
	if claim = claimAs(t, b, "coder"); claim.ID() != "a" {
		t.Fatalf("claimed %s", claim.ID())
	}
	must(t, claim.Release(t.Context(), "x", time.Hour))
	nothingFor(t, b, "coder")
	edited(t, b, "a", func(n *Task) error { n.Mbox.NotBefore = nil; return nil }, "mbox.not_before")
	if claim = claimAs(t, b, "coder"); claim.ID() != "a" {
		t.Fatalf("claimed %s", claim.ID())
	}
	sent(t, b, "late")
	end := task.At(c.now().Add(time.Minute))
	edited(t, b, "late", func(n *Task) error { n.Mbox.Deadline = &end; return nil }, "mbox.deadline")
	c.turn(2 * time.Minute)
	nothingFor(t, b, "coder")
	if state, _ := stateOfTask(t, b, "late"); state != Failed {
		t.Errorf("its deadline has passed: %s", state)
	}
}

// What was taken from the queue before an edit is judged again under its lock.
func TestEditAgainstClaim(t *testing.T) {
	b := newBox(t, Options{})
	other, err := Open(t.Context(), b.Home(), b.o)
	must(t, err)
	defer other.Close()
	submit(t, b, &Task{ID: "a", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "coder"}})
	must(t, b.queue.Update())
	taken, _ := b.queue.Take(b.fits(ClaimRequest{Agent: "coder"}), 1, 0)
	if len(taken) != 1 {
		t.Fatalf("%d taken", len(taken))
	}
	edited(t, other, "a", toAgent("writer"), "assignment.target_agent")
	if c, err := b.claim(t.Context(), ClaimRequest{Agent: "coder"}, "a"); !errors.Is(err, errNotReady) {
		t.Errorf("coder took what is writer's: %v %v", c, err)
	}
	b.queue.PutBack(taken)
	nothingFor(t, b, "coder")
	if c := claimAs(t, b, "writer"); c.ID() != "a" {
		t.Errorf("claimed %s", c.ID())
	}
}

// Edits of one task by many do not lose one another, and a claim gets the task as one
// of them left it.
func TestEditTogether(t *testing.T) {
	b := newBox(t, Options{})
	for n := range 10 { // in one round they may all come one after the other
		editTogether(t, b, ID(fmt.Sprintf("a%d", n)))
	}
}

func editTogether(t *testing.T, b *Box, id ID) {
	t.Helper()
	sent(t, b, id)
	var all sync.WaitGroup
	for _, change := range []func(*Task) error{
		urgently, toAgent("writer"), after("x"), func(n *Task) error { n.Task.Title = "new"; return nil },
		func(n *Task) error { n.Task.Description = "more"; return nil },
	} {
		all.Go(func() {
			if fields, err := Edit(context.Background(), b, id, "human", "", change); err != nil || len(fields) != 1 {
				t.Errorf("%q %v", fields, err)
			}
		})
	}
	all.Wait()
	_, got := stateOfTask(t, b, id)
	if got.Task.Priority != "urgent" || got.Assignment.TargetAgent != "writer" || len(got.Mbox.DependsOn) != 1 || got.Task.Title != "new" || got.Task.Description != "more" {
		t.Errorf("%+v", got)
	}
}

// An approval of what was there before an edit counts no longer; an edit that changes
// nothing leaves it.
func TestEditVoidsApproval(t *testing.T) {
	now := time.Now()
	b := guarded(t, &now)
	submit(t, b, deploy("one"))
	consent := Consent{By: "human", From: "a test", For: time.Hour}
	_, err := b.Approve(t.Context(), "one", consent)
	must(t, err)
	edited(t, b, "one", func(n *Task) error { n.Task.Description = "and more"; return nil }, "task.description")
	nothingFor(t, b, "d")
	_, err = b.Approve(t.Context(), "one", consent)
	must(t, err)
	edited(t, b, "one", func(*Task) error { return nil })
	if c := claimAs(t, b, "d"); c.ID() != "one" {
		t.Errorf("claimed %s", c.ID())
	}
}

// Options.Review is asked about what the task would be, and its lines are written:
// those of a refusal always, those of a consent where somebody else is asked now.
func TestEditIsReviewed(t *testing.T) {
	b := newBox(t, Options{Review: func(n *Task) ([]audit.Entry, error) {
		e := audit.Entry{Agent: audit.MboxAgent, Event: audit.PolicyDenied, Action: "looked at " + n.Assignment.TargetAgent}
		if n.Assignment.TargetAgent == "enemy" {
			return []audit.Entry{e}, &Refusal{Step: "policy", Reason: "not to an enemy"}
		}
		return []audit.Entry{e}, nil
	}})
	sent(t, b, "a")
	looks := func() (n int) {
		for _, e := range lines(t, b, "a") {
			if e.Event == audit.PolicyDenied {
				n++
			}
		}
		return n
	}
	had := looks()
	refusesEdit(t, b, "a", "human", toAgent("enemy"), "not to an enemy")
	if n := looks() - had; n != 1 {
		t.Errorf("%d lines of the refusal", n)
	}
	edited(t, b, "a", urgently, "task.priority")
	edited(t, b, "a", toAgent("friend"), "assignment.target_agent")
	if n := looks() - had; n != 2 {
		t.Errorf("%d lines of reviews", n)
	}
}

// No edit makes tasks wait for one another, neither at once nor over a parent that is
// just handing work on; two that close a circle together are not both made.
func TestEditCircles(t *testing.T) {
	b := newBox(t, Options{})
	for _, id := range []ID{"a", "b", "c"} {
		sent(t, b, id)
	}
	edited(t, b, "a", after("b"), "mbox.depends_on")
	edited(t, b, "b", after("c"), "mbox.depends_on")
	var refusal *Refusal
	if err := refusesEdit(t, b, "c", "human", after("A"), "would wait for one another: c → a → b → c"); !errors.As(err, &refusal) {
		t.Errorf("%T", err)
	}
	edited(t, b, "b", after(), "mbox.depends_on")
	edited(t, b, "c", after("a"), "mbox.depends_on")
	for range 20 {
		edited(t, b, "a", after("b"))
		x, y := sent2(t, b)
		var all sync.WaitGroup
		var refused [2]error
		for i, ids := range [][2]ID{{x, y}, {y, x}} {
			all.Go(func() { _, refused[i] = Edit(context.Background(), b, ids[0], "human", "", after(ids[1])) })
		}
		all.Wait()
		if (refused[0] == nil) == (refused[1] == nil) {
			t.Fatalf("two that depend on each other: %v", refused)
		}
	}
}

// No new task closes a circle with one that has waited for its id: neither one that is
// sent, nor a drop, nor two that are sent side by side.
func TestSendCircles(t *testing.T) {
	b := newBox(t, Options{})
	on := func(id, on ID) *Task {
		n := request("waits")
		n.ID, n.Mbox.DependsOn = id, []ID{on}
		return n
	}
	submit(t, b, on("x", "y"))
	submit(t, b, on("w", "x"))
	_, err := b.Submit(t.Context(), on("Y", "w"))
	var refusal *Refusal
	if !errors.As(err, &refusal) || refusal.Step != "cycle" || !strings.HasSuffix(refusal.Reason, "Y → w → x → Y") {
		t.Errorf("sent: %v", err)
	}
	must(t, put(b.pending("y.json"), `{"task":{"title":"drop"},"mbox":{"depends_on":["x"]}}`))
	old(b.pending("y.json"))
	mustScan(t, b)
	if f, _, err := b.Task(t.Context(), "y"); err != nil || f.Result.Error == nil || f.Result.Error.Path != "mbox.depends_on" {
		t.Errorf("dropped: %+v %v", f, err)
	}
	submit(t, b, on("guesses", "task-"+ID(b.now().UTC().Format(time.DateOnly))+"-001"))
	n := request("draws the id that somebody waits for")
	n.Mbox.DependsOn = []ID{"guesses"}
	if id, err := b.Submit(t.Context(), n); err != nil || strings.HasSuffix(string(id), "-001") {
		t.Errorf("%s: %v", id, err)
	}
	for i := range 20 {
		ids := [2]ID{ID(fmt.Sprintf("p%d", i)), ID(fmt.Sprintf("q%d", i))}
		var all sync.WaitGroup
		var refused [2]error
		for i := range ids {
			all.Go(func() { _, refused[i] = b.Submit(context.Background(), on(ids[i], ids[1-i])) })
		}
		all.Wait()
		if (refused[0] == nil) == (refused[1] == nil) {
			t.Fatalf("two that depend on each other: %v", refused)
		}
	}
}

// Whoever changes who waits for whom does it under the lock of delegations.
func TestEditHoldsDelegations(t *testing.T) {
	b := newBox(t, Options{LockWait: time.Millisecond})
	other, err := Open(t.Context(), b.Home(), b.o)
	must(t, err)
	defer other.Close()
	sent(t, b, "a")
	s, err := other.lockShardNumber(t.Context(), home.Delegations)
	must(t, err)
	if _, err := Edit(t.Context(), b, "a", "human", "", after("b")); !errors.Is(err, ErrBusy) {
		t.Errorf("while a delegation is checked: %v", err)
	}
	s.unlock()
	edited(t, b, "a", after("b"), "mbox.depends_on")
}

// sent2 sends two tasks with names of their own.
func sent2(t *testing.T, b *Box) (x, y ID) {
	t.Helper()
	return submit(t, b, &Task{Task: Request{Title: "x"}}), submit(t, b, &Task{Task: Request{Title: "y"}})
}

func TestEditChildCircles(t *testing.T) {
	b, c := family(t, Options{})
	ids, err := c.createAll(t.Context(), Delegation{Join: JoinAll, Children: []Child{child("coder", "one"), child("tester", "two")}}, []int{0, 1})
	must(t, err)
	// The parent is still handing on: it waits for nobody yet.
	refusesEdit(t, b, ids[0], "human", after("parent"), "would wait for one another")
	sent(t, b, "x")
	edited(t, b, "x", after("parent"), "mbox.depends_on")
	must(t, c.await(t.Context(), Delegation{Join: JoinAll}, ids))
	refusesEdit(t, b, ids[0], "human", after("x"), "would wait for one another")
	refusesEdit(t, b, ids[0], "human", toAgent("boss"), "the agents would wait for one another")
	edited(t, b, ids[0], toAgent("writer"), "assignment.target_agent")
	// Whoever has it now may not hand it back to whom it came from.
	w := claimAs(t, b, "writer")
	var refusal *Refusal
	if _, err := w.Delegate(t.Context(), Delegation{Children: []Child{child("boss", "back")}}); !errors.As(err, &refusal) {
		t.Errorf("it went back: %v", err)
	}
	// Its children know, too, that boss waits for writer.
	kids := delegate(t, w, JoinAll, child("helper", "help"))
	refusesEdit(t, b, kids[0], "human", toAgent("boss"), "the agents would wait for one another: writer → boss → ")
}

// The id, the key and the parent's words stay those that the task was sent with.
func TestEditKeepsIdentity(t *testing.T) {
	b := newBox(t, Options{})
	first := &Task{ID: "a", Task: Request{Title: "x"}, Mbox: Meta{IdempotencyKey: "k"}}
	submit(t, b, first)
	edited(t, b, "a", func(n *Task) error { n.Task.Title = "y"; return nil }, "task.title")
	if id := submit(t, b, &Task{Task: Request{Title: "z"}, Mbox: Meta{IdempotencyKey: "k"}}); id != "a" {
		t.Errorf("its key is %s's", id)
	}
	sent(t, b, "c")
	same := request("t c")
	same.ID = "c"
	edited(t, b, "c", urgently, "task.priority")
	again := *same
	if id, err := b.Submit(t.Context(), &again); err != nil && !errors.Is(err, ErrConflict) {
		t.Errorf("sent again: %s %v", id, err)
	}
	if n := movesOf(t, b, "c"); n != 2 {
		t.Errorf("%d lines of c", n)
	}
}

// Attempts go on over an edit, and a retry that is said again knows itself behind one.
func TestEditAfterRetry(t *testing.T) {
	b := newBox(t, Options{MaxAttempts: 2})
	sent(t, b, "a")
	c := claimAs(t, b, "coder")
	must(t, c.Fail(t.Context(), Failure{Final: true}))
	must(t, b.Retry(t.Context(), "a", "human", "again"))
	edited(t, b, "a", urgently, "task.priority")
	must(t, b.Retry(t.Context(), "a", "human", "again"))
	if n := movesOf(t, b, "a"); n != 5 {
		t.Errorf("%d lines", n)
	}
	c = claimAs(t, b, "coder")
	if m := c.Task.Mbox; m.Attempt != 1 || m.Epoch != 2 || len(c.Task.Audit.StateChanges) != 4 {
		t.Errorf("%+v %+v", m, c.Task.Audit)
	}
	fresh := request("new")
	fresh.ID = "b"
	submit(t, b, fresh)
	edited(t, b, "b", urgently, "task.priority")
	if err := b.Retry(t.Context(), "b", "human", "again"); !errors.Is(err, ErrConflict) {
		t.Errorf("a task that never failed: %v", err)
	}
}

// Whoever edits the file by hand at the same moment loses nothing: what he wrote
// before is an alarm's, what he writes behind the line goes to quarantine.
func TestEditAgainstHand(t *testing.T) {
	b := newBox(t, newClock().options())
	sent(t, b, "a")
	edit(t, b, "a", Pending, func(m map[string]any) { in(m, "task")["title"] = "by hand" })
	if _, err := Edit(t.Context(), b, "a", "human", "", urgently); !errors.Is(err, ErrIntegrity) {
		t.Errorf("what was edited by hand: %v", err)
	}
	adopt(t, b, "a")
	edited(t, b, "a", urgently, "task.priority")

	done := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpExchange && !done && strings.Contains(path, "a.json") {
			done = true
			edit(t, b, "a", Pending, func(m map[string]any) { in(m, "task")["title"] = "by hand again" })
		}
		return true, nil
	})
	fields, err := Edit(t.Context(), b, "a", "human", "", toAgent("writer"))
	remove()
	if !done || err != nil || len(fields) != 1 {
		t.Fatalf("%v %q %v", done, fields, err)
	}
	if kept := quarantine(t, b); len(kept) != 1 {
		t.Errorf("%d entries in quarantine", len(kept))
	}
	if _, got := stateOfTask(t, b, "a"); got.Assignment.TargetAgent != "writer" || got.Task.Title != "by hand" {
		t.Errorf("%+v", got.Task)
	}
}

// Who moves the file by hand between an edit's line and its rename has the old one;
// the task goes on as the line has it, and the other file is kept.
func TestEditAgainstMove(t *testing.T) {
	b := newBox(t, newClock().options())
	sent(t, b, "a")
	moved := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpExchange && !moved && strings.Contains(path, "a.json") {
			moved = os.Rename(b.pending("a.json"), b.path("tasks", "in-progress", "a.json")) == nil
		}
		return true, nil
	})
	fields, err := Edit(t.Context(), b, "a", "human", "", urgently)
	remove()
	if !moved || err != nil || len(fields) != 1 {
		t.Fatalf("%v %q %v", moved, fields, err)
	}
	mustScan(t, b)
	c := claimAs(t, b, "coder")
	if c.ID() != "a" || c.Task.Task.Priority != "urgent" {
		t.Errorf("claimed %s, %s", c.ID(), c.Task.Task.Priority)
	}
	if kept := quarantine(t, b); len(kept) != 1 {
		t.Errorf("%d entries in quarantine", len(kept))
	}
}

// A task that nearly fills its file may still be edited.
func TestEditLarge(t *testing.T) {
	b := newBox(t, Options{})
	n, err := task.ParseDrop("", []byte(padded(900_000)))
	must(t, err)
	n.ID = "a"
	data, err := schemas.Encode(n)
	must(t, err)
	n.Task.Description = strings.Repeat("x", MaxNew-len(data)-900)
	submit(t, b, n)
	for range 30 {
		c := claimAs(t, b, "coder")
		must(t, c.Release(t.Context(), strings.Repeat("y", 250), 0))
	}
	edited(t, b, "a", urgently, "task.priority")
}
