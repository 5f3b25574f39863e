package gateway

import (
	"bytes"
	"errors"
	"net/http"
	"strconv"
	"time"

	"mbox/cmd/mbox/gateway/pages"
	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// view is a call that is answered with a page of the dashboard.
type view struct {
	*call
	mine *sight.Sight // what is shown
}

func seen(do func(view) error) func(*call) error {
	return func(c *call) error { return do(view{c, c.sight()}) }
}

// pageRoutes are the dashboard's. They stand in no description: what they answer is for
// people, and programs have the others.
func pageRoutes() []route {
	states := append(stateNames(), string(mailbox.Archived))
	some := []param{
		{name: "to"}, {name: "by"}, {name: "type", form: among(task.Types...)}, {name: "priority", form: among(task.Priorities...)},
	}
	list := append([]param{
		{name: "state", form: among(states...)}, {name: "from"}, {name: "q"}, {name: "cursor"},
	}, some...)
	said := param{name: "said"}
	routes := []route{
		{method: "GET", path: "/{$}", agents: true, query: some, do: seen(view.board)},
		{method: "GET", path: "/list", agents: true, query: list, do: seen(view.list)},
		{method: "GET", path: "/task/{id}", agents: true, query: []param{said}, do: seen(view.task)},
		{method: "POST", path: "/task/{id}/{verb}", needs: operate, do: seen(view.decideOne)},
		{method: "POST", path: "/all", needs: operate, do: seen(view.choose)},
		{method: "POST", path: "/all/do", needs: operate, do: seen(view.decideAll)},
		{method: "GET", path: "/inbox", query: []param{said}, do: seen(view.inbox)},
		{method: "GET", path: "/agents", do: seen(view.agents)},
		{method: "GET", path: "/agent/{name}", query: []param{said}, do: seen(view.agent)},
		{method: "POST", path: "/agent/{name}/{verb}", needs: operate, do: seen(view.decideAbout)},
		{
			method: "GET", path: "/problems", waits: true, do: seen(view.problems),
			query: []param{{name: "prove", form: among("true")}, {name: "before"}},
		},
		{method: "GET", path: "/quarantine/{entry}", do: seen(view.entry)},
		{method: "GET", path: "/records", query: []param{{name: "before"}}, do: seen(view.records)},
		{method: "GET", path: "/records/{id}", do: seen(view.record)},
		{method: "GET", path: "/log", query: []param{{name: "before", form: seqForm()}}, do: seen(view.log)},
		{method: "GET", path: "/send", agents: true, query: []param{{name: "like"}, {name: "entry"}}, do: seen(view.compose)},
		{method: "POST", path: "/send", needs: post, agents: true, do: seen(view.send)},
		{method: "GET", path: "/login", anyone: true, query: []param{{name: "key"}}, do: seen(view.login)},
		{method: "POST", path: "/login", anyone: true, waits: true, do: seen(view.enter)},
		{method: "POST", path: "/logout", anyone: true, do: seen(view.logout)},
	}
	for i := range routes {
		routes[i].page = true
	}
	return routes
}

// static hands out what all pages need. It is the same for everybody.
func (d *Door) static(w http.ResponseWriter, r *http.Request) {
	f, ok := pages.Static(r.PathValue("name"))
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodHead {
		d.fail(w, r, &refusal{http.StatusNotFound, "there is no such file", "the pages name those that there are"})
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("Etag", f.Tag)
	if r.Header.Get("If-None-Match") == f.Tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", f.Kind)
	h.Set("Content-Length", strconv.Itoa(len(f.Data)))
	_, _ = w.Write(f.Data) // who has gone away needs no answer
}

// frame is what is around a page's content.
func (c caller) frame(here, title string, now time.Time) *pages.Frame {
	f := &pages.Frame{Here: here, Title: title, Now: now, Role: string(c.role), All: c.all()}
	if c.seat != nil {
		f.Who = c.name
		f.Decide = c.mayDo(operate)
		f.Send = c.mayDo(post)
	}
	return f
}

// show answers with a page that follows the ledger, as far as the caller may.
func (v view) show(name, here, title string, data any) error {
	return v.draw(name, here, title, v.all(), data)
}

// still answers with a page that stays as it is.
func (v view) still(name, here, title string, data any) error {
	return v.draw(name, here, title, false, data)
}

func (v view) draw(name, here, title string, live bool, data any) error {
	f := v.frame(here, title, v.door.o.Now())
	f.Live, f.Data = live, data
	f.Host = hostname(v.r.Host)
	f.Said = v.said()
	return drawn(v.w, http.StatusOK, name, f)
}

func drawn(w http.ResponseWriter, status int, name string, f *pages.Frame) error {
	var out bytes.Buffer
	if err := pages.Draw(&out, name, f); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Security-Policy", pages.Policy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // who has gone away needs no answer
	return nil
}

// failPage answers a browser with an error. Who has to say first who he is comes to where
// he can.
func (d *Door) failPage(w http.ResponseWriter, r *http.Request, err error) {
	p := d.problemOf(err)
	if p.Status == http.StatusUnauthorized && r.Method == http.MethodGet {
		http.Redirect(w, r, "/login", http.StatusSeeOther)
		return
	}
	if p.Status >= http.StatusInternalServerError {
		d.o.Log.Error().Err(err).Str("path", r.URL.Path).Msg("a page failed")
	}
	who, _ := d.identify(r) // nobody, if it cannot be told
	f := who.frame("", p.Title, d.o.Now())
	f.Data = p
	if err := drawn(w, p.Status, "problem", f); err != nil {
		d.fail(w, r, err)
	}
}

// to sends the browser on, so that loading a page again does nothing twice.
func (v view) to(path string) error {
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// fields reads a form, of at most the door's limit; what stands in the URL is none of it.
func (v view) fields() (map[string]string, error) {
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, v.door.o.MaxBody)
	err := v.r.ParseForm()
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, &refusal{http.StatusRequestEntityTooLarge, "the form has more than " + strconv.FormatInt(large.Limit, 10) + " bytes", "larger tasks go by mbox send FILE"}
	}
	if err != nil {
		return nil, badRequest("the form broke off", "send it again")
	}
	out := map[string]string{}
	for name, values := range v.r.PostForm {
		if len(values) != 1 {
			return nil, badRequest(schemas.Quote(name)+" is given several times", "give it once")
		}
		out[name] = values[0]
	}
	return out, nil
}

// login shows the form, or takes the login link, whose address is not kept: the browser is
// sent on at once.
func (v view) login() error {
	key := v.value("key")
	if key == "" || v.r.Method != http.MethodGet {
		return v.still("login", "/login", "Log in", "")
	}
	if !v.door.sessions.follow(key, v.door.o.Now()) {
		return v.turnAway("this link was used, or is older than ten minutes: log in with a token, or start mbox serve again")
	}
	return v.admit("")
}

// enter takes a token.
func (v view) enter() error {
	fields, err := v.fields()
	if err != nil {
		return err
	}
	_, err = v.door.known(fields["token"])
	if errors.Is(err, errNobody) {
		return v.turnAway(err.Error())
	}
	if err != nil {
		return err
	}
	return v.admit(fields["token"])
}

// admit begins a session, and ends that which the browser had.
func (v view) admit(secret string) error {
	if v.seat != nil {
		v.door.sessions.end(v.seat)
	}
	v.door.setCookie(v.w, v.r, v.door.sessions.begin(secret, v.door.o.Now()))
	return v.to("/")
}

// turnAway refuses a login, after a pause.
func (v view) turnAway(why string) error {
	if !v.door.sessions.refuse(v.ctx, address(v.r)) {
		v.w.Header().Set("Retry-After", "1")
		return &refusal{http.StatusTooManyRequests, "too many logins were refused", "try again in a moment"}
	}
	f := v.frame("/login", "Log in", v.door.o.Now())
	f.Data = why
	return drawn(v.w, http.StatusUnauthorized, "login", f)
}

// logout ends the session.
func (v view) logout() error {
	if v.seat != nil {
		v.door.sessions.end(v.seat)
	}
	v.door.setCookie(v.w, v.r, "")
	return v.to("/login")
}
