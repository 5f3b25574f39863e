package main

import (
	"strings"
	"testing"

	"mbox/agents/brain/ollamatest"
)

// A model that is mentioned in a channel answers there, once, and may have nothing to say.
func TestModelAnswersInChannel(t *testing.T) {
	server := ollamatest.Start(t)
	server.Script("tiny-coder",
		ollamatest.Line{Say: `{"actions": [], "answer": "NO_REPLY"}`},
		ollamatest.Line{When: "who is there?", Say: `{"actions": [], "answer": "I am here."}`})
	m := newMind(t, server, server.URL, model("coder", "tiny-coder"))
	m.must("create-channel", "office")
	m.serve()
	m.must("post", "office", "@coder who is there?", "--message-id", "who")
	m.must("post", "office", "@coder nice weather", "--message-id", "weather")
	m.await("both items are done", func() bool { return m.must("inbox", "--agent", "coder", "--json") == "" })
	said := m.must("read", "office", "--json")
	if strings.Count(said, `"reply_to"`) != 1 || !strings.Contains(said, `"text":"I am here.","reply_to":"who"`) {
		t.Errorf("said: %s", said)
	}
	m.stop()
}
