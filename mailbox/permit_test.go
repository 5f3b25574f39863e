package mailbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mbox/audit"
	records "mbox/audit/record"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// guarded is a mailbox in which the action deploy needs an approval.
func guarded(t *testing.T, now *time.Time) *Box {
	return newBox(t, Options{
		Approval: func(t *Task) string {
			if t.Mbox.Action != nil && t.Mbox.Action.Name == "deploy" {
				return "it deploys"
			}
			return ""
		},
		Now: func() time.Time { return *now },
	})
}

func deploy(id ID) *Task {
	return &Task{ID: id, Task: Request{Title: "Deploy"}, Assignment: Assignment{TargetAgent: "d"}, Mbox: Meta{Action: &Action{Name: "deploy"}}}
}

func TestApprove(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	b := guarded(t, &now)
	submit(t, b, deploy("one"))
	nothingFor(t, b, "d")
	nothingFor(t, b, "d") // held, and asked once only
	w, err := b.Why(ctx, "one")
	if err != nil || len(w.Waits) != 1 || !strings.Contains(w.Waits[0], "mbox approve one") {
		t.Fatalf("why: %+v, %v", w, err)
	}
	decision, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", Why: "looked at it", For: time.Hour})
	if err != nil || !strings.HasPrefix(decision.Decision, "decision-") {
		t.Fatalf("%+v, %v", decision, err)
	}
	c := claimAs(t, b, "d")
	if a, err := c.Approved(); a == nil || err != nil {
		t.Fatalf("approved: %v, %v", a, err)
	}
	// It comes back with other bytes: the approval was for the old ones.
	if err := c.Release(ctx, "not now", 0); err != nil {
		t.Fatal(err)
	}
	nothingFor(t, b, "d")
	// Nor does the old one count, which runs still, once that of these bytes has ended.
	if _, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", For: time.Minute}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Minute)
	nothingFor(t, b, "d")
}

func TestApprovalEnds(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	b := guarded(t, &now)
	submit(t, b, deploy("one"))
	if _, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	nothingFor(t, b, "d")
	if _, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if c := claimAs(t, b, "d"); c.ID() != "one" {
		t.Fatalf("claimed %s", c.ID())
	}
}

// An approval of one task is none of another, and a task can only be approved
// while it waits.
func TestApproveOther(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	b := guarded(t, &now)
	submit(t, b, deploy("one"))
	submit(t, b, deploy("two"))
	if _, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", For: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if c := claimAs(t, b, "d"); c.ID() != "one" {
		t.Fatalf("claimed %s", c.ID())
	}
	nothingFor(t, b, "d")
	if _, err := b.Approve(ctx, "one", Consent{By: "human", From: "a test", For: time.Hour}); !errors.Is(err, ErrConflict) {
		t.Fatalf("approving a claimed task: %v", err)
	}
	if _, err := b.Approve(ctx, "nobody", Consent{By: "human", From: "a test", For: time.Hour}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("approving nothing: %v", err)
	}
}

// Who says what he has seen approves that and nothing else: the task's bytes, and
// what lies in the folders that its action binds.
func TestApproveWhatWasSeen(t *testing.T) {
	ctx := context.Background()
	folders, unbound := []Folder{{Path: "data"}, {Path: "site", SHA256: audit.Hash([]byte("a"))}}, error(nil)
	b := newBox(t, Options{
		Approval: func(*Task) string { return "it deploys" },
		Folders:  func(context.Context, *Task) ([]Folder, error) { return folders, unbound },
	})
	submit(t, b, deploy("one"))
	whyOf := func() *Why {
		t.Helper()
		w, err := b.Why(ctx, "one")
		must(t, err)
		return w
	}
	seen := whyOf()
	if !slices.Equal(seen.Folders, folders) || seen.Approve == "" {
		t.Fatalf("why: %+v", seen)
	}
	consent := Consent{By: "human", From: "a test", For: time.Hour, SHA256: seen.Approve}
	for what, change := range map[string]func(){
		"a folder": func() { folders = []Folder{{Path: "data"}, {Path: "site", SHA256: audit.Hash([]byte("b"))}} },
		"unbound":  func() { folders = []Folder{{Path: "data"}, {Path: "site"}} },
		"none":     func() { folders = nil },
		"more":     func() { folders = append(slices.Clone(folders), Folder{"x", audit.Hash([]byte("a"))}) },
	} {
		before := folders
		change()
		if a, err := b.Approve(ctx, "one", consent); !errors.Is(err, ErrConflict) || a != nil || whyOf().Approve == seen.Approve {
			t.Errorf("%s: %+v, %v", what, a, err)
		}
		folders = before
	}
	unbound = errors.New("site/fifo: it is a fifo")
	var r *Refusal
	if _, err := b.Approve(ctx, "one", consent); !errors.As(err, &r) || !strings.Contains(err.Error(), "site/fifo") {
		t.Errorf("what cannot be bound: %v", err)
	}
	if w := whyOf(); w.Approve != "" || !strings.Contains(strings.Join(w.Waits, " "), "site/fifo") {
		t.Errorf("why: %+v", w)
	}
	unbound = nil
	if ds, err := b.Decisions(ctx); err != nil || len(ds) != 0 {
		t.Fatalf("recorded: %+v, %v", ds, err)
	}
	nothingFor(t, b, "d")
	a, err := b.Approve(ctx, "one", consent)
	if err != nil || !slices.Equal(a.Folders, []string{folders[1].SHA256}) {
		t.Fatalf("%+v, %v", a, err)
	}
	ds, err := b.Decisions(ctx)
	if err != nil || len(ds) != 1 || !strings.Contains(ds[0].Context, `"data": not bound. It uses the folder "site": sha256:`) {
		t.Errorf("%+v, %v", ds, err)
	}
	if e := lineOf(t, b, audit.DecisionEvent); e == nil || !strings.Contains(string(e.Details), `"approves":{"folders":["`+folders[1].SHA256+`"],"from":"a test"`) {
		t.Errorf("no line: %v", e)
	}
	if a, err := claimAs(t, b, "d").Approved(); err != nil || a == nil || !slices.Equal(a.Folders, []string{folders[1].SHA256}) {
		t.Errorf("the claim has %+v, %v", a, err)
	}
}

func TestReview(t *testing.T) {
	ctx := context.Background()
	b := newBox(t, Options{Review: func(t *Task) ([]audit.Entry, error) {
		if t.Mbox.Action == nil {
			return nil, nil
		}
		note := audit.Entry{Agent: audit.MboxAgent, Event: audit.DelegationEvent, Action: "reviewed"}
		if t.Mbox.Action.Name == "deploy" {
			note.Event = audit.PolicyDenied
			return []audit.Entry{note}, &schemas.Error{Path: "mbox.action.name", Code: "refused", Problem: "not for you"}
		}
		return []audit.Entry{note}, nil
	}})
	count := func(event audit.Event) (n int) {
		for line, err := range b.ledger.Backward() {
			if err != nil {
				t.Fatal(err)
			}
			if e, err := line.Decode(); err == nil && e.Event == event {
				n++
			}
		}
		return n
	}
	submit(t, b, &Task{ID: "plain", Task: Request{Title: "x"}})
	if n := count(audit.DelegationEvent); n != 0 {
		t.Fatalf("%d notes about a task without an action", n)
	}
	fine := deploy("fine")
	fine.Mbox.Action.Name = "read_file"
	submit(t, b, fine)
	if n := count(audit.DelegationEvent); n != 1 {
		t.Fatalf("%d notes", n)
	}
	var bad *schemas.Error
	if _, err := b.Submit(ctx, deploy("bad")); !errors.As(err, &bad) || bad.Code != "refused" {
		t.Fatalf("got %v", err)
	}
	if n := count(audit.PolicyDenied); n != 1 {
		t.Fatalf("%d refusals noted", n)
	}
	dropFile(t, b, "dropped.json", `{"task":{"title":"x"},"mbox":{"action":{"name":"deploy"}}}`)
	if _, err := b.Scan(ctx); err != nil {
		t.Fatal(err)
	}
	if state, task := stateOfTask(t, b, "dropped"); state != Failed || task.Result.Error.Code != "refused" {
		t.Fatalf("the drop is %s, %+v", state, task.Result.Error)
	}
	if n := count(audit.PolicyDenied); n != 2 {
		t.Fatalf("%d refusals noted", n)
	}
}

// A check that does not end holds up neither other drops nor, when there are many
// such, those that need no check; it is asked for once, and refused in the end.
func TestSlowReview(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	end := make(chan struct{})
	var asked atomic.Int64
	b := newBox(t, Options{Now: func() time.Time { return now }, Review: func(t *Task) ([]audit.Entry, error) {
		if t.Mbox.Action == nil {
			return nil, nil
		}
		if asked.Add(1); t.Mbox.Action.Name == "slow" {
			<-end
		}
		return nil, nil
	}})
	scan := func() ScanReport {
		t.Helper()
		r, err := b.Scan(ctx)
		must(t, err)
		return r
	}
	pending := func(id ID, want bool) {
		t.Helper()
		if known, err := b.known(id); err != nil || known != want {
			t.Fatalf("%s is known: %v, %v; want %v", id, known, err, want)
		}
	}
	dropFile(t, b, "slow0.json", `{"task":{"title":"x"},"mbox":{"action":{"name":"slow"}}}`)
	dropFile(t, b, "quick.json", `{"task":{"title":"x"},"mbox":{"action":{"name":"quick"}}}`)
	if r := scan(); r.Again == 0 {
		t.Fatal("no look is due again")
	}
	pending("quick", true)
	pending("slow0", false)
	for i := 1; i < maxChecks+2; i++ {
		dropFile(t, b, fmt.Sprintf("slow%d.json", i), `{"task":{"title":"x"},"mbox":{"action":{"name":"slow"}}}`)
	}
	dropFile(t, b, "plain.json", `{"task":{"title":"x"}}`)
	scan()
	pending("plain", true)
	if n := asked.Load(); n != maxChecks+1 {
		t.Fatalf("%d checks were begun, want %d", n, maxChecks+1)
	}
	now = now.Add(checkTime)
	scan()
	if state, task := stateOfTask(t, b, "slow0"); state != Failed || task.Result.Error.Code != "check_timeout" {
		t.Fatalf("it is %s, %+v", state, task.Result)
	}
	close(end)
	for _, r := range b.checks.runs {
		<-r.done
	}
	scan()
	pendingAtLast := 0
	for i := range maxChecks + 2 {
		if state, _ := stateOfTask(t, b, ID(fmt.Sprintf("slow%d", i))); state == Pending {
			pendingAtLast++
		}
	}
	if pendingAtLast != 2 { // which had not been begun
		t.Fatalf("%d are pending when there is room again, want 2", pendingAtLast)
	}
}

// However many tasks wait for an approval, the ledger is not read for each of them;
// and what was approved is known to who begins with a snapshot.
func TestManyWaitForApproval(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	b := guarded(t, &now)
	for i := range 100 {
		submit(t, b, deploy(ID(fmt.Sprintf("d%02d", i))))
	}
	bounded(t, "looking at 100 tasks that wait", 8<<20, func() { nothingFor(t, b, "d") })
	f, _, err := b.current("d42")
	must(t, err)
	_, err = b.recorder.decide(ctx, records.Decision{Agent: "human", Task: "d42", Context: "c", Options: []string{"o"}, Decision: "d"}, &Approval{SHA256: f.Hash, Until: task.At(now.Add(time.Hour))})
	must(t, err)
	if c, err := reopened(t, b).Claim(ctx, ClaimRequest{Agent: "d"}); err != nil || c.ID() != "d42" {
		t.Errorf("claimed %v, %v; want d42", c, err)
	}
	nothingFor(t, b, "d")
}
