package gateway

import (
	"regexp"
	"strings"
	"testing"

	"mbox/mailbox"
)

var seenField = regexp.MustCompile(`name="seen" value="([^"]+)"`)

// release gives a claim back by its token, as its agent does.
func (p *place) release(c *mailbox.Claim) {
	p.Helper()
	if err := c.Release(p.Context(), "later", 0); err != nil {
		p.Fatal(err)
	}
}

// A form counts for the claim that its page showed, and for no later one, and so does a
// program's request that names one.
func TestDecidesWhatWasSeen(t *testing.T) {
	p := newDesk(t)
	b := p.logged("o")
	id := p.sent("o", titled("x", "coder"))
	at := "/task/" + string(id)
	shown := func() string {
		t.Helper()
		field := seenField.FindStringSubmatch(b.page(at))
		if field == nil {
			t.Fatal("the page's forms do not say what it shows")
		}
		return field[1]
	}
	stands := func(want mailbox.State) {
		t.Helper()
		if _, state, err := p.box.Task(t.Context(), id); err != nil || state != want {
			t.Fatalf("it is %s, %v; want %s", state, err, want)
		}
	}
	waiting := shown()
	first := p.claim("coder")
	taken := shown()
	p.release(first)
	p.claim("coder")
	for _, seen := range []string{waiting, taken} {
		for _, verb := range []string{"cancel", "release"} {
			if w := b.post(at+"/"+verb, "seen", seen); w.Code != 409 || !strings.Contains(w.Body.String(), "you looked") {
				t.Errorf("%s as it was %s: %d %s", verb, seen, w.Code, w.Body)
			}
			p.want(409, "o", "POST", "/tasks/"+string(id)+"/"+verb, `{"seen":"`+seen+`"}`)
		}
	}
	stands(mailbox.InProgress)
	for _, verb := range []string{"cancel", "release", "retry"} {
		if w := b.post(at + "/" + verb); w.Code != 400 {
			t.Errorf("%s by a form that shows nothing: %d", verb, w.Code)
		}
		for _, seen := range []string{"in-progress", "in-progress/-1", "in-progress/x", "archive/1", "/1"} {
			p.want(422, "o", "POST", "/tasks/"+string(id)+"/"+verb, `{"seen":"`+seen+`"}`)
		}
	}
	if w := b.post(at+"/release", "seen", shown()); w.Code != 303 {
		t.Errorf("release: %d %s", w.Code, w.Body)
	}
	stands(mailbox.Pending)
	if w := b.post(at+"/cancel", "seen", shown()); w.Code != 303 {
		t.Errorf("cancel: %d %s", w.Code, w.Body)
	}
	failed := shown()
	p.want(409, "o", "POST", "/tasks/"+string(id)+"/retry", `{"seen":"failed/1"}`)
	stands(mailbox.Failed)
	if w := b.post(at+"/retry", "seen", failed); w.Code != 303 {
		t.Errorf("retry: %d %s", w.Code, w.Body)
	}
	stands(mailbox.Pending)
}

// What is done with all that match is done with each as it was when they were counted.
func TestAllAsTheyWere(t *testing.T) {
	p := newDesk(t)
	b := p.logged("o")
	id := p.sent("o", titled("moves", "coder"))
	p.sent("o", titled("stays", "tester"))
	p.claim("coder")
	key := keyField.FindStringSubmatch(b.post("/all", "verb", "cancel").Body.String())[1]
	c := p.claimed(id)
	p.release(c)
	p.claim("coder")
	got := b.post("/all/do", "key", key).Body.String()
	if !strings.Contains(got, "1 tasks were cancelled") || !strings.Contains(got, ">"+string(id)+": conflict") {
		t.Errorf("%s", got)
	}
	if _, state, _ := p.box.Task(t.Context(), id); state != mailbox.InProgress {
		t.Errorf("the task that moved is %s", state)
	}
}

// claimed is the claim that stands.
func (p *place) claimed(id mailbox.ID) *mailbox.Claim {
	p.Helper()
	t, _, err := p.box.Task(p.Context(), id)
	if err != nil {
		p.Fatal(err)
	}
	c, err := p.box.Held(p.Context(), id, t.Mbox.Lease.Token)
	if err != nil {
		p.Fatal(err)
	}
	return c
}

// An agent is not told which task that it may not see works on the paths of its own.
func TestPathsOfAnother(t *testing.T) {
	p := newDesk(t)
	hidden := p.sent("o", `{"id":"merger-plan","task":{"title":"x"},"assignment":{"target_agent":"tester"},"mbox":{"paths":["src"]}}`)
	if _, err := p.box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "tester"}); err != nil {
		t.Fatal(err)
	}
	mine := p.sent("a", `{"task":{"title":"y"},"assignment":{"target_agent":"coder"},"mbox":{"paths":["."]}}`)
	for who, told := range map[string]bool{"o": true, "a": false} {
		got := p.ask(who, "GET", "/tasks/"+string(mine)+"/why", "").Body.String()
		if strings.Contains(got, string(hidden)) != told || strings.Contains(got, "tester has") != told || strings.Contains(got, "works on the same paths") == told {
			t.Errorf("%s is told %s", who, got)
		}
	}
}
