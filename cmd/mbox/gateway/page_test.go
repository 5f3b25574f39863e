package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/rs/zerolog"

	"mbox/audit/record"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
	"mbox/mailbox/durable"
	"mbox/mailbox/mailboxtest"
)

// newDesk is a door with a mailbox whose tasks with the action deploy need an approval.
func newDesk(t testing.TB) *place {
	t.Helper()
	o := mailbox.Options{Agents: map[string]mailbox.Capabilities{"coder": {}, "tester": {}}}
	o.Approval = func(t *mailbox.Task) string {
		if t.Mbox.Action != nil && t.Mbox.Action.Name == "deploy" {
			return "deploy needs a person"
		}
		return ""
	}
	box := mailboxtest.New(t, o)
	d := New(Options{Loopback: true, Address: "127.0.0.1:42617", Log: zerolog.New(os.Stderr), Judge: judged})
	d.Use(&Mailbox{Box: box, Agents: agentsHere})
	t.Cleanup(func() { d.Use(nil) })
	p := &place{TB: t, box: box, door: d}
	d.o.Tokens = func(secret string) (token.Token, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if secret == p.revoked {
			return token.Token{}, token.ErrUnknown
		}
		return tokenHere(secret)
	}
	return p
}

const site = "http://127.0.0.1:42617"

// browser is one that keeps its cookies and says where it asks from, as browsers do.
type browser struct {
	*place
	cookies map[string]*http.Cookie
	from    string // its address
}

func (p *place) browser() *browser {
	return &browser{p, map[string]*http.Cookie{}, "127.0.0.1:5"}
}

// logged is a browser that has logged in with a token; "" by the login link.
func (p *place) logged(secret string) *browser {
	p.Helper()
	b := p.browser()
	var w *httptest.ResponseRecorder
	if secret == "" {
		w = b.get(strings.TrimPrefix(p.door.LoginLink(site), site))
	} else {
		w = b.post("/login", "token", secret)
	}
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "/" {
		p.Fatalf("login: %d %v", w.Code, w.Header())
	}
	return b
}

func (b *browser) do(r *http.Request) *httptest.ResponseRecorder {
	r.RemoteAddr = b.from
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	b.door.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		} else {
			b.cookies[c.Name] = c
		}
	}
	if w.Code >= 500 {
		b.Errorf("%s %s: %d: %s", r.Method, r.URL, w.Code, w.Body)
	}
	return w
}

func (b *browser) get(path string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(b.Context(), "GET", site+path, nil)
	r.Header.Set("Sec-Fetch-Site", "none")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	return b.do(r)
}

func (b *browser) post(path string, fields ...string) *httptest.ResponseRecorder {
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Add(fields[i], fields[i+1])
	}
	r := httptest.NewRequestWithContext(b.Context(), "POST", site+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", site)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	return b.do(r)
}

// page is a page that has to be there.
func (b *browser) page(path string) string {
	b.Helper()
	w := b.get(path)
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		b.Errorf("%s: %d %v: %s", path, w.Code, w.Header(), w.Body)
	}
	return w.Body.String()
}

// full fills a desk with a bit of everything, and names what is there.
type full struct{ open, held, works, done, failed, parent mailbox.ID }

const deploy = `{"task":{"title":"Deploy it"},"assignment":{"target_agent":"tester"},"mbox":{"action":{"name":"deploy","params":{"port":8080,"name":"a\u202eb"}}}}`

func (p *place) fill(title string) (f full) {
	p.Helper()
	send := func(body string) mailbox.ID { return p.sent("o", body) }
	f.done = send(titled(title, "coder"))
	c := p.claim("coder")
	if err := c.Complete(p.Context(), mailbox.Result{Output: jsontext.Value(quoted(title))}); err != nil {
		p.Fatal(err)
	}
	f.failed = send(titled(title, "coder"))
	if err := p.claim("coder").Fail(p.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "broken", Message: title}, Final: true}); err != nil {
		p.Fatal(err)
	}
	f.works = send(titled(title, "coder"))
	percent := 40
	if err := p.claim("coder").Progress(p.Context(), mailbox.Progress{Message: title, Percent: &percent}); err != nil {
		p.Fatal(err)
	}
	f.parent = send(titled(title, "second"))
	_, err := p.claim("second").Delegate(p.Context(), mailbox.Delegation{Children: []mailbox.Child{
		{Task: &mailbox.Task{Task: mailbox.Request{Title: title}, Assignment: mailbox.Assignment{TargetAgent: "off"}}},
		{Task: &mailbox.Task{Task: mailbox.Request{Title: title}, Assignment: mailbox.Assignment{TargetAgent: "off"}}, After: []int{0}},
	}})
	if err != nil {
		p.Fatal(err)
	}
	f.held = send(deploy)
	f.open = send(`{"task":{"title":` + quoted(title) + `,"description":` + quoted(title+"\n"+title) + `,"context":{"x":` + quoted(title) + `}},"assignment":{"target_agent":"second"},"source":{"agent":"bridge:irc","user":` + quoted(title) + `}}`)
	text := strings.Map(func(r rune) rune { // what a record takes
		if r > '~' {
			return -1
		}
		return r
	}, title+".")
	if _, err := p.box.Decide(p.Context(), record.Decision{Agent: "coder", Context: text, Options: []string{text}, Decision: text}); err != nil {
		p.Fatal(err)
	}
	if _, err := mailbox.PauseAgent(p.Context(), p.box, mailbox.Pause{Agent: "rests", By: "human", Reason: title}); err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(p.box.Home()+"/tasks/pending/bad.json", []byte(`{"task":{"title":`+quoted(title)+`},"x":1}`), 0o600); err != nil {
		p.Fatal(err)
	}
	if _, err := p.box.Scan(p.Context()); err != nil {
		p.Fatal(err)
	}
	return f
}

func quoted(text string) string {
	data, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// paths are all pages that there are.
func (p *place) paths(f full) []string {
	p.Helper()
	paths := []string{"/", "/?to=coder", "/list", "/list?state=failed&q=x", "/inbox", "/agents", "/agent/coder", "/agent/rests", "/problems", "/problems?prove=true", "/records", "/log"}
	for _, id := range []mailbox.ID{f.open, f.held, f.works, f.done, f.failed, f.parent} {
		paths = append(paths, "/task/"+string(id))
	}
	all, err := p.box.Decisions(p.Context())
	if err != nil || len(all) == 0 {
		p.Fatalf("%v, %v", all, err)
	}
	paths = append(paths, "/records/"+all[0].ID)
	names, err := durable.Names(p.box.Home() + "/tasks/quarantine")
	if err != nil || len(names) == 0 {
		p.Fatalf("%v, %v", names, err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, ".reason.json") {
			paths = append(paths, (&url.URL{Path: "/quarantine/" + name}).String())
		}
	}
	return paths
}

func TestPages(t *testing.T) {
	p := newDesk(t)
	f := p.fill("Hello")
	for who, b := range map[string]*browser{"nobody": p.browser(), "a reader": p.logged("r"), "an operator": p.logged("o"), "by the link": p.logged("")} {
		for _, path := range p.paths(f) {
			page := b.page(path)
			buttons := strings.Count(page, "<button") - strings.Count(page, `action="/logout"`) - strings.Count(page, `method="get"`)
			if decides := who == "an operator" || who == "by the link"; !decides && (buttons != 0 || strings.Contains(page, "/send")) {
				t.Errorf("%s sees %d buttons on %s", who, buttons, path)
			}
		}
	}
}

func contextUntil(stop chan struct{}) (context.Context, context.CancelFunc) {
	ctx, end := context.WithCancel(context.Background())
	go func() {
		<-stop
		end()
	}()
	return ctx, end
}

// What is approved is what the form showed: nothing without its sum, and nothing that has
// changed since.
// An agent is paused and resumed from its page, by operators who have logged in.
func TestPauseByForm(t *testing.T) {
	p := newDesk(t)
	reader, o := p.logged("r"), p.logged("o")
	if text := reader.page("/agent/coder"); strings.Contains(text, "do-pause") || !strings.Contains(text, "healthy") {
		t.Errorf("a reader is shown %s", text)
	}
	if w := reader.post("/agent/coder/pause"); w.Code != http.StatusForbidden {
		t.Errorf("a reader pauses: %d", w.Code)
	}
	text := o.page("/agent/coder")
	if !strings.Contains(text, `action="/agent/coder/pause"`) || strings.Contains(text, "do-resume") {
		t.Errorf("it offers %s", text)
	}
	w := o.post("/agent/coder/pause", "reason", "<b>quiet</b>", "for", "8h")
	if at := w.Header().Get("Location"); w.Code != http.StatusSeeOther || at != "/agent/coder?said=pause" {
		t.Fatalf("%d %s: %s", w.Code, at, w.Body)
	}
	text = o.page("/agent/coder?said=pause")
	for _, want := range []string{"The agent was paused.", `<span class="late">paused</span>`, "&lt;b&gt;quiet&lt;/b&gt; (dashboard, token boss)", "<dt>Until</dt>", `action="/agent/coder/resume"`} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %s", want, text)
		}
	}
	if text := o.page("/agents"); !strings.Contains(text, `<a href="/agent/coder">coder</a>`) || !strings.Contains(text, `<span class="late">paused</span>`) {
		t.Errorf("the list is %s", text)
	}
	if text := o.page("/log"); !strings.Contains(text, "human paused coder until") || !strings.Contains(text, "&lt;b&gt;quiet&lt;/b&gt; (dashboard, token boss)") {
		t.Errorf("the log of what operators did is %s", text)
	}
	o.post("/agent/coder/resume", "reason", "enough")
	if text := o.page("/agent/coder?said=resume"); !strings.Contains(text, "The agent was resumed.") || !strings.Contains(text, "healthy") {
		t.Errorf("resumed: %s", text)
	}
	for path, status := range map[string]int{"/agent/coder/dismiss": 400, "/agent/codr/pause": 404, "/agent/any/pause": 422} {
		if w := o.post(path); w.Code != status {
			t.Errorf("%s: %d, want %d", path, w.Code, status)
		}
	}
	if w := o.post("/agent/coder/pause", "for", "soon"); w.Code != 422 {
		t.Errorf("for soon: %d", w.Code)
	}
	if w := o.get("/agent/codr"); w.Code != 404 {
		t.Errorf("an agent that is not there: %d", w.Code)
	}
}

func TestApproveByForm(t *testing.T) {
	p := newDesk(t)
	f := p.fill("x")
	b := p.logged("o")
	at := "/task/" + string(f.held)
	for _, path := range []string{at, "/inbox"} {
		page := b.page(path)
		if !strings.Contains(page, "deploy") || !strings.Contains(page, `a\u202eb`) || !strings.Contains(page, "8080") {
			t.Errorf("%s does not show what would be done: %s", path, page)
		}
	}
	sum := regexp.MustCompile(`name="sha256" value="(sha256:[0-9a-f]{64})"`).FindStringSubmatch(b.page("/inbox"))
	if sum == nil {
		t.Fatal("the inbox has no sum")
	}
	for name, c := range map[string]struct {
		status int
		fields []string
	}{
		"without a sum":      {400, nil},
		"with an empty one":  {400, []string{"sha256", ""}},
		"with another one":   {409, []string{"sha256", "sha256:" + strings.Repeat("0", 64)}},
		"for too long":       {422, []string{"sha256", sum[1], "for", "1000h"}},
		"with many a reason": {400, []string{"sha256", sum[1], "reason", "a", "reason", "b"}},
	} {
		if w := b.post(at+"/approve", c.fields...); w.Code != c.status {
			t.Errorf("%s: %d", name, w.Code)
		}
	}
	w := b.post(at+"/approve", "sha256", sum[1], "for", "15m", "reason", "looked at it")
	if w.Code != 303 || w.Header().Get("Location") != at+"?said=approve" {
		t.Fatalf("%d %v: %s", w.Code, w.Header(), w.Body)
	}
	if page := b.page(at + "?said=approve"); !strings.Contains(page, "The task was approved.") || strings.Contains(page, "name=\"sha256\"") {
		t.Errorf("%s", page)
	}
	if got := p.ask("o", "GET", "/audit/entries?event=decision", "").Body.String(); !strings.Contains(got, "dashboard, token boss") {
		t.Errorf("the ledger does not tell the door: %s", got)
	}
	if page := b.page("/log"); !strings.Contains(page, "decision-") {
		t.Errorf("the log does not tell of it: %s", page)
	}
	if page := b.page("/inbox"); strings.Contains(page, "name=\"sha256\"") {
		t.Errorf("the inbox still asks: %s", page)
	}
}

// Parameters that are longer than a page shows, as their hidden characters are drawn, are
// not approved by one.
func TestApproveWhatIsShown(t *testing.T) {
	p := newDesk(t)
	long := `{"content":"harmless ` + strings.Repeat("\x7f", 50000) + `","path":"evil.md"}`
	id := p.sent("o", strings.Replace(deploy, `{"port":8080,"name":"a\u202eb"}`, long, 1))
	b := p.logged("o")
	at := "/task/" + string(id)
	for _, path := range []string{at, "/inbox"} {
		page := b.page(path)
		if strings.Contains(page, "evil.md") || strings.Contains(page, "/approve") || strings.Contains(page, "Parameters, whole") || !strings.Contains(page, "on a terminal shows all") || !strings.Contains(page, at+"/cancel") {
			t.Errorf("%s offers what it does not show: %d bytes", path, len(page))
		}
	}
	w, err := p.box.Why(t.Context(), id)
	if err != nil || w.Approve == "" {
		t.Fatal(w, err)
	}
	if r := b.post(at+"/approve", "sha256", w.Approve, "for", "15m"); r.Code != 409 {
		t.Errorf("it was approved: %d", r.Code)
	}
}

var keyField = regexp.MustCompile(`name="key" value="([^"]+)"`)

// What is done with all that match is done with those whose number was shown, once.
func TestAll(t *testing.T) {
	p := newDesk(t)
	for range 12 {
		p.sent("o", titled("old", "coder"))
	}
	other := p.sent("o", titled("other", "tester"))
	b := p.logged("o")
	page := b.post("/all", "verb", "cancel", "to", "coder", "state", "pending").Body.String()
	if !strings.Contains(page, "Cancel 12 tasks?") {
		t.Fatalf("%s", page)
	}
	late := p.sent("o", titled("late", "coder"))
	key := keyField.FindStringSubmatch(page)[1]
	if w := p.logged("o").post("/all/do", "key", key); w.Code != 409 {
		t.Errorf("another session: %d", w.Code)
	}
	if got := b.post("/all/do", "key", key, "reason", "enough").Body.String(); !strings.Contains(got, "12 tasks were cancelled") {
		t.Errorf("%s", got)
	}
	if w := b.post("/all/do", "key", key); w.Code != 409 {
		t.Errorf("once more: %d", w.Code)
	}
	x, err := p.box.Index()
	if err != nil || x.Count[mailbox.Failed] != 12 || x.Count[mailbox.Pending] != 2 {
		t.Errorf("%+v, %v", x, err)
	}
	for _, id := range []mailbox.ID{other, late} {
		if _, state, err := p.box.Task(t.Context(), id); state != mailbox.Pending {
			t.Errorf("%s is %s, %v", id, state, err)
		}
	}
	if got := b.post("/all", "verb", "retry", "q", "old").Body.String(); !strings.Contains(got, "Retry 12 tasks?") {
		t.Errorf("%s", got)
	}
	if got := b.post("/all", "verb", "release").Body.String(); !strings.Contains(got, "None that match can be released") {
		t.Errorf("%s", got)
	}
	for _, fields := range [][]string{{"verb", "approve"}, {"verb", "none"}, {}, {"verb", "cancel", "too", "x"}, {"verb", "cancel", "state", "x"}} {
		if w := b.post("/all", fields...); w.Code != 400 {
			t.Errorf("%v: %d", fields, w.Code)
		}
	}
}

func TestSendByForm(t *testing.T) {
	p := newDesk(t)
	f := p.fill("harmless")
	b := p.logged("")
	key := keyField.FindStringSubmatch(b.page("/send"))[1]
	fields := []string{"title", "By form", "description", "a\r\nb", "to", "coder", "type", "action", "priority", "high", "context", `{"x":1}`, "action", "turn", "params", `{"y":[2]}`, "more", `{"max_attempts":5}`, "key", key}
	w := b.post("/send", fields...)
	id, ok := strings.CutPrefix(strings.TrimSuffix(w.Header().Get("Location"), "?said=send"), "/task/")
	if w.Code != 303 || !ok {
		t.Fatalf("%d %v: %s", w.Code, w.Header(), w.Body)
	}
	got, _, err := p.box.Task(t.Context(), mailbox.ID(id))
	if err != nil || got.Task.Description != "a\nb" || got.Mbox.Action.Name != "turn" || strings.Join(strings.Fields(string(got.Mbox.Action.Params)), "") != `{"y":[2]}` || got.Mbox.MaxAttempts != 5 || got.Source.Agent != "human" || got.Task.Priority != "high" {
		t.Errorf("%+v, %v", got, err)
	}
	if again := b.post("/send", fields...); again.Header().Get("Location") != w.Header().Get("Location") {
		t.Errorf("sent twice it is %v", again.Header())
	}
	page := b.page("/send?like=" + id)
	for _, want := range []string{`value="By form"`, "a\nb", `value="turn"`, "max_attempts", `<option value="high" selected>`} {
		if !strings.Contains(page, want) {
			t.Errorf("sent again, edited, it lacks %s: %s", want, page)
		}
	}
	for name, c := range map[string][2]string{"no title": {"title", ""}, "no JSON": {"params", "{"}, "nobody": {"to", "codr"}, "no such field": {"more", `{"epoch":1}`}, "a type": {"type", "x"}} {
		wrong := append([]string{}, fields...)
		wrong[slices.Index(wrong, c[0])+1] = c[1]
		wrong[len(wrong)-1] = name
		if w := b.post("/send", wrong...); w.Code != 422 || !strings.Contains(w.Body.String(), `role="alert"`) || !strings.Contains(w.Body.String(), "a\nb") {
			t.Errorf("%s: %d: %s", name, w.Code, w.Body)
		}
	}
	var entry string
	for _, path := range p.paths(f) {
		if name, ok := strings.CutPrefix(path, "/quarantine/"); ok {
			entry = name
		}
	}
	if page := b.page("/send?entry=" + entry); !strings.Contains(page, `value="harmless"`) {
		t.Errorf("what lies in quarantine is not offered: %s", page)
	}
	for _, entry := range []string{"../../mbox.toml", "..", ".", "none", "bad.json"} {
		if w := b.get("/send?entry=" + url.QueryEscape(entry)); w.Code != 404 {
			t.Errorf("%s: %d", entry, w.Code)
		}
	}
}

// The way of a task has each time that it waited, and each that somebody worked at it.
func TestSteps(t *testing.T) {
	p := newDesk(t)
	id := p.sent("o", titled("x", "coder"))
	if err := p.claim("coder").Release(t.Context(), "later", 0); err != nil {
		t.Fatal(err)
	}
	if err := p.claim("coder").Fail(t.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "no"}, Final: true}); err != nil {
		t.Fatal(err)
	}
	p.want(200, "o", "POST", "/tasks/"+string(id)+"/retry", "")
	got, _, err := p.box.Task(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range stepsOf(got) {
		names = append(names, s.Name)
		if s.Works != strings.HasPrefix(s.Name, "attempt") || s.From.IsZero() || s.Bad != (s.Name == "attempt 2") {
			t.Errorf("%+v", s)
		}
	}
	if all := strings.Join(names, ", "); all != "waited, attempt 1, waited, attempt 2, waited" {
		t.Error(all)
	}
}

// A parent's page shows what its children waited for and did, and the tree.
func TestChildren(t *testing.T) {
	p := newDesk(t)
	f := p.fill("x")
	child := p.claim("off").Task.ID
	for _, path := range []string{"/task/" + string(f.parent), "/task/" + string(child)} {
		page := p.browser().page(path)
		tree, rows := regexp.MustCompile(`(?s)<ul class="tree">.*?</section>`).FindString(page), strings.Count(page, "<rect")
		if strings.Count(tree, "<li>") != 3 || rows != map[bool]int{true: 6, false: 2}[path == "/task/"+string(f.parent)] {
			t.Errorf("%s: %d rows, tree %s", path, rows, tree)
		}
	}
}
