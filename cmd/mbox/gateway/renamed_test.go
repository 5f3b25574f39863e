package gateway

import (
	"testing"

	"mbox/mailbox"
)

// Who speaks for an agent speaks for it under its new name, and who names it as it was
// called means it: in a task, and where it is paused.
func TestRenamed(t *testing.T) {
	p := newDesk(t)
	if err := mailbox.RenameAgent(t.Context(), p.box, "human", "scout", "coder", ""); err != nil {
		t.Fatal(err)
	}
	task := p.want(202, "o", "POST", "/task", titled("x", "scout"))
	if _, _, err := p.box.Task(t.Context(), mailbox.ID(task["id"].(string))); err != nil {
		t.Fatal(err)
	}
	if err := mailbox.RenameAgent(t.Context(), p.box, "human", "coder", "tester", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := mailbox.Readdress(t.Context(), p.box); err != nil {
		t.Fatal(err)
	}
	id := task["id"].(string)
	if got := p.want(200, "a", "GET", "/tasks/"+id, ""); got == nil {
		t.Error("the agent's token does not reach its task")
	}
	done := p.want(200, "o", "POST", "/agents/scout/pause", `{"reason":"rest"}`)
	if done["name"] != "tester" {
		t.Errorf("%v", done)
	}
	p.want(404, "o", "POST", "/agents/nobody/pause", `{}`)
	if a, err := mailbox.AgentOf(p.box, "tester"); err != nil || a.Claims() {
		t.Errorf("it is %s: %v", a, err)
	}
}
