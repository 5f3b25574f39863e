package gateway

import (
	"strings"
	"testing"
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
