package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mbox/mailbox"
)

func as(box *mailbox.Box, agent string) *Server { return New(Options{Box: box, Agent: agent}) }

func (p *peer) tools() []string {
	var names []string
	for name := range p.out {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A client has the tools of what it is: those of a claim's holder and of an inbox for an agent alone.
func TestIdentityGivesTools(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	reading := []string{"get_task", "list_tasks", "read_channel", "tail_ledger", "verify", "wait_for_task", "why_task"}
	writing := []string{"post_message", "record_change", "record_decision", "send_task"}
	holding := []string{"ack_items", "claim_task", "complete_task", "fail_task", "list_inbox", "release_task", "report_progress"}
	for _, c := range []struct {
		o    Options
		want []string
	}{
		{Options{Reader: true}, reading},
		{Options{Agent: "coder", Reader: true}, reading},
		{Options{}, slices.Concat(reading, writing)},
		{Options{Agent: "coder"}, slices.Concat(reading, writing, holding)},
	} {
		c.o.Box = box
		p := connect(t, New(c.o), nil)
		if slices.Sort(c.want); !slices.Equal(p.tools(), c.want) {
			t.Errorf("agent %q, reader %v has %v, want %v", c.o.Agent, c.o.Reader, p.tools(), c.want)
		}
	}
}

// A task's way from who asks to who does it and back.
func TestTaskThroughTools(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	person, coder := connect(t, as(box, ""), nil), connect(t, as(box, "coder"), nil)
	sent := call[outcome](person, "send_task", args{"title": "Read it", "to": "coder", "context": args{"a": 1}, "labels": args{"k": "v"}})
	if sent.State != mailbox.Pending || sent.Ended {
		t.Fatalf("sent %+v", sent)
	}
	claimed := call[claimOutput](coder, "claim_task", nil)
	if claimed.ID != sent.ID || claimed.Token == "" || claimed.Again || claimed.Task.Source.Agent != "human" {
		t.Fatalf("claimed %+v", claimed)
	}
	call[stateOutput](coder, "report_progress", args{"id": sent.ID, "percent": 40, "message": "page 3"})
	if w := call[outcome](person, "wait_for_task", args{"id": sent.ID, "timeout_seconds": 0}); w.Ended || w.Progress == nil || *w.Progress.Percent != 40 {
		t.Errorf("waits with %+v", w)
	}
	if s := call[stateOutput](coder, "complete_task", args{"id": sent.ID, "output": args{"pages": 30}}); s.State != mailbox.Completed {
		t.Errorf("completed %+v", s)
	}
	w := call[outcome](person, "wait_for_task", args{"id": sent.ID})
	if !w.Ended || string(w.Output) != `{"pages":30}` {
		t.Errorf("came to %+v", w)
	}
	if g := call[taskOutput](person, "get_task", args{"id": sent.ID}); g.State != mailbox.Completed || g.Task.Task.Title != "Read it" {
		t.Errorf("got %+v", g)
	}
	if w := call[whyOutput](coder, "why_task", args{"id": sent.ID}); len(w.Why.Lines) != 4 || w.Why.Summary == "" {
		t.Errorf("why %+v", w.Why)
	}
	if l := call[listOutput](person, "list_tasks", args{"state": []string{"completed"}}); len(l.Tasks) != 1 || l.Tasks[0].By != "coder" || l.More {
		t.Errorf("listed %+v", l)
	}
	for tool, filters := range map[string][]string{"list_tasks": {"to", "by", "from"}, "tail_ledger": {"agent", "task"}} {
		for _, filter := range filters {
			person.refuse(tool, args{filter: ""}, filter+": has 0 characters")
		}
	}
	last := call[tailOutput](person, "tail_ledger", args{"task": sent.ID, "n": 2})
	if len(last.Entries) != 2 || last.Entries[1].Event != "task_completed" || !last.More {
		t.Errorf("tail %+v", last)
	}
	before := call[tailOutput](person, "tail_ledger", args{"task": sent.ID, "before": last.Entries[0].Seq})
	if len(before.Entries) != 2 || before.Entries[0].Event != "task_created" || before.More {
		t.Errorf("before that %+v", before)
	}
	if v := call[verifyOutput](person, "verify", nil); v.Faults != 0 || v.Tasks != 1 || v.Lines < 4 {
		t.Errorf("verified %+v", v)
	}
}

// The other two ends of a claim, and one that begins after a wait.
func TestClaimEnds(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{RetryBase: time.Millisecond})
	coder := connect(t, as(box, "coder"), nil)
	coder.refuse("claim_task", args{}, "nothing to claim", "next: claim_task with wait_seconds")
	coder.refuse("claim_task", args{"wait_seconds": 1}, "nothing to claim")
	id := call[outcome](coder, "send_task", args{"title": "x", "to": "coder"}).ID
	call[claimOutput](coder, "claim_task", args{"wait_seconds": 5})
	if s := call[stateOutput](coder, "release_task", args{"id": id}); s.State != mailbox.Pending {
		t.Errorf("released %+v", s)
	}
	call[claimOutput](coder, "claim_task", args{"wait_seconds": 5})
	coder.refuse("fail_task", args{"id": id, "reason": "no disk", "code": "No Disk"}, "code", "^[a-z0-9][a-z0-9_.-]{0,63}$")
	if s := call[stateOutput](coder, "fail_task", args{"id": id, "reason": "no disk", "final": true}); s.State != mailbox.Failed {
		t.Errorf("failed %+v", s)
	}
	if w := call[outcome](coder, "wait_for_task", args{"id": id}); w.Error == nil || w.Error.Message != "no disk" {
		t.Errorf("came to %+v", w)
	}
}

// A paused agent is told so, whether it waits or not, and goes on with what it has.
func TestClaimOfPaused(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	coder := connect(t, as(box, "coder"), nil)
	for range 2 {
		call[outcome](coder, "send_task", args{"title": "x", "to": "coder"})
	}
	held := call[claimOutput](coder, "claim_task", args{"key": "a"})
	if _, err := mailbox.PauseAgent(t.Context(), box, mailbox.Pause{Agent: "coder", By: "human", Reason: "quiet"}); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []int{0, 1} {
		coder.refuse("claim_task", args{"key": "b", "wait_seconds": wait}, "coder is paused since", "by human: quiet", "next: go on with what you have claimed")
	}
	if again := call[claimOutput](coder, "claim_task", args{"key": "a"}); !again.Again || again.ID != held.ID {
		t.Errorf("%+v", again)
	}
	call[stateOutput](coder, "complete_task", args{"id": held.ID, "output": "done"})
}

// What is said again is done once: by the server that did it, and by another one that is
// shown the token.
func TestSaidAgain(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	server := as(box, "coder")
	p := connect(t, server, nil)
	first := call[outcome](p, "send_task", args{"title": "one", "to": "coder", "key": "k1"})
	if again := call[outcome](p, "send_task", args{"title": "one", "to": "coder", "key": "k1"}); again.ID != first.ID {
		t.Errorf("sent twice: %s and %s", first.ID, again.ID)
	}
	p.refuse("send_task", args{"title": "another", "key": "k1"}, "named another request", "next: call send_task again with a key")
	p.refuse("send_task", args{"title": "no key", "key": ""}, "key: has 0 characters; want at least 1", "next: call the tool again")
	p.refuse("send_task", args{"title": "late", "deadline": "2020-01-01T00:00:00Z"}, "has passed; want a time that lies ahead", "next: call the tool again")
	second := call[outcome](p, "send_task", args{"title": "two", "to": "coder"})

	one := call[claimOutput](p, "claim_task", nil)
	again := call[claimOutput](connect(t, server, nil), "claim_task", nil)
	if !again.Again || again.ID != one.ID || again.Token != one.Token {
		t.Errorf("claimed %+v, again %+v", one, again)
	}
	if two := call[claimOutput](p, "claim_task", args{"key": "other"}); two.Again || two.ID != second.ID {
		t.Errorf("with another key %+v", two)
	}
	for range 2 {
		call[stateOutput](p, "complete_task", args{"id": one.ID, "output": "done"})
	}
	later := connect(t, as(box, "coder"), nil)
	call[stateOutput](later, "complete_task", args{"id": one.ID, "output": "done", "token": one.Token})
	if n := completions(t, box); n != 1 {
		t.Errorf("%d lines say that it is completed", n)
	}
	p.refuse("complete_task", args{"id": one.ID, "output": "other"}, "stale")
	later.refuse("complete_task", args{"id": second.ID, "output": "x"}, "has not claimed it", "next: claim_task")

	// A claim that is over is not given again.
	call[stateOutput](p, "release_task", args{"id": second.ID})
	if third := call[claimOutput](p, "claim_task", args{"key": "other"}); third.Again {
		t.Errorf("a claim that is over is given again: %+v", third)
	}
}

func completions(t *testing.T, box *mailbox.Box) (n int) {
	for line, err := range box.Ledger().Backward() {
		if err != nil {
			t.Fatal(err)
		}
		if line.Event() == "task_completed" {
			n++
		}
	}
	return n
}

func TestRecords(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	p := connect(t, as(box, "coder"), nil)
	d := args{"context": "two\r\nservers", "options": []string{"a", "b"}, "decision": " keep one "}
	c := args{"description": "d", "rationale": "r", "before": "b", "after": "a", "rollback": "o", "verification": "v"}
	for tool, a := range map[string]args{"record_decision": d, "record_change": c} {
		first := call[recordOutput](p, tool, a)
		if again := call[recordOutput](p, tool, a); first.Again || !again.Again || again.ID != first.ID {
			t.Errorf("%s: %+v, again %+v", tool, first, again)
		}
		text, err := p.read(first.Resource)
		if err != nil || !strings.Contains(text, "**Agent:** coder") || !strings.Contains(text, first.ID) {
			t.Errorf("%s reads %q, %v", first.Resource, text, err)
		}
		if _, err := connect(t, as(box, "tester"), nil).read(first.Resource); err == nil {
			t.Errorf("%s is shown to another agent", first.Resource)
		}
	}
	d["decision"] = "keep both"
	if other := call[recordOutput](p, "record_decision", d); other.Again {
		t.Error("another decision is taken for the first")
	}
	p.refuse("record_decision", args{"context": "x", "options": []string{}, "decision": "y"}, "options")
}

func TestPromptAndInstructions(t *testing.T) {
	t.Parallel()
	p := connect(t, as(newBox(t, mailbox.Options{}), "coder"), nil)
	r, err := p.GetPrompt(t.Context(), &sdk.GetPromptParams{Name: "work_as_agent"})
	if err != nil || !strings.Contains(r.Messages[0].Content.(*sdk.TextContent).Text, "You are the agent coder") {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, tool := range []string{"claim_task", "report_progress", "complete_task", "fail_task", "release_task", "record_decision", "record_change"} {
		if _, ok := p.out[tool]; !ok || !strings.Contains(work, tool) {
			t.Errorf("the prompt and the tools differ about %s", tool)
		}
	}
}

// Long texts are cut where a model reads them, and whole as resources.
func TestLongIsCut(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	p := connect(t, as(box, "coder"), nil)
	long := strings.Repeat("é", maxText)
	id := call[outcome](p, "send_task", args{"title": "x", "to": "coder", "description": long, "context": args{"c": long}}).ID
	claimed := call[claimOutput](p, "claim_task", nil)
	if len(claimed.Task.Task.Description) > maxText || len(claimed.Notes) != 2 || !strings.Contains(claimed.Notes[0], "mbox://task/"+string(id)) {
		t.Errorf("%d bytes, notes %q", len(claimed.Task.Task.Description), claimed.Notes)
	}
	call[stateOutput](p, "complete_task", args{"id": id, "output": args{"text": long}})
	w := call[outcome](p, "wait_for_task", args{"id": id})
	if len(w.Output) > 2*maxText || len(w.Notes) != 1 {
		t.Errorf("%d bytes, notes %q", len(w.Output), w.Notes)
	}
	whole, err := p.read(taskURI(id))
	if err != nil || strings.Count(whole, long) != 3 {
		t.Errorf("the resource has %d bytes: %v", len(whole), err)
	}

	id = call[outcome](p, "send_task", args{"title": "x", "to": "coder"}).ID
	call[claimOutput](p, "claim_task", nil)
	call[stateOutput](p, "complete_task", args{"id": id, "output": strings.Repeat("x", 300<<10)})
	for _, notes := range [][]string{call[outcome](p, "wait_for_task", args{"id": id}).Notes, call[taskOutput](p, "get_task", args{"id": id}).Notes} {
		if len(notes) != 1 || !strings.Contains(notes[0], "output: the last 8192 of 307200 bytes are here; it is whole in the file tasks/artifacts/") {
			t.Errorf("of a result that became an artifact: %q", notes)
		}
	}
}

// Only claim_task tells a token: who may see a task may not end it for that.
func TestTokenIsNotShown(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	coder, person := connect(t, as(box, "coder"), nil), connect(t, as(box, ""), nil)
	id := call[outcome](person, "send_task", args{"title": "x"}).ID
	token := call[claimOutput](coder, "claim_task", nil).Token
	for _, p := range []*peer{coder, person, connect(t, as(box, "tester"), nil)} {
		for tool, a := range map[string]args{"get_task": {"id": id}, "why_task": {"id": id}, "list_tasks": {}, "tail_ledger": {}, "wait_for_task": {"id": id, "timeout_seconds": 0}} {
			r, err := p.raw(t.Context(), tool, a)
			if err != nil || r.IsError || strings.Contains(textOf(r), token) {
				t.Errorf("%s: %v, %s", tool, err, textOf(r))
			}
		}
		for _, uri := range []string{taskURI(id), ledgerURI, ledgerURI + "/2"} {
			if text, err := p.read(uri); err != nil || strings.Contains(text, token) {
				t.Errorf("%s: %v, %s", uri, err, text)
			}
		}
	}
	tester := connect(t, as(box, "tester"), nil)
	tester.refuse("complete_task", args{"id": id, "output": "x", "token": token}, "coder has taken it")
	tester.refuse("complete_task", args{"id": id, "output": "x"}, "has not claimed it")
}

// An agent sees what concerns it; of the rest not even that it is there.
func TestSight(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	person, tester, other := connect(t, as(box, ""), nil), connect(t, as(box, "tester"), nil), connect(t, as(box, "other"), nil)
	coder := connect(t, as(box, "coder"), nil)
	id := call[outcome](coder, "send_task", args{"title": "for the tester", "to": "tester"}).ID
	decision := call[recordOutput](coder, "record_decision", args{"task": id, "context": "c", "options": []string{"o"}, "decision": "d"})
	for _, p := range []*peer{person, tester, coder} {
		if n := len(call[listOutput](p, "list_tasks", nil).Tasks); n != 1 {
			t.Errorf("%d tasks where one is to be seen", n)
		}
		if _, err := p.read(decision.Resource); err != nil {
			t.Error(err)
		}
	}
	for tool, a := range map[string]args{"get_task": {"id": id}, "why_task": {"id": id}, "wait_for_task": {"id": id}, "complete_task": {"id": id, "output": 1}, "send_task": {"title": "spy", "depends_on": []any{id}}} {
		other.refuse(tool, a, "task "+string(id)+": not found", "next: list_tasks")
	}
	other.refuse("get_task", args{"id": "nowhere"}, "task nowhere: not found")
	if l := call[listOutput](other, "list_tasks", nil); len(l.Tasks) != 0 {
		t.Errorf("sees %+v", l.Tasks)
	}
	if e := call[tailOutput](other, "tail_ledger", nil); len(e.Entries) != 0 {
		t.Errorf("sees %+v", e.Entries)
	}
	for _, uri := range []string{taskURI(id), ledgerURI + "/2", decision.Resource} {
		if text, err := other.read(uri); err == nil {
			t.Errorf("%s shows %s", uri, text)
		}
	}
	if text, err := other.read(ledgerURI); err != nil || text != "" {
		t.Errorf("the ledger shows %s, %v", text, err)
	}
}

// Who has a part in a tree sees the tree.
func TestSightOfTree(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	parent := &mailbox.Task{Source: mailbox.Source{Agent: "lead"}}
	parent.Task.Title, parent.Assignment.TargetAgent = "whole", "lead"
	root, err := box.Submit(t.Context(), parent)
	if err != nil {
		t.Fatal(err)
	}
	claim, err := box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "lead"})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := claim.Delegate(t.Context(), mailbox.Delegation{Children: []mailbox.Child{child("a", "coder"), child("b", "tester")}, Join: mailbox.JoinAll})
	if err != nil {
		t.Fatal(err)
	}
	coder, other := connect(t, as(box, "coder"), nil), connect(t, as(box, "other"), nil)
	for _, id := range append(ids, root) {
		call[taskOutput](coder, "get_task", args{"id": id})
		other.refuse("get_task", args{"id": id}, "not found")
	}
	if n := len(call[listOutput](coder, "list_tasks", nil).Tasks); n != 3 {
		t.Errorf("the coder sees %d tasks of its tree", n)
	}
}

func child(title, agent string) mailbox.Child {
	t := new(mailbox.Task)
	t.Task.Title, t.Assignment.TargetAgent = title, agent
	return mailbox.Child{Task: t}
}

// Arguments are read as strictly as files, and an error names the place.
func TestStrictArguments(t *testing.T) {
	t.Parallel()
	p := connect(t, as(newBox(t, mailbox.Options{}), "coder"), nil)
	for _, c := range []struct{ tool, arguments, want string }{
		{"send_task", `{}`, "title"},
		{"send_task", `{"title":"x","titel":"y"}`, "unknown field"},
		{"send_task", `{"title":"x","title":"y"}`, "title"},
		{"send_task", `{"title":"x","priority":"hihg"}`, "one of low, normal, high, urgent"},
		{"send_task", `{"title":"x","agent":"human"}`, "unknown field"},
		{"claim_task", `{"agent":"tester"}`, "unknown field"},
		{"claim_task", `{"wait_seconds":301}`, "wait_seconds"},
		{"wait_for_task", `{"id":"x","timeout_seconds":-1}`, "timeout_seconds"},
		{"get_task", `{"id":"../x"}`, "no task id"},
		{"why_task", `{"id":"../x"}`, "no task id"},
		{"list_tasks", `{"state":["done"]}`, "state"},
		{"get_task", `[]`, "object"},
	} {
		r, err := p.raw(t.Context(), c.tool, json.RawMessage(c.arguments))
		if err != nil || !r.IsError || !strings.Contains(textOf(r), c.want) || !strings.Contains(textOf(r), "next: ") {
			t.Errorf("%s %s: %v, %s", c.tool, c.arguments, err, textOf(r))
		}
	}
}
