package gateway

import (
	"fmt"
	"strings"
	"testing"

	"mbox/mailbox"
)

// The token says whose inbox it is, and no parameter. Nobody acknowledges another
// agent's items, nor a task that is none.
func TestInbox(t *testing.T) {
	p := newDesk(t)
	say := func(post mailbox.Post) {
		t.Helper()
		post.Channel, post.From = "general", "human"
		if _, _, _, err := mailbox.PostMessage(t.Context(), p.box, post); err != nil {
			t.Fatal(err)
		}
	}
	say(mailbox.Post{Text: "talk", Create: true})
	say(mailbox.Post{Text: "@coder @tester one", ID: "m1"})
	say(mailbox.Post{Text: "@coder two", ID: "m2"})
	work := p.sent("o", titled("x", "coder"))
	ids := func(secret string) (ids []string) {
		t.Helper()
		page := p.want(200, secret, "GET", "/api/inbox", "")
		for _, it := range page["items"].([]any) {
			item := it.(map[string]any)
			if item["trigger"] != "mention" || item["channel"] != "general" || !strings.HasPrefix(item["message"].(string), "m") {
				t.Errorf("%v", item)
			}
			ids = append(ids, item["id"].(string))
		}
		return ids
	}
	others := func() []mailbox.InboxItem {
		t.Helper()
		items, err := mailbox.Inbox(t.Context(), p.box, "tester")
		if err != nil {
			t.Fatal(err)
		}
		return items
	}
	coders, testers := ids("a"), others()
	if len(coders) != 2 || len(testers) != 1 {
		t.Fatalf("the inboxes have %v and %v", coders, testers)
	}
	ack := func(ids ...string) string { return fmt.Sprintf(`{"ids":["%s"]}`, strings.Join(ids, `","`)) }
	p.want(403, "o", "GET", "/api/inbox", "")
	p.want(403, "o", "POST", "/api/inbox/ack", ack(coders[0]))
	p.want(403, "r", "POST", "/api/inbox/ack", ack(coders[0]))
	p.want(400, "a", "GET", "/api/inbox?user=tester", "")
	p.want(409, "a", "POST", "/api/inbox/ack", ack(string(testers[0].ID)))
	p.want(409, "a", "POST", "/api/inbox/ack", ack(string(work)))
	p.want(400, "a", "POST", "/api/inbox/ack", `{"ids":[]}`)
	p.want(200, "a", "POST", "/api/inbox/ack", ack(coders...))
	p.want(200, "a", "POST", "/api/inbox/ack", ack(coders...))
	if left := ids("a"); len(left) != 0 || len(others()) != 1 {
		t.Errorf("the inboxes have %v and %v", left, others())
	}
	if err := mailbox.Acknowledge(t.Context(), p.box, testers[0].ID, "tester", ""); err != nil {
		t.Fatal(err)
	}
	p.want(409, "a", "POST", "/api/inbox/ack", ack(string(testers[0].ID)))
}
