package mailbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox/channel"
	"mbox/mailbox/durable"
	"mbox/mailbox/linttest"
	"mbox/mailbox/verify"
	"mbox/schemas"
)

// talkative is a mailbox with a channel and agents.
func talkative(t *testing.T) *Box {
	t.Helper()
	b := homes{}.open(t, Options{Agents: map[string]Capabilities{
		"coder": {}, "tester": {}, "watcher": {Watches: []string{"general"}}, "off": {Disabled: true},
	}})
	say(t, b, Post{Channel: "general", From: "human", Text: "talk", Create: true})
	return b
}

func say(t *testing.T, b *Box, p Post) *Posted {
	t.Helper()
	m, _, _, err := PostMessage(t.Context(), b, p)
	must(t, err)
	return m
}

// inboxes lists the items of all agents: who gets which message, why, and how deep.
func inboxes(t *testing.T, b *Box) (all []string) {
	t.Helper()
	for it, err := range b.List(t.Context(), Filter{States: []State{Pending}}) {
		must(t, err)
		all = append(all, fmt.Sprintf("%s %s %d", it.Task.Assignment.TargetAgent, it.Task.Mbox.Trigger, it.Task.Mbox.Depth))
	}
	slices.Sort(all)
	return all
}

func TestPostMessage(t *testing.T) {
	b := talkative(t)
	m, made, unknown, err := PostMessage(t.Context(), b, Post{Channel: "general", From: "human", Text: "@coder, ask @nobody\u202e\x1b[2J", ID: "m1"})
	must(t, err)
	if !made || !slices.Equal(unknown, []string{"nobody"}) || m.Seq == 0 {
		t.Errorf("made %v, unknown %v, %+v", made, unknown, m)
	}
	want := []string{"coder mention:m1 0", "watcher watch:m1 0"}
	if got := inboxes(t, b); !slices.Equal(got, want) {
		t.Errorf("the inboxes have %v, want %v", got, want)
	}
	c, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	if c.Task.Task.Description != m.Text || c.Task.Source.Agent != "human" || c.Task.Source.Session != "channel:general" || c.Task.Task.Title != `#general, human: @coder, ask @nobody\u202e\x1b[2J` {
		t.Errorf("%+v", c.Task)
	}
	receipts, err := Receipts(t.Context(), b, m)
	must(t, err)
	if len(receipts) != 2 || receipts[0].State != InProgress || receipts[0].Item != c.ID() || receipts[1].State != Pending {
		t.Errorf("%+v", receipts)
	}
	must(t, c.Complete(t.Context(), Result{Output: jsontext.Value(`"done"`)}))
	if receipts, err = Receipts(t.Context(), b, m); err != nil || receipts[0].State != Completed {
		t.Errorf("%+v, %v", receipts, err)
	}

	again, made, _, err := PostMessage(t.Context(), b, Post{Channel: "general", From: "human", Text: m.Text, ID: "M1"})
	if err != nil || made || again.Seq != m.Seq || again.ID != "m1" {
		t.Errorf("said again: made %v, %+v, %v", made, again, err)
	}
	for name, p := range map[string]Post{
		"another text":   {Channel: "general", From: "human", Text: "other", ID: "m1"},
		"another poster": {Channel: "general", From: "coder", Text: m.Text, ID: "m1"},
		"another type":   {Channel: "general", From: "human", Text: m.Text, ID: "m1", Type: "alert"},
		"a channel twice": {
			Channel: "general", From: "human", Text: "other", Create: true,
		},
	} {
		if _, _, _, err := PostMessage(t.Context(), b, p); !errors.Is(err, ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]Post{
		"no channel":                 {Channel: "generel", From: "human", Text: "x"},
		"no such message":            {Channel: "general", From: "human", Text: "x", ReplyTo: "m2"},
		"a message of somewhereelse": {Channel: "other", From: "human", Text: "x", ReplyTo: "m1"},
	} {
		say2 := func() error { _, _, _, err := PostMessage(t.Context(), b, p); return err }
		if p.Channel == "other" {
			say(t, b, Post{Channel: "other", From: "human", Text: "talk", Create: true})
		}
		if err := say2(); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, p := range map[string]Post{
		"channel":    {Channel: "../x", From: "human", Text: "x"},
		"message_id": {Channel: "general", From: "human", Text: "x", ID: "channel-x"},
		"type":       {Channel: "general", From: "human", Text: "x", Type: channel.Created},
		"from":       {Channel: "general", From: "any", Text: "x"},
		"text":       {Channel: "general", From: "human"},
	} {
		var bad *schemas.Error
		if _, _, _, err := PostMessage(t.Context(), b, p); !errors.As(err, &bad) || bad.Path != path {
			t.Errorf("%s: %v", path, err)
		}
	}
	forged := request("mine")
	forged.Mbox.Trigger = "mention:m1"
	var bad *schemas.Error
	if _, err := b.Submit(t.Context(), forged); !errors.As(err, &bad) || bad.Path != "mbox.trigger" {
		t.Errorf("a trigger of one's own: %v", err)
	}
}

// Whoever guesses the key of an inbox item and sends a task with it keeps nobody from
// the message.
func TestGuessedItem(t *testing.T) {
	b := talkative(t)
	guess := request("mine")
	guess.Mbox.IdempotencyKey = itemKey("m1", "coder")
	_, err := b.Submit(t.Context(), guess)
	must(t, err)
	say(t, b, Post{Channel: "general", From: "human", Text: "@coder", ID: "m1"})
	if got := inboxes(t, b); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// Many who post one message at once have posted one, and each agent gets it once.
func TestOneMessage(t *testing.T) {
	first := talkative(t)
	const posters = 6
	var posting sync.WaitGroup
	makers := make([]bool, posters)
	for i := range posters {
		b, err := Open(t.Context(), first.Home(), first.Options())
		must(t, err)
		defer b.Close()
		posting.Go(func() {
			m, made, _, err := PostMessage(context.Background(), b, Post{Channel: "general", From: "human", Text: "@coder @tester", ID: "m1"})
			if err != nil || m.ID != "m1" {
				t.Errorf("%+v, %v", m, err)
			}
			makers[i] = made
		})
	}
	posting.Wait()
	if n := len(slices.DeleteFunc(makers, func(made bool) bool { return !made })); n != 1 {
		t.Errorf("%d have made it", n)
	}
	if got := inboxes(t, first); len(got) != 3 {
		t.Errorf("%v", got)
	}
}

// Two agents that answer each other's mentions end at the depth that delegation has. An
// item is answered once, however often it is worked at.
func TestTalkEnds(t *testing.T) {
	b := talkative(t)
	m := say(t, b, Post{Channel: "general", From: "human", Text: "@coder begin"})
	other := map[string]string{"coder": "tester", "tester": "coder"}
	for agent, depth := "coder", 1; ; agent, depth = other[agent], depth+1 {
		c, err := b.Claim(t.Context(), ClaimRequest{Agent: agent})
		must(t, err)
		p := Post{Channel: "general", From: "somebody", Text: "@" + other[agent] + " your turn", ReplyTo: m.ID, By: c}
		answer := say(t, b, p)
		if answer.From != agent || answer.Depth != int64(depth) || answer.Root == "" || answer.Task != c.ID() {
			t.Errorf("%+v", answer)
		}
		must(t, c.Release(t.Context(), "killed before the ack", 0))
		if _, _, _, err := PostMessage(t.Context(), b, p); !errors.Is(err, ErrStale) {
			t.Errorf("after its claim: %v", err)
		}
		if p.By, err = b.Claim(t.Context(), ClaimRequest{Agent: agent, ID: c.ID()}); err != nil {
			t.Fatal(err)
		}
		p.Text = "@" + other[agent] + " in other words"
		if second, made, _, err := PostMessage(t.Context(), b, p); err != nil || made || second.ID != answer.ID {
			t.Errorf("answered again: made %v, %+v, %v", made, second, err)
		}
		must(t, p.By.Complete(t.Context(), Result{Output: jsontext.Value(`true`)}))
		if m = answer; depth == MaxDepth {
			if !m.Ended || len(m.Receivers) > 0 {
				t.Errorf("it goes on: %+v", m)
			}
			break
		}
		if m.Ended || len(m.Receivers) != 2 {
			t.Errorf("it ends at %d: %+v", depth, m)
		}
	}
	say(t, b, Post{Channel: "general", From: "human", Text: "@coder work"})
	live, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
	must(t, err)
	if stolen, err := b.Held(t.Context(), live.ID(), "made-up"); err != nil {
		t.Error(err)
	} else if _, _, _, err := PostMessage(t.Context(), b, Post{Channel: "general", Text: "x", By: stolen}); !errors.Is(err, ErrStale) {
		t.Errorf("with a token of one's own: %v", err)
	}
}

func TestMessages(t *testing.T) {
	b := talkative(t)
	say(t, b, Post{Channel: "other", From: "human", Text: "talk", Create: true})
	var seqs []int64
	for i := range 4 {
		seqs = append(seqs, say(t, b, Post{Channel: "general", From: "human", Text: fmt.Sprint(i), ID: fmt.Sprintf("m%d", i)}).Seq)
	}
	must(t, os.WriteFile(b.path("channels/general/m2.json"), []byte("{}"), 0o600))
	t.Cleanup(func() { must(t, os.RemoveAll(b.Home())) })
	for _, c := range []struct {
		of   Reading
		want string
	}{
		{Reading{Channel: "general"}, "talk 0 1 3"},
		{Reading{Channel: "general", Since: seqs[0]}, "1 3"},
		{Reading{Channel: "general", Limit: 2}, "1 3"},
		{Reading{Channel: "other"}, "talk"},
		{Reading{Channel: "none"}, ""},
		{Reading{Limit: 1}, "3"},
	} {
		said, bad, err := Messages(t.Context(), b, c.of)
		var texts []string
		for _, m := range said {
			texts = append(texts, m.Text)
		}
		if err != nil || strings.Join(texts, " ") != c.want || len(bad) > 1 {
			t.Errorf("%+v: %v, want %s; %v, %v", c.of, texts, c.want, bad, err)
		}
	}
	if _, err := MessageOf(b, "m2"); !errors.Is(err, ErrIntegrity) {
		t.Errorf("a changed message: %v", err)
	}
	if _, err := MessageOf(b, "m9"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no message: %v", err)
	}
}

// A ledger that is begun anew knows the messages that lie there, and who has got them.
func TestForgottenMessages(t *testing.T) {
	c := newClock()
	b := homes{}.open(t, Options{Now: c.now, Agents: map[string]Capabilities{"coder": {}, "watcher": {Watches: []string{"general"}}}})
	say(t, b, Post{Channel: "general", From: "human", Text: "talk", Create: true})
	for _, id := range []string{"z", "a"} {
		c.turn(time.Second)
		say(t, b, Post{Channel: "general", From: "human", Text: "@coder " + id, ID: id})
	}
	before := inboxes(t, b)
	must(t, b.Close())
	must(t, os.RemoveAll(b.path("audit/shared")))
	_, err := Recover(t.Context(), b.home, b.o, RecoverOptions{Forget: true})
	must(t, err)
	b, err = Open(t.Context(), b.home, b.o)
	must(t, err)
	defer b.Close()
	must(t, b.Tidy(t.Context()))
	whole(t, b.Home())
	said, bad, err := Messages(t.Context(), b, Reading{Channel: "general"})
	if len(said) != 3 || said[1].ID != "z" || said[2].ID != "a" || len(bad) > 0 || err != nil {
		t.Errorf("%v, %v, %v", said, bad, err)
	}
	if _, made, _, err := PostMessage(t.Context(), b, Post{Channel: "general", From: "human", Text: "@coder z", ID: "z"}); made || err != nil {
		t.Errorf("posted again: %v", err)
	}
	if got := inboxes(t, b); !slices.Equal(got, before) {
		t.Errorf("the inboxes have %v, had %v", got, before)
	}
	must(t, b.queue.Update())
	if got := b.queue.Owed(); len(got) > 0 {
		t.Errorf("%v are owed again", got)
	}
}

// Who looks at the ledger through a snapshot knows what is still owed: the poster died
// between the message and its items, and nothing else of it is left.
func TestOwedItems(t *testing.T) {
	for _, end := range []string{"scan", "snapshot", "recovery", "post"} {
		t.Run(end, func(t *testing.T) {
			b := talkative(t)
			p := Post{Channel: "general", From: "human", Text: "@coder", ID: "m1"}
			m, err := b.recorder.compose(p)
			must(t, err)
			m.Address(members(b))
			_, _, err = b.recorder.post(t.Context(), m, false)
			must(t, err)
			if got := inboxes(t, b); len(got) > 0 {
				t.Fatalf("%v is there", got)
			}
			must(t, b.queue.Update())
			if got := b.queue.Owed(); !slices.Equal(got, []string{"channels/general/m1.json"}) {
				t.Fatalf("owed is %v", got)
			}
			if end == "snapshot" {
				must(t, b.queue.Save())
				b.queue.Forget()
			}
			switch end {
			case "recovery":
				must(t, b.Close())
				_, err = Recover(t.Context(), b.home, b.o, RecoverOptions{})
			case "post":
				say(t, b, p)
			default:
				err = b.Tidy(t.Context())
			}
			must(t, err)
			if end == "recovery" {
				b, err = Open(t.Context(), b.home, b.o)
				must(t, err)
				defer b.Close()
			}
			if got := inboxes(t, b); len(got) != 2 {
				t.Errorf("the inboxes have %v", got)
			}
			must(t, b.queue.Update())
			if got := b.queue.Owed(); len(got) > 0 {
				t.Errorf("owed is still %v", got)
			}
		})
	}
}

// A message that somebody has changed before it was delivered reaches nobody, and keeps
// nobody from work.
func TestChangedBeforeDelivery(t *testing.T) {
	b := talkative(t)
	m, err := b.recorder.compose(Post{Channel: "general", From: "human", Text: "@coder", ID: "m1"})
	must(t, err)
	m.Address(members(b))
	_, _, err = b.recorder.post(t.Context(), m, false)
	must(t, err)
	path := b.path("channels/general/m1.json")
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte(strings.Replace(string(data), "@coder", "@tester, obey", 1)), 0o600))
	must(t, b.Tidy(t.Context()))
	if got := inboxes(t, b); len(got) > 0 {
		t.Errorf("the inboxes have %v", got)
	}
	must(t, os.WriteFile(path, data, 0o600))
	must(t, b.Tidy(t.Context()))
	if got := inboxes(t, b); len(got) != 2 {
		t.Errorf("the inboxes have %v", got)
	}
}

// verify and the checker of the format name what is wrong among the messages.
func TestTamperedMessages(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(b *Box)
		file string
		what string
	}{
		"edited":   {func(b *Box) { must(t, put(b.path("channels/general/m1.json"), "{}")) }, "channels/general/m1.json", "its bytes are not those"},
		"removed":  {func(b *Box) { must(t, os.Remove(b.path("channels/general/m1.json"))) }, "channels/general/m1.json", "the file is gone"},
		"all gone": {func(b *Box) { must(t, os.RemoveAll(b.path("channels"))) }, "channels/general/m1.json", "the file is gone"},
		"planted":  {func(b *Box) { must(t, put(b.path("channels/general/m2.json"), "{}")) }, "channels/general/m2.json", "no ledger line knows it"},
		"no json":  {func(b *Box) { must(t, put(b.path("channels/.note"), "x")) }, "channels/.note", "no ledger line knows it"},
		"moved": {func(b *Box) {
			must(t, os.Rename(b.path("channels/general/m1.json"), b.path("channels/m1.json")))
		}, "channels/m1.json", "no ledger line knows it"},
		"open to all": {func(b *Box) { must(t, os.Chmod(b.path("channels/general/m1.json"), 0o644)) }, "channels/general/m1.json", "mode is 0644"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "home")
			must(t, Create(dir, Options{Sync: durable.None}))
			b, err := Open(t.Context(), dir, Options{Sync: durable.None})
			must(t, err)
			say(t, b, Post{Channel: "general", From: "human", Text: "talk", Create: true})
			say(t, b, Post{Channel: "general", From: "human", Text: "hello", ID: "m1"})
			must(t, b.Close())
			whole(t, dir)
			c.do(b)
			r, err := verify.Home(t.Context(), dir, verify.Options{})
			must(t, err)
			if !slices.ContainsFunc(r.Findings, func(f verify.Finding) bool { return f.File == c.file && strings.Contains(f.What, c.what) }) {
				t.Errorf("%v", r.Findings)
			}
			err = linttest.Home(dir)
			if found, is := errors.AsType[linttest.Problems](err); !is || !strings.Contains(found.Error(), "channels/") {
				t.Errorf("the checker says %v", err)
			}
		})
	}
}

// An item that was acknowledged long ago is archived; one that failed, or that is new,
// and the message itself stay.
func TestArchivedItems(t *testing.T) {
	c := newClock()
	o := c.options()
	o.Agents = map[string]Capabilities{"coder": {}}
	b := homes{}.open(t, o)
	say(t, b, Post{Channel: "general", From: "human", Text: "talk", Create: true})
	work := func(text string, final bool) ID {
		t.Helper()
		say(t, b, Post{Channel: "general", From: "human", Text: "@coder " + text})
		got, err := b.Claim(t.Context(), ClaimRequest{Agent: "coder"})
		must(t, err)
		if final {
			must(t, got.Fail(t.Context(), Failure{TaskError: TaskError{Code: "no"}, Final: true}))
		} else {
			must(t, got.Complete(t.Context(), Result{Output: jsontext.Value(`true`)}))
		}
		return got.ID()
	}
	acked, failed := work("one", false), work("two", true)
	c.turn(8 * 24 * time.Hour)
	later := work("three", false)
	n, err := b.ArchiveDelivered(t.Context(), 7*24*time.Hour)
	if n != 1 || err != nil {
		t.Errorf("archived %d, %v", n, err)
	}
	for id, want := range map[ID]State{acked: Archived, failed: Failed, later: Completed} {
		if _, state, err := b.Task(t.Context(), id); state != want || err != nil {
			t.Errorf("%s is %s, want %s; %v", id, state, want, err)
		}
	}
	said, _, err := Messages(t.Context(), b, Reading{Channel: "general"})
	must(t, err)
	if receipts, err := Receipts(t.Context(), b, said[1]); len(said) != 4 || err != nil || receipts[0].State != Archived {
		t.Errorf("%d messages; %+v, %v", len(said), receipts, err)
	}
}

// A message counts from its line on: who reads before it is in its place finds it.
func TestReadBesidePost(t *testing.T) {
	b := talkative(t)
	reader := reopened(t, b)
	read := false
	remove := durable.SetFault(func(op durable.Op, path string) (bool, error) {
		if op == durable.OpMove && strings.Contains(path, "/channels/general/") {
			said, bad, err := Messages(t.Context(), reader, Reading{Channel: "general"})
			must(t, errors.Join(append(bad, err)...))
			read = said[len(said)-1].ID == "m1"
		}
		return true, nil
	})
	defer remove()
	say(t, b, Post{Channel: "general", From: "human", Text: "hello", ID: "m1"})
	if !read {
		t.Error("it was not found between its line and its place")
	}
}
