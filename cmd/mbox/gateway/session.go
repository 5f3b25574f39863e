package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net"
	"net/http"
	"sync"
	"time"

	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
)

// sessions are the people who have logged in with a browser. They are in memory
// alone, and of what opens them only hashes: who stops mbox ends them all.
type sessions struct {
	mu      sync.Mutex
	open    map[key]*session // by the hash of the cookie's value
	link    key              // of the login link; zero where there is none
	until   time.Time        // when the link ends
	waiting map[string]int   // by address: refusals that are being answered
}

// key is the SHA-256 of a secret of 256 random bits. Looking it up tells nobody by its
// time how near he was.
type key [sha256.Size]byte

// session is one browser that has logged in.
type session struct {
	id     key
	secret string // the token with which it came; "" by the login link
	used   time.Time
	chosen *chosen // guarded by sessions.mu: what is asked for all of
}

// chosen are tasks for all of which something is to be done, as their number was shown.
type chosen struct {
	key   string
	verb  string
	tasks []picked
}

// picked is a task as it was seen.
type picked struct {
	id   mailbox.ID
	seen string
}

// How long things last. The pause is a variable for tests.
const (
	linkLasts    = 10 * time.Minute
	sessionIdle  = 12 * time.Hour
	mostSessions = 200
	mostWaiting  = 4 // refusals at once from one address
)

var refusalPause = time.Second

func newSessions() *sessions {
	return &sessions{open: map[key]*session{}, waiting: map[string]int{}}
}

// secret is 256 random bits as text, and their hash.
func secret() (text string, hash key) {
	bits := make([]byte, 32)
	rand.Read(bits) // never fails (crypto/rand)
	text = base64.RawURLEncoding.EncodeToString(bits)
	return text, sha256.Sum256([]byte(text))
}

// LoginLink makes a link by which one browser may log in as an operator, once and for
// ten minutes. The link before it ends.
func (d *Door) LoginLink(url string) string {
	text, hash := secret()
	s := d.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	s.link, s.until = hash, d.o.Now().Add(linkLasts)
	return url + "/login?key=" + text
}

// follow uses the login link up; false if this is not the one.
func (s *sessions) follow(text string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == (key{}) || s.link != sha256.Sum256([]byte(text)) || !now.Before(s.until) {
		return false
	}
	s.link = key{}
	return true
}

// begin opens a session, and forgets what is over. Its cookie's value is made here, never
// taken from a browser.
func (s *sessions) begin(token string, now time.Time) (cookie string) {
	cookie, hash := secret()
	s.mu.Lock()
	defer s.mu.Unlock()
	var oldest *session
	for id, one := range s.open {
		if now.Sub(one.used) >= sessionIdle {
			delete(s.open, id)
		} else if oldest == nil || one.used.Before(oldest.used) {
			oldest = one
		}
	}
	if len(s.open) >= mostSessions {
		delete(s.open, oldest.id)
	}
	s.open[hash] = &session{id: hash, secret: token, used: now}
	return cookie
}

// find is the session of a cookie; nil if it is over. Only what a person does is use: what
// an open page asks for by itself keeps no session.
func (s *sessions) find(cookie string, now time.Time, person bool) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.open[sha256.Sum256([]byte(cookie))]
	switch {
	case one == nil:
		return nil
	case now.Sub(one.used) >= sessionIdle:
		delete(s.open, one.id)
		return nil
	case person:
		one.used = now
	}
	return one
}

func (s *sessions) end(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, one.id)
}

// choose keeps what somebody is asked about, instead of what he was asked before.
func (s *sessions) choose(one *session, c *chosen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.chosen = c
}

// take is what was chosen under a key, once; nil if it is something else by now.
func (s *sessions) take(one *session, key string) *chosen {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := one.chosen
	if c == nil || c.key != key {
		return nil
	}
	one.chosen = nil
	return c
}

// refuse waits before a login is refused, and tells whether there was room to wait: from
// one address only so many are refused at a time.
func (s *sessions) refuse(ctx context.Context, address string) bool {
	s.mu.Lock()
	if s.waiting[address] >= mostWaiting {
		s.mu.Unlock()
		return false
	}
	s.waiting[address]++
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.waiting[address]--; s.waiting[address] == 0 {
			delete(s.waiting, address)
		}
	}()
	pause := time.NewTimer(refusalPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-ctx.Done():
	}
	return true
}

// cookie is the name of the session's cookie. Cookies know no ports, so two mailboxes of
// one machine have two names. By TLS the prefix lets no other host of the domain set it.
func (d *Door) cookie(r *http.Request) string {
	_, port, _ := net.SplitHostPort(d.o.Address)
	if r.TLS != nil {
		return "__Host-mbox-" + port
	}
	return "mbox-" + port
}

func (d *Door) setCookie(w http.ResponseWriter, r *http.Request, value string) {
	c := &http.Cookie{Name: d.cookie(r), Value: value, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(w, c)
}

// session is that of a request's browser; nil if it has none.
func (d *Door) session(r *http.Request) *session {
	c, err := r.Cookie(d.cookie(r))
	if err != nil || c.Value == "" {
		return nil
	}
	mode := r.Header.Get("Sec-Fetch-Mode")
	return d.sessions.find(c.Value, d.o.Now(), mode == "" || mode == "navigate")
}

// seated is who has logged in. Whoever came by a token may what the token may now: one
// that was revoked ends the session.
func (d *Door) seated(s *session) (caller, error) {
	if s.secret == "" {
		return caller{name: "login link", role: token.Operator, seat: s}, nil
	}
	who, err := d.known(s.secret)
	who.seat = s
	return who, err
}

// fromPage tells whether a browser says that its own page asks. guarded has judged what
// it says; who says nothing is no browser, and has no business with a cookie.
func fromPage(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}
