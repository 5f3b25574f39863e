// Package gateway is mbox's door for HTTP: programs and people leave tasks, see what
// becomes of them and follow the ledger. It writes and reads through the mailbox
// alone, keeps nothing of its own, and nothing depends on it.
//
// # Who may do what
//
// A request comes with a token (Authorization: Bearer), or without one. What each may do is in one table (routes.go):
//
//	reader    reads everything: tasks, results, the ledger
//	agent     leaves tasks as that agent, and reads those that it has to do with
//	operator  reads everything, leaves tasks, and approves, cancels, retries, releases
//
// Without a token one may, on loopback, what a reader may, and leave tasks whose
// source is unknown, like a drop's. More would be unsafe: every command of an agent
// reaches loopback. On another address nothing is answered without a token.
//
// A page of another site must not reach loopback through a browser, nor by a name of
// its own: the Host has to be one of ours, and what writes has to come from our
// own pages (Origin, Sec-Fetch-Site).
//
// # Errors
//
// They are problems as RFC 9457 has them, with the members hint (what helps), code and
// path (of what is wrong in a document).
package gateway

import (
	"context"
	"crypto/cipher"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/net/netutil"

	"mbox/agents"
	"mbox/agents/chat/web"
	"mbox/cmd/mbox/gateway/token"
	"mbox/mailbox"
)

// Mailbox is what requests are answered from: the mailbox, and what one reading of
// mbox.toml says.
type Mailbox struct {
	Box    *mailbox.Box
	Agents agents.Members // the registry
	// Problems tells what else than the mailbox is not well; nil: there is nothing.
	Problems func(context.Context) ([]string, error)
}

// Options of a door.
type Options struct {
	Tokens  func(secret string) (token.Token, error) // whose a secret is; an error that matches token.ErrUnknown: nobody's
	Judge   func(error) (exit int, hint string)      // an error as mbox's exit code, and what helps
	Address string                                   // on which it listens, host:port
	MaxBody int64                                    // bytes of a request; 64 KiB
	Version string                                   // of mbox, for the homes of agents
	Log     zerolog.Logger
	Now     func() time.Time
	// MCP makes what answers at /mcp for all who come as this agent ("" for a person),
	// or may only read. nil: there is no such thing.
	MCP      func(box *mailbox.Box, agent string, reads bool) http.Handler
	Loopback bool // it listens on loopback alone
}

// Door answers requests.
type Door struct {
	o        Options
	handler  http.Handler
	sessions *sessions
	cursors  cipher.AEAD
	proving  turns // of who proves the mailbox
	listing  turns // of who reads all tasks of a state
	finding  turns // of who looks through the ledger
	hashing  turns // of who wants a file that may be large
	staying  turns // of who waits for what comes
	unnamed  turns // of those of them who have no token

	description func() (map[string]any, error) // for openapi.json

	mu  sync.Mutex
	now *serving // guarded by mu; nil before the first Use and after the last
}

// New makes a door that answers 503 until Use gives it a mailbox.
func New(o Options) *Door {
	if o.MaxBody == 0 {
		o.MaxBody = 64 << 10
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &Door{o: o, sessions: newSessions(), cursors: newSeal(), proving: make(turns, 1), listing: make(turns, 1), finding: make(turns, 1), hashing: make(turns, 2)}
	places := connections()
	d.staying, d.unnamed = make(turns, max(1, places*3/4)), make(turns, max(1, places/2))
	d.description = sync.OnceValues(d.describe)
	d.handler = d.guarded(d.mux())
	return d
}

func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// serving is a mailbox while requests are answered from it.
type serving struct {
	*Mailbox
	*feed
	ctx     context.Context
	end     context.CancelFunc
	asked   sync.WaitGroup // requests that are being answered
	read    places
	tidying sync.Mutex
	tidied  time.Time // guarded by tidying
	mcpMu   sync.Mutex
	clients map[client]http.Handler // guarded by mcpMu
}

// Use answers requests from m from now on, or from nothing where m is nil. It returns
// when nobody uses the mailbox before any more: what only waits for something to
// happen there is ended.
func (d *Door) Use(m *Mailbox) {
	var next *serving
	if m != nil {
		ctx, end := context.WithCancel(context.Background())
		next = &serving{Mailbox: m, feed: newFeed(), ctx: ctx, end: end, clients: map[client]http.Handler{}}
		next.asked.Go(func() { next.follow(ctx, m.Box) })
	}
	d.mu.Lock()
	last := d.now
	d.now = next
	d.mu.Unlock()
	if last != nil {
		last.end()
		last.asked.Wait()
	}
}

// turns bounds how many requests at once do what takes much memory or time: in a
// large mailbox a few of them would take all there is. The others wait.
type turns chan struct{}

func (t turns) take(ctx context.Context) error {
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turns) leave() { <-t }

// borrow is the mailbox for one request; nil where there is none.
func (d *Door) borrow() *serving {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil {
		d.now.asked.Add(1)
	}
	return d.now
}

// Listen listens on an address, by TLS where secure is not nil, and returns the URL. One
// of IPv4 opens nothing of IPv6, as net.Listen would for 0.0.0.0.
func Listen(address string, secure *tls.Config) (l net.Listener, url string, err error) {
	network := "tcp"
	if at, err := netip.ParseAddrPort(address); err == nil && at.Addr().Is4() {
		network = "tcp4"
	}
	if l, err = net.Listen(network, address); err != nil {
		return nil, "", err
	}
	l = netutil.LimitListener(l, connections())
	if url = "http://" + l.Addr().String(); secure != nil {
		url = "https://" + l.Addr().String()
		l = tls.NewListener(l, secure)
	}
	return l, url, nil
}

// Timeouts of a server.
const (
	headTimeout  = 10 * time.Second
	bodyTimeout  = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	answerTime   = 30 * time.Second // of a request that waits for nothing
	maxHeaders   = 16 << 10
	stopPatience = 5 * time.Second
)

// Serve answers what comes in by the listener until the context ends, and then
// finishes what it has begun.
func (d *Door) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: d, ReadHeaderTimeout: headTimeout, ReadTimeout: bodyTimeout, IdleTimeout: idleTimeout, ConnState: web.SilentAmong(connections()).State,
		MaxHeaderBytes: maxHeaders, ErrorLog: log.New(io.Discard, "", 0), // clients could fill it
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	stopping, cancel := context.WithTimeout(context.Background(), stopPatience)
	defer cancel()
	d.leave()
	if err := server.Shutdown(stopping); err != nil {
		server.Close()
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// leave ends what only waits: a stop is not to wait for it.
func (d *Door) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.now != nil {
		d.now.end()
	}
}
