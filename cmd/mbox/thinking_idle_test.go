package main

import (
	"strings"
	"testing"

	"mbox/agents/brain/ollamatest"
)

// Agents that have nothing to think about ask their server nothing.
func TestThinkingIdle(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t)
	server.Script("tiny-coder", ollamatest.Line{Say: `{"actions": [], "answer": "Nothing has to be done."}`})
	g := newGate(t, server.URL, nil)
	m := newMind(t, server, g.URL, model("coder", "tiny-coder"))
	m.serve()
	m.actsAllTheSame("no-thought.md")
	scans := func() int { return strings.Count(m.said(), "mbox: scanned:") }
	m.await("it has told who can think", func() bool { return strings.Contains(m.said(), "coder can think") })
	before, asked := scans(), g.visits.Load()
	m.await("three more scans are done", func() bool { return scans() > before+3 })
	if n := g.visits.Load() - asked; n != 0 {
		t.Errorf("idle agents came to their server %d times", n)
	}
	m.awaitIn("completed", m.must("send", "Do nothing", "--to", "coder"))
	if g.chats.Load() != 1 {
		t.Errorf("%d questions for one thought: the test shows nothing", g.chats.Load())
	}
	m.stop()
}

// A server without a network: the pull that was asked for fails and says why, the
// one that mbox up tries by itself is a warning, and the agents work.
func TestThinkingPullWithoutNetwork(t *testing.T) {
	t.Parallel()
	server := ollamatest.Start(t, "HTTPS_PROXY=http://127.0.0.1:9")
	m := newMind(t, server, server.URL, model("coder", "absent-coder"))
	m.patch("num_ctx", "pull = [\"absent-coder\"]\nnum_ctx")
	doctor := m.command("doctor", "--pull")
	out, err := doctor.CombinedOutput()
	if doctor.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "the model absent-coder cannot be pulled: ") ||
		!strings.Contains(string(out), "can it reach the network?") {
		t.Errorf("mbox doctor --pull: %v\n%s", err, out)
	}
	m.serve()
	const warning = "mbox: models: no_model: the model absent-coder cannot be pulled: "
	m.await("mbox up warns", func() bool { return strings.Contains(m.said(), warning) })
	m.actsAllTheSame("without-model.md")
	m.stop()
}
