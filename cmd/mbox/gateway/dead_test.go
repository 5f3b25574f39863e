package gateway

import (
	"strings"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
)

// The token of an agent that is dead opens nothing any more; that of one that is on its
// way there still does, for the work that it has.
func TestTokenOfTheDead(t *testing.T) {
	p := newDesk(t)
	becomes := func(after lifecycle.State) {
		t.Helper()
		m := lifecycle.Move{Agent: "coder", After: after, Reason: "x"}
		if after == lifecycle.Dead {
			m.Archive, m.Manifest = "agents/archive/coder", "sha256:"+strings.Repeat("a", 64)
		}
		if _, err := mailbox.MoveAgent(t.Context(), p.box, "human", "ends", m); err != nil {
			t.Fatal(err)
		}
	}
	becomes(lifecycle.Draining)
	p.want(202, "a", "POST", "/task", titled("x", "tester"))
	becomes(lifecycle.Dead)
	for _, ask := range [][2]string{{"POST", "/task"}, {"GET", "/tasks"}} {
		if got := p.want(403, "a", ask[0], ask[1], titled("x", "tester")); !strings.Contains(got["detail"].(string), "coder is dead since") {
			t.Errorf("%v: %v", ask, got)
		}
	}
	p.want(202, "o", "POST", "/task", titled("x", "tester"))
}
