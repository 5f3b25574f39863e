package gateway

import (
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/mailbox"
)

// A second reader takes openapi.json for what it says, and finds that requests which
// it allows are answered as it says, each route with each of these.
func TestDescriptionIsTrue(t *testing.T) {
	p := newPlace(t)
	doc := p.description()
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, open := p.ended(), string(p.sent("o", titled("x", "coder")))
	act := string(p.sent("o", `{"task":{"title":"x"},"assignment":{"target_agent":"shell"},"mbox":{"action":{"name":"turn","params":{}}}}`))
	p.sent("o", titled("taken", "tester"))
	p.claim("tester")
	asked := map[string]bool{}
	for _, c := range []struct {
		method, path, query, id, body string
		status                        int
	}{
		{"POST", "/task", "", "", titled("y", "any"), 202},
		{"POST", "/run_task", "", "", `{"task":"delegate","payload":{"role":"tester","task":"file_check","payload":{"path":"a"}}}`, 202},
		{"POST", "/task", "", "", `{"task":{"title":"x"},"assignment":{"target_agent":"codr"}}`, 422},
		{"GET", "/tasks", "?state=completed&state=pending&n=5", "", "", 200},
		{"GET", "/tasks", "", "", "", 200},
		{"GET", "/tasks/{id}", "?wait=1ms", open, "", 200},
		{"GET", "/tasks/{id}", "", ended, "", 200},
		{"GET", "/tasks/{id}", "", "none", "", 404},
		{"GET", "/tasks/{id}/why", "", open, "", 200},
		{"GET", "/tasks/{id}/why", "", ended, "", 200},
		{"GET", "/tasks/{id}/artifacts/{name}", "", ended, "", 404},
		{"GET", "/tasks/{id}/attachments/{name}", "", ended, "", 404},
		{"POST", "/tasks/{id}/approve", "", act, `{"for":"30m"}`, 200},
		{"POST", "/tasks/{id}/release", "", open, "", 409},
		{"POST", "/tasks/{id}/cancel", "", open, `{"reason":"no"}`, 200},
		{"POST", "/tasks/{id}/retry", "", open, "", 200},
		{"POST", "/agents/{name}/pause", "", "", `{"reason":"no","for":"1h"}`, 200},
		{"POST", "/agents/{name}/resume", "", "", "", 200},
		{"GET", "/api/inbox", "", "", "", 200},
		{"POST", "/api/inbox/ack", "", "", `{"ids":["` + open + `"]}`, 409},
		{"GET", "/api/channels", "", "", "", 200},
		{"POST", "/api/channels", "", "", `{"name":"f"}`, 200},
		{"POST", "/api/channels/{name}/messages", "", "", `{"text":"x"}`, 201},
		{"GET", "/api/channels/{name}/messages", "?since=0&n=5", "", "", 200},
		{"POST", "/api/agents/register", "", "", "", 409},
		{"POST", "/api/agents/{name}/heartbeat", "", "", "", 403},
		{"POST", "/api/users", "", "", `{"username":"new","role":"reader"}`, 201},
		{"GET", "/audit/delegation", "?n=3&tail=false", "", "", 200},
		{"GET", "/audit/entries", "?since=1&n=3&event=task_created", "", "", 200},
		{"GET", "/events", "?since=x", "", "", 400}, // the stream itself has no end
		{"GET", "/verify", "", "", "", 200},
		{"GET", "/health", "", "", "", 200},
		{"GET", "/metrics", "", "", "", 200},
		{"POST", "/mcp", "", "", "{}", 200},
		{"GET", "/openapi.json", "", "", "", 200},
	} {
		asked[c.method+" "+c.path] = true
		name := "f"
		if strings.HasPrefix(c.path, "/agents/") {
			name = "shell"
		}
		path := strings.NewReplacer("{id}", c.id, "{name}", name).Replace(c.path)
		item := doc.Paths.Value(c.path)
		if item == nil || item.GetOperation(c.method) == nil {
			t.Errorf("it does not tell of %s %s", c.method, c.path)
			continue
		}
		secret := "o"
		if strings.HasPrefix(c.path, "/api/inbox") || strings.HasPrefix(c.path, "/api/agents") {
			secret = "a"
		}
		w := p.ask(secret, c.method, path+c.query, c.body)
		if w.Code != c.status {
			t.Errorf("%s %s: %d, want %d: %s", c.method, path, w.Code, c.status, w.Body)
		}
		if err := p.fits(doc, item, c.method, c.path, path+c.query, c.body, map[string]string{"id": c.id, "name": name}, w, c.status); err != nil {
			t.Errorf("%s %s: %v", c.method, path+c.query, err)
		}
	}
	for _, r := range p.door.routes() {
		if key := r.method + " " + strings.ReplaceAll(r.path, "...}", "}"); !asked[key] {
			t.Errorf("nobody has asked %s", key)
		}
	}
}

// What the description says of a task that is sent, the door does: each is taken by both,
// or by none.
func TestDescriptionOfNewTasks(t *testing.T) {
	p := newPlace(t)
	doc := p.description()
	for body, taken := range map[string]bool{
		titled("x", "any"): true,
		`{}`:               false, `{"task":{}}`: false, `{"task":{"title":null}}`: false, `{"task":{"title":""}}`: false,
		`{"task":{"title":"x","type":"","priority":null}}`:                                         true,
		`{"task":{"title":"x","type":"dance"}}`:                                                    false,
		`{"task":{"title":"x","context":[]}}`:                                                      false,
		`{"task":{"title":"x","context":null}}`:                                                    true,
		`{"task":{"title":"x"},"assignment":{"target_agent":null}}`:                                true,
		`{"task":{"title":"x"},"mbox":{"max_attempts":null,"labels":null,"paths":null}}`:           true,
		`{"task":{"title":"x"},"mbox":{"labels":[]}}`:                                              false,
		`{"task":{"title":"x"},"mbox":{"labels":{"a":1}}}`:                                         true,
		`{"task":{"title":"x"},"mbox":{"action":{}}}`:                                              false,
		`{"task":{"title":"x"},"mbox":{"depends_on":["a b"]}}`:                                     false,
		`{"task":{"title":"x"},"mbox":{"paths":["/etc"]}}`:                                         false,
		`{"task":{"title":"x"},"mbox":{"paths":["a/../b"]}}`:                                       false,
		`{"task":{"title":"x"},"mbox":{"paths":["a/"]}}`:                                           false,
		`{"task":{"title":"x"},"mbox":{"paths":[""]}}`:                                             false,
		`{"task":{"title":"x"},"mbox":{"paths":[".","a/.b","..c/...", "d.e"]}}`:                    true,
		`{"task":{"title":"x"},"mbox":{"not_before":"tomorrow"}}`:                                  false,
		`{"task":{"title":"x"},"mbox":{"not_before":null,"deadline":"2999-01-01T00:00:00+01:00"}}`: true,
		`{"task":{"title":"x"},"created":"yesterday"}`:                                             false,
		`{"task":{"title":"x"},"created":null}`:                                                    false,
		`{"task":{"title":"x"},"version":2}`:                                                       false,
		`{"task":{"title":"x"},"mbox":{"idempotency_key":""}}`:                                     false,
		`{"task":{"title":"x"},"mbox":{"idempotency_key":null}}`:                                   true,
	} {
		if err := p.allows(doc, "/task", body); (err == nil) != taken {
			t.Errorf("the description of %s: %v", body, err)
		}
		if w := p.ask("o", "POST", "/task", body); (w.Code == 202) != taken {
			t.Errorf("the door of %s: %d %s", body, w.Code, w.Body)
		}
	}
}

// Names and ids that the door refuses the description does not allow.
func TestDescriptionOfNames(t *testing.T) {
	p := newPlace(t)
	doc := p.description()
	p.want(200, "o", "POST", "/api/channels", `{"name":"dev"}`)
	for _, c := range []struct {
		secret, path, body string
		taken              bool
	}{
		{"o", "/api/channels", `{"name":"Bad Name"}`, false},
		{"o", "/api/channels", `{"name":"good_name"}`, true},
		{"o", "/api/users", `{"username":"U 2","role":"reader"}`, false},
		{"o", "/api/users", `{"username":"bridge:u-2","role":"reader"}`, true},
		{"a", "/api/inbox/ack", `{"ids":["a b"]}`, false},
		{"o", "/api/channels/{name}/messages", `{"text":"x","id":"a b"}`, false},
		{"o", "/api/channels/{name}/messages", `{"text":""}`, false},
		{"o", "/api/channels/{name}/messages", `{"text":"x","type":"A b"}`, false},
		{"o", "/api/channels/{name}/messages", `{"text":"x","type":"","id":"a.b"}`, true},
	} {
		if err := p.allows(doc, c.path, c.body); (err == nil) != c.taken {
			t.Errorf("the description of %s: %v", c.body, err)
		}
		if w := p.ask(c.secret, "POST", strings.Replace(c.path, "{name}", "dev", 1), c.body); (w.Code < 300) != c.taken {
			t.Errorf("the door of %s: %d %s", c.body, w.Code, w.Body)
		}
	}
}

// Headers that matter, parts of files and the other forms of an answer are described, and
// are as they are described.
func TestDescriptionOfHeaders(t *testing.T) {
	openapi3filter.RegisterBodyDecoder(openMetrics, openapi3filter.PlainBodyDecoder)
	p := newPlace(t)
	doc := p.description()
	p.sent("o", titled("x", "coder"))
	c := p.claim("coder")
	file := t.TempDir() + "/a.txt"
	if err := os.WriteFile(file, []byte("12345678"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := c.Keep(t.Context(), file)
	if err == nil {
		err = c.Complete(t.Context(), mailbox.Result{Output: jsontext.Value(`"done"`)})
	}
	if err != nil {
		t.Fatal(err)
	}
	at := strings.NewReplacer("{id}", string(c.ID()), "{name}", "a.txt")
	for _, c := range []struct {
		method, path, body, header, value string
		status                            int
	}{
		{"POST", "/task", titled("x", "any"), "Idempotency-Key", "k", 202},
		{"POST", "/run_task", titled("x", "any"), "Idempotency-Key", "k", 202},
		{"GET", "/events", "", "Last-Event-ID", "x", 400},
		{"GET", "/tasks/{id}/artifacts/{name}", "", "Range", "bytes=1-2", 206},
		{"GET", "/tasks/{id}/artifacts/{name}", "", "Range", "bytes=9-", 416},
		{"GET", "/metrics", "", "Accept", openMetrics, 200},
	} {
		item := doc.Paths.Value(c.path)
		if c.header != "Accept" && item.GetOperation(c.method).Parameters.GetByInAndName("header", c.header) == nil {
			t.Errorf("%s: nothing tells of %s", c.path, c.header)
		}
		w := p.ask("o", c.method, at.Replace(c.path), c.body, c.header, c.value)
		if w.Code != c.status {
			t.Errorf("%s with %s %s: %d %s", c.path, c.header, c.value, w.Code, w.Body)
		}
		if err := p.fits(doc, item, c.method, c.path, at.Replace(c.path), c.body, map[string]string{"id": "x", "name": "a.txt"}, w, c.status); err != nil {
			t.Errorf("%s with %s %s: %v", c.path, c.header, c.value, err)
		}
	}
}

// description is openapi.json.
func (p *place) description() *openapi3.T {
	p.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(p.ask("", "GET", "/openapi.json", "").Body.Bytes())
	if err != nil {
		p.Fatal(err)
	}
	return doc
}

// allows is nil where a description allows this body of a POST.
func (p *place) allows(doc *openapi3.T, path, body string) error {
	p.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		p.Fatal(err)
	}
	return doc.Paths.Value(path).Post.RequestBody.Value.Content["application/json"].Schema.Value.VisitJSON(v, openapi3.EnableFormatValidation())
}

// fits tells whether a request and its answer are as the description says. What is
// refused as bad is not held against what it says of requests.
func (p *place) fits(doc *openapi3.T, item *openapi3.PathItem, method, pattern, url, body string, in map[string]string, w *httptest.ResponseRecorder, status int) error {
	r := httptest.NewRequestWithContext(p.Context(), method, "http://127.0.0.1:42617"+url, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	request := &openapi3filter.RequestValidationInput{
		Request: r, PathParams: in,
		Route:   &routers.Route{Spec: doc, Path: pattern, PathItem: item, Method: method, Operation: item.GetOperation(method)},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if status < 400 {
		if err := openapi3filter.ValidateRequest(p.Context(), request); err != nil {
			return fmt.Errorf("the request: %w", err)
		}
	}
	answer := &openapi3filter.ResponseValidationInput{RequestValidationInput: request, Status: w.Code, Header: w.Header(), Options: request.Options}
	if err := openapi3filter.ValidateResponse(p.Context(), answer.SetBodyBytes(w.Body.Bytes())); err != nil {
		return fmt.Errorf("the answer: %w: %s", err, w.Body)
	}
	return nil
}

// ended is a task that is completed.
func (p *place) ended() string {
	id := p.sent("o", titled("done", "coder"))
	c := p.claim("coder")
	if err := c.Complete(p.Context(), mailbox.Result{Output: jsontext.Value(`"done"`)}); err != nil {
		p.Fatal(err)
	}
	return string(id)
}
