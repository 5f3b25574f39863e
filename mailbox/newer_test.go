package mailbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"mbox/audit"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// byNewer makes of a task one that a newer mbox wrote: with a field that this one does not
// know, and a line of the ledger that names it so. The task was edited before.
func byNewer(t *testing.T, b *Box, id ID, in State) {
	t.Helper()
	path := b.path("tasks", string(in), id.File())
	was, err := os.ReadFile(path)
	must(t, err)
	now := bytes.Replace(was, []byte(`"mbox": {`), []byte(`"mbox": {`+"\n    \"hereafter\": 1,"), 1)
	var line audit.Line
	for line, err = range b.ledger.LinesOf(string(id)) {
		break
	}
	must(t, err)
	e, err := line.Decode()
	must(t, err)
	var details map[string]any
	must(t, json.Unmarshal(e.Details, &details))
	details["before"], details["after"] = audit.Hash(was), audit.Hash(now)
	e.Details = audit.Details(details)
	must(t, os.WriteFile(path, now, 0o600))
	_, err = b.ledger.Append(t.Context(), e)
	must(t, err)
	if _, _, err := b.current(id); !ofNewer(err) || bytes.Equal(was, now) {
		t.Fatalf("%s is not of a newer mbox: %v", id, err)
	}
}

// A task that a newer mbox wrote, with fields that this one does not know, is left to that
// one: the others are given out, and taken back, as before.
func TestTaskOfANewerVersion(t *testing.T) {
	clk := newClock()
	b := newBox(t, clk.options())
	sent(t, b, "a")
	sent(t, b, "b")
	edited(t, b, "a", urgently, "task.priority")
	byNewer(t, b, "a", Pending)
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	if err != nil || c.ID() != "b" {
		t.Fatalf("%v, %v", c, err)
	}
	if _, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"}); !errors.Is(err, ErrEmpty) {
		t.Fatal(err)
	}
	_, err = b.Claim(t.Context(), ClaimRequest{Agent: "coder", ID: "a"})
	if problem, is := errors.AsType[*schemas.Error](err); !is || problem.Path != "mbox.hereafter" {
		t.Fatal(err)
	}

	w, err := b.Why(t.Context(), "a")
	if err != nil || !strings.Contains(w.Summary, "a newer mbox") || len(w.Waits) > 0 {
		t.Errorf("why: %+v, %v", w, err)
	}
	if path, err := Unfit(b.home, "a"); path != "" || err != nil {
		t.Errorf("%s is to be mended: %v", path, err)
	}

	sent(t, b, "c")
	d, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	must(t, d.Progress(t.Context(), Progress{Message: "on it"}))
	byNewer(t, b, d.ID(), InProgress)
	clk.turn(b.o.Lease + time.Minute)
	must(t, scanNow(b))
	for id, want := range map[ID]task.State{"a": Pending, "b": Pending, d.ID(): InProgress} {
		if at := said(t, b, id); at != want {
			t.Errorf("%s is %s, want %s", id, at, want)
		}
	}
}

// One whose deadline passes, or that waits for what has failed, keeps no other from ending.
func TestEndOfANewerTask(t *testing.T) {
	clk := newClock()
	b := newBox(t, clk.options())
	soon, later := task.At(clk.now().Add(time.Minute)), task.At(clk.now().Add(time.Minute+time.Second))
	submit(t, b, &Task{ID: "late", Task: Request{Title: "x"}, Mbox: Meta{Deadline: &soon}})
	submit(t, b, &Task{ID: "later", Task: Request{Title: "x"}, Mbox: Meta{Deadline: &later}})
	sent(t, b, "first")
	submit(t, b, &Task{ID: "then", Task: Request{Title: "x"}, Mbox: Meta{DependsOn: []ID{"first"}}})
	for _, id := range []ID{"late", "then"} {
		edited(t, b, id, urgently, "task.priority")
		byNewer(t, b, id, Pending)
	}
	must(t, b.Cancel(t.Context(), "first", "human", "x"))
	clk.turn(2 * time.Minute)
	for range 2 { // a look that is cut short by one task has forgotten the others
		must(t, scanNow(b))
	}
	for id, want := range map[ID]task.State{"late": Pending, "then": Pending, "later": Failed} {
		if at := said(t, b, id); at != want {
			t.Errorf("%s is %s, want %s", id, at, want)
		}
	}
}
