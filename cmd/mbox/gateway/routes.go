package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/cmd/mbox/gateway/token"
	"mbox/cmd/mbox/sight"
	"mbox/mailbox"
	"mbox/mailbox/lifecycle"
	"mbox/mailbox/task"
	"mbox/schemas"
)

// route is one thing that can be asked for.
type route struct {
	method, path string
	needs        may
	agents       bool // an agent's token may, too: the answer is what concerns it
	waits        bool // it may take as long as it likes, and ends by itself
	query        []param
	headers      []param
	about        string   // one line
	takes        any      // of the type that the body has; nil: none
	optional     bool     // the body may be missing
	gives        any      // of the type that the answer has; nil: it is no JSON
	kinds        []string // of answers that are no JSON
	status       int      // of an answer; 0: 200
	page         bool     // it is for browsers: an error is a page, too, and who writes has logged in
	anyone       bool     // nobody has to say who he is
	do           func(*call) error
}

func (d *Door) routes() []route {
	return slices.Concat(taskRoutes(), verbRoutes(), agentRoutes(), inboxRoutes(), channelRoutes(), lifeRoutes(), ledgerRoutes(), healthRoutes(), metricRoutes(), d.mcpRoutes(), selfRoutes())
}

// call is one request that may be answered.
type call struct {
	*serving
	caller
	door  *Door
	ctx   context.Context
	w     http.ResponseWriter
	r     *http.Request
	query map[string][]string // as the route's params allow it
}

// mux tells the routes apart. What net/http answers by itself is no problem in the
// sense of RFC 9457, so paths and methods are matched one after the other.
func (d *Door) mux() http.Handler {
	paths := map[string]map[string]route{}
	for _, r := range slices.Concat(d.routes(), pageRoutes()) {
		if paths[r.path] == nil {
			paths[r.path] = map[string]route{}
		}
		paths[r.path][r.method] = r
	}
	mux := http.NewServeMux()
	for path, methods := range paths {
		allowed := slices.Sorted(maps.Keys(methods))
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			method := r.Method
			if method == http.MethodHead {
				method = http.MethodGet
			}
			found, ok := methods[method]
			if !ok {
				w.Header().Set("Allow", strings.Join(allowed, ", "))
				d.fail(w, r, &refusal{http.StatusMethodNotAllowed, r.Method + " is not what this takes", "use " + strings.Join(allowed, " or ")})
				return
			}
			d.answer(w, r, &found)
		})
	}
	mux.HandleFunc("/static/{name}", d.static)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		d.fail(w, r, &refusal{http.StatusNotFound, "there is no such thing here", "GET /openapi.json lists what there is"})
	})
	return mux
}

// answer finds out who asks, whether he may, and answers.
func (d *Door) answer(w http.ResponseWriter, r *http.Request, to *route) {
	err := to.helped(d.attempt(w, r, to))
	switch {
	case err == nil || r.Context().Err() != nil:
	case to.page:
		d.failPage(w, r, err)
	default:
		d.fail(w, r, err)
	}
}

func (d *Door) attempt(w http.ResponseWriter, r *http.Request, to *route) error {
	who, err := d.identify(r)
	if err != nil && !to.anyone {
		return err
	}
	if err := who.refused(to); err != nil {
		return err
	}
	if who.seat != nil && r.Method != http.MethodGet && r.Method != http.MethodHead && !fromPage(r) {
		return forbidden("a browser that logged in says from which page it asks", "scripts use a token")
	}
	s := d.borrow()
	if s == nil {
		return errNoMailbox
	}
	defer s.asked.Done()
	if who.agent != "" {
		if err := who.stands(s.Box); err != nil {
			return err
		}
	}
	ctx, end := context.WithCancel(r.Context())
	defer end()
	revoked := make(chan error, 1)
	if to.waits {
		defer context.AfterFunc(s.ctx, end)()
	}
	if to.waits && !to.anyone {
		go d.endRevoked(ctx, r, recheck, end, revoked)
	}
	if p, ok := w.(*paced); ok {
		defer context.AfterFunc(s.ctx, p.hurry)()
	}
	if !to.waits {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, answerTime)
		defer stop()
	}
	c := &call{serving: s, caller: who, door: d, ctx: ctx, w: w, r: r}
	if c.query, err = to.read(r); err != nil {
		return err
	}
	if err = to.do(c); errors.Is(err, context.Canceled) {
		select {
		case err = <-revoked:
		default:
		}
	}
	return err
}

// stands gives an agent the name that it has now. One that is dead is nobody any more.
func (c *caller) stands(box *mailbox.Box) (err error) {
	if c.agent, err = mailbox.AgentCalled(box, c.agent); err != nil {
		return err
	}
	a, err := mailbox.AgentOf(box, c.agent)
	if err == nil && a.State == lifecycle.Dead {
		err = forbidden(c.agent+" is "+a.String(), "mbox token revoke "+schemas.ShellWord(c.name)+", or mbox agent restore "+schemas.ShellWord(c.agent))
	}
	return err
}

// recheck is how soon what waits ends after its caller may ask no more.
var recheck = time.Second // tests have less time

// endRevoked ends what waits when its caller may not ask any more.
func (d *Door) endRevoked(ctx context.Context, r *http.Request, every time.Duration, end func(), revoked chan<- error) {
	often := time.NewTicker(every)
	defer often.Stop()
	for {
		select {
		case <-often.C:
			var no *refusal // which is also that nobody can tell, for now
			if _, err := d.identify(r); errors.As(err, &no) && no.status == http.StatusUnauthorized {
				revoked <- err
				end()
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// refused tells why a caller may not have what he asks for.
func (c caller) refused(to *route) error {
	switch {
	case to.anyone:
		return nil
	case to.page && to.method == http.MethodPost && c.seat == nil:
		return unauthorized("log in to do this")
	case c.role == token.Operator:
		return nil
	case !c.mayDo(to.needs) && c.name == "":
		return unauthorized("without a token one may read and leave tasks")
	case !c.mayDo(to.needs):
		return forbidden(fmt.Sprintf("the token %s has the role %s", c.name, c.role), to.whose())
	case c.role == token.Agent && !to.agents:
		return forbidden("an agent's token reaches the agent's tasks alone", to.whose())
	}
	return nil
}

const largerBodies = "[serve] max_body in mbox.toml sets the limit; larger tasks go by mbox send FILE"

// body reads the request's body, of at most the door's limit.
func (c *call) body() ([]byte, error) {
	if kind, _, _ := strings.Cut(c.r.Header.Get("Content-Type"), ";"); !strings.EqualFold(strings.TrimSpace(kind), "application/json") {
		return nil, &refusal{http.StatusUnsupportedMediaType, "the body has to be JSON", "send Content-Type: application/json"}
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.door.o.MaxBody))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return nil, &refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body has more than %d bytes", large.Limit), largerBodies}
	}
	if err != nil {
		return nil, badRequest("the body broke off", "send it again")
	}
	return data, nil
}

// json answers with a value.
func (c *call) json(status int, v any) error {
	data, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("the answer: %w", err)
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)+1))
	c.w.WriteHeader(status)
	_, _ = c.w.Write(append(data, '\n')) // who has gone away needs no answer
	return nil
}

// guarded stands before everything: it is our name that is asked for, no other site
// asks through a browser, and whatever goes wrong is an answer.
func (d *Door) guarded(inner http.Handler) http.Handler {
	cross := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w := &paced{ResponseWriter: out}
		defer func() {
			why := recover()
			if why == http.ErrAbortHandler {
				panic(why)
			}
			if why != nil {
				d.o.Log.Error().Str("panic", fmt.Sprint(why)).Bytes("stack", debug.Stack()).Msg("a request")
				d.fail(w, r, &refusal{http.StatusInternalServerError, "mbox has made a mistake", "its log tells more"})
			}
		}()
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		if !d.ours(r.Host) {
			d.fail(w, r, &refusal{http.StatusMisdirectedRequest, fmt.Sprintf("%s is not a name of this server", schemas.Quote(r.Host)), "use the address that mbox serve prints"})
			return
		}
		if err := cross.Check(r); err != nil || embedded(r) {
			d.fail(w, r, forbidden("another site asks for this", "ask without Origin, or from our own pages"))
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// embedded tells whether a browser asks for another site's page, which wants to have
// the answer in it. Links lead here as they do anywhere.
func embedded(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return (site == "cross-site" || site == "same-site") && r.Header.Get("Sec-Fetch-Mode") != "navigate"
}

// ours tells whether a Host is a name of the address on which the door listens: on
// loopback, those of loopback. So no page can reach it by a name of its own that it
// lets point here.
func (d *Door) ours(host string) bool {
	name := hostname(host)
	ip := net.ParseIP(name)
	if name == "localhost" || ip != nil && ip.IsLoopback() {
		return true
	}
	if d.o.Loopback {
		return false
	}
	own, _, _ := net.SplitHostPort(d.o.Address)
	if listens := net.ParseIP(own); own == "" || listens != nil && listens.IsUnspecified() {
		return true // any of the machine's names, and only with a token
	}
	return strings.EqualFold(name, own)
}

// hostname is a Host without its port.
func hostname(host string) string {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.Trim(host, "[]")
	}
	return strings.ToLower(name)
}

// tidy does what a running router would have done, at most once a second. Who comes
// while another request does it does not wait for that: it may wait for a lock.
func (c *call) tidy() error {
	if !c.tidying.TryLock() {
		return nil
	}
	defer c.tidying.Unlock()
	if now := c.door.o.Now(); now.Sub(c.tidied) >= tidyPace {
		c.tidied = now
		return c.Box.Tidy(c.ctx)
	}
	return nil
}

// sight is what the caller sees: an agent's token its own business, any other one all.
func (c *call) sight() *sight.Sight { return sight.Of(c.Box, c.agent) }

// find is a task that the caller may see. One that he may not see is as one that is
// not there.
func (c *call) find() (*mailbox.Task, mailbox.State, error) {
	id := mailbox.ID(c.r.PathValue("id"))
	t, state, err := c.sight().Task(c.ctx, id)
	if err != nil {
		return nil, "", aboutTask(id, err)
	}
	return t, state, nil
}

func aboutTask(id mailbox.ID, err error) error {
	if errors.Is(err, mailbox.ErrNotFound) {
		return &refusal{http.StatusNotFound, fmt.Sprintf("there is no task %s", schemas.Sentence(string(id), 128)), "GET /tasks lists them"}
	}
	return task.About(id, err)
}
