package agents

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mbox/mailbox"
	"mbox/mailbox/channel"
)

// inOffice posts a message of a person, in a channel that is made if need be.
func (c *company) inOffice(text string) *mailbox.Posted {
	c.Helper()
	ctx := context.Background()
	if _, _, _, err := mailbox.PostMessage(ctx, c.box, mailbox.Post{Channel: "office", From: "human", Text: "Here we talk.", Create: true}); err != nil {
		c.Fatal(err)
	}
	m, _, _, err := mailbox.PostMessage(ctx, c.box, mailbox.Post{Channel: "office", From: "human", Text: text})
	if err != nil {
		c.Fatal(err)
	}
	return m
}

// replies are the messages that were said to another one, as "who: what".
func (c *company) replies() (all []string) {
	c.Helper()
	said, bad, err := mailbox.Messages(context.Background(), c.box, mailbox.Reading{Channel: "office"})
	if err != nil || len(bad) > 0 {
		c.Fatal(bad, err)
	}
	for _, m := range said {
		if m.ReplyTo != "" {
			all = append(all, m.From+": "+m.Text)
		}
	}
	return all
}

// item is the inbox item by which somebody got a message.
func (c *company) item(m *mailbox.Posted) *mailbox.Task {
	c.Helper()
	receipts, err := mailbox.Receipts(context.Background(), c.box, m)
	if err != nil || len(receipts) != 1 {
		c.Fatal(receipts, err)
	}
	t, _ := c.task(receipts[0].Item)
	return t
}

func answering(text string) string { return fmt.Sprintf(`{"actions":[],"answer":%q}`, text) }

// What an agent that thinks answers to a message stands in its channel, as a reply that
// belongs to the tree of its item; a task that no message led to is answered to nobody.
func TestAnswerInChannel(t *testing.T) {
	c := newCompany(t, nil)
	c.brains["coder"].says = []any{answering("Me. And you, @tester?"), answering("no message")}
	c.brains["tester"].says = []any{answering("NO_REPLY")}
	m := c.inOffice("@coder who is there?")
	c.works("coder")
	if got := c.replies(); !slices.Equal(got, []string{"coder: Me. And you, @tester?"}) {
		t.Fatalf("said: %q", got)
	}
	item := c.item(m)
	c.wantOutput(item.ID, "{\n      \"answer\": \"Me. And you, @tester?\"\n    }")
	reply, err := mailbox.MessageOf(c.box, channel.ReplyID(item.ID))
	if err != nil || reply.ReplyTo != m.ID || reply.Task != item.ID || reply.Root != item.ID || reply.Depth != 1 {
		t.Fatalf("%+v: %v", reply, err)
	}
	told := c.brains["coder"].asked[0].Messages[1].Content
	if !strings.Contains(told, "in the channel office") || !strings.Contains(told, "NO_REPLY") {
		t.Errorf("told: %s", told)
	}
	c.works("tester")
	c.wantOutput(c.item(reply).ID, "{\n      \"answer\": \"NO_REPLY\"\n    }")
	c.send("coder", "Think", nil)
	c.works("coder")
	if got := c.replies(); len(got) != 1 {
		t.Errorf("said: %q", got)
	}
}

// Two minds that always have one more thing to ask each other come to an end.
func TestMindsTalkToAnEnd(t *testing.T) {
	c := newCompany(t, nil)
	for i := range 10 {
		c.brains["coder"].says = append(c.brains["coder"].says, answering(fmt.Sprint("@tester what of ", i)))
		c.brains["tester"].says = append(c.brains["tester"].says, answering(fmt.Sprint("@coder what of ", i)))
	}
	c.inOffice("@coder ask @tester")
	for range 10 {
		c.works("coder", "tester")
	}
	thoughts := 0
	for _, name := range []string{"coder", "tester"} {
		n, _ := c.brains[name].calls()
		thoughts += n
	}
	if got := c.replies(); len(got) != thoughts || thoughts < 4 || thoughts > 6 {
		t.Errorf("%d thoughts: %q", thoughts, got)
	}
}

// An attempt that was killed when it had posted its answer has answered: the next one asks
// no brain, and adds nothing.
func TestAnswerOnce(t *testing.T) {
	c := newCompany(t, nil)
	m := c.inOffice("@coder who is there?")
	ctx := context.Background()
	claim, err := c.box.Claim(ctx, mailbox.ClaimRequest{Agent: "coder"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := mailbox.PostMessage(ctx, c.box, mailbox.Post{Channel: "office", Text: "Me.", ReplyTo: m.ID, By: claim}); err != nil {
		t.Fatal(err)
	}
	if err := claim.Release(ctx, "killed", 0); err != nil {
		t.Fatal(err)
	}
	c.brains["coder"].says = []any{answering("Somebody else.")}
	c.works("coder")
	c.wantOutput(claim.ID(), "{\n      \"answer\": \"Me.\"\n    }")
	if n, _ := c.brains["coder"].calls(); n != 0 {
		t.Errorf("the brain was asked %d times", n)
	}
	if got := c.replies(); !slices.Equal(got, []string{"coder: Me."}) {
		t.Errorf("said: %q", got)
	}
}

// What a channel cannot take, or nobody would want to read, keeps no item from its end.
func TestAnswersThatAreNone(t *testing.T) {
	names := ""
	for i := range channel.MaxMentions + 1 {
		names += fmt.Sprintf(" @a%d", i)
	}
	for _, q := range []struct{ name, answer, begins, log string }{
		{name: "nothing", answer: ""},
		{name: "blanks", answer: " \n "},
		{name: "the word alone", answer: "NO_REPLY"},
		{name: "with an afterthought", answer: "This is not for me. NO_REPLY\n"},
		{name: "in the middle", answer: "NO_REPLY is what I would say, but " + strings.Repeat("x", 300), begins: "NO_REPLY is what"},
		{name: "too long", answer: strings.Repeat("\u00fc", channel.MaxText), begins: "\u00fc\u00fc"},
		{name: "too many names", answer: "Ask" + names, log: "its answer is not posted"},
	} {
		t.Run(q.name, func(t *testing.T) {
			c := newCompany(t, nil)
			c.brains["coder"].says = []any{answering(q.answer)}
			m := c.inOffice("@coder who is there?")
			c.works("coder")
			item := c.item(m)
			if _, state := c.task(item.ID); state != mailbox.Completed {
				t.Errorf("the item is %s", state)
			}
			got := c.replies()
			switch {
			case q.begins == "" && len(got) > 0 || q.begins != "" && (len(got) != 1 || !strings.HasPrefix(got[0], "coder: "+q.begins)):
				t.Errorf("said: %.200q", got)
			case len(q.answer) > channel.MaxText && !strings.HasSuffix(got[0], "more)\n(cut off: mbox show "+string(item.ID)+" has all of it)"):
				t.Errorf("ends with %q", got[0][len(got[0])-100:])
			}
			if q.log != "" && !strings.Contains(c.log.String(), q.log) {
				t.Errorf("the log lacks %q", q.log)
			}
		})
	}
}
