package webhook

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

var sample = chat.Notice{
	Key: "k1", To: chat.Conversation{Peer: "ci", Thread: "7"}, Reply: "ci/42", Text: "done\n", Again: true,
}

func TestNoticeOut(t *testing.T) {
	got := make(chan *http.Request, 1)
	var body []byte
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ = io.ReadAll(r.Body)
		got <- r
	}))
	defer server.Close()
	c, err := open(chat.Settings{Token: secret, Server: server.URL + "/in?x=1"})
	if err != nil {
		t.Fatal(err)
	}
	if id, err := c.Send(t.Context(), sample); id != "" || err != nil {
		t.Fatal(id, err)
	}
	r := <-got
	const want = `{"key":"k1","to":"ci","thread":"7","reply":"42","text":"done\n","again":true}`
	if string(body) != want || r.URL.String() != "/in?x=1" || r.Header.Get("Idempotency-Key") != "k1" || r.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v\n%s", r.URL, r.Header, body)
	}
	if !c.(*channel).signed(r.Header.Get(signatureHeader), body) {
		t.Error("it is not signed")
	}
	slashed := chat.Notice{To: chat.Conversation{Peer: "100%/acme"}, Reply: message{Sender: "100%/acme", ID: "a/42"}.identify(nil, "")}
	if _, err := c.Send(t.Context(), slashed); err != nil {
		t.Fatal(err)
	}
	if <-got; !strings.Contains(string(body), `"to":"100%/acme","reply":"a/42"`) {
		t.Errorf("%s", body)
	}
	if said, err := c.Check(t.Context()); err != nil || !strings.Contains(said, "200 to HEAD") {
		t.Error(said, err)
	}
}

func TestAnswersOfReceivers(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	var answer atomic.Value // an http.HandlerFunc
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer.Load().(http.HandlerFunc)(w, r) }))
	defer server.Close()
	c, err := open(chat.Settings{Token: secret, Outgoing: server.URL + "/t0k3n"})
	if err != nil {
		t.Fatal(err)
	}
	says := func(status int, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(status)
		}
	}
	for _, a := range []struct {
		name   string
		answer http.HandlerFunc
		is     error // nil: it may be tried again at once
		wait   time.Duration
	}{
		{"bad request", says(400), chat.ErrRefused, 0},
		{"too large", says(413), chat.ErrRefused, 0},
		{"another secret", says(401), chat.ErrSetup, 0},
		{"no such page", says(404), chat.ErrSetup, 0},
		{"a redirect", says(307, "Location", elsewhere.URL), chat.ErrSetup, 0},
		{"under way", says(409), nil, 0},
		{"too many", says(429, "Retry-After", "7"), nil, 7 * time.Second},
		{"too many, and nonsense", says(429, "Retry-After", "soon"), nil, 0},
		{"away", says(503, "Retry-After", "100000000"), nil, 24 * time.Hour},
		{"broken", says(500), nil, 0},
		{"cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, 0},
	} {
		answer.Store(a.answer)
		_, err := c.Send(t.Context(), sample)
		if err == nil || strings.Contains(err.Error(), "t0k3n") || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", a.name, err)
		}
		for _, kind := range []error{chat.ErrRefused, chat.ErrSetup} {
			if errors.Is(err, kind) != (kind == a.is) {
				t.Errorf("%s: %v", a.name, err)
			}
		}
		var wait *chat.WaitError
		if errors.As(err, &wait) != (a.wait > 0) || wait != nil && wait.For != a.wait {
			t.Errorf("%s: %v", a.name, err)
		}
	}
	answer.Store(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { // much more than is read
		for range 200 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	if _, err := c.Send(t.Context(), sample); err != nil {
		t.Errorf("a long answer: %v", err)
	}
}

func TestVerifiedServer(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		s  chat.Settings
		ok bool
	}{{chat.Settings{}, false}, {chat.Settings{Insecure: true}, false}, {chat.Settings{CA: ca}, true}} {
		c.s.Token, c.s.Server = secret, server.URL
		channel, err := open(c.s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := channel.Send(t.Context(), sample); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.s, err)
		}
	}
}

func TestSettings(t *testing.T) {
	pemless := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(pemless, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]chat.Settings{
		"a short secret":        {Token: "short", Listen: "127.0.0.1:1"},
		"nothing to do":         {Token: secret},
		"two servers":           {Token: secret, Server: "https://a.example", Outgoing: "https://b.example"},
		"open to all":           {Token: secret, Listen: "0.0.0.0:1"},
		"open to a name":        {Token: secret, Listen: "example.org:1"},
		"no port":               {Token: secret, Listen: "127.0.0.1"},
		"in the clear":          {Token: secret, Server: "http://example.org/t0k3n"},
		"a user in it":          {Token: secret, Server: "https://u:t0k3n@example.org"},
		"no URL":                {Token: secret, Server: "https://exa mple/t0k3n\x7f"},
		"another protocol":      {Token: secret, Server: "ftp://example.org/t0k3n"},
		"authorities of no use": {Token: secret, Server: "https://example.org", CA: pemless},
		"authorities not there": {Token: secret, Server: "https://example.org", CA: pemless + ".gone"},
	} {
		if _, err := open(s); !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "t0k3n") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []chat.Settings{
		{Token: secret, Listen: "[::1]:0"},
		{Token: secret, Listen: "localhost:0"},
		{Token: secret, Listen: "0.0.0.0:0", Insecure: true},
		{Token: secret, Server: "http://127.0.0.1:1"},
		{Token: secret, Server: "http://example.org", Insecure: true},
	} {
		if _, err := open(s); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A bridge that only listens has nowhere to send to, and one that only sends waits.
func TestOneWay(t *testing.T) {
	c, err := open(chat.Settings{Token: secret, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Send(t.Context(), sample); !errors.Is(err, chat.ErrRefused) {
		t.Error(err)
	}
	if said, err := c.Check(t.Context()); err != nil || !strings.Contains(said, "127.0.0.1:") || !strings.Contains(said, "sends nothing") {
		t.Error(said, err)
	}
	for want, s := range map[bool]chat.Settings{true: {}, false: {Server: "https://a"}} {
		if Kind.OneWay(s) != want {
			t.Errorf("%+v: one way is not %v", s, want)
		}
	}
	if c, err = open(chat.Settings{Token: secret, Server: "https://example.org"}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer stop()
	if err := c.Receive(ctx, "", chattest.NewInbox()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Receive of one that only sends: %v", err)
	}
}
