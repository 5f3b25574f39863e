package web

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/netutil"

	"mbox/agents/chat"
)

// Door is where a server calls a channel. It speaks no TLS: that is the business
// of a proxy before it.
type Door struct{ l net.Listener }

// maxCalls is how many connections a door holds; others wait.
const maxCalls = 64

// Listen opens a door. The address is one of this machine's own, 127.0.0.1:PORT,
// unless the settings are Insecure: who gets there may see what is said.
func Listen(s chat.Settings, address string) (*Door, error) {
	if err := CheckListen(s, address); err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	return &Door{netutil.LimitListener(l, maxCalls)}, nil
}

// CheckListen tells whether Listen would take an address, and opens nothing.
func CheckListen(s chat.Settings, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("listen: want host:port: %w: %w", err, chat.ErrSetup)
	}
	if !Local(host) && !s.Insecure {
		return fmt.Errorf("listen: %s is open to other machines: want 127.0.0.1, and a proxy that speaks TLS before it: %w", address, chat.ErrSetup)
	}
	return nil
}

// Address is the door's host and port.
func (d *Door) Address() string { return d.l.Addr().String() }

// Anywhere tells whether the door has no address of its own, as 0.0.0.0.
func Anywhere(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

// Close closes a door that was not served.
func (d *Door) Close() { d.l.Close() }

// Serve answers until the context ends; then what has begun has half a second.
func (d *Door) Serve(ctx context.Context, h http.Handler) error {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second, IdleTimeout: time.Minute, ConnState: SilentAmong(maxCalls).State,
		MaxHeaderBytes: 16 << 10, ErrorLog: log.New(io.Discard, "", 0), // callers could fill it
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(d.l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("listen: %w", err)
	case <-ctx.Done():
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 500*time.Millisecond)
	defer cancel()
	if server.Shutdown(late) != nil {
		server.Close()
	}
	<-ended
	return ctx.Err()
}
