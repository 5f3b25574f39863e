// Package irc is an account on an IRC network: what is said to its nick, directly
// or in a room with the nick in front, is a message, and notices are PRIVMSGs.
//
// # Who says it
//
// Anybody can take a nick that is free. So the sender is "account:NAME" where the
// server says with each message who is logged in (account-tag), and else the whole
// "nick!user@host". The other person of a direct conversation is
// the same name, with an account's nick as its thread, and a notice goes there only
// while the one who has the nick is still that one ([session.present]). Only an
// account is a proof of who it is: of the whole name a sender chooses all but the host.
//
// # What is lost
//
// A server forgets a message once it is in the connection. What is said while there
// is none is lost, and so is what a kill catches between the connection and the
// disk. Where the server keeps a history (draft/chathistory) both are asked for
// again. The place that is kept then is the server's time of the last message.
//
// # How often a notice arrives
//
// A server knows no keys and cannot be searched: notices are sent at least once.
// Send returns when the server has answered a PING that was sent behind the notice,
// since it does in order what it is told.
//
// # Who does what
//
// Receive's connection has three goroutines: read gets lines, answers PINGs and
// queues messages; tend keeps nick and rooms, and fetches the history; Receive's own
// takes what is queued. Send uses the connection that Receive has made; where nobody
// receives (mbox deliver) it makes one of its own for each notice.
package irc

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"mbox/agents/chat"
)

// Kind is IRC.
var Kind = chat.Kind{
	Name:  "irc",
	About: "IRC: direct messages, and rooms where the nick is addressed",
	Needs: []string{"server", "user"},
	Takes: []string{"password", "token", "rooms", "ca", "insecure"},
	Limits: chat.Limits{
		Text:  1500,
		Lines: 5,
		Parts: 4,
		Every: 2 * time.Second,
	},
	Once:   chat.AtLeastOnce,
	Claims: true,
	Open:   open,
}

// channel is an account on a network.
type channel struct {
	chat.Settings
	address string
	tls     *tls.Config // nil for none

	patience time.Duration // how long a step may take
	tending  time.Duration // between two looks at connection, nick and rooms
	pace     time.Duration // between two lines, once burst of them were sent
	grace    time.Duration // how long Send waits for Receive to begin

	begin sync.Once
	begun chan struct{} // closed when Receive is called for the first time

	mu      sync.Mutex
	online  *session      // Receive's, once it is in its rooms; nil for none
	changed chan struct{} // closed when online changes
}

func open(s chat.Settings) (chat.Channel, error) {
	c := &channel{
		Settings: s, patience: 30 * time.Second, tending: time.Minute, pace: 2 * time.Second,
		grace: time.Second, begun: make(chan struct{}), changed: make(chan struct{}),
	}
	if c.Log == nil {
		c.Log = func(string, ...any) {}
	}
	if err := cmp.Or(c.locate(), c.names()); err != nil {
		return nil, fmt.Errorf("irc: %w: %w", err, chat.ErrSetup)
	}
	return c, nil
}

// locate finds out from the URL where the server is. The URL itself is in no error:
// somebody may have written a password into it.
func (c *channel) locate() error {
	u, err := url.Parse(c.Server)
	switch {
	case err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "":
		return errors.New("server: not of the form ircs://HOST:PORT")
	case u.User != nil:
		return errors.New("server: a name or password does not belong into the URL: say user and password_file")
	case u.Scheme == "ircs":
		c.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6697"))
		c.tls, err = secured(u.Hostname(), c.CA)
		return err
	case u.Scheme != "irc":
		return errors.New("server: the scheme is neither ircs nor irc")
	case c.Password+c.Token != "" && !c.Insecure && !loopback(u.Hostname()):
		return errors.New("server: irc:// would send the password in the clear: use ircs://, or say insecure = true")
	}
	c.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6667"))
	return nil
}

func secured(host, ca string) (*tls.Config, error) {
	config := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if ca == "" {
		return config, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("ca: %w", err)
	}
	config.RootCAs = x509.NewCertPool()
	if !config.RootCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("ca: the file has no certificate in PEM")
	}
	return config, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// names refuses what could end a line or a parameter, or stand for several names.
func (c *channel) names() error {
	if c.User == "" || len(c.User) > 64 || strings.ContainsAny(c.User[:1], "#&+!~$:-0123456789") || !single(c.User) {
		return errors.New("user: not a nick")
	}
	if strings.ContainsAny(c.Token, "\r\n\x00") || strings.ContainsAny(c.Password, "\r\n\x00") {
		return errors.New("a password has a control character")
	}
	for _, room := range c.Rooms {
		if !isRoom(room) || len(room) > 200 || !single(room) {
			return fmt.Errorf("rooms: %q is not the name of a room, as #ops is", room)
		}
	}
	return nil
}

// single tells whether a name is one parameter of a command, and means one target.
func single(name string) bool {
	return name != "" && name[0] != ':' && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(",!@*?", r)
	})
}

func isRoom(name string) bool { return name != "" && strings.ContainsRune("#&+!", rune(name[0])) }

// room returns how the settings write the name of a room; "" where they do not.
func (c *channel) room(name string) string {
	for _, room := range c.Rooms {
		if same(room, name) {
			return room
		}
	}
	return ""
}

// Receive implements [chat.Channel].
func (c *channel) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	c.begin.Do(func() { close(c.begun) })
	since, err := place(kept)
	if err != nil {
		return fmt.Errorf("irc: %w: %w", err, chat.ErrSetup)
	}
	s, err := c.connect(ctx)
	if err != nil {
		return fmt.Errorf("irc: %w", err)
	}
	defer c.set(nil)
	defer s.wait()
	defer s.end(context.Canceled)
	s.start(since)
	for e := range s.queue {
		if err := e.give(ctx, s, in); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("irc: %w", context.Cause(s.ctx))
}

// event is a message, or, without one, the end of the history.
type event struct {
	m  *chat.Message
	at time.Time // the server's time; zero where it has none
}

// give hands an event over. The place moves only when the history is at its end: the
// messages of now come in beside those of then.
func (e event) give(ctx context.Context, s *session, in chat.Inbox) error {
	if e.m != nil {
		if err := in.Take(ctx, *e.m); err != nil {
			return err
		}
	}
	s.whole = s.whole || e.m == nil
	if e.at.After(s.until) {
		s.until = e.at
	}
	if !s.whole || s.until.IsZero() {
		return nil
	}
	return in.Keep(ctx, s.until.UTC().Format(stamp))
}

// Check implements [chat.Channel].
func (c *channel) Check(ctx context.Context) (string, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return "", fmt.Errorf("irc: %w", err)
	}
	defer s.wait()
	defer s.end(context.Canceled)
	said := fmt.Sprintf("%s on %s", s.nick, s.server)
	if s.account != "" {
		said += ", logged in as " + s.account
	}
	if s.nick != c.User {
		said += "; " + c.User + " is in use"
	}
	if s.caps["account-tag"] {
		return said + "; senders are account:NAME, or nick!user@host", nil
	}
	return said + "; senders are nick!user@host: this server names no accounts", nil
}

// set says which connection Send may use.
func (c *channel) set(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.online = s
	close(c.changed)
	c.changed = make(chan struct{})
}

// connected returns a connection that is in its rooms: Receive's, for which it waits,
// or one of its own. Whoever has sent calls leave.
func (c *channel) connected(ctx context.Context) (s *session, leave func(), err error) {
	grace := time.NewTimer(c.grace)
	defer grace.Stop()
	select {
	case <-c.begun:
		s, err = c.received(ctx)
		return s, func() {}, err
	case <-grace.C:
		return c.alone(ctx)
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
}

// received waits for Receive's connection.
func (c *channel) received(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	for {
		c.mu.Lock()
		s, changed := c.online, c.changed
		c.mu.Unlock()
		if s != nil && s.ctx.Err() == nil {
			return s, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, errors.New("there is no connection")
		}
	}
}

// alone makes a connection on which nothing is taken.
func (c *channel) alone(ctx context.Context) (*session, func(), error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, nil, err
	}
	s.deaf = true
	s.group.Go(func() { s.end(s.read()) })
	leave := func() {
		s.end(context.Canceled)
		s.wait()
	}
	var told string
	if err := s.settle(&told); err != nil {
		leave()
		return nil, nil, err
	}
	return s, leave, nil
}

// unique is a name that no other connection has.
func unique() string { return rand.Text()[:16] }
