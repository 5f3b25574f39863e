package action

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-json-experiment/json"

	"mbox/agents/policy"
)

// webServer serves on loopback, and counts the connections that it gets.
type webServer struct {
	*httptest.Server
	connections atomic.Int64
}

func newWebServer(t *testing.T, h http.HandlerFunc) *webServer {
	t.Helper()
	s := &webServer{Server: httptest.NewUnstartedServer(h)}
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.connections.Add(1)
		}
	}
	s.Start()
	t.Cleanup(s.Close)
	return s
}

func (s *webServer) at() string { return s.Listener.Addr().String() }

// check does an http_check with loopback's list.
func check(t *testing.T, o HTTPOptions, url string) (Result, answer, error) {
	t.Helper()
	a := parsed(t, "http_check", fmt.Sprintf(`{"url":%q}`, url))
	if err := a.Validate(Limits{}); err != nil {
		return Result{}, answer{}, err
	}
	result, err := a.Do(t.Context(), &Env{Policy: &policy.Policy{}, HTTP: o})
	var got answer
	if err == nil && len(result.Output) > 0 {
		if err := json.Unmarshal(result.Output, &got); err != nil {
			t.Fatal(err)
		}
	}
	return result, got, err
}

func TestHTTPCheck(t *testing.T) {
	server := newWebServer(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/long":
			fmt.Fprint(w, strings.Repeat("a", 1023)+"é"+strings.Repeat("b", 100))
		case "/huge":
			_, _ = w.Write(make([]byte, httpBytes+1))
		case "/missing":
			http.NotFound(w, r)
		case "/echo":
			fmt.Fprintf(w, "%s %s %q %q", r.Method, r.UserAgent(), r.Referer(), r.Header.Values("Accept-Encoding"))
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			fmt.Fprint(w, "hello")
		}
	})
	o := HTTPOptions{Loopback: []string{server.at()}}
	for _, c := range []struct {
		path, status string
		want         answer
	}{
		{"/", "ok", answer{StatusCode: 200, ContentType: "text/plain; charset=utf-8", Size: 5, Body: "hello"}},
		{"/long", "ok", answer{StatusCode: 200, ContentType: "text/plain; charset=utf-8", Size: 1125, Body: strings.Repeat("a", 1023) + "\ufffd"}},
		{"/huge", "ok", answer{StatusCode: 200, ContentType: "application/octet-stream", Size: httpBytes, Truncated: true, Body: strings.Repeat("\x00", httpShown)}},
		{"/missing", "failed", answer{StatusCode: 404, ContentType: "text/plain; charset=utf-8", Size: 19, Body: "404 page not found\n"}},
		{"/echo", "ok", answer{StatusCode: 200, ContentType: "text/plain; charset=utf-8", Size: 14, Body: `GET mbox "" []`}},
	} {
		c.want.URL = server.URL + c.path
		result, got, err := check(t, o, c.want.URL)
		if err != nil || result.Status != c.status || got != c.want || result.Path != c.want.URL {
			t.Errorf("%s: %+v, %.300v, %v", c.path, result.Status, got, err)
		}
	}
}

// A proxy would be asked for addresses that nobody has checked.
func TestHTTPCheckAsksNoProxy(t *testing.T) {
	proxy := newWebServer(t, func(http.ResponseWriter, *http.Request) {})
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	transport := newClient(HTTPOptions{}).Transport.(*http.Transport)
	if transport.Proxy != nil || proxy.connections.Load() != 0 {
		t.Error("the client has a proxy")
	}
}

func TestHTTPCheckRedirects(t *testing.T) {
	var other *webServer
	server := newWebServer(t, func(w http.ResponseWriter, r *http.Request) {
		n := 0
		if _, err := fmt.Sscanf(r.URL.Path, "/hop/%d", &n); err == nil && n > 0 {
			http.Redirect(w, r, fmt.Sprintf("/hop/%d", n-1), http.StatusFound)
			return
		}
		if to := r.URL.Query().Get("to"); to != "" {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusTemporaryRedirect)
		}
	})
	other = newWebServer(t, func(http.ResponseWriter, *http.Request) {})
	o := HTTPOptions{Loopback: []string{server.at()}}
	if result, got, err := check(t, o, server.URL+"/hop/5"); err != nil || result.Status != "ok" || got.URL != server.URL+"/hop/0" {
		t.Errorf("5 redirects: %+v, %v", result, err)
	}
	if result, _, err := check(t, o, server.URL+"/hop/6"); err != nil || result.Status != "failed" || result.Error != "more than 5 redirects" {
		t.Errorf("6 redirects: %+v, %v", result, err)
	}
	for to, rule := range map[string]string{
		other.URL:                                  "address_loopback",
		"http://localhost:" + port(t, server):      "address_loopback",
		"http://[::1]:" + port(t, server):          "address_loopback",
		"http://169.254.169.254/latest/meta-data/": "address_metadata",
		"file:///etc/canary":                       "url_scheme",
		"ftp://example.com/":                       "url_scheme",
		"http://user@example.com/":                 "url_userinfo",
		"http://host.docker.internal/":             "host_docker",
		"http://2130706433/":                       "url_number",
		"//10.0.0.1/":                              "address_private",
	} {
		_, _, err := check(t, o, server.URL+"/?to="+url.QueryEscape(to))
		if d := refusal(err); d == nil || d.Rule != rule {
			t.Errorf("to %s: %v, want %s", to, err, rule)
		}
	}
	if other.connections.Load() != 0 {
		t.Error("the other server was reached")
	}
}

func port(t *testing.T, s *webServer) string {
	t.Helper()
	_, port, err := net.SplitHostPort(s.at())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// From https nothing leads to http, and from elsewhere nothing to loopback.
func TestRedirectRules(t *testing.T) {
	o := HTTPOptions{Loopback: []string{"127.0.0.1:8080"}}
	for _, c := range []struct{ first, next, want string }{
		{"http://a.example/", "https://b.example/", "ok"},
		{"http://a.example/", "http://b.example/", "ok"},
		{"https://a.example/", "https://a.example/b", "ok"},
		{"https://a.example/", "http://a.example/", "url_scheme"},
		{"http://a.example/", "http://127.0.0.1:8080/", "address_loopback"},
		{"http://127.0.0.1:8080/", "http://127.0.0.1:8080/b", "ok"},
	} {
		request := func(u string) *http.Request {
			r, err := http.NewRequest(http.MethodGet, u, nil)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		got := "ok"
		if d := refusal(o.redirect(request(c.next), []*http.Request{request(c.first)})); d != nil {
			got = d.Rule
		}
		if got != c.want {
			t.Errorf("%s to %s: %s, want %s", c.first, c.next, got, c.want)
		}
	}
}

// Names are looked up by the resolver, and what they lead to is refused whatever
// the name; a name that leads nowhere is a failed check, not an error.
func TestHTTPCheckNames(t *testing.T) {
	server := newWebServer(t, func(http.ResponseWriter, *http.Request) {})
	names := newNameServer(t, map[string][][]netip.Addr{
		"loop.example": one("127.0.0.1", "::1"), "private.example": one("10.0.0.1", "fc00::1"), "meta.example": one("169.254.169.254"),
	})
	o := HTTPOptions{Loopback: []string{server.at(), "loop.example:" + port(t, server)}, resolver: names.resolver()}
	for host, rule := range map[string]string{"loop.example": "address_loopback", "private.example": "address_private", "meta.example": "address_metadata"} {
		_, _, err := check(t, o, "http://"+host+":"+port(t, server)+"/")
		if d := refusal(err); d == nil || !strings.HasPrefix(d.Rule, "address_") || (d.Rule != rule && host != "private.example") {
			t.Errorf("%s: %v, want %s", host, err, rule)
		}
	}
	if server.connections.Load() != 0 {
		t.Error("the server was reached")
	}
	result, _, err := check(t, o, "http://none.example/")
	if err != nil || result.Status != "failed" || !strings.Contains(result.Error, "no such host") {
		t.Errorf("an unknown name: %+v, %v", result, err)
	}
}

func TestHTTPCheckRefusedConnection(t *testing.T) {
	server := newWebServer(t, func(http.ResponseWriter, *http.Request) {})
	at := server.at()
	server.Close()
	result, _, err := check(t, HTTPOptions{Loopback: []string{at}}, "http://"+at+"/")
	if err != nil || result.Status != "failed" || !strings.Contains(result.Error, "connection refused") {
		t.Errorf("%+v, %v", result, err)
	}
}

// Who never answers is given up by the context.
func TestHTTPCheckGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := newWebServer(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	result, err := parsed(t, "http_check", `{"url":"`+server.URL+`"}`).Do(ctx, &Env{HTTP: HTTPOptions{Loopback: []string{server.at()}}})
	if err != nil || result.Status != "failed" || !strings.Contains(result.Error, "canceled") {
		t.Errorf("%+v, %v", result, err)
	}
}

// An answer that does not begin and one that does not end are both too late, in the same words.
func TestHTTPCheckTooLate(t *testing.T) {
	for _, err := range []error{&url.Error{Op: "Get", URL: "http://x/", Err: context.DeadlineExceeded}, context.DeadlineExceeded} {
		if got := httpError(err); got != "no answer in time" {
			t.Errorf("%v is told as %q", err, got)
		}
	}
}

// What is expected of an answer has to be so.
func TestHTTPCheckExpects(t *testing.T) {
	server := newWebServer(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("X-Mark", "one")
		w.Header().Add("X-Mark", "two three")
		w.WriteHeader(map[string]int{"/gone": http.StatusGone}[r.URL.Path] + map[string]int{"/": http.StatusOK}[r.URL.Path])
		fmt.Fprint(w, strings.Repeat("a", 2*httpShown)+"the end")
	})
	o := HTTPOptions{Loopback: []string{server.at()}}
	for _, c := range []struct {
		path, want string
		HTTPCheck
	}{
		{"/", "", HTTPCheck{Status: 200, Header: "x-mark: three", Text: "aathe end"}},
		{"/", "", HTTPCheck{Header: "X-Mark:"}},
		{"/", "200 OK, not 204", HTTPCheck{Status: 204}},
		{"/", `no header "X-Mark: four"`, HTTPCheck{Header: "X-Mark: four"}},
		{"/", `no header "Y-Mark: one"`, HTTPCheck{Header: "Y-Mark: one"}},
		{"/", `no text "the start"`, HTTPCheck{Text: "the start"}},
		{"/gone", "410 Gone", HTTPCheck{}},
		{"/gone", "", HTTPCheck{Status: 410}},
	} {
		c.URL = server.URL + c.path
		if err := c.Validate(Limits{}); err != nil {
			t.Fatal(err)
		}
		r, err := c.Do(t.Context(), &Env{Policy: &policy.Policy{}, HTTP: o})
		if want := map[bool]string{true: "ok", false: "failed"}[c.want == ""]; err != nil || r.Status != want || r.Error != c.want {
			t.Errorf("%+v: %s, %q, %v; want %q", c.HTTPCheck, r.Status, r.Error, err, c.want)
		}
	}
	for path, c := range map[string]HTTPCheck{"params.status": {Status: 99}, "params.header": {Header: "no colon"}, "params.url": {}} {
		if c.URL = "http://example.com/"; path == "params.url" {
			c.URL = ""
		}
		if err := c.Validate(Limits{}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	bad := HTTPCheck{URL: "http://example.com/", Header: "bad name: x"}
	if bad.Validate(Limits{}) == nil {
		t.Error("a header's name with a space is taken")
	}
}
