package gateway

import (
	"fmt"
	"strings"
	"testing"

	"mbox/mailbox"
)

// What is said by HTTP is said once, by whom the token and the claim say, and nobody
// speaks as an agent without its claim.
func TestChannels(t *testing.T) {
	p := newDesk(t)
	p.want(404, "o", "GET", "/api/channels/builds/messages", "")
	p.want(403, "a", "POST", "/api/channels", `{"name":"builds"}`)
	p.want(200, "o", "POST", "/api/channels", `{"name":"builds","topic":"what they say"}`)
	p.want(200, "o", "POST", "/api/channels", `{"name":"builds","topic":"what they say"}`)
	p.want(409, "o", "POST", "/api/channels", `{"name":"builds","topic":"another"}`)
	p.want(422, "o", "POST", "/api/channels", `{"name":"Builds!"}`)

	say := "/api/channels/builds/messages"
	first := p.want(201, "o", "POST", say, `{"text":"@coder look","id":"m1"}`)
	if again := p.want(201, "o", "POST", say, `{"text":"@coder look","id":"m1"}`); again["seq"] != first["seq"] || first["from"] != "human" {
		t.Errorf("%v, and said again %v", first, again)
	}
	p.want(409, "o", "POST", say, `{"text":"another","id":"m1"}`)
	p.want(404, "o", "POST", "/api/channels/none/messages", `{"text":"x"}`)
	p.want(404, "o", "POST", say, `{"text":"x","reply_to":"nothing"}`)
	p.want(401, "", "POST", say, `{"text":"x"}`)
	p.want(403, "r", "POST", say, `{"text":"x"}`)
	p.want(403, "a", "POST", say, `{"text":"x"}`)
	p.want(400, "a", "POST", say, `{"text":"x","task":"t"}`)

	own, others := p.claim("coder"), func() *mailbox.Claim { p.sent("o", titled("x", "tester")); return p.claim("tester") }()
	by := func(c *mailbox.Claim, token, more string) string {
		return fmt.Sprintf(`{"text":"@tester done","task":%q,"token":%q%s}`, c.ID(), token, more)
	}
	p.want(403, "a", "POST", say, by(others, others.Token(), ""))
	p.want(409, "a", "POST", say, by(own, "wrong", ""))
	answer := p.want(201, "a", "POST", say, by(own, own.Token(), `,"reply_to":"m1"`))
	if answer["from"] != "coder" || answer["task"] != string(own.ID()) || answer["root"] != string(own.Task.Root()) || answer["depth"] != float64(own.Task.Mbox.Depth+1) {
		t.Errorf("the answer is %v", answer)
	}
	if again := p.want(201, "a", "POST", say, by(own, own.Token(), `,"reply_to":"m1"`)); again["id"] != answer["id"] {
		t.Errorf("the item is answered twice: %v and %v", answer, again)
	}

	texts := func(query string) string {
		t.Helper()
		page := p.want(200, "a", "GET", say+query, "")
		var all []string
		for _, m := range page["messages"].([]any) {
			all = append(all, m.(map[string]any)["text"].(string))
		}
		return strings.Join(all, "|")
	}
	if got := texts(""); got != "what they say|@coder look|@tester done" {
		t.Errorf("it reads %s", got)
	}
	if got := texts(fmt.Sprintf("?since=%v", first["seq"])); got != "@tester done" {
		t.Errorf("behind the first it reads %s", got)
	}
	if got := texts("?n=1"); got != "@tester done" {
		t.Errorf("the last is %s", got)
	}
	if got := texts("?since=0&n=2"); got != "what they say|@coder look" {
		t.Errorf("the first two are %s", got)
	}
	if page := p.want(200, "a", "GET", say+"?since=0&n=2", ""); page["more"] != true {
		t.Errorf("nothing says that there is more: %v", page)
	}
	if page := p.want(200, "a", "GET", say+"?since=0&n=3", ""); page["more"] != nil {
		t.Errorf("there is no more: %v", page)
	}
	p.want(400, "a", "GET", say+"?since=-1", "")
	list := p.want(200, "r", "GET", "/api/channels", "")["channels"].([]any)
	if one := list[0].(map[string]any); len(list) != 1 || one["messages"] != 2.0 || one["topic"] != "what they say" || one["by"] != "human" {
		t.Errorf("the channels are %v", list)
	}
}
