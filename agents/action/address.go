package action

import (
	"encoding/binary"
	"net/netip"
)

// A blocked range is one that http_check never asks: IANA's registries of
// special-purpose addresses (RFC 6890, as of 2025), multicast, what is reserved,
// and addresses that machines of a cloud take their credentials from.
type blocked struct {
	prefix netip.Prefix
	rule   string // what policy.Denied.Rule says, behind address_
	source string
}

func block(prefix, rule, source string) blocked {
	return blocked{netip.MustParsePrefix(prefix), rule, source}
}

// ranges is in the order in which they are tried: the narrow ones with a name of
// their own stand before the wide ones.
var ranges = []blocked{
	// Cloud metadata. The others lie in ranges below, and are named all the same.
	block("169.254.169.254/32", "metadata", "AWS, Google, Azure, OpenStack"),
	block("169.254.170.2/32", "metadata", "AWS ECS"),
	block("100.100.100.200/32", "metadata", "Alibaba Cloud"),
	block("192.0.0.192/32", "metadata", "Oracle Cloud"),
	block("168.63.129.16/32", "metadata", "Azure wire server"),
	block("fd00:ec2::254/128", "metadata", "AWS"),
	block("fd20:ce::254/128", "metadata", "Google"),

	// https://www.iana.org/assignments/iana-ipv4-special-registry
	block("0.0.0.0/8", "this_network", "RFC 791"),
	block("10.0.0.0/8", "private", "RFC 1918"),
	block("100.64.0.0/10", "shared", "RFC 6598"),
	block("127.0.0.0/8", "loopback", "RFC 1122"),
	block("169.254.0.0/16", "link_local", "RFC 3927"),
	block("172.16.0.0/12", "private", "RFC 1918"),
	block("192.0.0.0/24", "ietf_protocol", "RFC 6890"), // and in it RFC 7335, 7600, 7723, 8155, 8880
	block("192.0.2.0/24", "documentation", "RFC 5737"),
	block("192.31.196.0/24", "as112", "RFC 7535"),
	block("192.52.193.0/24", "amt", "RFC 7450"),
	block("192.88.99.0/24", "6to4_relay", "RFC 7526"),
	block("192.168.0.0/16", "private", "RFC 1918"),
	block("192.175.48.0/24", "as112", "RFC 7534"),
	block("198.18.0.0/15", "benchmarking", "RFC 2544"),
	block("198.51.100.0/24", "documentation", "RFC 5737"),
	block("203.0.113.0/24", "documentation", "RFC 5737"),
	block("224.0.0.0/4", "multicast", "RFC 5771"),
	block("255.255.255.255/32", "broadcast", "RFC 919, RFC 8190"),
	block("240.0.0.0/4", "reserved", "RFC 1112"),

	// https://www.iana.org/assignments/iana-ipv6-special-registry
	block("::/128", "unspecified", "RFC 4291"),
	block("::1/128", "loopback", "RFC 4291"),
	block("::/96", "ipv4_compatible", "RFC 4291"),
	block("64:ff9b::/96", "nat64", "RFC 6052"),
	block("64:ff9b:1::/48", "nat64", "RFC 8215"),
	block("100::/64", "discard", "RFC 6666"),
	block("100:0:0:1::/64", "dummy", "RFC 9780"),
	block("2001::/32", "teredo", "RFC 4380"),
	block("2001:2::/48", "benchmarking", "RFC 5180"),
	block("2001:3::/32", "amt", "RFC 7450"),
	block("2001:4:112::/48", "as112", "RFC 7535"),
	block("2001:10::/28", "orchid", "RFC 4843"),
	block("2001:20::/28", "orchid", "RFC 7343"),
	block("2001:30::/28", "drip", "RFC 9374"),
	block("2001::/23", "ietf_protocol", "RFC 2928"), // and in it RFC 7723, 8155, 9665
	block("2001:db8::/32", "documentation", "RFC 3849"),
	block("2002::/16", "6to4", "RFC 3056"),
	block("2620:4f:8000::/48", "as112", "RFC 7534"),
	block("3fff::/20", "documentation", "RFC 9637"),
	block("5f00::/16", "srv6", "RFC 9602"),
	block("fc00::/7", "unique_local", "RFC 4193"),
	block("fe80::/10", "link_local", "RFC 4291"),
	block("fec0::/10", "site_local", "RFC 3879"),
	block("ff00::/8", "multicast", "RFC 4291"),
}

// globalUnicast is where IANA assigns IPv6 addresses to the internet; all else
// is not routed there, whatever it becomes one day.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// forbidden tells why an address may not be asked; nil where it may. The last
// word has the address that a packet would reach: one in IPv4-mapped form counts
// as what it maps, and one that carries another through a tunnel is refused by
// its own range, or by what it carries.
func forbidden(ip netip.Addr) *blocked {
	if ip.Zone() != "" {
		return &blocked{rule: "zone", source: "RFC 4007"}
	}
	ip = ip.Unmap()
	if !ip.IsValid() {
		return &blocked{rule: "invalid", source: "no address"}
	}
	for i := range ranges {
		if ranges[i].prefix.Contains(ip) {
			return carried(ip, &ranges[i])
		}
	}
	switch {
	case ip.Is4():
		return nil
	case !globalUnicast.Contains(ip):
		return &blocked{globalUnicast, "not_global", "RFC 4291"}
	}
	if inner, ok := isatap(ip); ok {
		return forbidden(inner)
	}
	return nil
}

// carried names the range of what an address in a tunnel's range carries, where
// that is forbidden by itself: 64:ff9b::7f00:1 is loopback, said in another way.
func carried(ip netip.Addr, b *blocked) *blocked {
	inner, ok := embedded(ip)
	if !ok {
		return b
	}
	if by := forbidden(inner); by != nil {
		return by
	}
	return b
}

// embedded is the IPv4 address that an IPv6 one carries.
func embedded(ip netip.Addr) (netip.Addr, bool) {
	if !ip.Is6() {
		return netip.Addr{}, false
	}
	b := ip.As16()
	at := func(i int) (netip.Addr, bool) { return netip.AddrFrom4([4]byte(b[i : i+4])), true }
	switch first := binary.BigEndian.Uint16(b[:]); {
	case first == 0x2002: // 6to4: behind the prefix
		return at(2)
	case binary.BigEndian.Uint32(b[:]) == 0x20010000: // Teredo: the client, inverted, at the end
		inverted := binary.BigEndian.Uint32(b[12:]) ^ 0xffffffff
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, inverted))), true
	case binary.BigEndian.Uint32(b[:]) == 0x0064ff9b && binary.BigEndian.Uint16(b[4:]) == 0: // NAT64
		return at(12)
	case binary.BigEndian.Uint64(b[:]) == 0 && binary.BigEndian.Uint32(b[8:]) == 0 && binary.BigEndian.Uint32(b[12:]) > 1: // compatible
		return at(12)
	}
	return netip.Addr{}, false
}

// isatap is the IPv4 address in an ISATAP interface identifier (RFC 5214), which
// may stand behind any prefix.
func isatap(ip netip.Addr) (netip.Addr, bool) {
	b := ip.As16()
	if id := binary.BigEndian.Uint32(b[8:]); id&^0x02000000 != 0x00005efe {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4([4]byte(b[12:])), true
}
