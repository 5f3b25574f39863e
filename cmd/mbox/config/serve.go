package config

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"strings"

	"mbox/mailbox/durable"
	"mbox/schemas"
)

// Serve is the table [serve]: where the doors are, for programs and people. Without
// the table only mbox serve opens them.
type Serve struct {
	Address  string `toml:"address" json:"address,omitzero" jsonschema:"default=127.0.0.1:42617,description=host:port that is listened on; another than loopback needs cert and key\\, or insecure"`
	Cert     string `toml:"cert" json:"cert,omitzero" jsonschema:"description=PEM file of the certificate and those above it; relative ones from the mailbox's folder"`
	Key      string `toml:"key" json:"key,omitzero" jsonschema:"description=PEM file of its key\\, which nobody else may read"`
	Insecure bool   `toml:"insecure" json:"insecure,omitzero" jsonschema:"default=false,description=listen on another address than loopback without TLS: tokens and tasks can be read on the way"`
	MaxBody  int    `toml:"max_body" json:"max_body,omitzero" jsonschema:"default=65536,minimum=1024,maximum=1048576,description=bytes of a request"`
}

// serveHost and servePort are where mbox and what it replaces listen.
const (
	serveHost = "127.0.0.1"
	servePort = "42617"
)

func defaultServe() Serve {
	return Serve{Address: net.JoinHostPort(serveHost, servePort), MaxBody: 64 << 10}
}

// Listener is what a server needs of the configuration.
type Listener struct {
	Address  string // host:port
	Cert     string // PEM file, absolute; "" for no TLS
	Key      string // its key's
	Insecure bool   // Address is not loopback, and there is no TLS
	MaxBody  int64  // bytes of a request
	Up       bool   // mbox up listens; else mbox serve alone
}

// Listener tells where and how mbox listens.
func (c *File) Listener() Listener {
	s := c.doors
	l := Listener{Address: s.Address, Cert: s.Cert, Key: s.Key, MaxBody: int64(s.MaxBody), Up: c.Serve != nil}
	l.Insecure = s.Cert == "" && !onLoopback(s.Address)
	for _, path := range []*string{&l.Cert, &l.Key} {
		if *path != "" && !filepath.IsAbs(*path) {
			*path = filepath.Join(c.Home(), *path)
		}
	}
	return l
}

// TLS reads certificate and key; nil where there are none. A key that others can
// read is refused.
func (l Listener) TLS() (*tls.Config, error) {
	if l.Cert == "" {
		return nil, nil
	}
	const most = 1 << 20
	cert, err := durable.ReadLinked(l.Cert, most)
	if err != nil {
		return nil, fmt.Errorf("serve.cert: %w", err)
	}
	real, err := filepath.EvalSymlinks(l.Key)
	if err != nil {
		return nil, fmt.Errorf("serve.key: %w", err)
	}
	key, err := durable.ReadPrivate(real, most)
	if err != nil {
		return nil, fmt.Errorf("serve.key: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("serve.cert %s and serve.key %s: %w", l.Cert, l.Key, err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}, nil
}

// fillServe completes the table, and what holds without one.
func fillServe(c *File) error {
	c.doors = defaultServe()
	if c.Serve != nil {
		fill(c, "serve", c.Serve, &c.doors)
		c.doors = *c.Serve
	}
	err := c.take("serve.address", func(value string) string {
		port, problem := variableNumber(value, 1, 65535)
		c.doors.Address = net.JoinHostPort(serveHost, strconv.Itoa(port))
		return problem
	}, "ZEROCLAW_GATEWAY_PORT")
	if c.Serve != nil {
		c.Serve.Address = c.doors.Address
	}
	return err
}

// checkServe checks the table, and writes its address out.
func checkServe(c *File) error {
	s := c.Serve
	if s == nil {
		return nil
	}
	address, problem := listenAddress(s.Address)
	if problem != "" {
		return c.wrong("serve.address", "%s %s", quoted(s.Address), problem)
	}
	s.Address, c.doors.Address = address, address
	for _, f := range []struct{ key, path, other, with string }{{"serve.cert", s.Cert, s.Key, "key"}, {"serve.key", s.Key, s.Cert, "cert"}} {
		switch {
		case len(f.path) > 1024 || strings.ContainsAny(f.path, "\x00\n"):
			return c.wrongSecret(f.key, "is no path of a file")
		case f.path != "" && f.other == "":
			return c.wrongSecret(f.key, "needs %s, too", f.with)
		}
	}
	if !onLoopback(address) && s.Cert == "" && !s.Insecure {
		return advise(c.wrong("serve.address", "%s can be reached from other machines, and tokens would be sent in the clear", address),
			`cert and key in [serve], or insecure = true, if that is wanted; or "%s"`, defaultServe().Address)
	}
	return c.checkNumbers("serve", bound{".max_body", s.MaxBody, 1 << 10, 1 << 20})
}

var hostName = schemas.Pattern(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)

// listenAddress writes an address out as it is compared with others.
func listenAddress(text string) (address, problem string) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", `is no host:port: want something like "127.0.0.1:42617" or "[::1]:42617"`
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", "has no possible port: want 1 to 65535"
	}
	host = strings.ToLower(host)
	if addr, err := netip.ParseAddr(host); err == nil && addr.Zone() == "" {
		host = addr.Unmap().String()
	} else if host == "localhost" {
		host = serveHost // whatever a resolver says
	} else if host != "" && !hostName().MatchString(host) {
		return "", "has no possible host: want an address, or a name of this machine"
	}
	return net.JoinHostPort(host, strconv.FormatUint(n, 10)), ""
}

// listens are the addresses where mbox may listen, as http_check wants them that
// must not reach any: that of the doors, and the one that mbox serve has unless told
// otherwise. A name may be one of any address of this machine, so all of them count.
func (s Serve) listens() []string {
	at := []string{defaultServe().Address}
	if s.Address != at[0] {
		at = append(at, s.Address)
	}
	host, port, _ := net.SplitHostPort(s.Address) // it was checked
	if _, err := netip.ParseAddr(host); err != nil && host != "" {
		at = append(at, net.JoinHostPort("", port))
	}
	return at
}

func onLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && isLoopback(host)
}

// Loopback tells whether it listens on loopback alone.
func (l Listener) Loopback() bool { return onLoopback(l.Address) }
