package irc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"mbox/agents/chat"
)

// wanted are the extensions that are used where they are offered, but sasl.
var wanted = []string{"message-tags", "server-time", "account-tag", "batch", "draft/chathistory", "standard-replies"}

// connect makes a connection, and returns when the server has taken us.
func (c *channel) connect(ctx context.Context) (*session, error) {
	dialing, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	conn, err := c.dial(dialing)
	if err != nil {
		return nil, err
	}
	s := newSession(ctx, c, conn)
	if err := s.register(); err != nil {
		s.end(err)
		s.wait()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return s, nil
}

func (c *channel) dial(ctx context.Context) (net.Conn, error) {
	if c.tls == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", c.address)
	}
	conn, err := (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", c.address)
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		return nil, fmt.Errorf("%w: who signs the server's certificate is unknown here, see ca: %w", err, chat.ErrSetup)
	}
	if _, is := errors.AsType[x509.HostnameError](err); is {
		return nil, fmt.Errorf("%w: %w", err, chat.ErrSetup)
	}
	return conn, err
}

// register says who we are, up to the end of the welcome.
func (s *session) register() error {
	s.conn.SetReadDeadline(time.Now().Add(2 * s.c.patience)) // some servers look up who we are first
	defer s.conn.SetReadDeadline(time.Time{})
	hello := []string{"CAP LS 302", "NICK " + s.c.User, "USER mbox 0 * :mbox"}
	if s.c.Token != "" {
		hello = append([]string{hello[0], "PASS :" + s.c.Token}, hello[1:]...)
	}
	s.nick = s.c.User
	if err := s.write(hello...); err != nil {
		return err
	}
	for {
		l, err := next(s.r)
		if err != nil {
			return fmt.Errorf("the server did not take us: %w", err)
		}
		done, err := s.welcome(l)
		if done || err != nil {
			return err
		}
	}
}

// welcome answers a line of the registration.
func (s *session) welcome(l line) (done bool, err error) {
	switch l.command {
	case "PING":
		return false, s.write("PONG :" + l.last())
	case "CAP":
		return false, s.capability(l)
	case "AUTHENTICATE":
		return false, s.authenticate(l)
	case "900":
		s.account = l.param(2)
	case "903":
		s.known = true
		return false, s.write("CAP END")
	case "902", "904", "905", "906", "907":
		return false, fmt.Errorf("the server does not log %s in: %v: %w", s.c.User, l, chat.ErrSetup)
	case "433", "436", "437":
		return false, s.another(l)
	case "432":
		if s.tries == 0 {
			return false, fmt.Errorf("user: the server does not take the nick: %v: %w", l, chat.ErrSetup)
		}
		return false, s.another(l)
	case "464", "465":
		return false, fmt.Errorf("the server refuses us: %v: %w", l, chat.ErrSetup)
	case "ERROR":
		if strings.Contains(strings.ToLower(l.last()), "password") { // ngircd has no 464
			return false, fmt.Errorf("token: the server refuses us: %v: %w", l, chat.ErrSetup)
		}
		return false, fmt.Errorf("the server refuses us: %v", l)
	case "001":
		return false, s.taken(l)
	case "005":
		s.supports(l)
	case "376", "422":
		return s.server != "", nil
	}
	return false, nil
}

// capability answers what the server offers. With a password nothing goes on without
// a login: whoever is allowed by an account would answer to another one.
func (s *session) capability(l line) error {
	switch l.param(1) {
	case "LS":
		for _, offer := range strings.Fields(l.last()) {
			name, value, _ := strings.Cut(offer, "=")
			s.offered[name] = value
		}
		if l.param(2) == "*" && len(l.params) > 3 {
			return nil
		}
		return s.request()
	case "ACK":
		for _, name := range strings.Fields(l.last()) {
			s.caps[name] = true
		}
		if s.caps["sasl"] {
			return s.write("AUTHENTICATE PLAIN")
		}
		return s.write("CAP END")
	case "NAK":
		if s.c.Password != "" {
			return fmt.Errorf("the server does not give what it offered: %v", l)
		}
		return s.write("CAP END")
	}
	return nil
}

func (s *session) request() error {
	var ask []string
	for _, name := range wanted {
		if _, is := s.offered[name]; is {
			ask = append(ask, name)
		}
	}
	if s.c.Password != "" {
		ways, is := s.offered["sasl"]
		if !is || ways != "" && !strings.Contains(","+strings.ToUpper(ways)+",", ",PLAIN,") {
			return errNoLogin
		}
		ask = append(ask, "sasl")
	}
	if ask == nil {
		return s.write("CAP END")
	}
	return s.write("CAP REQ :" + strings.Join(ask, " "))
}

var errNoLogin = fmt.Errorf("password: the server takes no login with a password (SASL PLAIN); a password of the server itself is token_file: %w", chat.ErrSetup)

// authenticate sends name and password, in the pieces that the protocol wants.
func (s *session) authenticate(l line) error {
	if l.param(0) != "+" {
		return nil
	}
	secret := base64.StdEncoding.EncodeToString([]byte("\x00" + s.c.User + "\x00" + s.c.Password))
	for len(secret) >= 400 {
		if err := s.write("AUTHENTICATE " + secret[:400]); err != nil {
			return err
		}
		secret = secret[400:]
	}
	if secret == "" {
		secret = "+"
	}
	return s.write("AUTHENTICATE " + secret)
}

// another tries a nick that is like the one that is in use. Nine letters are what
// every server takes.
func (s *session) another(l line) error {
	s.tries++
	short := s.c.User[:min(len(s.c.User), 8)]
	switch {
	case s.tries == 1:
		s.nick = s.c.User + "_"
	case s.tries == 2:
		s.nick = short + "_"
	case s.tries < 12:
		s.nick = short + strconv.Itoa(s.tries-2)
	default:
		return fmt.Errorf("the nick is in use, and those like it: %v", l)
	}
	return s.write("NICK " + s.nick)
}

func (s *session) taken(l line) error {
	if s.c.Password != "" && !s.known {
		return errNoLogin
	}
	if !single(l.param(0)) || l.prefix == "" {
		return fmt.Errorf("the server does not say who we are: %v", l)
	}
	s.nick, s.server = l.param(0), strings.ToValidUTF8(l.prefix, "?")
	s.since = s.time(l)
	return nil
}

// supports reads what the server says that it can.
func (s *session) supports(l line) {
	for _, word := range l.params {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "CHATHISTORY":
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				s.page = min(n, maxPage)
			}
		case "BOT":
			if len(value) == 1 {
				s.bot = value
			}
		}
	}
}
