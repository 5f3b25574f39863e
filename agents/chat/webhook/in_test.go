package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

const secret = "0123456789abcdef-secret"

// hook is a channel that listens, and what the tests know of it.
type hook struct {
	*channel
	at string
}

// listening starts a channel; what it does when the test ends is the caller's.
func listening(ctx context.Context, t *testing.T, kept string, in chat.Inbox) (h hook, ended chan error) {
	t.Helper()
	at := make(chan string, 9)
	c, err := open(chat.Settings{Token: secret, Listen: "127.0.0.1:0", Log: func(f string, a ...any) {
		if _, url, ok := strings.Cut(fmt.Sprintf(f, a...), "listens on "); ok {
			at <- url
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() { ended <- c.Receive(ctx, kept, in) }()
	return hook{c.(*channel), chattest.Next(ctx, t, at)}, ended
}

// post posts a body; the last header is the signature's where none is given.
func (h hook) post(t *testing.T, body string, headers ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(signatureHeader, h.sign([]byte(body)))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestMessageIn(t *testing.T) {
	ctx, in := limited(t), chattest.NewInbox()
	h, _ := listening(ctx, t, "", in)
	status, text := h.post(t, `{"sender":"ci","content":"the build\nis red","thread_id":"7","id":"42","more":1}`)
	if status != http.StatusAccepted || !strings.Contains(text, `"ci/42"`) {
		t.Fatalf("%d %s", status, text)
	}
	m := chattest.Next(ctx, t, in.Took)
	if m.ID != "ci/42" || m.From != "ci" || m.Text != "the build\nis red" || m.In != (chat.Conversation{Peer: "ci", Thread: "7"}) || m.At.IsZero() {
		t.Errorf("%+v", m)
	}
}

func TestRefusedRequests(t *testing.T) {
	in := chattest.NewInbox()
	h, _ := listening(limited(t), t, "", in)
	const good = `{"sender":"ci","content":"x"}`
	for _, c := range []struct {
		name, body string
		headers    []string
		want       int
	}{
		{"no signature", good, []string{signatureHeader, ""}, 401},
		{"a signature of something else", good, []string{signatureHeader, h.sign([]byte("x"))}, 401},
		{"half a signature", good, []string{signatureHeader, h.sign([]byte(good))[:40]}, 401},
		{"a signature without its name", good, []string{signatureHeader, h.sign([]byte(good))[len(signatureStart):]}, 401},
		{"too large", strings.Repeat("x", maxBody+1), nil, 413},
		{"no JSON", `{"sender":`, nil, 400},
		{"a key twice", `{"sender":"ci","sender":"op","content":"x"}`, nil, 400},
		{"no UTF-8", "{\"sender\":\"\xff\",\"content\":\"x\"}", nil, 400},
		{"deep", `{"more":` + strings.Repeat("[", 20_000), nil, 400},
		{"nobody", `{"content":"x"}`, nil, 400},
		{"nothing", `{"sender":"ci","content":" \n"}`, nil, 400},
		{"a sender with a line end", `{"sender":"ci\nroot","content":"x"}`, nil, 400},
		{"a long id", `{"sender":"ci","content":"x","id":"` + strings.Repeat("x", 300) + `"}`, nil, 400},
	} {
		if got, text := h.post(t, c.body, c.headers...); got != c.want || strings.Contains(text, secret) {
			t.Errorf("%s: %d %s", c.name, got, text)
		}
	}
	for _, r := range []struct {
		method, at string
		want       int
	}{{http.MethodGet, h.at, 405}, {http.MethodPost, h.at + "/x", 404}} {
		request, _ := http.NewRequestWithContext(t.Context(), r.method, r.at, strings.NewReader(good))
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != r.want {
			t.Errorf("%s %s: %d", r.method, r.at, answer.StatusCode)
		}
	}
	if len(in.Took) > 0 {
		t.Errorf("taken: %+v", <-in.Took)
	}
}

// A body has the same id for as long as the package says, and nothing that is not
// signed changes that for a body with an id of its own.
func TestSameMessage(t *testing.T) {
	ctx, in := limited(t), chattest.NewInbox()
	h, _ := listening(ctx, t, "", in)
	id := func(body string, headers ...string) string {
		if status, text := h.post(t, body, headers...); status != 202 {
			t.Fatalf("%s: %d %s", body, status, text)
		}
		return chattest.Next(ctx, t, in.Took).ID
	}
	const own, none, other = `{"sender":"a","content":"x","id":"1"}`, `{"sender":"a","content":"x"}`, `{"sender":"a","content":"y"}`
	if id(own) != id(own, "Idempotency-Key", "k1") || id(own) != id(own, "X-Idempotency-Key", "k2") {
		t.Error("a header made another message of a body with an id")
	}
	if id(own) == id(`{"sender":"b","content":"x","id":"1"}`) {
		t.Error("two senders with the same id are one message")
	}
	if id(`{"sender":"acme","content":"x","id":"site/7"}`) == id(`{"sender":"acme/site","content":"x","id":"7"}`) {
		t.Error("an id went over to another sender's")
	}
	if id(`{"sender":"acme/site","content":"x","id":"7"}`) == id(`{"sender":"acme%2Fsite","content":"x","id":"7"}`) {
		t.Error("a sender is named like another one is kept")
	}
	if id(none, "Idempotency-Key", "k1") != id(none, "X-Idempotency-Key", "k1") {
		t.Error("a key that came again is another message")
	}
	if id(none, "Idempotency-Key", "k1") == id(none, "Idempotency-Key", "k2") {
		t.Error("two keys are one message")
	}
	if id(none, "Idempotency-Key", "k1") == id(other, "Idempotency-Key", "k1") {
		t.Error("a key swallowed another body")
	}
	if first := id(none); first != id(none) || first == id(other) {
		t.Error("a body does not name its message")
	}
}

// The window: what came is the same for five minutes, in the next process too, and
// a new message after them.
func TestWindow(t *testing.T) {
	ctx, in, body := limited(t), chattest.NewInbox(), []byte("body")
	now := time.Unix(1_800_000_000, 0)
	open := func(kept string) *window {
		w := restore(kept, t.Logf)
		w.now = func() time.Time { return now }
		return w
	}
	id := func(w *window) string {
		id, err := w.identify(ctx, body, in)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	w := open("")
	first := id(w)
	kept := chattest.Next(ctx, t, in.Kept)
	now = now.Add(windowTime - time.Second)
	if id(w) != first || id(open(kept)) != first {
		t.Error("the same body is another message within the window")
	}
	now = now.Add(time.Second)
	if id(open(kept)) == first || id(w) == first {
		t.Error("the same body is the same message after the window")
	}
	w = open("nonsense\nx 1\n" + kept)
	for i := range maxWindow {
		if _, err := w.identify(ctx, fmt.Appendf(nil, "%d", i), in); err != nil {
			t.Fatal(i, err)
		}
	}
	if n := len(w.String()); n > 4<<10 {
		t.Errorf("a place has %d bytes", n)
	}
	if _, err := w.identify(ctx, []byte("one more"), in); !errors.Is(err, errMany) {
		t.Errorf("one too many: %v", err)
	}
}

// A kill between any two steps: the message that comes again has the id that the
// task has, if there is one.
func TestKilledInWindow(t *testing.T) {
	ctx, in := limited(t), chattest.NewInbox()
	boom := errors.New("the disk is full")
	in.Fail = func(chat.Message) error { return boom }
	h, ended := listening(ctx, t, "", in)
	status, text := h.post(t, `{"sender":"a","content":"x"}`)
	if status != http.StatusServiceUnavailable || strings.Contains(text, "disk") {
		t.Errorf("%d %s", status, text)
	}
	if err := <-ended; !errors.Is(err, boom) {
		t.Errorf("Receive ended with %v", err)
	}
	kept := chattest.Next(ctx, t, in.Kept)
	ids := map[string]bool{}
	for range 2 {
		again := chattest.NewInbox()
		run, stop := context.WithCancel(ctx)
		h, ended := listening(run, t, kept, again)
		h.post(t, `{"sender":"a","content":"x"}`)
		ids[chattest.Next(ctx, t, again.Took).ID] = true
		stop()
		<-ended
	}
	if len(ids) != 1 {
		t.Errorf("after a kill the message is %v", ids)
	}
}

// slowInbox takes a message when the test says so.
type slowInbox struct {
	*chattest.Inbox
	asked, free chan struct{}
}

func (s slowInbox) Take(ctx context.Context, m chat.Message) error {
	close(s.asked)
	<-s.free
	return s.Inbox.Take(ctx, m)
}

func TestAcceptedWhenTaken(t *testing.T) {
	ctx := limited(t)
	in := slowInbox{chattest.NewInbox(), make(chan struct{}), make(chan struct{})}
	h, _ := listening(ctx, t, "", in)
	answered := make(chan int, 1)
	go func() {
		status, _ := h.post(t, `{"sender":"a","content":"x","id":"1"}`)
		answered <- status
	}()
	<-in.asked
	select {
	case status := <-answered:
		t.Fatalf("%d before the message was taken", status)
	case <-time.After(50 * time.Millisecond):
	}
	close(in.free)
	if status := chattest.Next(ctx, t, answered); status != 202 {
		t.Errorf("%d", status)
	}
}

// Receive ends with its context, and leaves nothing behind, whoever is connected.
func TestReceiveEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	ctx, stop := context.WithCancel(limited(t))
	h, ended := listening(ctx, t, "", chattest.NewInbox())
	half, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(h.at, "http://"), path))
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	fmt.Fprintf(half, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf", path)
	begun := time.Now()
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) || time.Since(begun) > time.Second {
		t.Errorf("%v after %v", err, time.Since(begun))
	}
	http.DefaultClient.CloseIdleConnections()
	for deadline := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"sender":"ci","content":"x","thread_id":"7","id":"42"}`), "key")
	f.Add([]byte(`{"sender":null,"content":[]}`), "")
	f.Fuzz(func(t *testing.T, body []byte, key string) {
		m, err := read(body)
		if err != nil {
			return
		}
		if m.Sender == "" || len(m.Sender) > maxName || strings.Contains(m.Sender, "\n") {
			t.Errorf("sender %q", m.Sender)
		}
		if id := m.identify(body, key); (id == "") != (m.ID == "" && key == "") {
			t.Errorf("id %q", id)
		}
	})
}
