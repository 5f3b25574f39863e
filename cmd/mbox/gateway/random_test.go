package gateway

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// pieces of requests, right and wrong, from which random ones are made.
var pieces = struct{ methods, paths, queries, bodies, headers []string }{
	methods: []string{"GET", "GET", "GET", "GET", "GET", "POST", "POST", "POST", "POST", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "X"},
	paths: []string{
		"/task", "/task", "/task", "/task", "/run_task", "/run_task", "/", "/tasks", "/tasks/", "/tasks/ID", "/tasks/ID/why", "/tasks/ID/artifacts/f", "/tasks/ID/artifacts/..%2f..%2fmbox.toml", "/tasks/ID/cancel",
		"/tasks/ID/retry", "/tasks/ID/approve", "/tasks/ID/release", "/tasks/%00", "/tasks/%ff", "/tasks/%2e%2e", "/tasks/é/why", "/tasks/" + strings.Repeat("x", 300), "/health",
		"/openapi.json", "/audit/delegation", "/audit/entries", "/verify", "//tasks", "/tasks/../health", "/.mbox/keys", "/%zz",
		"/list", "/task/ID", "/task/ID/cancel", "/task/ID/none", "/all", "/all/do", "/inbox", "/agents", "/agent/coder", "/agent/coder/pause", "/agent/x/resume", "/agents/coder/pause", "/agents/coder/resume", "/problems", "/quarantine/x", "/quarantine/..%2fx", "/records", "/records/x",
		"/log", "/send", "/login", "/logout", "/static/mbox.css", "/static/..%2fpages.go",
	},
	queries: []string{
		"", "?", "?n=1", "?n=0", "?n=99999999999999999999", "?state=pending", "?state=x", "?cursor=", "?cursor=e30", "?cursor=dGFza3MvcGVuZGluZy94Lmpzb24",
		"?since=0", "?since=9223372036854775807", "?since=-1", "?wait=1ms", "?wait=1h", "?tail=maybe", "?task=%00", "?%ff=%fe", "?a;b", "?ledger_only=true", "?to=%1b[31m", "?like=ID", "?entry=x", "?before=x", "?key=x", "?said=send", "?prove=true",
	},
	bodies: []string{
		"", "{}", "null", "[]", `"x"`, "{", `{"task":{"title":"x"}}`, `{"task":{"title":""}}`, `{"task":"delegate"}`, `{"task":"delegate","payload":{"role":"coder","task":"write_file","payload":{"path":"x"}}}`,
		`{"task":{"title":"x"},"mbox":{"depends_on":["ID"]}}`, `{"task":{"title":"x"},"mbox":{"lease":{"token":"t"}}}`, `{"reason":"x"}`, `{"for":"1ns","sha256":"zz"}`, `{"delay":"-1s"}`, "\xff\xfe",
		strings.Repeat("[", 100), `{"task":{"title":"\u0000"}}`, `{"task":{"title":"x","priority":"soon"}}`, `{"id":"../x","task":{"title":"x"}}`, strings.Repeat("x", 70<<10),
	},
	headers: []string{"", "Origin\nnull", "Origin\nhttp://127.0.0.1:42617", "Idempotency-Key\nk", "Idempotency-Key\n\x01", "Last-Event-ID\nx", "Content-Type\ntext/plain", "Range\nbytes=5-1", "Host\n127.0.0.1", "Host\n[::1]:1", "Expect\n100-continue", "Authorization\nBearer"},
}

// Whatever is asked, in whatever words, is answered: never by a mistake of mbox's own,
// with a problem where it is one, and nothing is left behind that runs.
func TestRandomRequests(t *testing.T) {
	n := 8000
	if os.Getenv("MBOX_TORTURE") != "" {
		n = 100_000
	}
	defer func(was time.Duration) { refusalPause = was }(refusalPause)
	refusalPause = 0
	before := runtime.NumGoroutine()
	t.Run("requests", func(t *testing.T) {
		p := newPlace(t)
		id := string(p.sent("o", titled("x", "coder")))
		random := rand.New(rand.NewPCG(1, uint64(n)))
		one := func(of []string) string { return of[random.IntN(len(of))] }
		mostly := func(of []string) string { // the first, and now and then another one
			if random.IntN(3) > 0 {
				return of[0]
			}
			return one(of)
		}
		answers := map[int]int{}
		for range n {
			method, path := one(pieces.methods), strings.ReplaceAll(one(pieces.paths)+mostly(pieces.queries), "ID", id)
			body := strings.ReplaceAll(one(pieces.bodies), "ID", id)
			headers := strings.SplitN(mostly(pieces.headers), "\n", 2)
			if headers[0] == "" {
				headers = nil
			}
			if strings.Contains(path, "%zz") || method == "X" && body == "" {
				continue // no client can send these
			}
			w := p.ask(one([]string{"", "r", "a", "o", "z"}), method, path, body, headers...)
			answers[w.Code]++
			if w.Code >= 500 {
				t.Fatalf("%s %s %q %.100q: %d: %s", method, path, headers, body, w.Code, w.Body)
			}
		}
		for _, code := range []int{200, 202, 400, 401, 403, 404, 405, 413, 415, 422} {
			if answers[code] == 0 {
				t.Errorf("nothing was answered with %d: %v", code, answers)
			}
		}
	})
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<16)
			t.Fatalf("%d goroutines, %d before:\n%s", runtime.NumGoroutine(), before, buf[:runtime.Stack(buf, true)])
		}
	}
}

// FuzzTask leaves whatever comes as a body.
func FuzzTask(f *testing.F) {
	for _, body := range pieces.bodies {
		f.Add([]byte(body), "k")
	}
	p := newPlace(f)
	f.Fuzz(func(t *testing.T, body []byte, key string) {
		p := &place{TB: t, box: p.box, door: p.door}
		w := p.ask("o", "POST", "/task", string(body), "Idempotency-Key", key)
		if w.Code >= http.StatusInternalServerError || w.Code < 400 && w.Code != http.StatusAccepted {
			t.Errorf("%d: %s", w.Code, fmt.Sprintf("%.200q: %s", body, w.Body))
		}
	})
}
