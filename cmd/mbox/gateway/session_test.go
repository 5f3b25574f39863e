package gateway

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// hasty lets refused logins wait for nothing.
func hasty(t *testing.T) {
	was := refusalPause
	refusalPause = 0
	t.Cleanup(func() { refusalPause = was })
}

// at sets the door's clock.
func (p *place) at(now *time.Time) { p.door.o.Now = func() time.Time { return *now } }

func (b *browser) cookie() *http.Cookie {
	for _, c := range b.cookies {
		return c
	}
	return nil
}

// decides tells whether a browser may decide about tasks.
func (b *browser) decides(f full) bool {
	b.Helper()
	return strings.Contains(b.page("/task/"+string(f.open)), "/cancel")
}

func TestLoginLink(t *testing.T) {
	hasty(t)
	var log bytes.Buffer
	p := newDesk(t)
	p.door.o.Log = zerolog.New(&log)
	now := time.Now()
	p.at(&now)
	f := p.fill("x")
	path := func() string { return strings.TrimPrefix(p.door.LoginLink(site), site) }
	link := path()
	if w := p.ask("", "HEAD", link, ""); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
	b := p.browser()
	w := b.get(link)
	if w.Code != 303 || w.Header().Get("Location") != "/" || w.Header().Get("Referrer-Policy") != "no-referrer" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if c := b.cookie(); !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.MaxAge != 0 || c.Secure || c.Name != "mbox-42617" {
		t.Errorf("%+v", c)
	}
	if !b.decides(f) {
		t.Error("who came by the link may not decide")
	}
	if w := p.browser().get(link); w.Code != 401 {
		t.Errorf("once more: %d", w.Code)
	}
	for name, link := range map[string]string{"one that nobody made": "/login?key=x", "the one before the last": func() string { old := path(); path(); return old }()} {
		b := p.browser()
		if w := b.get(link); w.Code != 401 || len(b.cookies) != 0 || b.decides(f) {
			t.Errorf("%s: %d %v", name, w.Code, b.cookies)
		}
	}
	late := path()
	now = now.Add(linkLasts)
	if w := p.browser().get(late); w.Code != 401 {
		t.Errorf("after ten minutes: %d", w.Code)
	}
	if strings.Contains(log.String(), "key=") || strings.Contains(log.String(), strings.TrimPrefix(late, "/login?key=")) {
		t.Errorf("the log has a key: %s", log.String())
	}
}

func TestCookieByTLS(t *testing.T) {
	p := newDesk(t)
	r := httptest.NewRequestWithContext(t.Context(), "GET", "https"+strings.TrimPrefix(p.door.LoginLink(site), "http"), nil)
	r.RemoteAddr, r.TLS = "127.0.0.1:5", &tls.ConnectionState{}
	w := httptest.NewRecorder()
	p.door.ServeHTTP(w, r)
	if c := w.Result().Cookies(); len(c) != 1 || !c[0].Secure || c[0].Name != "__Host-mbox-42617" {
		t.Errorf("%v", c)
	}
}

// A session is for whoever logged in, by a value that was made for it, and for 12 hours
// after its person last did something.
func TestSession(t *testing.T) {
	hasty(t)
	p := newDesk(t)
	f := p.fill("x")
	now := time.Now()
	p.at(&now)
	b := p.logged("o")
	first := b.cookie().Value
	if b.post("/login", "token", "o"); b.cookie().Value == first {
		t.Error("another login has the cookie of the first")
	}
	old := p.browser()
	old.cookies["mbox-42617"] = &http.Cookie{Name: "mbox-42617", Value: first}
	if old.decides(f) {
		t.Error("the cookie of before counts after another login")
	}
	planted := p.browser()
	planted.cookies["mbox-42617"] = &http.Cookie{Name: "mbox-42617", Value: "planted"}
	planted.post("/login", "token", "o")
	if planted.cookie().Value == "planted" || !planted.decides(f) {
		t.Error("a cookie that was there before the login is kept")
	}
	now = now.Add(sessionIdle - time.Minute)
	if !b.decides(f) {
		t.Error("a session ended early")
	}
	now = now.Add(sessionIdle - time.Minute)
	r := httptest.NewRequestWithContext(t.Context(), "GET", site+"/", nil)
	r.Header.Set("Sec-Fetch-Mode", "cors") // an open page looks by itself
	if w := b.do(r); !strings.Contains(w.Body.String(), "/send") {
		t.Error("a session ended early")
	}
	now = now.Add(time.Minute)
	if b.decides(f) {
		t.Error("a page that nobody looks at keeps a session")
	}
	c := p.logged("o")
	if w := c.post("/logout"); w.Code != 303 || w.Header().Get("Location") != "/login" || len(c.cookies) != 0 {
		t.Errorf("logout: %d %v %v", w.Code, w.Header(), c.cookies)
	}
	if len(p.door.sessions.open) != 0 {
		t.Errorf("%d sessions are open", len(p.door.sessions.open))
	}
}

func TestSessionsAreBounded(t *testing.T) {
	p := newDesk(t)
	now := time.Now()
	p.at(&now)
	first := p.logged("o")
	f := p.fill("x")
	for range mostSessions {
		now = now.Add(time.Second)
		p.door.sessions.begin("o", now)
	}
	if n := len(p.door.sessions.open); n != mostSessions || first.decides(f) {
		t.Errorf("%d sessions", n)
	}
	now = now.Add(sessionIdle)
	if p.logged("o"); len(p.door.sessions.open) != 1 {
		t.Errorf("%d sessions", len(p.door.sessions.open))
	}
}

// A session ends with its token, its open stream of events too.
func TestSessionEndsWithItsToken(t *testing.T) {
	defer func(was time.Duration) { heartbeat = was }(heartbeat)
	heartbeat = 10 * time.Millisecond
	p := newDesk(t)
	f := p.fill("x")
	b, link := p.logged("o"), p.logged("")
	server := p.listen()
	p.door.o.Loopback = false // so that nobody may follow who has no token
	p.door.o.Address = "127.0.0.1:42617"
	ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
	defer end()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.AddCookie(b.cookie())
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != 200 {
		t.Fatal(answer.Status)
	}
	p.mu.Lock()
	p.revoked = "o"
	p.mu.Unlock()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	if w := b.get("/"); w.Code != 303 || w.Header().Get("Location") != "/login" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := b.post("/task/"+string(f.open)+"/cancel", "reason", "x"); w.Code != 401 {
		t.Errorf("%d", w.Code)
	}
	if !link.decides(f) {
		t.Error("the link's session ended with a token")
	}
}

// What a browser sends with a cookie has to come from a page of ours.
func TestForgedRequests(t *testing.T) {
	p := newDesk(t)
	f := p.fill("x")
	b := p.logged("o")
	for name, headers := range map[string][]string{
		"another site":                {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		"another port of this name":   {"Origin", "http://127.0.0.1:8000", "Sec-Fetch-Site", "same-site"},
		"a page without an origin":    {"Origin", "null"},
		"one that does not say where": {},
	} {
		for _, path := range []string{"/task/" + string(f.open) + "/cancel", "/tasks/" + string(f.open) + "/cancel", "/send", "/all", "/logout"} {
			r := httptest.NewRequestWithContext(t.Context(), "POST", site+path, strings.NewReader("title=x&reason=x"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			for i := 0; i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			if w := b.do(r); w.Code != 403 {
				t.Errorf("%s asks for %s: %d", name, path, w.Code)
			}
		}
	}
	if !b.decides(f) {
		t.Error("it has lost its session")
	}
}

// The rights of browsers: each page and each form with each kind of visitor.
func TestPageRights(t *testing.T) {
	hasty(t)
	p := newDesk(t)
	f := p.fill("x")
	const ok, who, no, gone = 0, 401, 403, 404
	type rights struct{ nobody, remote, reader, agent, operator int }
	all, operates := rights{ok, 303, ok, no, ok}, rights{who, who, no, no, ok}
	want := map[string]rights{
		"GET /{$}": {ok, 303, ok, ok, ok}, "GET /list": {ok, 303, ok, ok, ok}, "GET /task/{id}": {ok, 303, ok, gone, ok},
		"GET /inbox": all, "GET /agents": all, "GET /agent/{name}": all, "POST /agent/{name}/{verb}": operates, "GET /problems": all, "GET /records": all, "GET /log": all,
		"GET /quarantine/{entry}": {gone, 303, gone, no, gone}, "GET /records/{id}": {gone, 303, gone, no, gone},
		"POST /task/{id}/{verb}": operates, "POST /all": operates, "POST /all/do": operates,
		"GET /send": {303, 303, 303, ok, ok}, "POST /send": {who, who, no, ok, ok},
		"GET /login": {ok, ok, ok, ok, ok}, "POST /login": {who, who, who, who, who}, "POST /logout": {303, 303, 303, 303, 303},
	}
	for _, r := range pageRoutes() {
		key := r.method + " " + r.path
		may, named := want[key]
		if !named {
			t.Errorf("nobody has said who may %s", key)
			continue
		}
		delete(want, key)
		path := strings.NewReplacer("{$}", "", "{id}", string(f.open), "{name}", "coder", "{verb}", "cancel", "{entry}", "none").Replace(r.path)
		if strings.Contains(key, "/records/") {
			path = "/records/none"
		}
		remote := p.browser()
		remote.from = "192.0.2.7:5"
		for _, c := range []struct {
			name   string
			b      *browser
			status int
		}{
			{"nobody on loopback", p.browser(), may.nobody},
			{"nobody from elsewhere", remote, may.remote},
			{"a reader", p.logged("r"), may.reader},
			{"an agent", p.logged("a"), may.agent},
			{"an operator", p.logged("o"), may.operator},
		} {
			var got *httptest.ResponseRecorder
			if r.method == "GET" {
				got = c.b.get(path)
			} else {
				got = c.b.post(path, "title", "x", "to", "any")
			}
			if got.Code != c.status && (c.status != ok || slices.Contains([]int{who, no, gone, 421}, got.Code)) {
				t.Errorf("%s, %s: %d, want %d", key, c.name, got.Code, c.status)
			}
			if h := got.Header(); got.Code < 300 && (h.Get("Content-Security-Policy") == "" || strings.Contains(h.Get("Content-Security-Policy"), "unsafe") || h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("%s: %v", key, h)
			}
		}
	}
	for key := range maps.Keys(want) {
		t.Errorf("%s is gone", key)
	}
}

// Who guesses waits, and no more than a few wait; who has the right token does not.
func TestGuesses(t *testing.T) {
	defer func(was time.Duration) { refusalPause = was }(refusalPause)
	refusalPause = time.Hour
	p := newDesk(t)
	stop := make(chan struct{})
	var guessing sync.WaitGroup
	for range mostWaiting {
		guessing.Go(func() {
			b := p.browser()
			r := httptest.NewRequest("POST", site+"/login", strings.NewReader("token=x"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			ctx, end := contextUntil(stop)
			defer end()
			b.do(r.WithContext(ctx))
		})
	}
	for waiting := 0; waiting < mostWaiting; time.Sleep(time.Millisecond) {
		p.door.sessions.mu.Lock()
		waiting = p.door.sessions.waiting["127.0.0.1"]
		p.door.sessions.mu.Unlock()
	}
	if w := p.browser().post("/login", "token", "x"); w.Code != 429 || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d", w.Code)
	}
	p.logged("o")
	close(stop)
	guessing.Wait()
	if n := len(p.door.sessions.waiting); n != 0 {
		t.Errorf("%d addresses still wait", n)
	}
}

var tags = regexp.MustCompile(`<[a-zA-Z!/][^>\s]*|\s[a-z-]+="`)

// shape is a page without its text: its tags, and the names of their attributes, in some
// order, since tasks of one millisecond may stand in any.
func shape(page string) string {
	return strings.Join(slices.Sorted(slices.Values(tags.FindAllString(page, -1))), "")
}

// What tasks say is text wherever it stands: a page has the same tags with it as with a
// harmless word.
func TestHostileText(t *testing.T) {
	shapes := map[string][]string{}
	var words []string
	for _, text := range append([]string{"harmless"}, hostile...) {
		p := newDesk(t)
		f := p.fill(text)
		b := p.logged("o")
		for _, path := range append(p.paths(f), "/send?like="+string(f.open), "/list?q="+strings.NewReplacer("%", "%25", "+", "%2B", "&", "%26", "#", "%23", ";", "%3B", " ", "+").Replace(text)) {
			if strings.HasPrefix(path, "/records/") || strings.HasSuffix(path, "&q=x") {
				continue // markdown, see package pages; and what the text itself decides
			}
			name := regexp.MustCompile(`[~?].*`).ReplaceAllString(path, "")
			page := b.page(path)
			shapes[name] = append(shapes[name], shape(page))
			if strings.ContainsAny(page, "\u202e\u200b\x1b\x00") && !strings.HasPrefix(path, "/send") && !strings.HasPrefix(path, "/list?q") {
				t.Errorf("%s has characters that hide or move others, with %q", path, text)
			}
		}
		words = append(words, text)
	}
	for path, all := range shapes {
		per := len(all) / len(words)
		for i := range all {
			if all[i] != all[i%per] {
				t.Errorf("%s is another page with %q", path, words[i/per])
			}
		}
	}
}

// hostile is what somebody may send who means ill.
var hostile = []string{
	`<script>alert(1)</script>`, `<img src=x onerror=alert(1)>`, `"><svg/onload=alert(1)>`, `' onmouseover='alert(1)`, `</title></style></textarea></script><script>alert(1)</script>`,
	`javascript:alert(1)`, `{{.}}{{define "x"}}`, "a\u202eb\u200bc", `&lt;b&gt;&#60;script&#62;`, `<!--`, `<base href=//evil.example>`, `<meta http-equiv=refresh content=0;url=//evil.example>`,
	`<form action=//evil.example><input name=token>`, `%3Cscript%3E`, `[x](javascript:alert(1))`, "x\u2028\u2029\u0085y", `<bdo dir=rtl>`,
}
