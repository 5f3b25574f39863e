package brain

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"mbox/agents"
)

// server is what all brains of this process know together of one server.
type server struct {
	url   *url.URL
	http  *http.Client
	turns turns
	rest  rest
	tags  tags
}

var servers = struct {
	sync.Mutex
	known map[string]*server
}{known: map[string]*server{}}

// serverAt is the same one for the same address. There are as many as the
// configuration names, so none is ever forgotten.
func serverAt(kind string, u *url.URL, local bool) *server {
	servers.Lock()
	defer servers.Unlock()
	key := fmt.Sprint(kind, local, u)
	s := servers.known[key]
	if s == nil {
		s = &server{url: u, http: client(local)}
		s.tags.asking = make(chan struct{}, 1)
		servers.known[key] = s
	}
	return s
}

// turns let so many thoughts at a time to a server, first come, first served.
// Invariant, under mu: the head of the queue does not fit.
type turns struct {
	mu    sync.Mutex
	taken int
	queue []*waiter
}

type waiter struct {
	limit int
	turn  chan struct{} // closed when it has come
}

// full tells whether a thought would have to wait.
func (t *turns) full(limit int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.taken >= limit || len(t.queue) > 0
}

// take waits for a turn, which must be given back.
func (t *turns) take(ctx context.Context, limit int) (giveBack func(), err error) {
	w := &waiter{limit, make(chan struct{})}
	t.mu.Lock()
	t.queue = append(t.queue, w)
	t.serve()
	t.mu.Unlock()
	select {
	case <-w.turn:
		return t.giveBack, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(t.queue, w); i >= 0 {
		t.queue = slices.Delete(t.queue, i, i+1)
	} else { // it came at the same moment
		t.taken--
	}
	t.serve()
	return nil, ctx.Err()
}

func (t *turns) giveBack() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taken--
	t.serve()
}

func (t *turns) serve() {
	for len(t.queue) > 0 && t.taken < t.queue[0].limit {
		t.taken++
		close(t.queue[0].turn)
		t.queue = t.queue[1:]
	}
}

// rest is a time in which a server, or a model of it, is left alone, because it was busy
// or down.
// It doubles from one failure to the next, from shortRest to longRest, until a
// thought succeeds or a time as long passes without a failure.
type rest struct {
	mu     sync.Mutex
	until  time.Time
	length time.Duration
	why    agents.BrainError
	spread func(time.Duration) time.Duration // how much longer a rest of this length is; nil: up to a quarter
}

const (
	shortRest = time.Second
	longRest  = 30 * time.Second
	maxRest   = 10 * time.Minute // that a server may ask for
)

// failed remembers a failure that the next thought would run into as well, and
// says when to try again.
func (r *rest) failed(e *agents.BrainError) *agents.BrainError {
	if e.Fault == agents.BrainBusy || e.Fault == agents.BrainDown {
		e.Delay = r.begin(time.Now(), e)
	}
	return e
}

// begin makes a rest, of the error's Delay where it has one, and returns what is
// left of it. Failures of thoughts that were under way make it no longer.
func (r *rest) begin(now time.Time, e *agents.BrainError) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := r.until.Sub(now); left > 0 {
		return left
	}
	switch {
	case e.Delay > 0:
		r.length = min(e.Delay, maxRest)
	case r.length == 0 || now.Sub(r.until) > r.length:
		r.length = shortRest
	default:
		r.length = min(2*r.length, longRest)
	}
	spread := r.spread
	if spread == nil {
		spread = upToAQuarter
	}
	left := min(r.length+spread(r.length), maxRest)
	r.until, r.why = now.Add(left), *e
	return left
}

// upToAQuarter keeps all who were sent away from coming back at once.
func upToAQuarter(d time.Duration) time.Duration { return rand.N(d/4 + 1) }

// now is the error that the rest is for, nil when there is none or it is over.
func (r *rest) now(now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	left := r.until.Sub(now)
	if left <= 0 {
		return nil
	}
	e := r.why
	e.Delay = left
	return &e
}

func (r *rest) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.until, r.length = time.Time{}, 0
}

// ready is nil if a thought would get to the server at once.
func (s *server) ready(limit int) error {
	if err := s.rest.now(time.Now()); err != nil {
		return err
	}
	if s.turns.full(limit) {
		return &agents.BrainError{Fault: agents.BrainBusy, Text: "it is thinking for others", Delay: time.Second}
	}
	return nil
}
