package gateway

import (
	"strings"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
)

// What is wrong in a request is named by the request's own members, whatever they have
// become.
func TestProblemsNameMembers(t *testing.T) {
	p := newPlace(t)
	p.want(200, "o", "POST", "/api/channels", `{"name":"dev"}`)
	say := "/api/channels/dev/messages"
	for _, c := range []struct{ secret, path, body, member string }{
		{"o", "/api/channels", `{"name":"Bad Name"}`, "name"},
		{"o", "/api/channels", `{"name":"new","topic":" "}`, "topic"},
		{"o", "/api/users", `{"username":"U 2","role":"reader"}`, "username"},
		{"o", "/api/users", `{"username":"human","role":"agent"}`, "username"},
		{"o", say, `{"text":"x","id":"a b"}`, "id"},
		{"o", say, `{"text":"x","id":""}`, "id"},
		{"o", say, `{"text":" ","id":"a"}`, "text"},
		{"a", say, `{"text":"x","task":"a b","token":"t"}`, "task"},
		{"a", "/api/inbox/ack", `{"ids":["a b"]}`, "ids[0]"},
		{"o", "/agents/A%20b/pause", `{}`, "name"},
	} {
		got := p.want(422, c.secret, "POST", c.path, c.body)
		if detail, _ := got["detail"].(string); got["path"] != c.member || !strings.HasPrefix(detail, c.member+": ") {
			t.Errorf("%s %s names %v: %v", c.path, c.body, got["path"], got)
		}
	}
}

// A hint is a step that can be taken: it names what it is about, and is about that.
func TestHintsWork(t *testing.T) {
	p := newPlace(t)
	p.want(200, "o", "POST", "/api/channels", `{"name":"dev","topic":"builds"}`)
	say := "/api/channels/dev/messages"
	p.want(201, "o", "POST", say, `{"text":"x","id":"one"}`)
	id := string(p.sent("o", `{"id":"waits","task":{"title":"x"}}`))
	m := lifecycle.Move{Agent: "coder", After: lifecycle.Dead}
	if _, err := mailbox.MoveAgent(t.Context(), p.box, "human", "ended coder", m); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, body string
		status     int
		hint       string
	}{
		{"/api/channels", `{"name":"dev","topic":"other"}`, 409, "GET /api/channels tells what it is about"},
		{say, `{"text":"y","id":"one"}`, 409, "send it with another id, or with none"},
		{say, `{"text":"x","reply_to":"nothing"}`, 404, "GET " + say + " shows what was said there"},
		{"/tasks/" + id + "/release", ``, 409, "mbox show waits tells the state that it is in"},
		{"/tasks/" + id + "/retry", ``, 409, "mbox show waits tells the state that it is in"},
		{"/tasks/nothing/cancel", ``, 404, "GET /tasks lists them"},
		{"/task", `{"id":"waits","task":{"title":"y"}}`, 409, "mbox show waits tells the state that it is in"},
		{"/mcp", `{}`, 400, "send one JSON-RPC message, with Content-Type: application/json and Accept: application/json, text/event-stream"},
		{"/agents/coder/pause", ``, 409, "mbox agent show coder tells what it is, and why"},
	} {
		if got := p.want(c.status, "o", "POST", c.path, c.body, "Accept", "text/html"); got["hint"] != c.hint {
			t.Errorf("%s %s: %v", c.path, c.body, got)
		}
	}
}
