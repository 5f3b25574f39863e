package gateway

import (
	"errors"
	"net"
	"net/http"
	"strings"

	"mbox/cmd/mbox/gateway/token"
)

// caller is who asks. Without a token its name is "".
type caller struct {
	name  string // of the token
	role  token.Role
	agent string   // whom an agent's token stands for
	seat  *session // of a browser; nil where the token itself was shown
}

// may is what a request needs.
type may int

const (
	read    may = iota // what there is
	post               // leave a task, and do what is an agent's own
	operate            // decide about tasks
)

// least is the role that may have it, and of those the one that may the least.
func (to *route) least() token.Role {
	return [...]token.Role{read: token.Reader, post: token.Agent, operate: token.Operator}[to.needs]
}

// whose says to somebody with a token which other one would do.
func (to *route) whose() string {
	article := "an "
	if to.least() == token.Reader {
		article = "a "
	}
	return article + string(to.least()) + "'s token may; mbox token list shows the tokens"
}

// helped is an error with what helps where it is a token that lacks.
func (to *route) helped(err error) error {
	var no *refusal
	if !errors.As(err, &no) || no.status != http.StatusUnauthorized {
		return err
	}
	whose := ""
	if to.least() == token.Agent {
		whose = " --agent AGENT"
	}
	return &refusal{no.status, no.detail, "mbox token create NAME --role " + string(to.least()) + whose + " makes one that may; send it as Authorization: Bearer TOKEN"}
}

// mayDo tells whether a caller has the right at all; what an agent sees of it is
// decided by its sight.
func (c caller) mayDo(what may) bool {
	switch what {
	case operate:
		return c.role == token.Operator
	case post:
		return c.role != token.Reader || c.name == ""
	}
	return true
}

// all tells whether the caller sees everything.
func (c caller) all() bool { return c.agent == "" }

// by is the name under which the caller's decisions stand in the ledger.
func (c caller) by() string {
	if c.role == token.Agent {
		return c.agent
	}
	return "human"
}

// from says by which door the caller came, for the ledger.
func (c caller) from() string {
	switch {
	case c.name == "":
		return "http, without a token"
	case c.seat != nil && c.seat.secret == "":
		return "dashboard, login link"
	case c.seat != nil:
		return "dashboard, token " + c.name
	}
	return "http, token " + c.name
}

// identify finds out who asks.
func (d *Door) identify(r *http.Request) (caller, error) {
	secret, given := bearer(r)
	if s := d.session(r); s != nil && !given {
		who, err := d.seated(s)
		if !errors.Is(err, errNobody) {
			return who, err
		}
		d.sessions.end(s)
	}
	if !given {
		if d.o.Loopback && fromLoopback(r) {
			return caller{role: token.Reader}, nil
		}
		return caller{}, unauthorized("this needs a token")
	}
	return d.known(secret)
}

var errNobody = unauthorized("nobody has this token, or it was revoked")

// known is who has a token.
func (d *Door) known(secret string) (caller, error) {
	t, err := d.o.Tokens(secret)
	if errors.Is(err, token.ErrUnknown) {
		return caller{}, errNobody
	}
	if err != nil {
		d.o.Log.Error().Err(err).Msg("the tokens cannot be read")
		return caller{}, &refusal{http.StatusServiceUnavailable, "the tokens cannot be read", "mbox token list tells why"}
	}
	return caller{name: t.Name, role: t.Role, agent: t.Agent}, nil
}

func bearer(r *http.Request) (secret string, given bool) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", false
	}
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", true // some other way to log in, which nobody has
	}
	return strings.TrimSpace(secret), true
}

func fromLoopback(r *http.Request) bool {
	ip := net.ParseIP(address(r))
	return ip != nil && ip.IsLoopback()
}

// address is that of who asks, without the port.
func address(r *http.Request) string {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	return host
}
