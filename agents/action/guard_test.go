package action

import (
	"errors"
	"net"
	"testing"
)

func noAddresses() ([]net.Addr, error) { return nil, nil }

// Loopback is reached only by a host and port that are listed as they stand in
// the URL, and never where Never names the port.
func TestGuardLoopback(t *testing.T) {
	own := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.ParseIP("9.9.9.9"), Mask: net.CIDRMask(24, 32)}}, nil
	}
	for _, c := range []struct {
		loopback, never, host, resolved, want string
	}{
		{"127.0.0.1:80", "", "127.0.0.1", "127.0.0.1:80", "ok"},
		{"127.0.0.1:80", "", "127.0.0.1", "[::ffff:127.0.0.1]:80", "ok"},
		{"[::1]:80", "", "::1", "[::1]:80", "ok"},
		{"localhost:80", "", "localhost", "127.0.0.1:80", "ok"},
		{"localhost:80", "", "LOCALHOST", "[::1]:80", "ok"},
		{"127.0.0.1:80", "", "127.0.0.1", "127.0.0.1:81", "address_loopback"},
		{"127.0.0.1:80", "", "localhost", "127.0.0.1:80", "address_loopback"},
		{"127.0.0.1:80", "", "127.0.0.2", "127.0.0.2:80", "address_loopback"},
		{"127.0.0.1:80", "", "rebind.example", "127.0.0.1:80", "address_loopback"},
		{"rebind.example:80", "", "rebind.example", "127.0.0.1:80", "address_loopback"},
		{"10.0.0.1:80", "", "10.0.0.1", "10.0.0.1:80", "address_private"},
		{"localhost:80", "", "localhost", "10.0.0.1:80", "address_private"},
		{"", "", "localhost", "127.0.0.1:80", "address_loopback"},
		{"127.0.0.1:80", "127.0.0.1:80", "127.0.0.1", "127.0.0.1:80", "address_never"},
		{"[::1]:80", "127.0.0.1:80", "::1", "[::1]:80", "address_never"},
		{"localhost:80", "[::1]:80", "localhost", "127.0.0.1:80", "address_never"},
		{"127.0.0.1:80", "localhost:80", "127.0.0.1", "127.0.0.1:80", "address_never"},
		{"127.0.0.1:80", "0.0.0.0:80", "127.0.0.1", "127.0.0.1:80", "address_never"},
		{"127.0.0.1:80", ":80", "127.0.0.1", "127.0.0.1:80", "address_never"},
		{"127.0.0.1:80", "127.0.0.1:81", "127.0.0.1", "127.0.0.1:80", "ok"},
		{"", "0.0.0.0:11434", "me.example", "9.9.9.9:11434", "address_never"},
		{"", "127.0.0.1:11434", "me.example", "9.9.9.9:11434", "address_never"},
		{"", "127.0.0.1:11434", "me.example", "9.9.9.9:80", "ok"},
		{"", "127.0.0.1:11434", "you.example", "9.9.9.8:11434", "ok"},
		{"", "9.9.9.8:11434", "you.example", "9.9.9.8:11434", "address_never"},
	} {
		g := guard{HTTPOptions{Loopback: []string{c.loopback}, Never: []string{c.never}}, own}
		got := "ok"
		if d := refusal(g.check("tcp4", c.host, c.resolved)); d != nil {
			got = d.Rule
		}
		if got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// Where mbox listens is reached by no address of this machine, whatever Loopback
// lists and however it was written where it listens.
func TestGuardOfMboxItself(t *testing.T) {
	for _, listens := range []string{"127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "::ffff:0.0.0.0", "", "localhost", "LOCALHOST"} {
		for _, host := range []string{"127.0.0.1", "127.0.0.2", "127.255.0.9", "::1", "localhost"} {
			asked := net.JoinHostPort(host, "42617")
			o := HTTPOptions{Loopback: []string{asked}, Never: []string{net.JoinHostPort(listens, "42617")}}
			resolved := []string{asked}
			if host == "localhost" {
				resolved = []string{"127.0.0.1:42617", "127.0.1.1:42617", "[::1]:42617", "[::ffff:127.0.0.1]:42617"}
			}
			for _, at := range resolved {
				if d := refusal(guard{o, noAddresses}.check("tcp4", host, at)); d == nil || d.Rule != "address_never" {
					t.Errorf("%s listens, %s leads to %s: %v", o.Never, asked, at, d)
				}
			}
		}
	}
}

// Who cannot say which addresses are its own reaches none of them on the ports
// that are never asked.
func TestGuardUnknownAddresses(t *testing.T) {
	g := guard{HTTPOptions{Never: []string{"127.0.0.1:11434"}}, func() ([]net.Addr, error) { return nil, errors.New("none") }}
	if d := refusal(g.check("tcp4", "x.example", "9.9.9.9:11434")); d == nil || d.Rule != "address_never" {
		t.Errorf("%v", d)
	}
	if err := g.check("tcp4", "x.example", "9.9.9.9:80"); err != nil {
		t.Error(err)
	}
}

// A name that is never asked is not even resolved.
func TestGuardNeverByName(t *testing.T) {
	asked := 0
	o := HTTPOptions{Never: []string{"ollama-brain:11434"}, resolver: countingResolver(&asked)}
	_, err := guard{o, noAddresses}.dial(t.Context(), "tcp", "OLLAMA-brain:11434")
	if d := refusal(err); d == nil || d.Rule != "address_never" || asked > 0 {
		t.Errorf("%v, %d questions", err, asked)
	}
}

// Only TCP over an address is known to be checked.
func TestGuardNetworks(t *testing.T) {
	for network, address := range map[string]string{"udp4": "8.8.8.8:53", "unix": "/run/x.sock", "tcp": "8.8.8.8:53", "tcp4": "example.com:80"} {
		if d := refusal((guard{own: noAddresses}).check(network, "x", address)); d == nil || d.Rule != "address_invalid" {
			t.Errorf("%s %s: %v", network, address, d)
		}
	}
}
