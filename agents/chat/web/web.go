// Package web is what the channels that speak HTTP share: a [Server] that is called,
// and a [Door] at which others call.
//
// A URL may hold a secret, in its path or its query. So no error of this package
// has a URL in it, and no redirect is followed.
package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"mbox/agents/chat"
)

// Server is a server that a channel calls. Its certificate is verified always.
type Server struct {
	at        *url.URL
	transport *http.Transport
}

// Connect makes a Server of an address, and opens no connection. An address
// without TLS is taken for this machine, and for another where the settings are
// Insecure.
func Connect(s chat.Settings, address string) (*Server, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
		return nil, fmt.Errorf("server: want a URL such as https://host:port/path, without a user: %w", chat.ErrSetup)
	}
	if u.Path == "" {
		u.Path = "/" // else what is joined to it would not begin with one
	}
	local := Local(u.Hostname())
	if u.Scheme == "http" && !local && !s.Insecure {
		return nil, fmt.Errorf("server: %s is another machine, and http would tell everybody on the way: %w", u.Host, chat.ErrSetup)
	}
	trusted, err := authorities(s.CA)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{
		DialContext:     (&net.Dialer{Timeout: 10 * time.Second}).DialContext,
		TLSClientConfig: &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		ForceAttemptHTTP2: true,
	}
	if !local {
		t.Proxy = http.ProxyFromEnvironment
	}
	return &Server{u, t}, nil
}

// authorities are who may sign certificates besides those that the system trusts:
// nil for no others.
func authorities(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("ca: %w: %w", err, chat.ErrSetup)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("ca: %s: no certificate in it: %w", file, chat.ErrSetup)
	}
	return pool, nil
}

// Local tells whether a host is this machine. A name other than localhost is not,
// whatever it resolves to.
func Local(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// Host is the server's name and port: what may be said of its address.
func (s *Server) Host() string { return s.at.Host }

// Local tells whether the server is on this machine.
func (s *Server) Local() bool { return Local(s.at.Hostname()) }

// Client is for a library that does the requests itself. It follows no redirect either.
func (s *Server) Client() *http.Client {
	return &http.Client{Transport: s.transport, CheckRedirect: func(*http.Request, []*http.Request) error { return errLocation }}
}

// Request makes a request below the server's address, whose query it keeps. Each
// part of the path is one, whatever is in it.
func (s *Server) Request(ctx context.Context, method string, body []byte, path ...string) *http.Request {
	u := *s.at
	if len(path) > 0 {
		u = *u.JoinPath(escaped(path)...)
	}
	r := &http.Request{Method: method, URL: &u, Host: u.Host, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set("User-Agent", "mbox")
	return r.WithContext(ctx)
}

func escaped(path []string) []string {
	out := make([]string, len(path))
	for i, p := range path {
		out[i] = url.PathEscape(p)
	}
	return out
}

// errLocation says that a server wants the request to go elsewhere.
var errLocation = errors.New("the server redirects, which is not followed: name the address that it redirects to")

// Do does a request. What the server answers is the caller's to judge, and its
// body to close; but a redirect is an error.
func (s *Server) Do(r *http.Request) (*http.Response, error) {
	answer, err := s.transport.RoundTrip(r) // http.Client would follow redirects, and put the URL into errors
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.at.Host, err)
	}
	if answer.StatusCode/100 == 3 {
		answer.Body.Close()
		return nil, fmt.Errorf("%s: %d: %w: %w", s.at.Host, answer.StatusCode, errLocation, chat.ErrSetup)
	}
	return answer, nil
}

// Pause is what an answer wants by Retry-After, in seconds or as a date: 0 where
// it names none. It is at most a day.
func Pause(answer *http.Response) time.Duration {
	text := answer.Header.Get("Retry-After")
	if seconds, err := time.ParseDuration(text + "s"); err == nil {
		return min(max(seconds, 0), 24*time.Hour)
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(at), 0), 24*time.Hour)
	}
	return 0
}
