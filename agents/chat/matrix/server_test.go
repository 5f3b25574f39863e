package matrix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

func TestPasswords(t *testing.T) {
	h := newHome(t)
	h.room("!g:home.test", bot, alice)
	c, err := open(chat.Settings{Name: "m", Server: h.URL, User: bot, Password: "pass", Rooms: []string{"!g:home.test"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := soon(t)
	n := chat.Notice{Key: key, To: chat.Conversation{Peer: "!g:home.test", Group: true}, Text: "x"}
	first, err := c.Send(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	if said, err := c.Check(ctx); err != nil || !strings.HasPrefix(said, bot+" at 127.0.0.1:") || !strings.HasSuffix(said, ", in !g:home.test") {
		t.Error(said, err)
	}
	if again, err := c.Send(ctx, n); err != nil || again != first {
		t.Errorf("after a check: %s %s %v", first, again, err)
	}
	h.mu.Lock()
	if len(h.tokens) != 2 {
		t.Errorf("a check leaves a login: %v", h.tokens)
	}
	clear(h.tokens)
	h.mu.Unlock()
	if _, err := c.Send(ctx, n); err == nil || errors.Is(err, chat.ErrSetup) || errors.Is(err, chat.ErrRefused) {
		t.Errorf("a login that ended: %v", err)
	}
	if again, err := c.Send(ctx, n); err != nil || again != first {
		t.Errorf("the same device: %s %s %v", first, again, err)
	}
	c, _ = open(chat.Settings{Server: h.URL, User: bot, Password: "guessed"})
	if _, err := c.Send(ctx, n); !errors.Is(err, chat.ErrSetup) || errors.Is(err, chat.ErrRefused) {
		t.Errorf("a wrong password: %v", err)
	}
}

func TestSettings(t *testing.T) {
	for _, s := range []chat.Settings{
		{Server: "https://h"},
		{Server: "https://h", Token: "t", Password: "p", User: "u"},
		{Server: "https://h", Password: "p"},
		{Server: "http://example.org", Token: "t"},
		{Server: "ftp://h", Token: "t"},
		{Server: "https://h", Token: "t", Rooms: []string{"room"}},
		{Server: "https://h", Token: "t", Rooms: []string{"#alias"}},
	} {
		if _, err := open(s); !errors.Is(err, chat.ErrSetup) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	h := newHome(t)
	c, _ := open(chat.Settings{Server: h.URL, Token: token, User: alice})
	if _, err := c.Check(soon(t)); !errors.Is(err, chat.ErrSetup) {
		t.Error("another's token:", err)
	}
	h.tokens["by an admin"] = [2]string{bot, ""}
	c, _ = open(chat.Settings{Server: h.URL, Token: "by an admin"})
	if said, err := c.Check(soon(t)); err != nil || !strings.Contains(said, "no device") {
		t.Error(said, err)
	}
	c, _ = open(chat.Settings{Server: h.URL, Token: token, Rooms: []string{"#none:home.test"}})
	if _, err := c.Check(soon(t)); err == nil || !strings.Contains(err.Error(), "#none:home.test") {
		t.Error(err)
	}
}

func TestAnswersOfServers(t *testing.T) {
	elsewhere := newHome(t)
	h := newHome(t)
	h.room("!g:home.test", bot, alice)
	says := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name   string
		answer http.HandlerFunc
		is     error // nil: it may be tried again at once
		wait   time.Duration
	}{
		{"too fast", says(429, `{"errcode":"M_LIMIT_EXCEEDED","retry_after_ms":1500}`), nil, 1500 * time.Millisecond},
		{"too fast, by a header", says(429, `{"errcode":"M_LIMIT_EXCEEDED"}`, "Retry-After", "7"), nil, 7 * time.Second},
		{"too fast, by a proxy", says(429, `slow down`), nil, limitWait},
		{"too fast, for ever", says(429, `{"retry_after_ms":9223372036854775807}`), nil, 24 * time.Hour},
		{"forbidden", says(403, `{"errcode":"M_FORBIDDEN","error":"no"}`), chat.ErrRefused, 0},
		{"too large", says(413, `{"errcode":"M_TOO_LARGE"}`), chat.ErrRefused, 0},
		{"forbidden by a proxy", says(403, `<html>`), nil, 0},
		{"unknown token", says(401, `{"errcode":"M_UNKNOWN_TOKEN","soft_logout":false}`), chat.ErrSetup, 0},
		{"ill", says(500, `{"errcode":"M_UNKNOWN"}`), nil, 0},
		{"garbage", says(200, `{"event_id":`), nil, 0},
		{"no event", says(200, `{}`), nil, 0},
		{"without end", func(w http.ResponseWriter, _ *http.Request) {
			for chunk := make([]byte, 1<<20); ; {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, nil, 0},
		{"cut off", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 0},
		{"a redirect", says(307, "", "Location", elsewhere.URL), chat.ErrSetup, 0},
	} {
		h.causes(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut {
				c.answer(w, r)
			}
			return r.Method == http.MethodPut
		})
		m, _ := connect(t, h, "!g:home.test")
		_, err := m.Send(soon(t), chat.Notice{Key: key, To: chat.Conversation{Peer: "!g:home.test", Group: true}, Text: "x"})
		var wait *chat.WaitError
		errors.As(err, &wait)
		switch {
		case err == nil, strings.Contains(err.Error(), token):
			t.Errorf("%s: %v", c.name, err)
		case c.wait > 0 && (wait == nil || wait.For != c.wait), c.wait == 0 && wait != nil:
			t.Errorf("%s: %v: wait %+v", c.name, err, wait)
		}
		for _, class := range []error{chat.ErrRefused, chat.ErrSetup} {
			if errors.Is(err, class) != (class == c.is) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
	if len(elsewhere.asked) > 0 {
		t.Error("a redirect was followed")
	}
}

// TestSyncsThatFail loses nothing by a server that is ill now and then.
func TestSyncsThatFail(t *testing.T) {
	h := newHome(t)
	h.room("!g:home.test", bot, alice)
	c, _ := connect(t, h, "!g:home.test")
	ctx, in := soon(t), chattest.NewInbox()
	for i := range 120 {
		h.text("!g:home.test", alice, fmt.Sprint(i))
	}
	for _, broken := range []string{"/sync", "/messages", "/joined_rooms"} {
		for _, answer := range []string{"", "{}", `{"chunk":7,"next_batch":7,"joined_rooms":7}`, `{"next_batch":"` + strings.Repeat("x", maxPlace+1) + `"}`} {
			if broken != "/sync" && (answer == "{}" || len(answer) > maxPlace) {
				continue
			}
			h.causes(func(w http.ResponseWriter, r *http.Request) bool {
				if !strings.HasSuffix(r.URL.Path, broken) {
					return false
				}
				if answer == "" {
					w.WriteHeader(http.StatusInternalServerError)
					answer := `{"errcode":"M_UNKNOWN","error":"Internal server error"}`
					_, _ = io.WriteString(w, answer)
				}
				_, _ = io.WriteString(w, answer)
				return true
			})
			if err := c.Receive(ctx, "s2", in); err == nil || ctx.Err() != nil || len(in.Took)+len(in.Kept) > 0 {
				t.Errorf("%s %q: %v, took %d, kept %d", broken, answer, err, len(in.Took), len(in.Kept))
			}
		}
	}
	h.causes(nil)
	chattest.Receiving(ctx, t, c, "s2", in)
	for i := range 120 {
		if m := chattest.Next(ctx, t, in.Took); m.Text != fmt.Sprint(i) {
			t.Fatalf("%d: %s", i, m.Text)
		}
	}
}

// TestServerThatDoesNotWait answers each sync at once, with nothing, or always the same.
func TestServerThatDoesNotWait(t *testing.T) {
	for _, answer := range []string{
		`{"next_batch":"same"}`,
		`{"next_batch":"same","rooms":{"join":{"!g":{"timeline":{"events":[{"type":"m.room.message","event_id":"$1","sender":"@alice:home.test","content":{"msgtype":"m.text","body":"x"}}]}}}}}`,
	} {
		h := newHome(t)
		h.causes(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/sync") {
				return false
			}
			_, _ = io.WriteString(w, answer)
			return true
		})
		c, _ := connect(t, h)
		ctx, stop := context.WithTimeout(t.Context(), 3*leastPoll)
		defer stop()
		if err := c.Receive(ctx, "same", chattest.NewInbox()); ctx.Err() == nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		if n := len(h.asked); n > 12 {
			t.Errorf("it was asked %d times", n)
		}
		h.mu.Unlock()
	}
}

func TestReceiveEnds(t *testing.T) {
	before := runtime.NumGoroutine()
	h := newHome(t)
	h.room("!g:home.test", bot, alice)
	c, _ := connect(t, h, "!g:home.test")
	in := chattest.NewInbox()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Receive(ctx, "", in) }()
	kept := chattest.Next(soon(t), t, in.Kept)
	h.text("!g:home.test", alice, "x")
	chattest.Next(soon(t), t, in.Took)
	stop()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) || kept == "" {
			t.Error(err)
		}
	case <-time.After(time.Second):
		t.Fatal("it goes on")
	}
	h.Close()
	for end := time.Now().Add(5 * time.Second); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Now().After(end) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}
