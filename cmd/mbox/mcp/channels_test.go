package mcp

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"mbox/mailbox"
)

// An agent is told what is for it, answers it once, and speaks for what it has claimed
// and not else.
func TestChannels(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{Agents: map[string]mailbox.Capabilities{"coder": {}, "tester": {}}})
	person, server := connect(t, as(box, ""), nil), as(box, "coder")
	coder, tester := connect(t, server, nil), connect(t, as(box, "tester"), nil)
	person.refuse("read_channel", args{"channel": "builds"}, "channel builds: not found", "next: read_channel without a channel")
	person.refuse("post_message", args{"channel": "builds", "text": "x"}, "not found", "mbox create-channel")
	if _, _, _, err := mailbox.PostMessage(t.Context(), box, mailbox.Post{Channel: "builds", From: "human", Text: "what they say", Create: true}); err != nil {
		t.Fatal(err)
	}
	first := call[postOutput](person, "post_message", args{"channel": "builds", "text": "@coder @ghost look", "id": "m1"})
	if first.Again || !slices.Equal(first.Reaches, []string{"coder"}) || !slices.Equal(first.Unknown, []string{"ghost"}) {
		t.Errorf("%+v", first)
	}
	if again := call[postOutput](person, "post_message", args{"channel": "builds", "text": "@coder @ghost look", "id": "m1"}); !again.Again || again.Seq != first.Seq {
		t.Errorf("%+v", again)
	}
	person.refuse("post_message", args{"channel": "builds", "text": "another", "id": ""}, "id: has 0 characters")
	person.refuse("post_message", args{"channel": "builds", "text": "another", "id": "m1"}, "conflict", "next: call post_message again with another id")
	person.refuse("post_message", args{"channel": "builds", "text": "x", "reply_to": "m9"}, "m9", "next: read_channel")

	items := call[inboxOutput](coder, "list_inbox", nil)
	if len(items.Items) != 1 || items.Items[0].Message != "m1" || items.Items[0].From != "human" || items.More {
		t.Fatalf("%+v", items)
	}
	if others := call[inboxOutput](tester, "list_inbox", nil); len(others.Items) != 0 {
		t.Errorf("tester has %+v", others)
	}
	item := items.Items[0].ID
	tester.refuse("ack_items", args{"ids": []mailbox.ID{item}}, "not found")
	coder.refuse("post_message", args{"channel": "builds", "text": "x"}, "speaks for a task that it has claimed", "next: call post_message again with task")
	coder.refuse("post_message", args{"channel": "builds", "text": "x", "task": item}, "has not claimed it")
	claimed := call[claimOutput](coder, "claim_task", nil)
	tester.refuse("post_message", args{"channel": "builds", "text": "x", "task": item, "token": claimed.Token}, "not found")
	answer := args{"channel": "builds", "text": "@tester done", "reply_to": "m1", "task": item}
	said := call[postOutput](coder, "post_message", answer)
	answer["token"] = claimed.Token
	if again := call[postOutput](connect(t, as(box, "coder"), nil), "post_message", answer); !again.Again || again.ID != said.ID {
		t.Errorf("the item is answered twice: %+v and %+v", said, again)
	}
	m, err := mailbox.MessageOf(box, said.ID)
	if err != nil || m.From != "coder" || m.Task != item || m.Depth != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	call[ackOutput](coder, "ack_items", args{"ids": []mailbox.ID{item}})
	call[ackOutput](coder, "ack_items", args{"ids": []mailbox.ID{item}})
	if left := call[inboxOutput](coder, "list_inbox", nil); len(left.Items) != 0 {
		t.Errorf("acknowledged, and there is %+v", left)
	}
	other := call[outcome](person, "send_task", args{"title": "x", "to": "coder"}).ID
	coder.refuse("ack_items", args{"ids": []mailbox.ID{other}}, "no inbox item", "next: list_inbox")
	coder.refuse("post_message", args{"channel": "builds", "text": "late", "task": item}, "stale")
}

// Pages go on where the last one ended, and leave nothing out. What is long is cut, and
// whole as a resource.
func TestReadChannel(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	p := connect(t, New(Options{Box: box, Reader: true}), nil)
	post := func(text string, create bool) *mailbox.Posted {
		m, _, _, err := mailbox.PostMessage(t.Context(), box, mailbox.Post{Channel: "builds", From: "human", Text: text, Create: create})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	post("made", true)
	for _, text := range []string{"one", "two", "three"} {
		post(text, false)
	}
	texts := func(r readOutput) (all []string) {
		for _, m := range r.Messages {
			all = append(all, m.Text)
		}
		return all
	}
	last := call[readOutput](p, "read_channel", args{"channel": "builds", "limit": 2})
	if got := texts(last); !slices.Equal(got, []string{"two", "three"}) || !last.More {
		t.Errorf("the last are %v, more: %v", got, last.More)
	}
	var all []string
	for since, more := int64(0), true; more; {
		page := call[readOutput](p, "read_channel", args{"since": since, "limit": 1})
		all, more = append(all, texts(page)...), page.More
		since = page.Messages[len(page.Messages)-1].Seq
	}
	if !slices.Equal(all, []string{"made", "one", "two", "three"}) {
		t.Errorf("page by page it is %v", all)
	}
	long := strings.Repeat("é", maxText/2+1)
	m := post(long, false)
	cut := call[readOutput](p, "read_channel", args{"channel": "builds", "limit": 1})
	if len(cut.Messages[0].Text) > maxText || len(cut.Notes) != 1 || !strings.Contains(cut.Notes[0], messageURI(m.ID)) {
		t.Errorf("%d bytes, notes %q", len(cut.Messages[0].Text), cut.Notes)
	}
	if whole, err := p.read(messageURI(m.ID)); err != nil || !strings.Contains(whole, long) {
		t.Errorf("the resource has %d bytes: %v", len(whole), err)
	}
	if _, err := p.read(messageURI("nothing")); err == nil {
		t.Error("a message that is not there is read")
	}
}

// Who is no person does not speak as one.
func TestPersonSpeaks(t *testing.T) {
	t.Parallel()
	box := newBox(t, mailbox.Options{})
	if _, _, _, err := mailbox.PostMessage(t.Context(), box, mailbox.Post{Channel: "builds", From: "human", Text: "x", Create: true}); err != nil {
		t.Fatal(err)
	}
	no := errors.New("this is an agent's command")
	p := connect(t, New(Options{Box: box, Person: func(context.Context) error { return no }}), nil)
	p.refuse("post_message", args{"channel": "builds", "text": "x"}, no.Error())
	if said, _, err := mailbox.Messages(t.Context(), box, mailbox.Reading{}); err != nil || len(said) != 1 {
		t.Errorf("%d messages, %v", len(said), err)
	}
}
