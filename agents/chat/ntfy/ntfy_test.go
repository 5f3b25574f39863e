package ntfy

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

const token = "tk_this_is_no_real_token"

// serving starts a server and a channel to it.
func serving(t *testing.T, query string, h http.HandlerFunc) chat.Channel {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	c, err := open(chat.Settings{Server: server.URL + "/alerts" + query, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNoticeOut(t *testing.T) {
	var got *http.Request
	var body string
	c := serving(t, "?priority=high", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		got, body = r, string(b)
		io.WriteString(w, `{"id":"hwQ2YpKdmg","time":1,"event":"message","topic":"alerts","message":"m"}`)
	})
	n := chat.Notice{To: chat.Conversation{Peer: "x"}, Title: "Größe\r\nX-Injected: 1 " + strings.Repeat("🚀", 100), Text: strings.Repeat("a", 4095) + "é"}
	if id, err := c.Send(t.Context(), n); id != "hwQ2YpKdmg" || err != nil {
		t.Fatal(id, err)
	}
	if got.Method != http.MethodPost || got.URL.String() != "/alerts?priority=high" || got.Header.Get("Authorization") != "Bearer "+token || got.Header.Get("X-Injected") != "" {
		t.Errorf("%s %s %v", got.Method, got.URL, got.Header)
	}
	if body != strings.Repeat("a", 4095) {
		t.Errorf("%d bytes: more than 4096, or no UTF-8, is a file there", len(body))
	}
	title, err := new(mime.WordDecoder).DecodeHeader(got.Header.Get("Title"))
	if err != nil || !strings.HasPrefix(title, "Größe X-Injected: 1 🚀") || len(title) > maxTitle || !utf8.ValidString(title) {
		t.Errorf("title %q: %v", title, err)
	}
	if _, err := c.Send(t.Context(), chat.Notice{Title: "plain", Text: "x"}); err != nil || got.Header.Get("Title") != "plain" {
		t.Error(got.Header, err)
	}
	if _, err := c.Send(t.Context(), chat.Notice{Text: "x"}); err != nil || got.Header.Values("Title") != nil {
		t.Error(got.Header, err)
	}
}

func TestAnswers(t *testing.T) {
	var answer atomic.Value // of http.HandlerFunc
	c := serving(t, "", func(w http.ResponseWriter, r *http.Request) { answer.Load().(http.HandlerFunc)(w, r) })
	says := func(status int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
			io.WriteString(w, body)
		}
	}
	for name, a := range map[string]struct {
		answer http.HandlerFunc
		is     error // nil: it may have been sent or not
		wait   time.Duration
	}{
		"bad request":       {says(400, ""), chat.ErrRefused, 0},
		"too large":         {says(413, ""), chat.ErrRefused, 0},
		"token":             {says(401, token), chat.ErrSetup, 0},
		"forbidden":         {says(403, ""), chat.ErrSetup, 0},
		"no such page":      {says(404, ""), chat.ErrSetup, 0},
		"a redirect":        {says(302, "", "Location", "http://127.0.0.1:1/"), chat.ErrSetup, 0},
		"too many":          {says(429, `{"code":42901}`), nil, noPause},
		"too many, for 7 s": {says(429, "", "Retry-After", "7"), nil, 7 * time.Second},
		"broken":            {says(500, ""), nil, 0},
		"a page":            {says(200, "<html>welcome</html>"), nil, 0},
		"no id":             {says(200, "{}"), nil, 0},
		"deep":              {says(200, strings.Repeat("[", 1<<20)), nil, 0},
		"cut":               {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 0},
	} {
		answer.Store(a.answer)
		_, err := c.Send(t.Context(), chat.Notice{Text: "x"})
		if err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v", name, err)
		}
		for _, kind := range []error{chat.ErrRefused, chat.ErrSetup} {
			if errors.Is(err, kind) != (kind == a.is) {
				t.Errorf("%s: %v", name, err)
			}
		}
		var wait *chat.WaitError
		if errors.As(err, &wait) != (a.wait > 0) || wait != nil && wait.For != a.wait {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	answer.Store(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	if _, err := c.Send(ctx, chat.Notice{Text: "x"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that says nothing: %v", err)
	}
}

func TestCheck(t *testing.T) {
	user := "phil"
	c := serving(t, "", func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodGet || r.URL.Path != "/v1/account":
			t.Errorf("%s %s", r.Method, r.URL)
		case user == "":
			w.WriteHeader(401)
		default:
			io.WriteString(w, `{"username":"`+user+`","role":"user"}`)
		}
	})
	for who, want := range map[string]string{"phil": "as phil", "*": "nobody in particular"} {
		user = who
		if says, err := c.Check(t.Context()); err != nil || !strings.HasSuffix(says, want) {
			t.Error(says, err)
		}
	}
	user = ""
	if _, err := c.Check(t.Context()); !errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	for name, s := range map[string]chat.Settings{
		"no topic":       {Server: "https://ntfy.sh"},
		"a path":         {Server: "https://ntfy.sh/a/b"},
		"a strange one":  {Server: "https://ntfy.sh/a%2fb"},
		"not a URL":      {Server: "alerts"},
		"in the clear":   {Server: "http://example.org/alerts"},
		"a secret in it": {Server: "https://ntfy.sh/alerts?auth=QmVhcmVy"},
		"a user in it":   {Server: "https://u:p@ntfy.sh/alerts"},
		"a token of two": {Server: "https://ntfy.sh/alerts", Token: "tk_a\nX: y"},
	} {
		if _, err := open(s); !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "QmVh") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOnlySends(t *testing.T) {
	c := serving(t, "", nil)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := c.Receive(ctx, "", chattest.NewInbox()); !errors.Is(err, context.DeadlineExceeded) || !Kind.Sends {
		t.Error(err)
	}
}
