// Package email is a mailbox of e-mail: what arrives by IMAP is a message, and
// notices go out by SMTP.
//
// # What is read
//
// INBOX, and nothing else. No mail is deleted or moved. A mail that was taken is
// marked \Seen, after its place was kept; one that was ignored stays as it was.
// Ignored are own mails, mails of machines ([reader.robot]), and mails whose sender
// cannot be told for certain ([reader.sender]).
//
// # The place
//
// It is the mailbox's UIDVALIDITY and the last UID that was read. When UIDVALIDITY
// has changed, no number means what it did. Then all mails are read again that have
// come since an hour before the bridge began, so that none is lost. Those that were
// taken before have the same [chat.Message] ID as then, and the inbox knows them.
//
// # Who it is from
//
// Anybody can write any From. Only the server that received the mail can tell
// ([proofs]), so a Message has a Proof only where the settings name that server.
//
// # How often a notice arrives
//
// SMTP has no key that a server would know again. Nothing that can be searched
// proves that a mail was *not* sent: a copy in a folder of sent mails is put there
// by a second step, before or after the first one, and a copy to oneself arrives
// when it pleases. So notices are sent at least once. Each try has the same
// Message-ID, made of the notice's key, by which many servers and clients drop the
// second one.
package email

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"mbox/agents/chat"
)

// Kind is e-mail.
var Kind = chat.Kind{
	Name:  "email",
	About: "e-mail: a mailbox by IMAP, answers by SMTP",
	Needs: []string{"server", "outgoing", "user", "password"},
	Takes: []string{"authserv", "ca", "insecure"},
	Limits: chat.Limits{
		Text:  100_000,
		Parts: 1,
		File:  10 << 20,
		Every: time.Second,
	},
	Once:   chat.AtLeastOnce,
	Claims: true,
	Open:   open,
}

// What is read of a server, and how long it is waited for.
const (
	maxMail  = 32 << 20  // a larger mail is not fetched whole
	maxStart = 1 << 20   // this much of it is
	maxReply = 256 << 10 // an answer that holds no mail
	maxUIDs  = 16 << 20  // the list of the mails behind a place
	patience = 2 * time.Minute
)

// channel is an account.
type channel struct {
	reader
	imap, smtp server
	login      string // the user, as the settings have it
	password   string
	ca         string
	log        func(string, ...any)

	patience   time.Duration // how long a step may take
	idle, poll time.Duration // how long is waited for news, with IDLE and without: some servers forget to tell
}

// server is where to connect.
type server struct {
	address string // host:port
	host    string
	tls     bool // from the first byte on
	plain   bool // no TLS at all
}

func open(s chat.Settings) (chat.Channel, error) {
	own, domain, ok := address(s.User)
	if !ok {
		return nil, fmt.Errorf("user %q: %w: no address such as agent@example.org", s.User, chat.ErrSetup)
	}
	if s.Password == "" || strings.ContainsAny(s.Password, "\r\n\x00") {
		return nil, fmt.Errorf("password: %w: it is empty, or has more than one line", chat.ErrSetup)
	}
	c := &channel{
		reader:   reader{own: own, domain: domain, authserv: s.Authserv},
		login:    s.User,
		password: s.Password, ca: s.CA, log: s.Log,
		patience: patience, idle: 2 * time.Minute, poll: time.Minute,
	}
	if c.log == nil {
		c.log = func(string, ...any) {}
	}
	var err error
	if c.imap, err = parseServer("server", s.Server, s.Insecure, map[string]string{"imaps": "993", "imap": "143"}); err != nil {
		return nil, err
	}
	c.smtp, err = parseServer("outgoing", s.Outgoing, s.Insecure, map[string]string{"smtps": "465", "smtp": "587"})
	return c, err
}

// parseServer reads a URL. The errors do not repeat it: somebody may have put a
// password there.
func parseServer(key, text string, insecure bool, ports map[string]string) (server, error) {
	fault := func(what string) (server, error) {
		return server{}, fmt.Errorf("%s: %w: %s", key, chat.ErrSetup, what)
	}
	u, err := url.Parse(text)
	if err != nil {
		return fault("no URL")
	}
	port, known := ports[u.Scheme]
	switch {
	case !known:
		return fault("the URL has to begin with " + strings.Join(slices.Sorted(maps.Keys(ports)), ":// or ") + "://")
	case u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return fault("more or less than SCHEME://HOST or SCHEME://HOST:PORT")
	}
	if u.Port() != "" {
		port = u.Port()
	}
	tls := strings.HasSuffix(u.Scheme, "s")
	return server{
		address: net.JoinHostPort(u.Hostname(), port), host: u.Hostname(),
		tls: tls, plain: !tls && (insecure || loopback(u.Hostname())),
	}, nil
}

// loopback tells whether a host is this machine by its very name.
func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Unmap().IsLoopback()
}

// address reads an address as we can answer it: the domain in lower case. Quoted
// names, comments and letters beyond ASCII are refused.
func address(text string) (address, domain string, ok bool) {
	at := strings.LastIndexByte(text, '@')
	if at < 1 || len(text) > 254 {
		return "", "", false
	}
	local, domain := text[:at], strings.ToLower(text[at+1:])
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	if strings.Trim(strings.ToLower(local), letters+"!#$%&'*+-/=?^_`{|}~.") != "" ||
		domain == "" || strings.Trim(domain, letters+"-.") != "" || strings.Contains("."+domain+".", "..") {
		return "", "", false
	}
	return local + "@" + domain, domain, true
}

var errTooMuch = errors.New("the server sends more than was asked for")
