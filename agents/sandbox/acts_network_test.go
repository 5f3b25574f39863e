//go:build linux && (amd64 || arm64)

package sandbox

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

var localhost = [4]byte{127, 0, 0, 1}

// connects makes a socket and connects it.
func connects(domain, kind, protocol int, to func(scene) unix.Sockaddr) func(scene) error {
	return func(s scene) error {
		fd, err := unix.Socket(domain, kind, protocol)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Connect(fd, to(s))
	}
}

// makes only makes the socket.
func makes(domain, kind, protocol int) func(scene) error {
	return func(scene) error {
		fd, err := unix.Socket(domain, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

func loopback4(port func(scene) int) func(scene) unix.Sockaddr {
	return func(s scene) unix.Sockaddr { return &unix.SockaddrInet4{Port: port(s), Addr: localhost} }
}

func loopback6(port func(scene) int) func(scene) unix.Sockaddr {
	return func(s scene) unix.Sockaddr { return &unix.SockaddrInet6{Port: port(s), Addr: [16]byte{15: 1}} }
}

func networkActs() []act {
	noRoute := []string{"ENETUNREACH", "EADDRNOTAVAIL"}
	return []act{
		{name: "TCP over IPv4", try: connects(unix.AF_INET, unix.SOCK_STREAM, 0, loopback4(func(s scene) int { return s.TCP4 })), denied: noEntry},
		{name: "TCP over IPv6", try: connects(unix.AF_INET6, unix.SOCK_STREAM, 0, loopback6(func(s scene) int { return s.TCP6 })), denied: noEntry},
		{name: "listen on TCP", try: func(scene) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
			if err != nil {
				return err
			}
			return unix.Bind(fd, &unix.SockaddrInet4{Addr: localhost})
		}, denied: noEntry},
		{name: "Multipath TCP", try: connects(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP, loopback4(func(s scene) int { return s.MPTCP })), denied: noRoute, free: []string{"ok", "ENOPROTOOPT", "EPROTONOSUPPORT"}},
		{name: "UDP over IPv4", try: func(s scene) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			return unix.Sendto(fd, []byte("x"), 0, loopback4(func(s scene) int { return s.UDP4 })(s))
		}, denied: noRoute},
		{name: "UDP over IPv6", try: connects(unix.AF_INET6, unix.SOCK_DGRAM, 0, loopback6(func(s scene) int { return s.UDP6 })), denied: noRoute},
		{name: "a raw socket", try: makes(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), denied: noCall, root: true},
		{name: "a socket with a path", try: connects(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(s scene) unix.Sockaddr { return &unix.SockaddrUnix{Name: s.Stream} }), denied: noCall},
		{name: "an abstract socket", try: connects(unix.AF_UNIX, unix.SOCK_STREAM, 0, func(s scene) unix.Sockaddr { return &unix.SockaddrUnix{Name: s.Abstract} }), denied: noCall},
		{name: "a datagram from a pair", try: fromPair(unix.SOCK_DGRAM), denied: noCall},
		{name: "a datagram from a raw pair", try: fromPair(unix.SOCK_RAW), denied: noCall},
		{name: "netlink", try: makes(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), denied: noCall},
		{name: "vsock", try: makes(unix.AF_VSOCK, unix.SOCK_STREAM, 0), denied: noCall, free: []string{"ok", "EAFNOSUPPORT"}},
		{name: "packets", try: makes(unix.AF_PACKET, unix.SOCK_RAW, 0), denied: noCall, root: true},
		{name: "the kernel's ciphers", try: makes(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), denied: noCall, free: []string{"ok", "EAFNOSUPPORT"}},
		{name: "switch lo on", try: func(scene) error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
			if err != nil {
				return err
			}
			request, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			request.SetUint16(unix.IFF_UP | unix.IFF_LOOPBACK | unix.IFF_RUNNING)
			return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
		}, denied: noCall, root: true},
	}
}

// fromPair sends to a path from a socket that was never made by socket(2).
func fromPair(kind int) func(scene) error {
	return func(s scene) error {
		runtime.LockOSThread()
		pair, err := unix.Socketpair(unix.AF_UNIX, kind, 0)
		if err != nil {
			return err
		}
		if err := unix.Sendto(pair[0], []byte("x"), 0, &unix.SockaddrUnix{Name: s.Datagram}); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		return nil
	}
}
