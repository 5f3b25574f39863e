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
	agent string // whom an agent's token stands for
}

// may is what a request needs.
type may int

const (
	read    may = iota // what there is
	post               // leave a task
	operate            // decide about tasks
)

// mayDo tells whether a caller has the right at all; what an agent sees of it is
// decided by sees.
func (c caller) mayDo(what may) bool {
	switch what {
	case operate:
		return c.role == token.Operator
	case post:
		return c.role != token.Reader || c.name == ""
	}
	return true
}

// by is the name under which the caller's decisions stand in the ledger.
func (c caller) by() string {
	if c.role == token.Agent {
		return c.agent
	}
	return "human"
}

// from says by which door the caller came, for the ledger.
func (c caller) from() string {
	if c.name == "" {
		return "http, without a token"
	}
	return "http, token " + c.name
}

// identify finds out who asks.
func (d *Door) identify(r *http.Request) (caller, error) {
	secret, given := bearer(r)
	if !given {
		if d.o.Loopback && fromLoopback(r) {
			return caller{role: token.Reader}, nil
		}
		return caller{}, unauthorized("this needs a token")
	}
	t, err := d.o.Tokens(secret)
	if errors.Is(err, token.ErrUnknown) {
		return caller{}, unauthorized("nobody has this token, or it was revoked")
	}
	if err != nil {
		d.o.Log.Error().Err(err).Msg("the tokens cannot be read")
		return caller{}, &refusal{http.StatusServiceUnavailable, "the tokens cannot be read", "mbox token list tells why"}
	}
	return caller{t.Name, t.Role, t.Agent}, nil
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
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.IsLoopback()
}
