package email

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-imap/v2"
	"github.com/emersion/go-imap/v2/imapserver"
	"github.com/emersion/go-imap/v2/imapserver/imapmemserver"
	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"mbox/agents/chat"
)

const (
	agent  = "agent@example.org"
	secret = "a very secret word"
)

// post is an IMAP and an SMTP server, in this process.
type post struct {
	user  *imapmemserver.User
	front map[string]string // scheme → host:port
	ca    string

	mu   sync.Mutex
	sent []sent
	says func(command, arg string) error // of the SMTP server; nil for yes
}

type sent struct{ from, to, text string }

// newPost starts both, with TLS from the first byte (imaps, smtps), with STARTTLS
// (on 127.0.0.1 it is not asked for), and without.
func newPost(t testing.TB) *post {
	t.Helper()
	log.SetOutput(io.Discard)
	p := &post{user: imapmemserver.NewUser(agent, secret), front: map[string]string{}}
	if err := p.user.Create("INBOX", nil); err != nil {
		t.Fatal(err)
	}
	var certificate tls.Certificate
	certificate, p.ca = certified(t)
	config := &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	memory := imapmemserver.New()
	memory.AddUser(p.user)
	mailboxes := imapserver.New(&imapserver.Options{
		NewSession: func(*imapserver.Conn) (imapserver.Session, *imapserver.GreetingData, error) {
			return memory.NewSession(), nil, nil
		},
		InsecureAuth: true, TLSConfig: config, Logger: log.New(io.Discard, "", 0),
	})
	t.Cleanup(func() { mailboxes.Close() })
	relay := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &transaction{post: p}, nil }))
	relay.Domain, relay.TLSConfig, relay.AllowInsecureAuth, relay.ErrorLog = "mx.example.org", config, true, log.New(io.Discard, "", 0)
	t.Cleanup(func() { relay.Close() })
	for scheme, serve := range map[string]func(net.Listener) error{
		"imap": mailboxes.Serve, "imaps": mailboxes.Serve, "smtp": relay.Serve, "smtps": relay.Serve,
	} {
		l := listen(t)
		p.front[scheme] = l.Addr().String()
		if strings.HasSuffix(scheme, "s") {
			l = tls.NewListener(l, config)
		}
		go serve(l) //nolint:errcheck // it ends with the test
	}
	return p
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// certified makes a certificate for 127.0.0.1, and a file with it for those who
// trust it.
func certified(t testing.TB) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

// settings are those of an account on the servers, by these schemes.
func (p *post) settings(in, out string) chat.Settings {
	return chat.Settings{Server: in + "://" + p.front[in], Outgoing: out + "://" + p.front[out], User: agent, Password: secret, CA: p.ca}
}

func (p *post) channel(t testing.TB) *channel { return opened(t, p.settings("imap", "smtp")) }

func opened(t testing.TB, s chat.Settings) *channel {
	t.Helper()
	if s.Log == nil {
		s.Log = func(format string, args ...any) { t.Logf(format, args...) }
	}
	c, err := Kind.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	own := c.(*channel)
	own.patience = 5 * time.Second
	own.idle = 100 * time.Millisecond // the server of these tests does not tell in IDLE what came just before it
	return own
}

// deliver puts a mail into INBOX.
func (p *post) deliver(t testing.TB, text string, options ...imap.AppendOptions) {
	t.Helper()
	text = strings.ReplaceAll(text, "\n", "\r\n")
	all := append(options, imap.AppendOptions{})
	if _, err := p.user.Append("INBOX", literal{strings.NewReader(text)}, &all[0]); err != nil {
		t.Fatal(err)
	}
}

type literal struct{ *strings.Reader }

// letterOf is a mail such as a person writes.
func letterOf(id, text string) string {
	return "From: Anna <anna@Example.com>\nTo: " + agent + "\nSubject: A task\nMessage-ID: <" + id + ">\n\n" + text + "\n"
}

// renumber makes INBOX anew, with the mails that were in it, or without.
func (p *post) renumber(t testing.TB) {
	t.Helper()
	if err := p.user.Delete("INBOX"); err != nil {
		t.Fatal(err)
	}
	if err := p.user.Create("INBOX", nil); err != nil {
		t.Fatal(err)
	}
}

// transaction is a session of the SMTP server.
type transaction struct {
	*post
	in       bool
	from, to string
}

func (s *transaction) say(command, arg string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.says == nil {
		return nil
	}
	return s.says(command, arg)
}

func (s *transaction) AuthMechanisms() []string { return []string{sasl.Plain} }

func (s *transaction) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if err := s.say("AUTH", user); err != nil {
			return err
		}
		if s.in = user == agent && password == secret; !s.in {
			return smtp.ErrAuthFailed
		}
		return nil
	}), nil
}

func (s *transaction) Mail(from string, _ *smtp.MailOptions) error {
	if !s.in {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return s.say("MAIL", from)
}

func (s *transaction) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return s.say("RCPT", to)
}

func (s *transaction) Data(r io.Reader) error {
	var text bytes.Buffer
	if _, err := text.ReadFrom(r); err != nil {
		return err
	}
	if err := s.say("DATA", s.to); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = append(s.sent, sent{s.from, s.to, text.String()})
	return nil
}

func (s *transaction) Reset()        {}
func (s *transaction) Logout() error { return nil }

func (p *post) mails() []sent {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]sent(nil), p.sent...)
}

// script is a server that says one thing after another, each after a line came that
// begins with its command (behind the tag), whatever else comes meanwhile. "$" is the
// tag. It then goes on as last says.
type script struct {
	greeting string
	steps    []step
	last     func(net.Conn)
}

type step struct{ at, say string }

func (s script) serve(t testing.TB) (address string) {
	t.Helper()
	l := listen(t)
	var open sync.WaitGroup
	accepted := make(chan bool)
	t.Cleanup(func() {
		l.Close()
		<-accepted
		open.Wait()
	})
	go func() {
		defer close(accepted)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Go(func() { s.talk(conn) })
		}
	}()
	return l.Addr().String()
}

func (s script) talk(conn net.Conn) {
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(conn, s.greeting)
	for _, step := range s.steps {
		line, err := lineOf(conn)
		tag, command, _ := strings.Cut(line, " ")
		if err != nil || !strings.HasPrefix(command, step.at) {
			return
		}
		fmt.Fprint(conn, strings.ReplaceAll(step.say, "$", tag))
	}
	if s.last != nil {
		s.last(conn)
	}
}

func lineOf(r io.Reader) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := r.Read(b); err != nil || len(line) > 1<<16 {
			return string(line), errors.Join(err, errTooMuch)
		}
		if b[0] == '\n' {
			return strings.TrimRight(string(line), "\r"), nil
		}
		line = append(line, b[0])
	}
}

// open are the steps of an IMAP server until INBOX is open.
func openInbox(rest ...step) []step {
	return append([]step{
		{"LOGIN", "* CAPABILITY IMAP4rev1\r\n$ OK [CAPABILITY IMAP4rev1 IDLE] in\r\n"},
		{"SELECT", "* 3 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [UIDNEXT 10] x\r\n$ OK selected\r\n"},
	}, rest...)
}

const greeting = "* OK [CAPABILITY IMAP4rev1 IDLE] ready\r\n"

func timed(t testing.TB) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(stop)
	return ctx
}
