package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func dm(ts, text string) string {
	return fmt.Sprintf(`{"type":"message","channel":"D1","channel_type":"im","user":"U1","ts":"%s","text":%q}`, ts, text)
}

// Events become messages as people wrote them, and what no person wrote becomes none.
func TestReceive(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	chattest.Receiving(ctx, t, f.channel(), "", in)
	f.sends(
		`{"type":"message","channel":"D1","channel_type":"im","user":"U0BOT","ts":"1.1","text":"ours"}`,
		`{"type":"message","channel":"D1","channel_type":"im","bot_id":"B1","user":"U2","ts":"1.2","text":"a program's"}`,
		`{"type":"message","subtype":"message_changed","channel":"D1","channel_type":"im","ts":"1.3","message":{"user":"U1","text":"edited"}}`,
		`{"type":"message","subtype":"channel_join","channel":"C1","channel_type":"channel","user":"U1","ts":"1.4","text":"has joined"}`,
		`{"type":"message","channel":"C2","channel_type":"channel","user":"U1","ts":"1.5","text":"in another channel"}`,
		`{"type":"message","channel":"D1","channel_type":"im","user":"U1","ts":"1;5","text":"no time"}`,
		`{"type":"reaction_added","user":"U1"}`, `7`, `{"type":"message","user":["U1"]}`,
		`{"type":"message","channel":"D1","channel_type":"im","user":"U1","ts":"1700000000.000200","thread_ts":"1600000000.000100","text":"<@U0BOT> /why a &lt;b&gt; &amp;amp; <https://x.org|x.org> <https://evil.org|bank> <@U2> <#C1|general> <!here> 1 &lt; 2"}`,
		`{"type":"app_mention","channel":"C1","user":"U1","ts":"1700000000.000300","thread_ts":"1700000000.000300","text":"<@U0BOT>: look"}`,
		`{"type":"message","subtype":"file_share","channel":"C1","channel_type":"channel","user":"U1","ts":"1700000000.000400","text":"","files":[{"id":"F1"}]}`,
	)
	m := chattest.Next(ctx, t, in.Took)
	want := `/why a <b> &amp; https://x.org bank (https://evil.org) @U2 #general @here 1 < 2`
	if m.ID != "D1:1700000000.000200" || m.From != "U1" || m.Text != want || m.In != (chat.Conversation{Peer: "U1", Thread: "1600000000.000100"}) || m.At.Unix() != 1700000000 {
		t.Errorf("%+v", m)
	}
	if m = chattest.Next(ctx, t, in.Took); m.ID != "C1:1700000000.000300" || m.Text != "look" || m.In != (chat.Conversation{Peer: "C1", Group: true}) {
		t.Errorf("%+v", m)
	}
	if m = chattest.Next(ctx, t, in.Took); len(m.Files) != 1 {
		t.Errorf("%+v", m)
	}
	f.until(ctx, func() bool { return len(f.waiting) == 0 })
	if len(in.Took) > 0 {
		t.Errorf("taken: %+v", <-in.Took)
	}
}

// What is not taken is not acknowledged, and comes again by the next connection.
func TestAcknowledgedWhenTaken(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	boom := errors.New("the disk is full")
	in.Fail = func(m chat.Message) error {
		if m.Text == "two" {
			return boom
		}
		return nil
	}
	f.sends(dm("1.1", "one"), dm("1.2", "two"))
	if err := f.channel().Receive(ctx, "", in); !errors.Is(err, boom) {
		t.Fatal(err)
	}
	if m := chattest.Next(ctx, t, in.Took); m.Text != "one" {
		t.Errorf("%+v", m)
	}
	f.until(ctx, func() bool { return len(f.acked) == 1 && len(f.waiting) == 1 })
	again := chattest.NewInbox()
	chattest.Receiving(ctx, t, f.channel(), "", again)
	if m := chattest.Next(ctx, t, again.Took); m.Text != "two" || m.ID != "D1:1.2" {
		t.Errorf("%+v", m)
	}
	f.until(ctx, func() bool { return len(f.waiting) == 0 })
}

// When Slack wants another connection there is one; when it breaks, the bridge decides.
func TestConnections(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	c := f.channel()
	run, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Receive(run, "", in) }()
	for n := 1; n < 4; n++ {
		f.until(ctx, func() bool { return f.tries == n && len(f.open) > 0 })
		f.tells(`{"type":"disconnect","reason":"refresh_requested"}`)
		f.mu.Lock()
		f.open = nil
		f.mu.Unlock()
	}
	f.sends(dm("1.1", "after"))
	chattest.Next(ctx, t, in.Took)
	f.until(ctx, func() bool { return len(f.waiting) == 0 })
	f.hangUp()
	if err := <-ended; err == nil || errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), ticket) {
		t.Error(err)
	}
	go func() { ended <- c.Receive(run, "", in) }()
	f.until(ctx, func() bool { return len(f.open) > 0 })
	f.tells(`{"type":"disconnect","reason":"link_disabled"}`)
	if err := <-ended; !errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
	go func() { ended <- c.Receive(run, "", in) }()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A connection at whose other end nobody answers is ended.
func TestDeadConnection(t *testing.T) {
	ctx, f := limited(t), newFake(t)
	silent := make(chan struct{})
	defer close(silent)
	f.wrong = func(method string, w http.ResponseWriter, _ *http.Request) bool {
		if method != "apps.connections.open" {
			return false
		}
		yes(w, map[string]any{"url": strings.Replace(f.URL, "http", "ws", 1) + "/api/silent"})
		return true
	}
	own := f.wrong
	f.wrong = func(method string, w http.ResponseWriter, r *http.Request) bool {
		if method == "silent" {
			f.mute(w, r, silent)
			return true
		}
		return own(method, w, r)
	}
	if err := f.channel().Receive(ctx, "", chattest.NewInbox()); err == nil || !strings.Contains(err.Error(), "nobody answers") {
		t.Error(err)
	}
}

// An error has neither token nor the address of the WebSocket.
func TestSecretsInErrors(t *testing.T) {
	f := newFake(t)
	for name, answer := range map[string]string{
		"no WebSocket there": strings.Replace(f.URL, "http", "ws", 1) + "/link?ticket=" + ticket,
		"nobody there":       "ws://127.0.0.1:1/?ticket=" + ticket,
		"in the clear":       "ws://slack.example/?ticket=" + ticket,
		"no URL":             "ws://\x7f?ticket=" + ticket,
		"of another kind":    "ftp://x/?ticket=" + ticket,
	} {
		f.wrong = func(method string, w http.ResponseWriter, _ *http.Request) bool {
			if method == "apps.connections.open" {
				yes(w, map[string]any{"url": answer})
			}
			return method == "apps.connections.open"
		}
		err := f.channel().Receive(limited(t), "", chattest.NewInbox())
		if err == nil || strings.Contains(err.Error(), ticket) || strings.Contains(err.Error(), "xapp") || strings.Contains(err.Error(), "xoxb") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

var toPerson = chat.Notice{Key: "k1", To: chat.Conversation{Peer: "U1", Thread: "1600000000.000100"}, Text: "a <!channel> & <@U2>", Since: time.Unix(1_700_000_000, 0)}

func TestSend(t *testing.T) {
	f := newFake(t)
	c := f.channel()
	id, err := c.Send(t.Context(), toPerson)
	if err != nil || id != "DU1:1700000001.000100" {
		t.Fatal(id, err)
	}
	p := f.posts[0]
	for field, want := range map[string]string{
		"channel": "DU1", "thread_ts": "1600000000.000100", "text": "a &lt;!channel&gt; &amp; &lt;@U2&gt;", "mrkdwn": "false", "parse": "none", "unfurl_links": "false",
	} {
		if got := p.form[field]; len(got) != 1 || got[0] != want {
			t.Errorf("%s is %q", field, got)
		}
	}
	room := chat.Notice{Key: "k2", To: chat.Conversation{Peer: "C1", Group: true}, Reply: "C1:1700000000.000300", Text: "x"}
	if _, err := c.Send(t.Context(), room); err != nil || f.posts[1].Thread != "1700000000.000300" {
		t.Error(f.posts[1], err)
	}
	if _, err := c.Send(t.Context(), toPerson); err != nil || strings.Join(f.calls, " ") != "conversations.open chat.postMessage chat.postMessage chat.postMessage" {
		t.Error(f.calls, err)
	}
}

// What was sent is found by its key alone, in a channel, in a thread and with a person.
func TestSent(t *testing.T) {
	f := newFake(t)
	c := f.channel()
	for name, to := range map[string]chat.Notice{
		"thread": toPerson,
		"person": {Key: "k2", To: chat.Conversation{Peer: "U2"}, Text: "x", Since: toPerson.Since},
		"room":   {Key: "k3", To: chat.Conversation{Peer: "C1", Group: true}, Text: "x"},
	} {
		id, err := c.Send(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			other := to
			other.Key = fmt.Sprint("other ", i)
			if _, err := c.Send(t.Context(), other); err != nil {
				t.Fatal(err)
			}
		}
		f.posts = append(f.posts,
			post{TS: "1700099999.000100", Thread: f.posts[len(f.posts)-1].Thread, channel: f.posts[len(f.posts)-1].channel, User: "U7", Metadata: json.RawMessage(`{"event_type":"mbox_notice","event_payload":{"key":"nobody"}}`)},
			post{TS: "1700099999.000200", Thread: f.posts[len(f.posts)-1].Thread, channel: f.posts[len(f.posts)-1].channel, User: "U0BOT", Metadata: json.RawMessage(`{"event_type":7}`)})
		if got, err := opened(t, f.settings()).Sent(t.Context(), to); got != id || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, id)
		}
		to.Key = "nobody"
		if got, err := c.Sent(t.Context(), to); got != "" || err != nil {
			t.Errorf("%s: what another one has said is ours: %q, %v", name, got, err)
		}
	}
	f.wrong = func(method string, w http.ResponseWriter, _ *http.Request) bool {
		if method == "conversations.replies" {
			yes(w, map[string]any{"messages": []any{}, "response_metadata": map[string]any{"next_cursor": "more"}})
		}
		return method == "conversations.replies"
	}
	if got, err := c.Sent(t.Context(), toPerson); !errors.Is(err, errLong) {
		t.Errorf("a history without end: %q, %v", got, err)
	}
}

func TestAnswersOfSlack(t *testing.T) {
	f := newFake(t)
	c := f.channel()
	for name, to := range map[string]chat.Conversation{
		"not in it": {Peer: "C9", Group: true}, "nobody": {Peer: "W1"}, "no name": {Peer: "anna"}, "no thread": {Peer: "U1", Thread: "x"},
	} {
		if _, err := c.Send(t.Context(), chat.Notice{To: to, Text: "x"}); !errors.Is(err, chat.ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	answers := map[string]func(http.ResponseWriter){
		"later":  func(w http.ResponseWriter) { w.Header().Set("Retry-After", "30"); w.WriteHeader(429) },
		"setup":  func(w http.ResponseWriter) { no(w, "token_revoked") },
		"refuse": func(w http.ResponseWriter) { no(w, "is_archived") },
		"again":  func(w http.ResponseWriter) { no(w, "internal_error") },
		"ill":    func(w http.ResponseWriter) { w.WriteHeader(503) },
		"none":   func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) },
	}
	for name, answer := range answers {
		f.wrong = func(_ string, w http.ResponseWriter, _ *http.Request) bool { answer(w); return true }
		_, err := c.Send(t.Context(), chat.Notice{To: chat.Conversation{Peer: "C1", Group: true}, Text: "x"})
		var wait *chat.WaitError
		later := errors.As(err, &wait) && wait.For == 30*time.Second
		if err == nil || later != (name == "later") || errors.Is(err, chat.ErrSetup) != (name == "setup") || errors.Is(err, chat.ErrRefused) != (name == "refuse") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	f := newFake(t)
	if said, err := f.channel().Check(t.Context()); err != nil || said != "@mbox (U0BOT) in Home" || len(f.open) > 0 {
		t.Error(said, err)
	}
	for name, change := range map[string]func(*chat.Settings){
		"token":         func(s *chat.Settings) { s.Token = "xoxb-11-22-wrong" },
		"app token":     func(s *chat.Settings) { s.Password = "xapp-wrong" },
		"not invited":   func(s *chat.Settings) { s.Rooms = []string{"C2"} },
		"no such room":  func(s *chat.Settings) { s.Rooms = []string{"C404"} },
		"swapped":       func(s *chat.Settings) { s.Token, s.Password = s.Password, s.Token },
		"room's name":   func(s *chat.Settings) { s.Rooms = []string{"#general"} },
		"another place": func(s *chat.Settings) { s.Server = "http://slack.example" },
	} {
		s := f.settings()
		change(&s)
		c, err := open(s)
		if err == nil {
			_, err = c.Check(t.Context())
		}
		if !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "wrong") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if was, is := account(chat.Settings{Token: botToken}), account(chat.Settings{Token: "xoxb-11-22-new"}); was != is || was == account(chat.Settings{Token: "xoxb-11-23-new"}) {
		t.Errorf("%q and %q", was, is)
	}
}
