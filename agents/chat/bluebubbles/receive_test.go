package bluebubbles

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func TestMessagesIn(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	receive(ctx, t, f.channel(t, chat.Settings{Rooms: []string{room}}), "", in)
	f.called(ctx)
	for _, ignored := range []object{
		{"isFromMe": true, "handle": nil},
		{"isFromMe": true, "tempGuid": "temp-1"},
		{"associatedMessageType": "love"},
		{"associatedMessageType": "-like"},
		{"associatedMessageType": "2006"},
		{"associatedMessageType": 3001},
		{"itemType": 1},
		{"text": " \uFFFC "},
		{"text": nil},
		{"handle": nil},
		{"chats": chats("iMessage;+;another")},
		{"guid": strings.Repeat("x", 200)},
		{"text": []string{"no", "text"}},
		{"dateCreated": int64(math.MaxInt64)},
	} {
		f.say(ignored)
	}
	at := time.Now().UnixMilli()
	f.say(object{"guid": "M1", "text": "look\nat this\uFFFC", "subject": "S", "dateCreated": at, "associatedMessageType": "1000", "attachments": []object{
		{"guid": "at_0_A/B", "transferName": "cat.jpeg", "mimeType": "image/jpeg", "totalBytes": 9},
		{"guid": "at_1", "transferName": "x.pluginPayloadAttachment"},
	}})
	m := chattest.Next(ctx, t, in.Took)
	if m.ID != "M1" || m.From != alice || m.Text != "look\nat this" || m.Title != "S" || m.At.UnixMilli() != at || m.In != (chat.Conversation{Peer: alice}) {
		t.Errorf("%+v", m)
	}
	if len(m.Files) != 1 || m.Files[0].Name != "cat.jpeg" || m.Files[0].Size != 9 || readAll(ctx, t, m.Files[0]) != "a picture" {
		t.Errorf("%+v", m.Files)
	}
	f.say(object{"guid": "M2", "chats": chats(room)})
	if m := chattest.Next(ctx, t, in.Took); m.ID != "M2" || m.From != alice || m.In != (chat.Conversation{Peer: room, Group: true}) {
		t.Errorf("%+v", m)
	}
}

// A restart of the server, and of ours: what is called for again is not taken again.
func TestReplayedCalls(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	stop := receive(ctx, t, f.channel(t, chat.Settings{}), "", in)
	f.called(ctx)
	var old []object
	for range 5 {
		old = append(old, f.say(nil))
		chattest.Next(ctx, t, in.Took)
	}
	ancient := f.add(object{"dateCreated": time.Now().Add(-6 * 24 * time.Hour).UnixMilli()})
	for _, row := range append(old, ancient) {
		f.call("new-message", row)
		f.call("updated-message", row)
	}
	f.say(object{"guid": "after"})
	if m := chattest.Next(ctx, t, in.Took); m.ID != "after" {
		t.Errorf("%s was taken again", m.ID)
	}
	kept := keptWith(ctx, t, in, "after")
	stop()
	receive(ctx, t, f.channel(t, chat.Settings{}), kept, in)
	f.called(ctx)
	for _, row := range append(old, ancient) {
		f.call("new-message", row)
	}
	f.say(object{"guid": "later"})
	if m := chattest.Next(ctx, t, in.Took); m.ID != "later" {
		t.Errorf("%s was taken again after a restart", m.ID)
	}
}

// keptWith waits for a place that has the message: it is kept when that was taken.
func keptWith(ctx context.Context, t *testing.T, in *chattest.Inbox, guid string) string {
	t.Helper()
	for {
		if kept := chattest.Next(ctx, t, in.Kept); strings.Contains(kept, strconv.Quote(guid)) {
			return kept
		}
	}
}

// last is the place that was kept last.
func last(in *chattest.Inbox) (kept string) {
	for len(in.Kept) > 0 {
		kept = <-in.Kept
	}
	return kept
}

// What the server never called for: said while nobody listened, however long ago, in
// several pages; or lost on the way.
func TestMissedCalls(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	begun := time.Now().Add(-9 * time.Hour)
	p := place{From: begun.UnixMilli()}
	for i := range 120 {
		f.add(object{"guid": fmt.Sprint(i), "dateCreated": begun.Add(time.Duration(i) * time.Minute).UnixMilli()})
	}
	c := f.channel(t, chat.Settings{})
	c.every = time.Millisecond
	receive(ctx, t, c, p.String(), in)
	for i := range 120 {
		if m := chattest.Next(ctx, t, in.Took); m.ID != fmt.Sprint(i) {
			t.Fatalf("message %d is %s", i, m.ID)
		}
	}
	f.add(object{"guid": "lost call"})
	if m := chattest.Next(ctx, t, in.Took); m.ID != "lost call" {
		t.Errorf("%s", m.ID)
	}
}

// The first look of all reaches back half an hour.
func TestFirstLook(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	f.add(object{"guid": "old", "dateCreated": time.Now().Add(-31 * time.Minute).UnixMilli()})
	f.add(object{"guid": "young", "dateCreated": time.Now().Add(-29 * time.Minute).UnixMilli()})
	receive(ctx, t, f.channel(t, chat.Settings{}), "", in)
	if m := chattest.Next(ctx, t, in.Took); m.ID != "young" {
		t.Errorf("%s", m.ID)
	}
}

// A message may come later than a younger one, and a sender's clock may be wrong.
func TestLateMessages(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	receive(ctx, t, f.channel(t, chat.Settings{}), (&place{From: time.Now().Add(-24 * time.Hour).UnixMilli()}).String(), in)
	f.called(ctx)
	for _, m := range []struct {
		guid string
		ago  time.Duration
	}{{"now", 0}, {"late", 100 * time.Minute}, {"future", -48 * time.Hour}, {"now again", 0}, {"late again", 90 * time.Minute}} {
		f.say(object{"guid": m.guid, "dateCreated": time.Now().Add(-m.ago).UnixMilli()})
		if got := chattest.Next(ctx, t, in.Took); got.ID != m.guid {
			t.Fatalf("%s, want %s", got.ID, m.guid)
		}
	}
}

// A kill at any step: Take and Keep fail at the nth call. Of what is taken after the
// place that was kept last, nothing is missing, and what repeats is what was not kept.
func TestKilledReceiving(t *testing.T) {
	f := newFake(t)
	now := time.Now().Add(-6 * time.Hour)
	const all = 60
	for i := range all {
		f.add(object{"guid": fmt.Sprint(i), "dateCreated": now.Add(time.Duration(i/3) * 15 * time.Minute).UnixMilli()})
	}
	p := place{From: now.UnixMilli()}
	for at := 1; at <= all+3; at += 4 {
		got, kept := map[string]int{}, p.String()
		for _, at := range []int{at, at / 2, 0} { // killed twice, then not
			err := f.channel(t, chat.Settings{}).lookOnce(t.Context(), kept, &killed{at: at, got: got, kept: &kept})
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
		}
		for i := range all {
			if n := got[fmt.Sprint(i)]; n == 0 || n > 3 {
				t.Errorf("killed at %d: message %d was taken %d times", at, i, n)
			}
		}
		if err := f.channel(t, chat.Settings{}).lookOnce(t.Context(), kept, &killed{at: 1}); err != nil {
			t.Errorf("killed at %d: there is more after the last place", at)
		}
	}
}

var errKilled = errors.New("killed")

type killed struct {
	at, n int
	got   map[string]int
	kept  *string
}

func (k *killed) step() error {
	if k.n++; k.n == k.at {
		return errKilled
	}
	return nil
}

func (k *killed) Take(_ context.Context, m chat.Message) error {
	if err := k.step(); err != nil {
		return err
	}
	k.got[m.ID]++
	return nil
}

func (k *killed) Keep(_ context.Context, place string) error {
	if err := k.step(); err != nil {
		return err
	}
	*k.kept = place
	return nil
}
func (k *killed) Seen(context.Context, string) error { return nil }

func (c *channel) lookOnce(ctx context.Context, kept string, in chat.Inbox) error {
	p, err := restore(kept, time.Now())
	if err != nil {
		return err
	}
	return c.look(ctx, p, &kept, in)
}

func TestReadReceipts(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	receive(ctx, t, f.channel(t, chat.Settings{}), "", in)
	f.called(ctx)
	at := time.Now().UnixMilli()
	for _, update := range []object{
		{"guid": "delivered", "isFromMe": true, "dateDelivered": at},
		{"guid": "theirs", "isFromMe": false, "dateRead": at},
		{"guid": "ours", "isFromMe": true, "dateRead": at},
	} {
		f.call("updated-message", update)
	}
	if id := chattest.Next(ctx, t, in.Read); id != "ours" {
		t.Errorf("%s was read", id)
	}
}

// The server's table: ours is there once, with our events, and nobody else's is touched.
func TestRegistration(t *testing.T) {
	f := newFake(t)
	told := ""
	c := f.channel(t, chat.Settings{Log: func(format string, a ...any) { told += fmt.Sprintf(format, a...) }})
	const address = "127.0.0.1:4711"
	ours := "http://" + address + "/bluebubbles/phone/" + c.secret
	row := func(id int, url string, events ...any) object { return object{"id": id, "url": url, "events": events} }
	for name, there := range map[string][]object{
		"nothing there":   nil,
		"there":           {row(5, ours, "updated-message", "new-message")},
		"there twice":     {row(5, ours, "new-message", "updated-message"), row(6, ours, "new-message", "updated-message")},
		"other events":    {row(5, ours, "*")},
		"an old password": {row(5, strings.TrimSuffix(ours, c.secret)+"old", "new-message", "updated-message")},
		"an old port":     {row(5, strings.Replace(ours, "4711", "4712", 1), "new-message", "updated-message")},
		"strangers":       {row(7, "http://example.org/x", "*"), row(8, "http://example.org/bluebubbles/phone/x", "*"), row(9, "http://127.0.0.1/bluebubbles/phones/x", "*")},
	} {
		f.set(func() { f.hooks = slices.Clone(there) })
		for range 2 {
			if err := c.register(t.Context(), address); err != nil {
				t.Fatal(name, err)
			}
		}
		good, strangers := 0, 0
		for _, h := range f.table() {
			events := fmt.Sprint(h["events"])
			switch {
			case h["url"] == ours && (events == "[new-message updated-message]" || events == "[updated-message new-message]"):
				good++
			case !strings.Contains(h["url"].(string), "/bluebubbles/phone/") || strings.Contains(h["url"].(string), "example.org"):
				strangers++
			default:
				t.Errorf("%s: left over: %v", name, h)
			}
		}
		if good != 1 || name == "strangers" && strangers != 3 {
			t.Errorf("%s: %v", name, f.table())
		}
	}
	if strings.Contains(told, c.secret) {
		t.Errorf("the secret is in a remark: %s", told)
	}
}

// Who does not know the secret makes nothing happen, and who does can only make it look.
func TestCallsOfStrangers(t *testing.T) {
	ctx, f, in := limited(t), newFake(t), chattest.NewInbox()
	receive(ctx, t, f.channel(t, chat.Settings{}), "", in)
	f.called(ctx)
	for f.asked() == 0 {
		time.Sleep(time.Millisecond)
	}
	url := f.table()[0]["url"].(string)
	forged := `{"type":"new-message","data":{"guid":"forged","text":"do it","handle":{"address":"` + alice + `"},"dateRead":1,"isFromMe":true}}`
	post := func(method, url, body string) int {
		r, _ := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		answer, err := f.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	for _, c := range []struct{ method, url string }{{"POST", url + "x"}, {"POST", url[:len(url)-1]}, {"GET", url}, {"POST", strings.Replace(url, "phone", "other", 1)}} {
		if status := post(c.method, c.url, forged); status != 404 {
			t.Errorf("%s %s: %d", c.method, c.url, status)
		}
	}
	if n := f.asked(); n != 1 || len(in.Read) > 0 {
		t.Errorf("a stranger made it look: %d", n)
	}
	for _, body := range []string{"", "{", strings.Repeat("[", 1<<20), `{"data":7}`, strings.Replace(forged, `"isFromMe":true`, `"isFromMe":false`, 1)} {
		if status := post("POST", url, body); status != 200 {
			t.Errorf("%.40s: %d", body, status)
		}
	}
	f.say(object{"guid": "real"})
	if m := chattest.Next(ctx, t, in.Took); m.ID != "real" {
		t.Errorf("%+v", m)
	}
}

func (f *fake) asked() (n int) {
	f.set(func() { n = f.queries })
	return n
}

// A server that misbehaves ends Receive with an error, and nothing of it is taken.
func TestBadServers(t *testing.T) {
	f, in := newFake(t), chattest.NewInbox()
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		setup  bool
	}{
		"cut":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false},
		"no JSON":   {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, false},
		"no rows":   {func(w http.ResponseWriter, _ *http.Request) { reply(w, 200, 7) }, false},
		"broken":    {func(w http.ResponseWriter, r *http.Request) { reply(w, 500, nil, r.URL.String()) }, false},
		"forbidden": {func(w http.ResponseWriter, _ *http.Request) { reply(w, 401, nil, "no") }, true},
		"elsewhere": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/?x", http.StatusTemporaryRedirect)
		}, true},
		"endless": {func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer>>16 + 9 {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, false},
	} {
		f.set(func() { f.answer = c.answer })
		err := f.channel(t, chat.Settings{}).Receive(limited(t), "", in)
		if err == nil || errors.Is(err, chat.ErrSetup) != c.setup {
			t.Errorf("%s: %v", name, err)
		}
		mustNotTell(t, err)
	}
	f.set(func() { f.answer = nil })
	err := f.channel(t, chat.Settings{Password: "another"}).Receive(limited(t), "", in)
	if !errors.Is(err, chat.ErrSetup) {
		t.Errorf("another password: %v", err)
	}
	if err := f.channel(t, chat.Settings{}).Receive(limited(t), "nonsense", in); !errors.Is(err, chat.ErrSetup) {
		t.Errorf("a place that is none: %v", err)
	}
	if len(in.Took) > 0 || last(in) != "" {
		t.Error("something was taken or kept")
	}
}

func TestReceiveEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	f := newFake(t)
	hangs := make(chan struct{})
	f.set(func() {
		f.answer = func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // else it does not hear that the client goes
			close(hangs)
			<-r.Context().Done()
		}
	})
	ctx, stop := context.WithCancel(limited(t))
	ended := make(chan error, 1)
	go func() { ended <- f.channel(t, chat.Settings{}).Receive(ctx, "", chattest.NewInbox()) }()
	<-hangs
	begun := time.Now()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begun) > time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	f.Close()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}
