package mailbox

import (
	"errors"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox/lifecycle"
)

// born has the ledger tell of an agent that it was born.
func born(t *testing.T, b *Box, name, uuid string) {
	t.Helper()
	for _, m := range []lifecycle.Move{{Agent: name, After: lifecycle.Provisioning, UUID: uuid}, {Agent: name, After: lifecycle.Healthy}} {
		_, err := MoveAgent(t.Context(), b, "human", "moves it", m)
		must(t, err)
	}
}

func rename(t *testing.T, b *Box, from, to string) {
	t.Helper()
	must(t, RenameAgent(t.Context(), b, "human", from, to, "because"))
}

// What names an agent that was renamed means it under its new name: what waits for it,
// what is sent, dropped and edited later, in all processes, with and without a snapshot.
func TestRename(t *testing.T) {
	o := Options{Agents: map[string]Capabilities{"eve": {}, "coder": {}}}
	b := newBox(t, o)
	born(t, b, "ada", "u")
	paused(t, b, Pause{Agent: "ada", By: "human", Reason: "rest"})
	for _, id := range []ID{"waits", "other"} {
		submit(t, b, &Task{ID: id, Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: map[ID]string{"waits": "ada", "other": "coder"}[id]}})
	}
	early, err := Open(t.Context(), b.Home(), b.Options()) // one that only sends
	must(t, err)
	defer early.Close()
	submit(t, early, &Task{ID: "before", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "coder"}})
	rename(t, b, "ada", "eve")
	submit(t, early, &Task{ID: "early", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "ada"}})
	end := b.ledger.End()
	rename(t, b, "ada", "eve")
	if b.ledger.End() != end {
		t.Error("it is renamed twice")
	}
	if n, err := Readdress(t.Context(), b); n != 1 || err != nil {
		t.Errorf("%d tasks follow: %v", n, err)
	}
	e, m, err := b.ledger.LastMove("waits")
	if err != nil || e.Event != audit.TaskEdited || len(m.Fields) != 1 || m.Fields[0] != "assignment.target_agent" || e.Agent != audit.MboxAgent {
		t.Errorf("its line: %+v %+v %v", e, m, err)
	}
	if n, err := Readdress(t.Context(), b); n != 0 || err != nil {
		t.Errorf("%d tasks follow again: %v", n, err)
	}
	for name, box := range map[string]*Box{"its own": b, "one with a snapshot": reopened(t, b)} {
		all, err := AgentsOf(box)
		must(t, err)
		if now := all["eve"]; now.State != lifecycle.Paused || now.Reason != "rest" || now.UUID != "u" {
			t.Errorf("%s: eve is %+v", name, now)
		}
		if was := all["ada"]; was.State != lifecycle.Renamed || was.Name != "eve" || !strings.HasPrefix(was.String(), "renamed to eve since ") {
			t.Errorf("%s: ada is %s", name, was)
		}
		x, err := box.Index()
		must(t, err)
		if _, there := x.Agents["ada"]; there {
			t.Errorf("%s: ada is an agent still", name)
		}
		var why *PausedError
		if _, err := box.Claim(t.Context(), ClaimRequest{Agent: "ada"}); !errors.As(err, &why) || why.State != lifecycle.Renamed {
			t.Errorf("%s: ada claims: %v", name, err)
		}
	}
	fresh, err := Open(t.Context(), b.Home(), b.Options())
	must(t, err)
	defer fresh.Close()
	submit(t, fresh, &Task{ID: "sent", Task: Request{Title: "x"}, Assignment: Assignment{TargetAgent: "ada"}})
	submit(t, b, &Task{ID: "edited", Task: Request{Title: "x"}})
	edited(t, b, "edited", toAgent("ada"), "assignment.target_agent")
	b.drop(t, "dropped.json", `{"task":{"title":"x"},"assignment":{"target_agent":"ada"}}`)
	mustScan(t, b)
	_, _, _, err = PostMessage(t.Context(), b, Post{Channel: "c", From: "human", Text: "what for", Create: true})
	must(t, err)
	said, _, unknown, err := PostMessage(t.Context(), b, Post{Channel: "c", From: "human", Text: "@ada @eve @agents hello"})
	if err != nil || len(unknown) > 0 || len(said.Receivers) != 2 || said.Receivers[0].Agent != "eve" || said.Receivers[1].Agent != "coder" {
		t.Errorf("%+v %q %v", said, unknown, err)
	}
	for _, id := range []ID{"waits", "early", "sent", "edited", "dropped"} {
		if _, got := stateOfTask(t, b, id); got.Assignment.TargetAgent != "eve" {
			t.Errorf("%s is for %s", id, got.Assignment.TargetAgent)
		}
	}

	// It may have its first name back, and no other one is lost on the way.
	resumed(t, b, "eve")
	rename(t, b, "eve", "joy")
	rename(t, b, "joy", "ada")
	for _, name := range []string{"ada", "eve", "joy"} {
		if now, err := AgentCalled(b, name); now != "ada" || err != nil {
			t.Errorf("%s is called %s: %v", name, now, err)
		}
	}
	if err := RenameAgent(t.Context(), b, "human", "eve", "x", ""); !errors.Is(err, ErrConflict) {
		t.Errorf("a name is renamed that is nobody's: %v", err)
	}
	_, err = Readdress(t.Context(), b)
	must(t, err)
	if c := claimAs(t, b, "ada"); c.Agent() != "ada" {
		t.Error(c.Agent())
	}
	whole(t, b.Home())
}

// A task that waits for its children goes on under the new name, and who has sent a task
// may change it, and nobody else.
func TestRenameOfAParent(t *testing.T) {
	b, claim := family(t, Options{})
	ids := delegate(t, claim, "", child("coder", "Write"))
	rename(t, b, "boss", "chief")
	if n, err := Readdress(t.Context(), b); n != 1 || err != nil {
		t.Fatalf("%d tasks follow: %v", n, err)
	}
	if _, err := Edit(t.Context(), b, ids[0], "chief", "", urgently); err != nil {
		t.Errorf("what it has sent: %v", err)
	}
	refusesEdit(t, b, ids[0], "boss", func(n *Task) error { n.Task.Priority = "low"; return nil }, "boss did not send it")
	finish(t, b, "coder", true)
	if c := claimAs(t, b, "chief"); c.ID() != "parent" {
		t.Errorf("it has %s", c.ID())
	}
	whole(t, b.Home())
}
