package gateway

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"mbox/agents"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/home"
	"mbox/mailbox/mailboxtest"
	"mbox/schemas"
)

// place is a door with a mailbox behind it.
type place struct {
	testing.TB
	box  *mailbox.Box
	door *Door

	mu      sync.Mutex
	revoked string // guarded by mu: a secret of before
}

var agentsHere = agents.Members{
	"coder": {Role: "coder", Enabled: true}, "tester": {Role: "tester", Enabled: true},
	"second": {Role: "coder", Enabled: true}, "off": {Role: "deployer"}, "shell": {Enabled: true},
}

// Secrets of the tests' tokens.
var tokensHere = map[string]token.Token{
	"r": {Name: "eyes", Role: token.Reader}, "a": {Name: "arm", Role: token.Agent, Agent: "coder"}, "o": {Name: "boss", Role: token.Operator},
}

func tokenHere(secret string) (token.Token, error) {
	if found, ok := tokensHere[secret]; ok {
		return found, nil
	}
	return token.Token{}, token.ErrUnknown
}

func newPlace(t testing.TB) *place {
	t.Helper()
	box := mailboxtest.New(t, mailbox.Options{})
	d := New(Options{
		Loopback: true, Address: "127.0.0.1:42617", Log: zerolog.New(os.Stderr),
		Tokens: tokenHere, Judge: judged,
		MCP: func(_ *mailbox.Box, agent string, reads bool) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Accept") == "text/html" {
					http.Error(w, "Accept must contain other types", http.StatusBadRequest) // as the library does
					return
				}
				body, err := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, `{"agent":%q,"reads":%t,"bytes":%d,"cut":%t}`, agent, reads, len(body), err != nil)
			})
		},
	})
	d.Use(&Mailbox{Box: box, Agents: agentsHere})
	t.Cleanup(func() { d.Use(nil) })
	return &place{TB: t, box: box, door: d}
}

// judged is what the commands' exit codes say of the errors that occur here, and their
// hints about tasks.
func judged(err error) (int, string) {
	var data *schemas.Error
	id := "ID"
	if about, ok := strings.CutPrefix(err.Error(), "task "); ok {
		id, _, _ = strings.Cut(about, ":")
	}
	switch {
	case errors.Is(err, mailbox.ErrCommitted):
		return 76, "it counts"
	case errors.Is(err, mailbox.ErrNotFound):
		return 4, "mbox ls shows the tasks there are"
	case errors.Is(err, mailbox.ErrConflict):
		return 5, "mbox show " + id + " tells the state that it is in"
	case errors.Is(err, mailbox.ErrStale):
		return 6, ""
	case errors.As(err, &data):
		return 65, ""
	}
	var refused *mailbox.Refusal
	if errors.As(err, &refused) {
		return 73, ""
	}
	return 1, ""
}

// hintOf is what a problem says that helps.
func hintOf(t testing.TB, w *httptest.ResponseRecorder) string {
	t.Helper()
	var problem Problem
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
		t.Errorf("no problem: %v: %s", err, w.Body)
	}
	return problem.Hint
}

// ask is one request; secret "" is none.
func (p *place) ask(secret, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	p.Helper()
	r := httptest.NewRequestWithContext(p.Context(), method, "http://127.0.0.1:42617"+path, strings.NewReader(body))
	r.RemoteAddr = "127.0.0.1:5"
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		if headers[i] == "From-Address" {
			r.RemoteAddr = headers[i+1]
		}
	}
	w := httptest.NewRecorder()
	p.door.ServeHTTP(w, r)
	if w.Code >= 400 && path != "/health" && !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		var problem Problem
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || problem.Status != w.Code {
			p.Errorf("%s %s: %d is no problem: %v: %s", method, path, w.Code, err, w.Body)
		}
	}
	return w
}

// want is ask that has to be answered with a status; it returns the JSON.
func (p *place) want(status int, secret, method, path, body string, headers ...string) map[string]any {
	p.Helper()
	w := p.ask(secret, method, path, body, headers...)
	if w.Code != status {
		p.Errorf("%s %s with %q: %d, want %d: %s", method, path, secret, w.Code, status, w.Body)
	}
	var out map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		p.Errorf("%s %s: %v: %s", method, path, err, w.Body)
	}
	return out
}

func (p *place) sent(secret, body string) mailbox.ID {
	p.Helper()
	id, _ := p.want(http.StatusAccepted, secret, "POST", "/task", body)["id"].(string)
	return mailbox.ID(id)
}

func (p *place) claim(agent string) *mailbox.Claim {
	p.Helper()
	c, err := p.box.Claim(p.Context(), mailbox.ClaimRequest{Agent: agent})
	if err != nil {
		p.Fatal(err)
	}
	return c
}

func titled(title, to string) string {
	return fmt.Sprintf(`{"task":{"title":%q},"assignment":{"target_agent":%q}}`, title, to)
}

func TestSend(t *testing.T) {
	p := newPlace(t)
	w := p.ask("", "POST", "/task", titled("one", "coder"))
	if w.Code != http.StatusAccepted || w.Header().Get("Location") == "" {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	got, _, err := p.box.Task(t.Context(), mailbox.ID(strings.TrimPrefix(w.Header().Get("Location"), "/tasks/")))
	if err != nil || got.Task.Title != "one" || got.Source.Agent != "unknown" {
		t.Errorf("%+v, %v", got, err)
	}
	first := p.want(202, "a", "POST", "/run_task", titled("twice", "any"), "Idempotency-Key", "k")
	if again := p.want(202, "a", "POST", "/task", titled("twice", "any"), "Idempotency-Key", "k"); again["id"] != first["id"] {
		t.Errorf("said again it is %v and was %v", again, first)
	}
	if got, _, err := p.box.Task(t.Context(), mailbox.ID(first["id"].(string))); err != nil || got.Source.Agent != "coder" {
		t.Errorf("an agent's task is from %v, %v", got.Source, err)
	}
	p.sent("o", `{"task":{"title":"x"},"source":{"agent":"bridge:irc","session":"s"}}`)
	for name, c := range map[string]struct {
		secret, body, path string
		status             int
		headers            []string
	}{
		"an agent speaks for another":   {"a", `{"task":{"title":"x"},"source":{"agent":"tester"}}`, "", 403, nil},
		"nobody speaks for an agent":    {"", `{"task":{"title":"x"},"source":{"agent":"tester"}}`, "", 403, nil},
		"an unknown agent":              {"", titled("x", "codr"), "assignment.target_agent", 422, nil},
		"an unknown role":               {"", `{"task":"delegate","payload":{"role":"cook","task":"write_file","payload":{}}}`, "payload.role", 422, nil},
		"no name of an action":          {"", `{"task":"delegate","payload":{"role":"coder","task":"A b","payload":{}}}`, "payload.task", 422, nil},
		"another word than delegate":    {"", `{"task":"obey","payload":{}}`, "task", 422, nil},
		"no role":                       {"", `{"task":"delegate","payload":{"task":"write_file","payload":{}}}`, "payload.role", 422, nil},
		"an unknown field":              {"", `{"task":{"title":"x"},"assignement":{}}`, "assignement", 422, nil},
		"a key twice":                   {"", `{"task":{"title":"x","title":"y"}}`, "task.title", 422, nil},
		"another version":               {"", `{"version":2,"task":{"title":"x"}}`, "version", 422, nil},
		"a deadline that has passed":    {"", `{"task":{"title":"x"},"mbox":{"deadline":"2020-01-01T00:00:00Z"}}`, "mbox.deadline", 422, nil},
		"a state":                       {"", `{"task":{"title":"x"},"result":{"status":"completed"}}`, "result.status", 422, nil},
		"no JSON":                       {"", `{"task":`, "task", 422, nil},
		"nothing":                       {"", ` `, "$", 422, nil},
		"a form":                        {"", "a=b", "", 415, []string{"Content-Type", "application/x-www-form-urlencoded"}},
		"too much":                      {"", titled(strings.Repeat("x", 70<<10), "any"), "", 413, nil},
		"two keys":                      {"", `{"task":{"title":"x"},"mbox":{"idempotency_key":"a"}}`, "", 400, []string{"Idempotency-Key", "b"}},
		"an empty key":                  {"", titled("x", "any"), "", 400, []string{"Idempotency-Key", ""}},
		"an empty key in the task":      {"", `{"task":{"title":"x"},"mbox":{"idempotency_key":""}}`, "mbox.idempotency_key", 422, nil},
		"a reader's token":              {"r", titled("x", "any"), "", 403, nil},
		"a token that nobody has":       {"z", titled("x", "any"), "", 401, nil},
		"another way to log in":         {"", titled("x", "any"), "", 401, []string{"Authorization", "Basic eDp5"}},
		"nobody from another machine":   {"", titled("x", "any"), "", 401, []string{"From-Address", "192.0.2.7:99"}},
		"another name of this machine":  {"", titled("x", "any"), "", 421, []string{"Host", "evil.example:42617"}},
		"a page of another site":        {"", titled("x", "any"), "", 403, []string{"Origin", "https://evil.example"}},
		"a page that a browser watches": {"", titled("x", "any"), "", 403, []string{"Sec-Fetch-Site", "cross-site"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := &place{TB: t, box: p.box, door: p.door}
			got := q.want(c.status, c.secret, "POST", "/task", c.body, c.headers...)
			if path, _ := got["path"].(string); path != c.path {
				t.Errorf("it names %q: %v", path, got)
			}
		})
	}
	x, err := p.box.Index()
	if err != nil || x.Count[mailbox.Pending] != 3 || len(x.Count) > 4 {
		t.Errorf("%+v, %v: what was refused left something", x, err)
	}
}

// ColDBase's shape becomes a task that carries the action, for the agent that has
// the role.
func TestSendDelegation(t *testing.T) {
	p := newPlace(t)
	id := p.sent("", `{"task":"delegate","payload":{"role":"tester","task":"file_check","payload":{"path":"a.txt"}}}`)
	got, _, err := p.box.Task(t.Context(), id)
	if err != nil || got.Assignment.TargetAgent != "tester" || got.Mbox.Action == nil || got.Mbox.Action.Name != "file_check" || !strings.Contains(string(got.Mbox.Action.Params), "a.txt") {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every route is tried with every kind of caller. 0 is any answer that is no refusal.
func TestRights(t *testing.T) {
	p := newPlace(t)
	id := string(p.sent("o", `{"task":{"title":"x"},"assignment":{"target_agent":"tester"},"mbox":{"action":{"name":"turn"}}}`))
	const ok, who, no = 0, http.StatusUnauthorized, http.StatusForbidden
	type rights struct{ nobody, remote, reader, agent, operator int }
	reads, posts, operates := rights{ok, who, ok, no, ok}, rights{ok, who, no, ok, ok}, rights{who, who, no, no, ok}
	own := rights{ok, who, ok, http.StatusNotFound, ok} // an agent's are not tester's
	want := map[string]rights{
		"POST /task": posts, "POST /run_task": posts,
		"GET /tasks": {ok, who, ok, ok, ok}, "GET /tasks/{id}": own, "GET /tasks/{id}/why": own, "GET /tasks/{id}/artifacts/{name...}": own, "GET /tasks/{id}/attachments/{name}": own,
		"POST /tasks/{id}/cancel": operates, "POST /tasks/{id}/retry": operates, "POST /tasks/{id}/approve": operates, "POST /tasks/{id}/release": operates,
		"GET /api/inbox": {no, who, no, ok, no}, "POST /api/inbox/ack": {no, who, no, ok, no},
		"GET /api/channels": {ok, who, ok, ok, ok}, "GET /api/channels/{name}/messages": {ok, who, ok, ok, ok},
		"POST /api/channels": operates, "POST /api/channels/{name}/messages": {ok, who, no, ok, ok},
		"POST /api/agents/register": {no, who, no, ok, no}, "POST /api/agents/{name}/heartbeat": {no, who, no, no, no}, "POST /api/users": operates,
		"POST /agents/{name}/pause": operates, "POST /agents/{name}/resume": operates,
		"GET /audit/delegation": reads, "GET /audit/entries": reads, "GET /events": reads, "GET /verify": reads, "GET /metrics": reads, "POST /mcp": {ok, who, ok, ok, ok},
		"GET /health": {ok, who, ok, ok, ok}, "GET /openapi.json": {ok, who, ok, ok, ok},
	}
	for _, r := range p.door.routes() {
		key := r.method + " " + r.path
		may, named := want[key]
		if !named {
			t.Errorf("nobody has said who may %s", key)
			continue
		}
		delete(want, key)
		path := strings.NewReplacer("{id}", id, "{name...}", "f", "{name}", "shell").Replace(r.path)
		method, body := r.method, ""
		if strings.HasSuffix(path, "task") {
			body = titled("y", "any")
		}
		if path == "/events" {
			method = "HEAD" // the stream itself has no end
		}
		for _, c := range []struct {
			name, secret, from string
			status             int
		}{
			{"nobody on loopback", "", "127.0.0.1:5", may.nobody},
			{"nobody from elsewhere", "", "192.0.2.7:5", may.remote},
			{"a reader", "r", "192.0.2.7:5", may.reader},
			{"an agent", "a", "127.0.0.1:5", may.agent},
			{"an operator", "o", "127.0.0.1:5", may.operator},
		} {
			w := p.ask(c.secret, method, path, body, "From-Address", c.from)
			got := w.Code
			if got != c.status && (c.status != ok || got == who || got == no || got == 421) {
				t.Errorf("%s, %s: %d, want %d", key, c.name, got, c.status)
			}
			if (got == who || got == no) && !strings.HasSuffix(path, "/heartbeat") { // which takes the one agent's
				least := "operator"
				if may.reader == ok {
					least = "reader"
				} else if may.agent == ok {
					least = "agent"
				}
				if hint := hintOf(t, w); !strings.Contains(hint, "--role "+least) && !strings.Contains(hint, " "+least+"'s token") {
					t.Errorf("%s, %s: %q names another role than %s", key, c.name, hint, least)
				}
			}
		}
	}
	for key := range want {
		t.Errorf("%s is gone", key)
	}
}

// With the token of a claim anybody could end it, so it leaves by no way.
func TestClaimTokenStays(t *testing.T) {
	p := newPlace(t)
	id := string(p.sent("o", titled("x", "coder")))
	c := p.claim("coder")
	paths := []string{"/tasks", "/tasks/" + id, "/tasks/" + id + "/why", "/audit/entries", "/health", "/", "/list", "/task/" + id, "/agents", "/problems", "/log", "/send?like=" + id}
	for _, path := range append(paths, p.copied(id)) {
		for _, secret := range []string{"", "o"} {
			if body := p.ask(secret, "GET", path, "").Body.String(); strings.Contains(body, c.Token()) {
				t.Errorf("%s tells the claim's token: %s", path, body)
			}
		}
	}
}

// copied is the page of the copy of a task's file that was dropped, and lies in quarantine.
func (p *place) copied(id string) string {
	p.Helper()
	tasks := filepath.Join(p.box.Home(), "tasks")
	data, err := os.ReadFile(filepath.Join(tasks, "in-progress", id+".json"))
	if err == nil {
		err = os.WriteFile(filepath.Join(tasks, "pending", "copy.json"), data, 0o600)
	}
	if err == nil {
		past := time.Now().Add(-time.Hour)
		err = os.Chtimes(filepath.Join(tasks, "pending", "copy.json"), past, past)
	}
	if err == nil {
		_, err = p.box.Scan(p.Context())
	}
	found, _ := filepath.Glob(filepath.Join(tasks, "quarantine", "copy.json~*"))
	if err != nil || len(found) != 2 {
		p.Fatalf("%v: %q", err, found)
	}
	page := "/quarantine/" + strings.TrimSuffix(filepath.Base(found[0]), home.ReasonSuffix)
	if text := p.ask("o", "GET", page, "").Body.String(); !strings.Contains(text, "lease") {
		p.Fatalf("it is not shown: %s", text)
	}
	return page
}

func TestVerbs(t *testing.T) {
	p := newPlace(t)
	id := p.sent("o", titled("x", "coder"))
	at := "/tasks/" + string(id)
	p.want(409, "o", "POST", at+"/release", "")
	p.want(409, "o", "POST", at+"/retry", "")
	p.claim("coder")
	if got := p.want(200, "o", "POST", at+"/release", `{"reason":"not now","delay":"1ms"}`); got["state"] != "pending" {
		t.Errorf("%v", got)
	}
	if got := p.want(200, "o", "POST", at+"/cancel", `{"reason":"no more"}`); got["state"] != "failed" {
		t.Errorf("%v", got)
	}
	if got := p.want(200, "o", "POST", at+"/retry", ""); got["state"] != "pending" {
		t.Errorf("%v", got)
	}
	p.want(403, "o", "POST", at+"/approve", "") // it has no action
	p.want(422, "o", "POST", at+"/approve", `{"for":"forever"}`)
	for verb, orders := range map[string][]string{ // members that another verb has
		"cancel": {`{"delay":"1m"}`, `{"for":"1m"}`, `{"sha256":"x"}`}, "retry": {`{"delay":"1m"}`, `{"for":"1m"}`, `{"sha256":"x"}`},
		"release": {`{"for":"1m"}`, `{"sha256":"x"}`}, "approve": {`{"delay":"1m"}`, `{"seen":"pending/0"}`},
	} {
		for _, order := range orders {
			if got := p.want(422, "o", "POST", at+"/"+verb, order); got["code"] != schemas.CodeUnknownField {
				t.Errorf("%s %s: %v", verb, order, got)
			}
		}
	}
	p.want(422, "o", "POST", at+"/cancel", `{"why":"x"}`)
	p.want(422, "o", "POST", at+"/cancel", `{"reason":"`+strings.Repeat("x", mailbox.MaxReason+1)+`"}`)
	p.want(404, "o", "POST", "/tasks/none/cancel", "")
	act := p.sent("o", `{"task":{"title":"x"},"assignment":{"target_agent":"shell"},"mbox":{"action":{"name":"turn","params":{}}}}`)
	p.want(409, "o", "POST", "/tasks/"+string(act)+"/approve", `{"sha256":"`+strings.Repeat("0", 64)+`"}`)
	got := p.want(200, "o", "POST", "/tasks/"+string(act)+"/approve", `{"for":"30m"}`)
	if decision, _ := got["decision"].(string); !strings.HasPrefix(decision, "decision-") {
		t.Errorf("%v", got)
	}
	text := p.ask("o", "GET", "/audit/entries?event=task_cancelled", "").Body.String()
	if !strings.Contains(text, "token boss") {
		t.Errorf("the ledger does not tell the door: %s", text)
	}
}

// Operators alone pause and resume agents; the agent claims nothing meanwhile, /health
// names it, and the ledger tells by which door it was done.
func TestPauseAndResume(t *testing.T) {
	p := newPlace(t)
	at := "/agents/coder"
	for who, status := range map[string]int{"": 401, "r": 403, "a": 403} {
		p.want(status, who, "POST", at+"/pause", "")
		p.want(status, who, "POST", at+"/resume", "")
	}
	p.want(200, "o", "POST", "/agents/tester/pause", "")
	p.sent("o", titled("x", "coder"))
	got := p.want(200, "o", "POST", at+"/pause", `{"reason":"quiet","for":"2h"}`)
	life, _ := got["lifecycle"].(map[string]any)
	if got["name"] != "coder" || life["state"] != "paused" || life["by"] != "human" || life["reason"] != "quiet (http, token boss)" || life["until"] == nil {
		t.Errorf("%v", got)
	}
	if _, err := p.box.Claim(t.Context(), mailbox.ClaimRequest{Agent: "coder"}); !errors.Is(err, mailbox.ErrPaused) {
		t.Errorf("a paused agent claims: %v", err)
	}
	for who, others := range map[string]bool{"": true, "r": true, "o": true, "a": false} {
		paused, _ := p.want(200, who, "GET", "/health", "")["paused"].(map[string]any)
		if paused["coder"] == nil || (paused["tester"] != nil) != others {
			t.Errorf("to %q it is told %v", who, paused)
		}
	}
	if got := p.want(200, "o", "POST", at+"/pause", ""); got["lifecycle"].(map[string]any)["until"] != nil {
		t.Errorf("%v", got)
	}
	p.want(422, "o", "POST", at+"/pause", `{"for":"soon"}`)
	p.want(422, "o", "POST", at+"/pause", `{"for":"-1h"}`)
	p.want(422, "o", "POST", at+"/pause", `{"until":"x"}`)
	p.want(422, "o", "POST", at+"/pause", `{"reason":"`+strings.Repeat("x", mailbox.MaxReason+1)+`"}`)
	p.want(422, "o", "POST", at+"/resume", `{"for":"1h"}`)
	p.want(404, "o", "POST", "/agents/codr/pause", "")
	p.want(422, "o", "POST", "/agents/any/pause", "")
	if got := p.want(200, "o", "POST", at+"/resume", ""); got["lifecycle"].(map[string]any)["state"] != "healthy" {
		t.Errorf("%v", got)
	}
	p.claim("coder")
}

// pages reads a list page by page and wants so many tasks, each once.
func (p *place) pages(query string, want int) {
	p.Helper()
	seen := map[string]int{}
	path := "/tasks?" + query
	for pages := 0; path != "" && pages < 10; pages++ {
		got := p.want(200, "r", "GET", path, "")
		for _, one := range got["tasks"].([]any) {
			seen[one.(map[string]any)["id"].(string)]++
		}
		path = ""
		if next, _ := got["next"].(string); next != "" {
			path = "/tasks?" + query + "&cursor=" + next
		}
	}
	if len(seen) != want {
		p.Errorf("%s: seen: %v", query, seen)
	}
	for id, n := range seen {
		if n != 1 {
			p.Errorf("%s: %s came %d times", query, id, n)
		}
	}
}

// A cursor does not tell of what it was looked at, which the caller may not see.
func TestCursorTellsNothing(t *testing.T) {
	p := newPlace(t)
	defer func(n int) { mostLooked = n }(mostLooked)
	mostLooked = 1
	p.sent("o", `{"id":"layoffs","task":{"title":"x"},"assignment":{"target_agent":"tester"}}`)
	p.sent("o", `{"id":"zeta","task":{"title":"x"},"assignment":{"target_agent":"coder"}}`)
	got := p.want(200, "a", "GET", "/tasks?state=pending", "")
	next, _ := got["next"].(string)
	data, err := base64.RawURLEncoding.DecodeString(next)
	if len(got["tasks"].([]any)) != 0 || next == "" || err != nil || strings.Contains(string(data), "layoffs") {
		t.Errorf("%v: %q, %v", got, data, err)
	}
	got = p.want(200, "a", "GET", "/tasks?state=pending&cursor="+next, "")
	if all := got["tasks"].([]any); len(all) != 1 || got["next"] != nil {
		t.Errorf("behind it: %v", got)
	}
}

// The archive's folders are listed the youngest first, so older tasks come behind
// younger ones.
func TestListArchive(t *testing.T) {
	p := newPlace(t)
	tasks := p.box.Home() + "/tasks/"
	for _, month := range []string{"2026-01", "2026-01", "2026-02", "2026-03"} {
		name := "/" + string(p.sent("o", titled("x", "coder"))) + ".json"
		if err := os.MkdirAll(tasks+"archive/"+month, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tasks+"pending"+name, tasks+"archive/"+month+name); err != nil {
			t.Fatal(err)
		}
	}
	p.pages("state=archive&n=1", 4)
}

// No page looks at more than so many tasks, and who goes on comes to those that he
// seeks, past what is no task.
func TestListLooksAtSome(t *testing.T) {
	p := newPlace(t)
	defer func(n int) { mostLooked = n }(mostLooked)
	mostLooked = 2
	for i := range 6 {
		p.sent("o", titled("x", []string{"coder", "tester"}[i/5]))
	}
	if err := os.WriteFile(p.box.Home()+"/tasks/completed/a.json", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.pages("to=tester", 1)
	p.pages("state=pending&state=completed&state=pending", 6)
	got := p.want(200, "r", "GET", "/tasks?to=tester", "")
	if len(got["tasks"].([]any)) != 0 || got["next"] == nil {
		t.Errorf("%v", got)
	}
	next := got["next"].(string)
	p.want(400, "r", "GET", "/tasks?state=failed&cursor="+next, "")
	p.want(200, "r", "GET", "/tasks?cursor="+next, "")
	open := base64.RawURLEncoding.EncodeToString([]byte("tasks/pending/x.json"))
	for _, forged := range []string{"x", open, next[1:], next + "AA", newPlace(t).door.seal("tasks/pending/x.json")} {
		if got := p.want(400, "r", "GET", "/tasks?cursor="+forged, ""); got["hint"] != "begin without a cursor" {
			t.Errorf("%s: %v", forged, got)
		}
	}
	w := p.ask("r", "GET", "/list?q=nowhere", "")
	if !strings.Contains(w.Body.String(), "None of those that this page looked at matches") || !strings.Contains(w.Body.String(), "Next page") {
		t.Error(w.Body)
	}
}

// A page ends where it is large enough, whatever makes its tasks large.
func TestListLarge(t *testing.T) {
	p := newPlace(t)
	const tasks = 40
	for i := range tasks {
		p.sent("o", fmt.Sprintf(`{"task":{"title":"%d"},"assignment":{"target_agent":"coder"},"mbox":{"labels":{"x":"%s"}}}`, i, strings.Repeat("x", 60_000)))
	}
	got := p.want(200, "r", "GET", "/tasks?n=1000", "")
	if n := len(got["tasks"].([]any)); n == tasks || got["next"] == nil {
		t.Errorf("one page has %d tasks of 60 KB", n)
	}
}

// A list that is read page by page has each task once, and an agent's only what
// concerns it.
func TestList(t *testing.T) {
	p := newPlace(t)
	for _, query := range []string{"state=pending;x", "to=coder&x=%zz", "%"} { // would be left out, and show everything
		p.want(400, "r", "GET", "/tasks?"+query, "")
	}
	for i := range 7 {
		p.sent("o", titled(fmt.Sprint(i), []string{"coder", "tester"}[i%2]))
	}
	p.claim("coder")
	p.pages("n=2", 7)
	for query, n := range map[string]int{"": 4, "?to=tester": 0, "?state=in-progress&by=coder": 1, "?state=pending": 3, "?state=pending&state=failed&from=boss": 0} {
		if got := p.want(200, "a", "GET", "/tasks"+query, "")["tasks"].([]any); len(got) != n {
			t.Errorf("an agent sees %d with %q, want %d", len(got), query, n)
		}
	}
	for _, query := range []string{"?state=done", "?n=0", "?cursor=x", "?too=coder", "?n=1&n=2", "?priority=soon"} {
		p.want(400, "r", "GET", "/tasks"+query, "")
	}
	for _, path := range []string{"/tasks?to=", "/tasks?by=&n=2", "/tasks?from", "/audit/entries?agent=", "/audit/delegation?task="} {
		if got := p.want(400, "r", "GET", path, ""); !strings.HasSuffix(fmt.Sprint(got["detail"]), " is empty") {
			t.Errorf("%s: %v", path, got)
		}
	}
}

// Who waits for a task's end is answered when it comes, and no later than asked.
func TestWaitForTheEnd(t *testing.T) {
	p := newPlace(t)
	id := string(p.sent("o", titled("x", "coder")))
	if got := p.want(200, "r", "GET", "/tasks/"+id+"?wait=10ms", ""); status(got) != "pending" {
		t.Errorf("%v", got)
	}
	answered := make(chan string)
	go func() {
		var got map[string]any
		_ = json.Unmarshal(p.ask("r", "GET", "/tasks/"+id+"?wait=10s", "").Body.Bytes(), &got)
		answered <- status(got)
	}()
	for waiting := 0; waiting == 0; time.Sleep(time.Millisecond) {
		waiting = p.waiting(id)
	}
	c := p.claim("coder")
	begun := time.Now()
	remove := durable.SetFault(func(op durable.Op, _ string) (bool, error) {
		if op == durable.OpExchange {
			time.Sleep(50 * time.Millisecond) // a disk that takes its time between line and file
		}
		return true, nil
	})
	err := c.Complete(t.Context(), mailbox.Result{Output: jsontext.Value(`"done"`)})
	remove()
	if err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got != "completed" || time.Since(begun) > 30*time.Second {
		t.Errorf("it was told %q", got)
	}
	if p.waiting(id) != 0 {
		t.Error("somebody is still waited with")
	}
}

func status(task map[string]any) string {
	result, _ := task["result"].(map[string]any)
	s, _ := result["status"].(string)
	return s
}

func (p *place) waiting(id string) int {
	p.door.mu.Lock()
	f := p.door.now.feed
	p.door.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting[mailbox.ID(mailbox.ID(id).Fold())])
}

// Another mailbox behind the door ends what only waits, and no request loses its
// mailbox under way.
func TestUseEndsWhatWaits(t *testing.T) {
	p := newPlace(t)
	id := string(p.sent("o", titled("x", "coder")))
	answered := make(chan int)
	go func() { answered <- p.ask("r", "GET", "/tasks/"+id+"?wait=5m", "").Code }()
	for p.waiting(id) == 0 {
		time.Sleep(time.Millisecond)
	}
	p.door.Use(nil)
	if got := <-answered; got != http.StatusServiceUnavailable {
		t.Errorf("it was told %d", got)
	}
	p.want(503, "r", "GET", "/tasks", "")
	p.door.Use(&Mailbox{Box: p.box, Agents: agentsHere})
	p.want(200, "r", "GET", "/tasks", "")
}

// during is a test with a context of its own.
type during struct {
	testing.TB
	ctx context.Context
}

func (d during) Context() context.Context { return d.ctx }

func TestArtifacts(t *testing.T) {
	p := newPlace(t)
	id := string(p.sent("o", titled("x", "coder")))
	c := p.claim("coder")
	file := t.TempDir() + "/page.html"
	if err := os.WriteFile(file, []byte("<script>"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Keep(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := c.Complete(t.Context(), mailbox.Result{Output: jsontext.Value(`"done"`)}); err != nil {
		t.Fatal(err)
	}
	at := "/tasks/" + id + "/artifacts/"
	w := p.ask("a", "GET", at+"page.html", "")
	if w.Code != 200 || w.Body.String() != "<script>" || w.Header().Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
	if w := p.ask("a", "GET", at+"page.html", "", "Range", "bytes=1-6"); w.Code != 206 || w.Body.String() != "script" {
		t.Errorf("a part of it: %d %q", w.Code, w.Body)
	}
	if got := p.want(416, "a", "GET", at+"page.html", "", "Range", "bytes=8-"); got["hint"] != "it has 8 bytes; without Range all of them come" {
		t.Errorf("none of it: %v", got)
	}
	for _, name := range []string{"none", "..%2fpage.html", "page.html/x", ""} {
		if w := p.ask("o", "GET", at+name, ""); w.Code != 404 {
			t.Errorf("%q: %d", name, w.Code)
		}
	}
	for range cap(p.door.hashing) {
		p.door.hashing <- struct{}{}
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if w := (&place{TB: during{t, ctx}, door: p.door}).ask("o", "GET", at+"page.html", ""); w.Body.Len() > 0 {
		t.Errorf("out of turn: %q", w.Body)
	}
	for range cap(p.door.hashing) {
		p.door.hashing.leave()
	}
	got, _, err := p.box.Task(t.Context(), mailbox.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.box.Home()+"/"+got.Result.Artifacts[0].Path, []byte("<scribe>"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.want(503, "o", "GET", at+"page.html", "")
}

// What came with a task is on its page, and is handed out while it is what the task
// names, in the archive too.
func TestAttachmentsAreHandedOut(t *testing.T) {
	p := newPlace(t)
	n := &mailbox.Task{}
	n.Task.Title, n.Assignment.TargetAgent, n.Source.Agent = "x", "coder", "user"
	task, err := mailbox.SubmitWith(t.Context(), p.box, n, []mailbox.File{{Name: "a <b>?.html", Data: []byte("<script>")}})
	if err != nil {
		t.Fatal(err)
	}
	at := "/tasks/" + string(task) + "/attachments/"
	file := at + "a%20%3Cb%3E%3F.html"
	got := func() {
		t.Helper()
		w := p.ask("a", "GET", file, "")
		if w.Code != 200 || w.Body.String() != "<script>" || w.Header().Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment") {
			t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
		}
		if page := p.logged("o").page("/task/" + string(task)); !strings.Contains(page, `<a href="`+file+`" download>`) {
			t.Errorf("not on its page:\n%s", page)
		}
	}
	got()
	for _, name := range []string{"none", "..%2f" + string(task) + ".0%2fa", "", "."} {
		if w := p.ask("o", "GET", at+name, ""); w.Code == 200 {
			t.Errorf("%q: %d", name, w.Code)
		}
	}
	c := p.claim("coder")
	if err := c.Complete(t.Context(), mailbox.Result{Output: jsontext.Value(`"done"`)}); err != nil {
		t.Fatal(err)
	}
	if moved, err := p.box.Archive(t.Context(), 0, "user"); err != nil || moved != 1 {
		t.Fatal(moved, err)
	}
	got()
	found, err := filepath.Glob(p.box.Home() + "/tasks/archive/*/" + string(task) + ".0/*")
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	if err := os.WriteFile(found[0], []byte("<scribe>"), 0o600); err != nil {
		t.Fatal(err)
	}
	p.want(503, "o", "GET", file, "")
}

// Agents that should have taken what was not taken in time are stale; of one that is not
// enabled, or not there, nobody expects it.
func TestHealthNamesStaleAgents(t *testing.T) {
	p := newPlace(t)
	x := &mailbox.Index{}
	for _, target := range []string{"tester", "coder", "coder", "off", "nobody", "any"} {
		x.Live = append(x.Live, mailbox.Live{State: mailbox.Pending, Target: target, Alarmed: true})
	}
	x.Live = append(x.Live, mailbox.Live{State: mailbox.Pending, Target: "second"})
	h := Health{Late: map[string]int{}, Depths: map[string]int{}}
	p.caught(nil).count(&h, x)
	if got := strings.Join(h.Stale, " "); got != "coder tester" || h.Late["coder"] != 2 || h.Late["any"] != 1 {
		t.Errorf("%q, %v", got, h.Late)
	}
}

// An address of IPv4 is one of IPv4 alone: who names it expects no door on IPv6.
func TestListensOnWhatIsNamed(t *testing.T) {
	l, url, err := Listen("0.0.0.0:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !strings.HasPrefix(url, "http://0.0.0.0:") {
		t.Errorf("it listens on %s", url)
	}
}

// Who may not is told what would help.
func TestRefusalsHelp(t *testing.T) {
	p := newPlace(t)
	id := p.sent("o", titled("x", "coder"))
	for secret, want := range map[string]string{"": "--role operator", "r": "an operator's token", "a": "an operator's token"} {
		got := p.ask(secret, "POST", "/tasks/"+string(id)+"/cancel", "")
		if !strings.Contains(got.Body.String(), want) {
			t.Errorf("%q: %s", secret, got.Body)
		}
	}
	p.want(200, "o", "POST", "/api/channels", `{"name":"dev"}`)
	for secret, want := range map[string]string{"": "--role agent --agent AGENT", "z": "--role agent --agent AGENT", "r": "an agent's token"} {
		if got := p.ask(secret, "POST", "/api/channels/dev/messages", `{"text":"x"}`); !strings.Contains(hintOf(t, got), want) {
			t.Errorf("%q says something: %s", secret, got.Body)
		}
	}
}

func TestHealth(t *testing.T) {
	p := newPlace(t)
	p.sent("o", titled("x", "coder"))
	got := p.want(200, "", "GET", "/health", "")
	if depths := got["depths"].(map[string]any); depths["pending"] != 1.0 || len(got["roles"].([]any)) != 2 {
		t.Errorf("%v", got)
	}
	if err := os.Rename(p.box.Home()+"/tasks/pending", p.box.Home()+"/aside"); err != nil {
		t.Fatal(err)
	}
	if got := p.want(503, "", "GET", "/health", ""); got["status"] != "wrong" || len(got["problems"].([]any)) == 0 {
		t.Errorf("%v", got)
	}
	if err := os.Rename(p.box.Home()+"/aside", p.box.Home()+"/tasks/pending"); err != nil {
		t.Fatal(err)
	}
	p.want(200, "", "GET", "/health", "")
	p.door.Use(&Mailbox{Box: p.box, Problems: func(context.Context) ([]string, error) { return []string{"schedule x"}, nil }})
	if got := p.want(503, "", "GET", "/health", ""); fmt.Sprint(got["problems"]) != "[schedule x]" {
		t.Errorf("%v", got)
	}
}

func TestNoSuchThing(t *testing.T) {
	p := newPlace(t)
	p.want(404, "", "GET", "/nothing", "")
	w := p.ask("", "DELETE", "/tasks", "")
	if w.Code != 405 || w.Header().Get("Allow") != "GET" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := p.ask("", "HEAD", "/tasks", ""); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

func TestLedger(t *testing.T) {
	p := newPlace(t)
	for range 5 {
		p.sent("o", titled("x", "coder"))
	}
	var all []byte
	for since, n := 0.0, 0; n < 5; n++ {
		got := p.want(200, "r", "GET", fmt.Sprintf("/audit/entries?n=2&since=%v", since), "")
		if entries := got["entries"].([]any); len(entries) == 0 {
			break
		}
		data := p.ask("r", "GET", fmt.Sprintf("/audit/entries?n=2&since=%v", since), "").Body.Bytes()
		all = append(all, data...)
		since = got["seq"].(float64)
	}
	if n := bytes.Count(all, []byte(`"event":"task_created"`)); n != 5 {
		t.Errorf("%d lines: %s", n, all)
	}
	if got := p.want(200, "r", "GET", "/verify", ""); got["lines"] == 0.0 || got["findings"] != nil {
		t.Errorf("%v", got)
	}
	if got := p.want(200, "r", "GET", "/audit/delegation?n=10&tail=true", ""); got["count"] != 0.0 {
		t.Errorf("%v", got)
	}
	p.want(400, "r", "GET", "/audit/entries?since=-1", "")
}

// listen serves the door for real.
func (p *place) listen() *httptest.Server {
	s := httptest.NewServer(p.door)
	p.Cleanup(s.Close)
	return s
}

// watch reads events until it has seen n, and returns their ids.
func watch(ctx context.Context, t *testing.T, url, last string, n int) (ids []string) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer answer.Body.Close()
	var text strings.Builder
	buf := make([]byte, 4096)
	for strings.Count(text.String(), "\n\n")-1 < n {
		k, err := answer.Body.Read(buf)
		text.Write(buf[:k])
		if err != nil {
			if !errors.Is(err, io.EOF) && ctx.Err() == nil {
				t.Error(err)
			}
			break
		}
	}
	for line := range strings.Lines(text.String()) {
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			ids = append(ids, strings.TrimSpace(id))
		}
	}
	return ids
}

// Who has seen a line that the ledger does not have, of one that was given up, gets what
// there is now from its beginning.
func TestEventsOfAnotherLedger(t *testing.T) {
	p := newPlace(t)
	server := p.listen()
	for range 3 {
		p.sent("o", titled("x", "coder"))
	}
	if got := strings.Join(watch(t.Context(), t, server.URL+"/events", "60", 3), " "); got != "1 2 3" {
		t.Errorf("seen: %s", got)
	}
}

// A stream begins behind the last event that was seen, has every line once, and goes
// on with those that come.
func TestEventsResume(t *testing.T) {
	p := newPlace(t)
	server := p.listen()
	for range 3 {
		p.sent("o", titled("x", "coder"))
	}
	ids := make(chan []string)
	go func() { ids <- watch(t.Context(), t, server.URL+"/events", "1", 4) }()
	p.sent("o", titled("y", "coder"))
	p.sent("o", titled("z", "coder"))
	if got := strings.Join(<-ids, " "); got != "2 3 4 5" {
		t.Errorf("seen: %s", got)
	}
	if got := strings.Join(watch(t.Context(), t, server.URL+"/events?event=task_created&since=3", "", 2), " "); got != "4 5" {
		t.Errorf("seen: %s", got)
	}
}

// Who is further behind than the feed keeps reads from the ledger, and misses nothing.
func TestEventsFarBehind(t *testing.T) {
	p := newPlace(t)
	server := p.listen()
	const lines = kept + 50
	for range lines {
		if _, err := p.box.Submit(t.Context(), &mailbox.Task{Task: mailbox.Request{Title: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	got := watch(t.Context(), t, server.URL+"/events?since=0", "", lines)
	for i, id := range got {
		if id != fmt.Sprint(i+1) {
			t.Fatalf("event %d has the id %s", i+1, id)
		}
	}
	if len(got) != lines {
		t.Errorf("%d events", len(got))
	}
}

// One who does not read holds up nobody.
func TestSlowWatcherHoldsUpNobody(t *testing.T) {
	p := newPlace(t)
	server := p.listen()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events?since=0", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(slow) // its body is not read
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	const watchers, tasks = 200, 20
	done := make(chan int, watchers)
	for range watchers {
		go func() { done <- len(watch(ctx, t, server.URL+"/events?since=0", "", tasks)) }()
	}
	for range tasks {
		p.sent("o", titled(strings.Repeat("x", 200), "coder"))
	}
	for range watchers {
		if n := <-done; n < tasks {
			t.Errorf("one saw %d events", n)
		}
	}
}

// A stream ends soon after its token was revoked.
func TestEventsEndWithTheToken(t *testing.T) {
	defer func(was time.Duration) { heartbeat = was }(heartbeat)
	heartbeat = 10 * time.Millisecond
	quick(t)
	p := newPlace(t)
	revoke := p.revocable()
	server := p.listen()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer r")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	revoke()
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
}

// So does a wait for a task, which is not told any more.
func TestWaitEndsWithTheToken(t *testing.T) {
	quick(t)
	p := newPlace(t)
	revoke := p.revocable()
	id := p.sent("o", titled("x", "coder"))
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() { answered <- p.ask("r", "GET", "/tasks/"+string(id)+"?wait=10s", "") }()
	for len(p.door.staying) == 0 {
		runtime.Gosched()
	}
	revoke()
	if w := <-answered; w.Code != 401 || strings.Contains(w.Body.String(), string(id)) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// quick has who asks looked at often.
func quick(t *testing.T) {
	was := recheck
	recheck = 10 * time.Millisecond
	t.Cleanup(func() { recheck = was })
}

// revocable is a place whose tokens are all revoked by what it returns.
func (p *place) revocable() (revoke func()) {
	inner := p.door.o.Tokens
	var revoked atomic.Bool
	p.door.o.Tokens = func(secret string) (token.Token, error) {
		if revoked.Load() {
			return token.Token{}, token.ErrUnknown
		}
		return inner(secret)
	}
	return func() { revoked.Store(true) }
}

// Who comes by MCP is who his token says, reads where he may do no more, and sends no
// more than anybody.
func TestMCPIsWhoTheTokenSays(t *testing.T) {
	p := newPlace(t)
	for secret, want := range map[string]string{
		"": `{"agent":"","reads":true,"bytes":2,"cut":false}`, "r": `{"agent":"","reads":true,"bytes":2,"cut":false}`,
		"a": `{"agent":"coder","reads":false,"bytes":2,"cut":false}`, "o": `{"agent":"","reads":false,"bytes":2,"cut":false}`,
	} {
		if got := p.ask(secret, "POST", "/mcp", "{}").Body.String(); got != want {
			t.Errorf("with %q it is %s, want %s", secret, got, want)
		}
	}
	if got := p.want(200, "o", "POST", "/mcp", strings.Repeat("x", 70<<10)); got["cut"] != true {
		t.Errorf("%v", got)
	}
	p.want(405, "o", "GET", "/mcp", "")
}

// A key that was another request's is refused: its sender would take the other one's
// task, which he may not even see, for his own, and his request would be lost.
func TestKeyOfAnotherRequest(t *testing.T) {
	p := newPlace(t)
	hidden := p.sent("o", `{"task":{"title":"secret"},"assignment":{"target_agent":"tester"},"mbox":{"idempotency_key":"k"}}`)
	for _, secret := range []string{"a", ""} {
		w := p.ask(secret, "POST", "/task", titled("other", "coder"), "Idempotency-Key", "k")
		if w.Code != http.StatusConflict || strings.Contains(w.Body.String()+w.Header().Get("Location"), string(hidden)) {
			t.Errorf("token %q: %d %v %s", secret, w.Code, w.Header(), w.Body)
		}
	}
}

// An agent learns nothing of a task that it may not see by waiting for it, and is given
// none of its files.
func TestDependsOnHidden(t *testing.T) {
	p := newPlace(t)
	hidden := p.sent("o", titled("secret", "tester"))
	body := `{"task":{"title":"x"},"assignment":{"target_agent":"coder"},"mbox":{"depends_on":[%q]}}`
	p.want(http.StatusUnprocessableEntity, "a", "POST", "/task", fmt.Sprintf(body, hidden))
	p.want(http.StatusAccepted, "o", "POST", "/task", fmt.Sprintf(body, hidden))
	own := p.sent("a", titled("own", "tester"))
	p.want(http.StatusAccepted, "a", "POST", "/task", fmt.Sprintf(body, own))
}
