package matrix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

const key = "0123456789abcdef0123456789abcdef"

// logged keeps the remarks of a channel.
type logged struct {
	sync.Mutex
	text string
}

func (l *logged) add(format string, args ...any) {
	l.Lock()
	defer l.Unlock()
	l.text += fmt.Sprintf(format, args...) + "\n"
}

func (l *logged) has(part string) bool {
	l.Lock()
	defer l.Unlock()
	return strings.Contains(l.text, part)
}

func connect(t *testing.T, h *home, rooms ...string) (chat.Channel, *logged) {
	t.Helper()
	log := &logged{}
	c, err := open(chat.Settings{Name: "m", Server: h.URL, Token: token, Rooms: rooms, Log: log.add})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// listening is a channel that has begun to listen, from now on.
func listening(t *testing.T, h *home, rooms ...string) (context.Context, chat.Channel, *chattest.Inbox, *logged) {
	ctx, in := soon(t), chattest.NewInbox()
	c, log := connect(t, h, rooms...)
	chattest.Receiving(ctx, t, c, "", in)
	chattest.Next(ctx, t, in.Kept)
	return ctx, c, in, log
}

func TestWhatIsHeard(t *testing.T) {
	h := newHome(t)
	h.room("!g:home.test", alice, bob, bot)
	h.aliases["#dev:home.test"] = "!g:home.test"
	h.text("!g:home.test", alice, "before all")
	ctx, _, in, _ := listening(t, h, "#dev:home.test")
	about := func(o object) object { return object{"msgtype": "m.text", "body": "x", "m.relates_to": o} }
	for _, c := range []struct {
		sender  string
		content object
		want    string // the text; "-" for no message
		thread  string
	}{
		{alice, object{"msgtype": "m.text", "body": "hello"}, "hello", ""},
		{alice, object{"msgtype": "m.notice", "body": "a program"}, "-", ""},
		{alice, object{"msgtype": "m.emote", "body": "waves"}, "-", ""},
		{bot, object{"msgtype": "m.text", "body": "our own"}, "-", ""},
		{alice, object{}, "-", ""}, // what was deleted
		{alice, object{"msgtype": "m.text", "body": 7}, "-", ""},
		{alice, object{"msgtype": "m.file", "body": "x", "file": object{"url": "mxc://a/b"}}, "-", ""},
		{alice, about(object{"rel_type": "m.replace", "event_id": "$x"}), "-", ""},
		{alice, about(object{"rel_type": "m.thread", "event_id": "$root"}), "x", "$root"},
		{alice, about(object{"rel_type": "m.thread", "event_id": "root"}), "-", ""},
		{alice, object{"msgtype": "m.text", "body": "> <@bob:home.test> one\n> two\n\nthree", "m.relates_to": object{"m.in_reply_to": object{"event_id": "$x"}}}, "three", ""},
		{alice, object{"msgtype": "m.text", "body": "> a quotation\n\nof mine"}, "> a quotation\n\nof mine", ""},
		{alice, object{"msgtype": "m.text", "body": "mbox: /status"}, "/status", ""},
		{alice, object{"msgtype": "m.text", "body": bot + " /help"}, "/help", ""},
		{alice, object{"msgtype": "m.text", "body": "mbox: hello"}, "mbox: hello", ""},
		{bob, object{"msgtype": "m.text", "body": "the last"}, "the last", ""},
	} {
		id := h.say("!g:home.test", c.sender, c.content)
		if c.want == "-" {
			continue
		}
		m := chattest.Next(ctx, t, in.Took)
		if m.ID != id || m.From != c.sender || m.Text != c.want || m.In != (chat.Conversation{Peer: "#dev:home.test", Group: true, Thread: c.thread}) || m.At.Year() != 2026 {
			t.Errorf("%v:\n%+v", c.content, m)
		}
	}
}

func TestDirectConversations(t *testing.T) {
	h := newHome(t)
	h.room("!d:home.test", bot, alice)
	h.room("!v12", bot, alice, bob)
	ctx, c, in, _ := listening(t, h)
	h.text("!d:home.test", alice, "hello")
	m := chattest.Next(ctx, t, in.Took)
	if m.In != (chat.Conversation{Peer: alice, Thread: "!d:home.test"}) {
		t.Fatalf("%+v", m)
	}
	h.say("!d:home.test", alice, object{"msgtype": "m.text", "body": "x", "m.relates_to": object{"rel_type": "m.thread", "event_id": "$root"}})
	threaded := chattest.Next(ctx, t, in.Took)
	if room, thread := place(threaded.In); room != "!d:home.test" || thread != "$root" {
		t.Errorf("%+v", threaded.In)
	}
	h.text("!v12", alice, "hello all")
	if group := chattest.Next(ctx, t, in.Took); group.In != (chat.Conversation{Peer: "!v12", Group: true}) {
		t.Errorf("%+v", group)
	}
	if id, err := c.Send(ctx, chat.Notice{Key: key, To: m.In, Text: "for alice"}); err != nil || id == "" {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.enter(h.rooms["!d:home.test"], bob)
	h.mu.Unlock()
	if _, err := c.Send(ctx, chat.Notice{Key: "k2", To: m.In, Text: "for alice alone"}); !errors.Is(err, chat.ErrRefused) || !errors.Is(err, errMembers) {
		t.Errorf("bob may read it: %v", err)
	}
	if _, err := c.Send(ctx, chat.Notice{Key: "k3", To: chat.Conversation{Peer: bob, Thread: "!d:home.test"}, Text: "x"}); !errors.Is(err, chat.ErrRefused) {
		t.Error(err)
	}
	if _, err := c.Send(ctx, chat.Notice{Key: "k4", To: chat.Conversation{Peer: alice}, Text: "x"}); !errors.Is(err, chat.ErrRefused) {
		t.Error(err)
	}
}

// TestGap misses more than a sync tells, and takes all of it in order, once.
func TestGap(t *testing.T) {
	h := newHome(t)
	h.room("!g:home.test", bot, alice)
	h.room("!h:home.test", bot, alice)
	ctx, in := soon(t), chattest.NewInbox()
	c, _ := connect(t, h, "!g:home.test", "!h:home.test")
	short, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- c.Receive(short, "", in) }()
	kept := chattest.Next(ctx, t, in.Kept)
	stop()
	<-ended
	want := map[string]bool{}
	for i := range 180 {
		want[h.text([]string{"!g:home.test", "!h:home.test"}[i%2], alice, fmt.Sprint(i))] = true
	}
	again := chattest.NewInbox()
	c, _ = connect(t, h, "!g:home.test", "!h:home.test")
	chattest.Receiving(ctx, t, c, kept, again)
	last := map[string]int{}
	for range 180 {
		m := chattest.Next(ctx, t, again.Took)
		var n int
		fmt.Sscan(m.Text, &n)
		if !want[m.ID] || n < last[m.In.Peer] {
			t.Fatalf("%s %s after %d", m.ID, m.Text, last[m.In.Peer])
		}
		delete(want, m.ID)
		last[m.In.Peer] = n
	}
	end := h.text("!g:home.test", alice, "the end")
	if m := chattest.Next(ctx, t, again.Took); m.ID != end {
		t.Errorf("twice: %+v", m)
	}
}

// TestPlaceIsKeptBehindTasks fails in the middle of a batch: the place stays before it.
func TestPlaceIsKeptBehindTasks(t *testing.T) {
	h := newHome(t)
	h.room("!g:home.test", bot, alice)
	c, _ := connect(t, h, "!g:home.test")
	ctx, in := soon(t), chattest.NewInbox()
	h.text("!g:home.test", alice, "one")
	h.text("!g:home.test", alice, "two")
	full := errors.New("the disk is full")
	in.Fail = func(m chat.Message) error {
		if m.Text == "two" {
			return full
		}
		return nil
	}
	if err := c.Receive(ctx, "s2", in); !errors.Is(err, full) || len(in.Kept) != 0 || len(in.Took) != 1 {
		t.Errorf("%v, kept %d, took %d", err, len(in.Kept), len(in.Took))
	}
}

func TestInvitations(t *testing.T) {
	h := newHome(t)
	h.room("!in:home.test", alice)
	h.room("!out:home.test", alice)
	h.text("!in:home.test", alice, "before we came")
	ctx, _, in, log := listening(t, h, "!in:home.test")
	if !log.has("M_FORBIDDEN") {
		t.Error("it does not say that we are not in the room")
	}
	h.invite("!out:home.test", bot)
	h.invite("!in:home.test", bot)
	for in := ""; in != "join"; { // it is in when it has asked for it; the test's time bounds it
		chattest.Next(ctx, t, ready(h))
		h.mu.Lock()
		in = h.rooms["!in:home.test"].members[bot]
		h.mu.Unlock()
	}
	h.text("!in:home.test", alice, "welcome")
	if m := chattest.Next(ctx, t, in.Took); m.Text != "welcome" {
		t.Errorf("%+v", m)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rooms["!out:home.test"].members[bot] != "invite" || !log.has("!out:home.test") {
		t.Error("it went where it was not to go")
	}
}

// ready is closed when something has happened at the server.
func ready(h *home) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rooms["!in:home.test"].members[bot] == "join" {
		done := make(chan struct{})
		close(done)
		return done
	}
	return h.changed
}

func TestEncryptedRooms(t *testing.T) {
	h := newHome(t)
	h.room("!e:home.test", bot, alice, bob).encrypted = true
	h.room("!g:home.test", bot, alice, bob)
	ctx, c, in, log := listening(t, h, "!e:home.test", "!g:home.test")
	h.text("!e:home.test", alice, "in the clear, where nothing should be")
	h.mu.Lock()
	h.add(h.rooms["!g:home.test"], object{"type": "m.room.encrypted", "sender": alice, "content": object{}})
	h.mu.Unlock()
	h.text("!g:home.test", alice, "plain")
	if m := chattest.Next(ctx, t, in.Took); m.Text != "plain" {
		t.Errorf("%+v", m)
	}
	if !log.has("!e:home.test: the room is encrypted") || !log.has(`"!g:home.test": the room is encrypted`) {
		t.Error(log.text)
	}
	_, err := c.Send(ctx, chat.Notice{Key: key, To: chat.Conversation{Peer: "!e:home.test", Group: true}, Text: "x"})
	if !errors.Is(err, chat.ErrRefused) || errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
	if _, err := c.Check(ctx); !errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "encrypted") {
		t.Error(err)
	}
}

func TestNotice(t *testing.T) {
	h := newHome(t)
	r := h.room("!g:home.test", bot, alice)
	h.aliases["#dev:home.test"] = "!g:home.test"
	ctx, c, in, _ := listening(t, h, "#dev:home.test")
	to := chat.Conversation{Peer: "#dev:home.test", Group: true, Thread: "$root"}
	n := chat.Notice{Key: key, To: to, Reply: "$asked", Text: "done\n\"yes\" \\ <b>"}
	first, err := c.Send(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	other, _ := connect(t, h, "#dev:home.test") // as after a kill
	if again, err := other.Send(ctx, n); err != nil || again != first {
		t.Errorf("sent twice: %s %s %v", first, again, err)
	}
	h.mu.Lock()
	sent := r.events[len(r.events)-1].event
	h.mu.Unlock()
	want := object{
		"msgtype": "m.notice", "body": n.Text,
		"m.relates_to": object{"rel_type": "m.thread", "event_id": "$root", "m.in_reply_to": object{"event_id": "$asked"}},
	}
	if !reflect.DeepEqual(sent["content"], want) || sent["event_id"] != first {
		t.Errorf("%v", sent)
	}
	h.read("!g:home.test", bot, "$other")
	h.read("!g:home.test", alice, first)
	if id := chattest.Next(ctx, t, in.Read); id != first {
		t.Errorf("seen: %s", id)
	}
	long := n
	if long.Key, long.Text = "k2", strings.Repeat("\"\\", Kind.Limits.Text/2); len(long.Text) != Kind.Limits.Text {
		t.Fatal(len(long.Text))
	}
	if _, err := c.Send(ctx, long); err != nil {
		t.Errorf("the longest text: %v", err)
	}
	long.Key, long.Text = "k3", strings.Repeat("x", maxEvent)
	if _, err := c.Send(ctx, long); !errors.Is(err, chat.ErrRefused) {
		t.Error(err)
	}
}

func TestFiles(t *testing.T) {
	h := newHome(t)
	r := h.room("!g:home.test", bot, alice)
	ctx, c, in, _ := listening(t, h, "!g:home.test")
	_, err := c.Send(ctx, chat.Notice{Key: key, To: chat.Conversation{Peer: "!g:home.test", Group: true}, Text: "all of it", File: &chat.File{
		Name: "a b.txt", Type: "text/plain", Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("long")), nil },
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	text, _ := json.Marshal(r.events[len(r.events)-1].event["content"])
	h.mu.Unlock()
	if string(text) != `{"body":"all of it","filename":"a b.txt","info":{"mimetype":"text/plain","size":4},"msgtype":"m.file","url":"mxc://home.test/m0"}` {
		t.Errorf("%s", text)
	}
	for _, c := range []struct {
		url, want string
		asks      bool
	}{
		{"mxc://home.test/m0", "long", true},
		{"mxc://home.test/none", "", true},
		{"mxc://home.test/..", "", false},
		{"mxc://home.test/a/b", "", false},
		{"mxc://../m0", "", false},
		{"https://home.test/m0", "", false},
	} {
		h.say("!g:home.test", alice, object{"msgtype": "m.image", "body": "see", "filename": "x.png", "url": c.url, "info": object{"mimetype": "image/png", "size": 1e3}})
		m := chattest.Next(ctx, t, in.Took)
		if len(m.Files) != 1 || m.Text != "see" || m.Files[0].Name != "x.png" {
			t.Fatalf("%+v", m)
		}
		got := ""
		f, err := m.Files[0].Open(ctx)
		if err == nil {
			data, _ := io.ReadAll(f)
			got = string(data)
		}
		h.mu.Lock()
		asked := slices.ContainsFunc(h.asked, func(r string) bool { return strings.HasPrefix(r, "GET /_matrix/client/v1/") })
		h.asked = nil
		h.mu.Unlock()
		if asked != c.asks {
			t.Errorf("%s: the server was asked: %v", c.url, asked)
		}
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q %v", c.url, got, err)
		}
	}
}

// A server older than 1.11 is asked as it knows it, and the token stays out of that.
func TestFilesOfAnOldServer(t *testing.T) {
	h := newHome(t)
	h.room("!g:home.test", bot, alice)
	h.old, h.media["m0"] = true, []byte("long")
	ctx, _, in, _ := listening(t, h, "!g:home.test")
	h.say("!g:home.test", alice, object{"msgtype": "m.file", "body": "x.txt", "url": "mxc://home.test/m0"})
	f, err := chattest.Next(ctx, t, in.Took).Files[0].Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if data, err := io.ReadAll(f); err != nil || string(data) != "long" {
		t.Errorf("%q %v", data, err)
	}
}

// FuzzSync takes what a server says, and holds what comes of it against what a bridge
// relies on.
func FuzzSync(f *testing.F) {
	f.Add([]byte(`{"next_batch":"s1","rooms":{"join":{"!r:h":{"timeline":{"events":[{"type":"m.room.message","event_id":"$1","sender":"@a:h","origin_server_ts":1,"content":{"msgtype":"m.text","body":"> x\n\nhi","m.relates_to":{"m.in_reply_to":{"event_id":"$0"},"rel_type":"m.thread","event_id":"$t"}}}]},"ephemeral":{"events":[{"type":"m.receipt","content":{"$1":{"m.read":{"@a:h":{"ts":1}}}}}]}}}}}`))
	f.Add([]byte(`{"rooms":{"join":{"!r":{"timeline":{"events":[7,null,{"type":"m.room.member","event_id":"$1","sender":"@m:h","state_key":"@m:h","content":{"membership":"join"},"unsigned":{"prev_content":7}},{"type":"m.room.message","event_id":"$2","sender":"@a:h","content":{"msgtype":"m.file","url":"mxc://h/x","info":{"size":1e3}}}]}}}}}`))
	c := newChannel(chat.Settings{}, nil)
	f.Fuzz(func(t *testing.T, data []byte) {
		var b batch
		if lenient(data, &b) != nil {
			return
		}
		const me = "@m:h"
		for id, room := range b.Rooms.Join {
			for _, raw := range room.Timeline.Events {
				e, ok := parseEvent(raw)
				if !ok {
					continue
				}
				e.entered(me)
				m, ok := c.parseMessage(&e, me)
				if !ok {
					continue
				}
				if m.ID[0] != '$' || m.From == me || m.At.Year() > 9999 || m.Text == "" && len(m.Files) == 0 && len(e.Content) == 0 {
					t.Errorf("%+v", m)
				}
				if isID(id, '!') && !strings.Contains(id, separator) {
					if r, thread := place(direct(m.From, id, m.In.Thread)); r != id || thread != m.In.Thread {
						t.Errorf("%q %q: %q %q", id, m.In.Thread, r, thread)
					}
				}
			}
			for _, raw := range room.Ephemeral.Events {
				for _, id := range readers(raw, me) {
					if !isID(id, '$') {
						t.Errorf("%q", id)
					}
				}
			}
		}
	})
}
