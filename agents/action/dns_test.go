package action

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

// A nameServer answers for the names of a test. A name has a list of addresses
// for each time that it is asked for; the last list goes on.
type nameServer struct {
	mu    sync.Mutex
	names map[string][][]netip.Addr
	asked map[string]int // "name 1" (A) or "name 28" (AAAA)
	conn  net.PacketConn
}

func newNameServer(t *testing.T, names map[string][][]netip.Addr) *nameServer {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &nameServer{names: names, asked: map[string]int{}, conn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.serve()
	}()
	t.Cleanup(func() { conn.Close(); <-done })
	return s
}

func (s *nameServer) serve() {
	buf := make([]byte, 1500)
	for {
		n, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := s.answer(buf[:n]); answer != nil {
			_, _ = s.conn.WriteTo(answer, from)
		}
	}
}

// resolver asks this server and no other.
func (s *nameServer) resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp4", s.conn.LocalAddr().String())
	}}
}

// answer is the DNS message (RFC 1035) to a question.
func (s *nameServer) answer(q []byte) []byte {
	const header = 12
	if len(q) < header+5 {
		return nil
	}
	name, end := "", header
	for end < len(q) && q[end] != 0 {
		label := q[end+1 : end+1+int(q[end])]
		name, end = name+"."+string(label), end+1+len(label)
	}
	question := q[header : end+5]
	kind := binary.BigEndian.Uint16(question[len(question)-4:])
	addresses, known := s.next(strings.ToLower(strings.TrimPrefix(name, ".")), kind)
	out := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, byte(len(addresses)), 0, 0, 0, 0}, question...)
	if !known {
		out[3] |= 3 // no such name
	}
	for _, ip := range addresses {
		raw := ip.AsSlice()
		out = append(out, 0xc0, header)
		out = binary.BigEndian.AppendUint16(out, kind)
		out = append(out, 0, 1, 0, 0, 0, 0, 0, byte(len(raw)))
		out = append(out, raw...)
	}
	return out
}

func (s *nameServer) next(name string, kind uint16) (of []netip.Addr, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	lists, known := s.names[name]
	if len(lists) == 0 {
		return nil, known
	}
	key := name + " " + map[uint16]string{1: "A", 28: "AAAA"}[kind]
	list := lists[min(s.asked[key], len(lists)-1)]
	s.asked[key]++
	for _, ip := range list {
		if ip.Is4() && kind == 1 || ip.Is6() && kind == 28 {
			of = append(of, ip)
		}
	}
	return of, known
}

// one is a name's list that never changes.
func one(addresses ...string) [][]netip.Addr { return [][]netip.Addr{list(addresses...)} }

func list(addresses ...string) (of []netip.Addr) {
	for _, a := range addresses {
		of = append(of, netip.MustParseAddr(a))
	}
	return of
}

// countingResolver answers nothing and counts who asks.
func countingResolver(n *int) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		*n++
		return nil, errors.New("no name server")
	}}
}
