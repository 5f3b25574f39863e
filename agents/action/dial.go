package action

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"

	"mbox/agents/policy"
	"mbox/schemas"
)

// public refuses what is not of the internet; [forbidden] refuses the same and
// more. The two were written by different people.
var public = ssrf.New(ssrf.WithAnyPort())

// guard lets a dialer connect to public addresses and to the listed ones of
// loopback, and to nothing else. It looks at the address that is connected to,
// after names were resolved, at every connection: what a name resolved to a
// moment before does not matter.
type guard struct {
	options HTTPOptions
	own     func() ([]net.Addr, error) // the machine's addresses
}

// dial connects to what a URL names.
func (g guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(g.options.Never, func(n string) bool { return sameName(n, host, port) }) {
		return nil, never(address)
	}
	d := net.Dialer{
		Timeout:  10 * time.Second,
		Resolver: g.options.resolver,
		Control: func(network, resolved string, _ syscall.RawConn) error {
			return g.check(network, host, resolved)
		},
	}
	if d.Resolver == nil {
		d.Resolver = &net.Resolver{PreferGo: true}
	}
	return d.DialContext(ctx, network, address)
}

// check is asked with the address of each connection, before the first packet.
func (g guard) check(network, host, resolved string) error {
	at, err := netip.ParseAddrPort(resolved)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return denied("address_invalid", resolved, "it is no address of TCP")
	}
	ip := at.Addr().Unmap()
	if g.isNever(ip, at.Port()) {
		return never(resolved)
	}
	if ip.IsLoopback() && g.listed(host, ip, at.Port()) {
		return nil
	}
	if by := forbidden(at.Addr()); by != nil {
		return denied("address_"+by.rule, resolved, "it is not of the public internet: "+by.source)
	}
	if err := public.Safe(network, netip.AddrPortFrom(ip, at.Port()).String(), nil); err != nil {
		return denied("address_special", resolved, schemas.Sentence(err.Error(), 200))
	}
	return nil
}

// listed tells whether a host of a URL and the loopback address that it led to
// are together what an entry of Loopback names: 127.0.0.1:80 names one address,
// localhost:80 those of that name. Another name that leads there does not count.
func (g guard) listed(host string, ip netip.Addr, port uint16) bool {
	return slices.ContainsFunc(g.options.Loopback, func(entry string) bool {
		name, number, err := net.SplitHostPort(entry)
		if err != nil || number != portText(port) || !strings.EqualFold(name, host) {
			return false
		}
		if want, err := netip.ParseAddr(name); err == nil {
			return want == ip
		}
		return name == "localhost"
	})
}

// onLoopback tells whether an entry of Loopback is exactly this host and port.
func (o HTTPOptions) onLoopback(host, port string) bool {
	return slices.ContainsFunc(o.Loopback, func(entry string) bool { return sameName(entry, host, port) })
}

// isNever tells whether an address is that of an entry of Never. One that
// listens on loopback, or on all addresses, is reached by any address of this
// machine.
func (g guard) isNever(ip netip.Addr, port uint16) bool {
	return slices.ContainsFunc(g.options.Never, func(entry string) bool {
		name, number, err := net.SplitHostPort(entry)
		if err != nil || number != portText(port) {
			return false
		}
		want, err := netip.ParseAddr(name)
		want = want.Unmap()
		switch {
		case name == "" || strings.EqualFold(name, "localhost"),
			err == nil && (want.IsLoopback() || want.IsUnspecified()):
			return g.ownAddress(ip)
		}
		return err == nil && want == ip
	})
}

// ownAddress tells whether an address leads to this machine. Where that cannot
// be asked, it is taken for one.
func (g guard) ownAddress(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addresses, err := g.own()
	return err != nil || slices.ContainsFunc(addresses, func(a net.Addr) bool {
		own, ok := a.(*net.IPNet)
		return ok && own.IP.Equal(ip.AsSlice())
	})
}

func sameName(entry, host, port string) bool {
	name, number, err := net.SplitHostPort(entry)
	return err == nil && number == port && strings.EqualFold(strings.TrimSuffix(name, "."), strings.TrimSuffix(host, "."))
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }

func never(address string) error {
	return denied("address_never", address, "models, gateways and mbox itself are not asked")
}

func denied(rule, what, why string) error {
	return &policy.Denied{Rule: rule, What: schemas.Sentence(what, 200), Why: why}
}

// refusal is the policy's word in an error of an HTTP client; nil if there is
// none.
func refusal(err error) *policy.Denied {
	var d *policy.Denied
	if errors.As(err, &d) {
		return d
	}
	return nil
}
