package brain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"mbox/schemas"
)

// Default is where Ollama listens unless it is told otherwise.
const Default = "http://127.0.0.1:11434"

// Endpoint is the address of the Ollama server and what it comes from: config,
// OLLAMA_URL, OLLAMA_HOST or default, in this order. An address may be a URL, or
// host, host:port or :port as OLLAMA_HOST has it. 0.0.0.0 and ::, at which a
// server listens, become 127.0.0.1. Another machine is refused unless remote.
func Endpoint(config string, env func(string) string, remote bool) (address, from string, err error) {
	address, from = Default, "default"
	for _, c := range []struct{ from, value string }{
		{"config", config}, {"OLLAMA_URL", env("OLLAMA_URL")}, {"OLLAMA_HOST", env("OLLAMA_HOST")},
	} {
		if value := strings.TrimSpace(c.value); value != "" {
			address, from = value, c.from
			break
		}
	}
	u, err := parseAddress(address)
	switch {
	case err != nil:
		return "", from, fmt.Errorf("the Ollama server's address (%s): %w", from, err)
	case !remote && !isLocal(u.Hostname()):
		return "", from, fmt.Errorf("the Ollama server's address (%s): %s is not this machine: "+
			"prompts would leave it; allow_remote_llm = true allows that", from, schemas.Quote(u.Host))
	}
	return u.String(), from, nil
}

// parseAddress reads an address as Ollama's own client does, but refuses what
// that one guesses at.
func parseAddress(address string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(address, "://")
	port := map[string]string{"http": "80", "https": "443"}[scheme]
	if !ok {
		scheme, rest, port = "http", address, "11434"
	}
	u, err := url.Parse(scheme + "://" + bracketed(rest))
	if err != nil || port == "" {
		return nil, errors.New("it is no URL of http or https") // the cause may hold a password
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("a URL without user, password, query and fragment is wanted")
	}
	host := u.Hostname()
	if p := u.Port(); p != "" {
		port = p
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return nil, fmt.Errorf("port %s: want 1 to 65535", schemas.Quote(port))
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	u.Host, u.Path = net.JoinHostPort(host, port), strings.TrimRight(u.Path, "/")
	return u, nil
}

// bracketed puts a bare IPv6 address into brackets.
func bracketed(hostport string) string {
	if ip, err := netip.ParseAddr(hostport); err == nil && ip.Is6() {
		return "[" + hostport + "]"
	}
	return hostport
}

// isLocal tells whether the host is this machine. A name other than localhost is
// not, whatever it resolves to now.
func isLocal(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

var (
	errRedirect = errors.New("the server redirects, which is not followed")
	errNotLocal = errors.New("the name of this machine resolves to another one")
)

// OnlyLocal is the Control of a [net.Dialer] that reaches no other machine than this
// one, whatever a name resolves to.
func OnlyLocal(_, address string, _ syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().Unmap().IsLoopback() {
		return errNotLocal
	}
	return nil
}

// client is for servers of this machine or for others. What it answers to a
// redirect is an error: a key or a prompt goes where the configuration says.
func client(local bool) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	t := &http.Transport{
		DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10,
	}
	if local {
		dialer.Control = OnlyLocal
	} else {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &http.Client{
		Transport:     witnessing{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
	}
}

// A witness sees how the body of an answer ended. Ollama's client does not tell.
type witness struct{ broken error }

type witnessKey struct{}

func (w *witness) watch(ctx context.Context) context.Context {
	return context.WithValue(ctx, witnessKey{}, w)
}

type witnessing struct{ next http.RoundTripper }

// maxList is how much of a list of models, or a version, is read, in bytes:
// Ollama's client reads all there is. A reply to a prompt has bounds of its own.
const maxList = 4 << 20

type limited struct {
	io.Reader
	io.Closer
}

func (w witnessing) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := w.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet {
		resp.Body = limited{io.LimitReader(resp.Body, maxList), resp.Body}
	}
	if seen, ok := r.Context().Value(witnessKey{}).(*witness); ok && err == nil {
		resp.Body = &body{resp.Body, seen}
	}
	return resp, err
}
