package telegram

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// What was said before the bridge was there is not its business; what is said from
// the first look on is, also when the first process was killed at once.
func TestFromNowOn(t *testing.T) {
	ctx := within(t)
	for name, before := range map[string][]string{"silence": nil, "old messages": {direct(7, "old"), direct(8, "older")}} {
		f := newFake(t)
		f.says(before...)
		in := chattest.NewInbox()
		once, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- f.open(t).Receive(once, "", in) }()
		kept := chattest.Next(ctx, t, in.Kept)
		stop()
		<-ended
		f.says(direct(9, "new"))
		chattest.Receiving(ctx, t, f.open(t), kept, in)
		if m := chattest.Next(ctx, t, in.Took); m.Text != "new" {
			t.Errorf("%s: %+v", name, m)
		}
	}
}

// A message is confirmed to the server when its place is kept, and not before: a kill
// at any moment loses none.
func TestKeptPlace(t *testing.T) {
	ctx := within(t)
	f := newFake(t)
	f.says(direct(1, "a"), direct(2, "b"), direct(3, "c"))
	in := chattest.NewInbox()
	broken := errors.New("the disk is full")
	in.Fail = func(m chat.Message) error {
		if m.Text == "b" {
			return broken
		}
		return nil
	}
	if err := f.open(t).Receive(ctx, "0", in); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if kept := chattest.Next(ctx, t, in.Kept); kept != "1" || len(in.Kept) > 0 {
		t.Fatalf("kept %s", kept)
	}
	if left := f.left(); !slices.Equal(left, []int64{1, 2, 3}) {
		t.Fatalf("confirmed before they were kept: %v are left", left)
	}
	in = chattest.NewInbox()
	chattest.Receiving(ctx, t, f.open(t), "1", in)
	for _, want := range []string{"b", "c"} {
		if m := chattest.Next(ctx, t, in.Took); m.Text != want {
			t.Errorf("want %s: %+v", want, m)
		}
	}
	f.says(direct(4, "d"))
	if m, left := chattest.Next(ctx, t, in.Took), f.left(); m.Text != "d" || len(left) > 1 { // it may be confirmed by now
		t.Errorf("%+v; %v are left", m, left)
	}
}

// After a week of silence the server begins with any number.
func TestLowerIDs(t *testing.T) {
	ctx := within(t)
	f := newFake(t)
	f.says(direct(5, "low"))
	in := chattest.NewInbox()
	chattest.Receiving(ctx, t, f.open(t), "900000", in)
	if m := chattest.Next(ctx, t, in.Took); m.Text != "low" {
		t.Error(m)
	}
	f.says(direct(6, "next"))
	if m := chattest.Next(ctx, t, in.Took); m.Text != "next" {
		t.Error(m)
	}
}

// What comes twice has the same ID, and a server that repeats itself without end is
// not asked without end.
func TestRepeated(t *testing.T) {
	ctx := within(t)
	f := newFake(t)
	var polls atomic.Int64
	f.misbehave(func(method string, w http.ResponseWriter, _ *http.Request) bool {
		if method == "getUpdates" {
			polls.Add(1)
			io.WriteString(w, `{"ok":true,"result":[`+direct(4, "x")+`]}`)
		}
		return method == "getUpdates"
	})
	in := chattest.NewInbox()
	began := time.Now()
	chattest.Receiving(ctx, t, f.open(t), "3", in)
	a, b := chattest.Next(ctx, t, in.Took), chattest.Next(ctx, t, in.Took)
	if a.ID != b.ID || a.ID != "55:40" {
		t.Error(a.ID, b.ID)
	}
	if chattest.Next(ctx, t, in.Took); time.Since(began) < time.Second || polls.Load() > 4 {
		t.Errorf("%d polls in %s", polls.Load(), time.Since(began))
	}
}

func TestHeard(t *testing.T) {
	ctx := within(t)
	f := newFake(t)
	in := chattest.NewInbox()
	chattest.Receiving(ctx, t, f.open(t), "0", in)
	f.says(
		direct(1, "hello"),
		`{"update_id":2,"edited_message":{"message_id":10,"date":1,"text":"edited","from":{"id":55},"chat":{"id":55,"type":"private"}}}`,
		`{"update_id":3,"message":{"message_id":3,"date":1,"text":"a bot","from":{"id":9,"is_bot":true},"chat":{"id":-100,"type":"group"}}}`,
		`{"update_id":4,"message":{"message_id":3,"date":1,"text":"myself","from":{"id":4711},"chat":{"id":-100,"type":"group"}}}`,
		grouped(5, "an anonymous admin", `,"sender_chat":{"id":-100,"type":"supergroup"}`),
		`{"update_id":6,"channel_post":{"message_id":3,"date":1,"text":"a channel","chat":{"id":-100,"type":"channel"}}}`,
		`{"update_id":7,"message":"garbage"}`,
		grouped(8, "/status@other_bot", ""),
		grouped(9, "", `,"migrate_to_chat_id":-200`),
		grouped(10, "/status@mboxbot now", `,"message_thread_id":77,"is_topic_message":true`),
		grouped(11, "@MboxBot, look", `,"message_thread_id":77`),
	)
	m := chattest.Next(ctx, t, in.Took)
	if m.From != "55" || m.Name != "ann" || m.In != (chat.Conversation{Peer: "55"}) || m.Text != "hello" || m.At.Unix() != 1700000000 {
		t.Errorf("%+v", m)
	}
	m = chattest.Next(ctx, t, in.Took)
	if m.In != (chat.Conversation{Peer: "-100", Group: true, Thread: "77"}) || m.Text != "/status now" || m.Name != "Ann B" || m.ID != "-100:100" {
		t.Errorf("%+v", m)
	}
	m = chattest.Next(ctx, t, in.Took)
	if m.In.Thread != "" || m.Text != "look" {
		t.Errorf("%+v", m)
	}
	for kept := ""; kept != "11"; kept = chattest.Next(ctx, t, in.Kept) { // also what is left out moves the place
	}
}

func TestFiles(t *testing.T) {
	ctx := within(t)
	f := newFake(t)
	f.files["documents/a b.txt"], f.files["long"] = "content", strings.Repeat("x", maxFile+1)
	in := chattest.NewInbox()
	chattest.Receiving(ctx, t, f.open(t), "0", in)
	message := func(id, what string) string {
		return `{"update_id":` + id + `,"message":{"message_id":1,"date":1,"caption":"see","from":{"id":55},"chat":{"id":55,"type":"private"},` + what + `}}`
	}
	f.says(
		message("1", `"document":{"file_id":"documents/a b.txt","file_name":"../a.txt","mime_type":"text/plain","file_size":7}`),
		message("2", `"photo":[{"file_id":"small"},{"file_id":"long"}]`),
		message("3", `"voice":{"file_id":"../../elsewhere"}`),
	)
	m := chattest.Next(ctx, t, in.Took)
	if m.Text != "see" || len(m.Files) != 1 || m.Files[0].Name != "../a.txt" || m.Files[0].Type != "text/plain" || m.Files[0].Size != 7 {
		t.Fatalf("%+v", m)
	}
	if got, err := content(ctx, m.Files[0]); err != nil || got != "content" {
		t.Error(got, err)
	}
	m = chattest.Next(ctx, t, in.Took)
	if got, err := content(ctx, m.Files[0]); err == nil || len(got) > maxFile || m.Files[0].Size != -1 {
		t.Errorf("%d bytes of a file that is too long: %v", len(got), err)
	}
	m = chattest.Next(ctx, t, in.Took)
	if _, err := content(ctx, m.Files[0]); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("a path out of the files: %v", err)
	}
}

func content(ctx context.Context, f chat.File) (string, error) {
	r, err := f.Open(ctx)
	if err != nil {
		return "", err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	return string(b), err
}

// refuses answers polls with an error; other methods work.
func refuses(code int, text, parameters string) func(string, http.ResponseWriter, *http.Request) bool {
	return func(method string, w http.ResponseWriter, _ *http.Request) bool {
		if method == "getUpdates" {
			no(w, code, text, parameters)
		}
		return method == "getUpdates"
	}
}

func raw(answer func(http.ResponseWriter)) func(string, http.ResponseWriter, *http.Request) bool {
	return func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		answer(w)
		return true
	}
}

var garbage = map[string]func(string, http.ResponseWriter, *http.Request) bool{
	"cut":        raw(func(http.ResponseWriter) { panic(http.ErrAbortHandler) }),
	"half":       raw(func(w http.ResponseWriter) { w.Header().Set("Content-Length", "99"); io.WriteString(w, `{"ok":`) }),
	"a page":     raw(func(w http.ResponseWriter) { w.WriteHeader(502); io.WriteString(w, "<html>bad gateway</html>") }),
	"no page":    raw(func(w http.ResponseWriter) { w.WriteHeader(404); io.WriteString(w, "<html>gone</html>") }),
	"a number":   raw(func(w http.ResponseWriter) { io.WriteString(w, "7") }),
	"not a list": raw(func(w http.ResponseWriter) { io.WriteString(w, `{"ok":true,"result":7}`) }),
	"deep":       raw(func(w http.ResponseWriter) { io.WriteString(w, `{"result":`+strings.Repeat("[", 1<<20)) }),
	"endless": raw(func(w http.ResponseWriter) {
		for block := make([]byte, 1<<20); ; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}),
}

func TestReceiveErrors(t *testing.T) {
	f := newFake(t)
	try := func(name string, wrong func(string, http.ResponseWriter, *http.Request) bool) error {
		f.misbehave(wrong)
		err := f.open(t).Receive(within(t), "1", chattest.NewInbox())
		if err == nil || strings.Contains(err.Error(), token) || strings.Contains(err.Error(), "AAtest") || len(err.Error()) > 700 {
			t.Errorf("%s: %v", name, err)
		}
		return err
	}
	for name, wrong := range garbage {
		if err := try(name, wrong); errors.Is(err, chat.ErrSetup) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var wait *chat.WaitError
	if err := try("too many", refuses(429, "Too Many Requests", `{"retry_after":17}`)); !errors.As(err, &wait) || wait.For != 17*time.Second {
		t.Errorf("too many: %v", err)
	}
	if err := try("another poller", refuses(409, "Conflict: terminated by other getUpdates request", "")); !errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "another program") {
		t.Error(err)
	}
	if err := try("a bad gateway", refuses(502, "Bad Gateway for "+token, "")); errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
	f.hook = "https://example.org/" + token
	if err := try("a webhook", refuses(409, "Conflict: can't use getUpdates method while webhook is active", "")); !errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "deleteWebhook") {
		t.Error(err)
	}
	if err := try("no such bot", func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		no(w, 401, "Unauthorized", "")
		return true
	}); !errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "BotFather") {
		t.Error(err)
	}
}

// The server may still hold a poll of ours from before a kill.
func TestConflictPasses(t *testing.T) {
	ctx := within(t)
	f := newFake(t)
	var polls atomic.Int64
	f.misbehave(func(method string, w http.ResponseWriter, r *http.Request) bool {
		return method == "getUpdates" && polls.Add(1) <= 3 && refuses(409, "Conflict", "")(method, w, r)
	})
	f.says(direct(2, "after all"))
	in := chattest.NewInbox()
	chattest.Receiving(ctx, t, f.open(t), "1", in)
	if m := chattest.Next(ctx, t, in.Took); m.Text != "after all" {
		t.Error(m)
	}
}

// Receive ends at once in each of its waits, and leaves no goroutine.
func TestReceiveEnds(t *testing.T) {
	f := newFake(t)
	before := runtime.NumGoroutine()
	for name, wrong := range map[string]func(string, http.ResponseWriter, *http.Request) bool{
		"a poll": nil,
		"a server that says nothing": func(_ string, _ http.ResponseWriter, r *http.Request) bool {
			_, _ = io.Copy(io.Discard, r.Body) // else the server does not see that we have gone
			<-r.Context().Done()
			return true
		},
		"conflicts": refuses(409, "Conflict", ""),
	} {
		f.misbehave(wrong)
		c := f.open(t)
		c.first = time.Hour
		ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		began := time.Now()
		if err := c.Receive(ctx, "1", chattest.NewInbox()); err == nil || time.Since(began) > time.Second {
			t.Errorf("%s: %v after %s", name, err, time.Since(began))
		}
		stop()
	}
	f.CloseClientConnections()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before+1; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, and %d before", runtime.NumGoroutine(), before)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(direct(1, "/help@mboxbot x")))
	f.Add([]byte(grouped(2, "@mboxbot: x", `,"sender_chat":{"id":1},"photo":[{}]`)))
	f.Add([]byte(`{"update_id":3,"message":{"from":{"id":-1},"text":"\ud800"}}`))
	f.Add([]byte(`{"update_id":-3}`))
	c := &channel{id: botID}
	f.Fuzz(func(t *testing.T, text []byte) {
		u, ok, err := read(text)
		if err == nil && ok && u.ID < 0 {
			t.Errorf("update %d", u.ID)
		}
		said, heard := c.heard(u.Message, account{Username: "MboxBot"})
		if heard && (said.ID == "" || said.From == "" || said.From[0] == '-' || said.In.Peer == "" || !said.In.Group && said.In.Peer != said.From) {
			t.Errorf("%+v", said)
		}
	})
}

// A bot that got a new token is the same one: what waits for it is not left out.
func TestAccount(t *testing.T) {
	if was, is := Kind.Account(chat.Settings{Token: "4711:old"}), Kind.Account(chat.Settings{Token: "4711:new"}); was != "4711" || is != was {
		t.Errorf("%q became %q", was, is)
	}
}
