package check

import (
	"testing"

	"mbox/agents"
	"mbox/cmd/mbox/config"
)

// A brain that thinks for others is not one that cannot think.
func TestBusyBrain(t *testing.T) {
	busy := mind(&config.File{}, "cod", &agents.BrainError{Fault: agents.BrainBusy, Text: "it is thinking for others"})
	if busy.Level != Fine || busy.Text != "cod waits for its turn: it is thinking for others" || busy.Hint != "" {
		t.Errorf("%+v", busy)
	}
	if down := mind(&config.File{}, "cod", &agents.BrainError{Fault: agents.BrainDown, Text: "t"}); down.Level != Doubt || down.Text != "cod cannot think: t" {
		t.Errorf("%+v", down)
	}
}
