package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func noticeTo(peer, key, text string) chat.Notice {
	return chat.Notice{Key: key, To: chat.Conversation{Peer: peer, Group: strings.Contains(peer, ";+;")}, Text: text, Since: time.Now().Add(-time.Second)}
}

// What is sent comes back as a call with its tempGuid, and is no message.
func TestNoticeOut(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	c := f.channel(t, chat.Settings{Rooms: []string{room}})
	receive(ctx, t, c, "", in)
	f.called(ctx)
	f.chats = []string{"iMessage;-;" + alice}
	for _, peer := range []string{alice, room} {
		id, err := c.Send(ctx, noticeTo(peer, "key-"+peer, "done: \"42\" $x\n"))
		if err != nil || id == "" {
			t.Fatal(peer, id, err)
		}
		row := f.rows[len(f.rows)-1]
		if row["guid"] != id || row["text"] != `done: "42" $x` || !strings.HasSuffix(fmt.Sprint(row["chats"]), ":45]]") && peer == alice {
			t.Errorf("%v", row)
		}
	}
	f.say(object{"guid": "after"})
	if m := chattest.Next(ctx, t, in.Took); m.ID != "after" {
		t.Errorf("our own message was taken: %+v", m)
	}
}

// An answer goes into the chat where the person wrote, or into the first that the Mac has.
func TestChatOfPerson(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	c := f.channel(t, chat.Settings{})
	to := chat.Conversation{Peer: alice}
	if guid, err := c.chatOf(ctx, to); !errors.Is(err, chat.ErrRefused) {
		t.Errorf("no chat: %s %v", guid, err)
	}
	f.set(func() { f.chats = []string{"SMS;-;" + alice, "any;-;" + alice} })
	if guid, err := c.chatOf(ctx, to); guid != "any;-;"+alice || err != nil {
		t.Errorf("%s %v", guid, err)
	}
	f.add(object{"chats": chats("SMS;-;" + alice)})
	receive(ctx, t, c, "", in)
	chattest.Next(ctx, t, in.Took)
	if guid, err := c.chatOf(ctx, to); guid != "SMS;-;"+alice || err != nil {
		t.Errorf("%s %v", guid, err)
	}
}

func TestAnswersOfServers(t *testing.T) {
	f := newFake(t)
	f.chats = []string{"iMessage;-;" + alice}
	c := f.channel(t, chat.Settings{})
	failed := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			reply(w, 500, object{"guid": "G", "error": code}, "Failed to send message! See attached message error code.")
		}
	}
	says := func(status int, fault string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { reply(w, status, nil, fault) }
	}
	for i, a := range []struct {
		name   string
		answer http.HandlerFunc
		is     error
	}{
		{"no iMessage", failed(22), chat.ErrRefused},
		{"not delivered", failed(4), nil},
		{"after two minutes", says(500, "Message send timeout"), nil},
		{"a bad request", says(400, "The chat guid field is required"), chat.ErrRefused},
		{"another password", says(401, "Unauthorized"), chat.ErrSetup},
		{"no such page", says(404, "Not found"), chat.ErrSetup},
		{"no time", says(504, "The server took too long"), nil},
		{"cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil},
		{"no JSON", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, nil},
		{"the password", func(w http.ResponseWriter, r *http.Request) { reply(w, 500, nil, r.URL.String()+" "+password) }, nil},
	} {
		f.set(func() { f.sendText = a.answer })
		id, err := c.Send(limited(t), noticeTo(alice, fmt.Sprint("key", i), "x"))
		if err == nil || id != "" {
			t.Errorf("%s: %q %v", a.name, id, err)
		}
		for _, kind := range []error{chat.ErrRefused, chat.ErrSetup} {
			if errors.Is(err, kind) != (kind == a.is) {
				t.Errorf("%s: %v", a.name, err)
			}
		}
		mustNotTell(t, err)
	}
	f.set(func() {
		f.sendText = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "9")
			reply(w, 503, nil, "later")
		}
	})
	_, err := c.Send(limited(t), noticeTo(alice, "wait", "x"))
	if wait := (*chat.WaitError)(nil); !errors.As(err, &wait) || wait.For != 9*time.Second {
		t.Errorf("a pause: %v", err)
	}
}

// Killed while the server sends: the same key is refused without being final as long
// as it is at it, and found by its text after.
func TestKilledSending(t *testing.T) {
	f := newFake(t)
	f.chats = []string{"iMessage;-;" + alice}
	sending, land := make(chan struct{}), make(chan struct{})
	f.sendText = func(w http.ResponseWriter, r *http.Request) {
		close(sending)
		<-land
		f.add(object{"guid": "landed", "text": "slow", "isFromMe": true})
		reply(w, 200, object{"guid": "landed"})
	}
	n := noticeTo(alice, "slow-key", "slow\n")
	ctx, kill := context.WithCancel(limited(t))
	killed := make(chan error, 1)
	go func() { _, err := f.channel(t, chat.Settings{}).Send(ctx, n); killed <- err }()
	<-sending
	kill()
	if err := <-killed; !errors.Is(err, context.Canceled) {
		t.Errorf("killed: %v", err)
	}
	next := f.channel(t, chat.Settings{})
	if id, err := next.Sent(limited(t), n); id != "" || err != nil {
		t.Errorf("not there yet: %q %v", id, err)
	}
	var wait *chat.WaitError // would say that it was not sent
	if _, err := next.Send(limited(t), n); err == nil || errors.Is(err, chat.ErrRefused) || errors.As(err, &wait) {
		t.Errorf("while it is sent: %v", err)
	}
	close(land)
	for id := ""; id != "landed"; {
		var err error
		if id, err = next.Sent(limited(t), n); err != nil {
			t.Fatal(err)
		}
	}
}

// What Sent tells apart, with a server whose clock is an hour ahead.
func TestSent(t *testing.T) {
	ctx, f := limited(t), newFake(t)
	f.skew, f.chats = time.Hour, []string{"iMessage;-;" + alice}
	c := f.channel(t, chat.Settings{})
	before := func(d time.Duration) int64 { return time.Now().Add(f.skew - d).UnixMilli() }
	for i := range pageRows + 5 {
		f.add(object{"text": fmt.Sprint("talk ", i)})
	}
	f.add(object{"guid": "theirs", "text": "done: 42"})
	f.add(object{"guid": "failed", "text": "done: 42", "isFromMe": true, "error": 4})
	f.add(object{"guid": "earlier", "text": "done: 42", "isFromMe": true, "dateCreated": before(time.Minute)})
	f.add(object{"guid": "elsewhere", "text": "done: 42", "isFromMe": true, "chats": chats("iMessage;-;+1999")})
	f.add(object{"guid": "reaction", "text": "done: 42", "isFromMe": true, "associatedMessageType": "like"})
	a, b := noticeTo(alice, "a", "done: 42\n"), noticeTo(alice, "b", "done: 42\n")
	if id, err := c.Sent(ctx, a); id != "" || err != nil {
		t.Errorf("found %q %v", id, err)
	}
	f.add(object{"guid": "it", "text": "done:  42", "isFromMe": true})
	if id, err := c.Sent(ctx, a); id != "it" || err != nil {
		t.Errorf("found %q %v", id, err)
	}
	if id, err := c.Sent(ctx, b); id != "" || err != nil {
		t.Errorf("another notice with the same text: %q %v", id, err)
	}
	if id, err := c.Sent(ctx, a); id != "it" || err != nil {
		t.Errorf("asked again: %q %v", id, err)
	}
	id, err := c.Send(ctx, b)
	if err != nil || id == "it" {
		t.Fatal(id, err)
	}
	if got, err := c.Sent(ctx, b); got != id || err != nil {
		t.Errorf("%q %v, want %q", got, err, id)
	}
	if got, err := c.Sent(ctx, noticeTo(alice, "c", "✅")); got != "" || err != nil {
		t.Errorf("a text without letters: %q %v", got, err)
	}
}

func TestCheck(t *testing.T) {
	f := newFake(t)
	if said, err := f.channel(t, chat.Settings{}).Check(t.Context()); err != nil || said != "BlueBubbles 1.9.9 on macOS 15.1, me@example.org" {
		t.Error(said, err)
	}
	if _, err := f.channel(t, chat.Settings{Method: "private-api"}).Check(t.Context()); !errors.Is(err, chat.ErrSetup) {
		t.Errorf("a private API that is off: %v", err)
	}
	_, err := f.channel(t, chat.Settings{Password: "another"}).Check(t.Context())
	if !errors.Is(err, chat.ErrSetup) {
		t.Errorf("another password: %v", err)
	}
	if f.asked() > 0 || len(f.table()) > 0 {
		t.Error("Check did something")
	}
	for name, s := range map[string]chat.Settings{
		"no password":           {Server: f.URL},
		"a method of its own":   {Server: f.URL, Password: "x", Method: "carrier-pigeon"},
		"in the clear":          {Server: "http://mac.example:1234", Password: "x"},
		"open to all":           {Server: f.URL, Password: "x", Listen: "192.0.2.1:1"},
		"listening to anything": {Server: f.URL, Password: "x", Listen: "0.0.0.0:1", Insecure: true},
	} {
		if _, err := open(s); !errors.Is(err, chat.ErrSetup) {
			t.Errorf("%s: %v", name, err)
		}
	}
	far, err := open(chat.Settings{Server: "https://mac.example", Password: "x"})
	if err != nil || far.(*channel).listen != "" || far.(*channel).every != aloneTime {
		t.Errorf("a server that cannot call: %+v %v", far, err)
	}
}

func TestBadFiles(t *testing.T) {
	f := newFake(t)
	c := f.channel(t, chat.Settings{})
	if _, err := c.file(t.Context(), "gone"); err == nil || errors.Is(err, chat.ErrSetup) {
		t.Errorf("gone: %v", err)
	}
	f.set(func() {
		f.answer = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			fmt.Fprint(w, "half")
		}
	})
	file, err := c.file(t.Context(), "cut")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := io.ReadAll(file); err == nil {
		t.Error("half a file is a file")
	}
}
