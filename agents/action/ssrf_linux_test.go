package action

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	openV4 = "93.184.215.14" // what http_check may ask, here on the loopback interface
	openV6 = "2606:2800:21f:cb07::1"
)

// targets is one address of every range that is forbidden, and the cloud's
// metadata; and some that carry one of another range.
func targets() (of []netip.Addr) {
	for _, r := range ranges {
		ip := r.prefix.Addr()
		if !r.prefix.IsSingleIP() {
			ip = ip.Next()
		}
		of = append(of, ip)
	}
	for _, text := range []string{
		"2002:7f00:1::1", "64:ff9b::7f00:1", "2001:0:1:2:3:4:80ff:fffe", "::7f00:1",
		"2a00:1450::5efe:7f00:1", "4000::1", "127.0.0.53", "172.17.0.1", "192.168.1.1", "239.255.255.250",
	} {
		of = append(of, netip.MustParseAddr(text))
	}
	slices.SortFunc(of, netip.Addr.Compare)
	return slices.Compact(of)
}

// hits counts what the listeners accepted, by the address that was called.
type hits struct {
	mu sync.Mutex
	of map[netip.Addr]int
}

func (h *hits) take() map[netip.Addr]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	of := h.of
	h.of = map[netip.Addr]int{}
	return of
}

// A neighbourhood is a network of its own with a web server on every target.
type neighbourhood struct {
	port    string
	targets []netip.Addr // that listen
	hits    hits
	sniffer *sniffer
}

// settle makes a neighbourhood whose servers answer with handler.
func settle(t *testing.T, handler http.Handler) *neighbourhood {
	t.Helper()
	loopbackUp(t)
	n := &neighbourhood{hits: hits{of: map[netip.Addr]int{}}, sniffer: newSniffer(t)}
	server := &http.Server{Handler: handler, ConnState: func(c net.Conn, state http.ConnState) {
		if state == http.StateNew {
			at := c.LocalAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
			n.hits.mu.Lock()
			n.hits.of[at]++
			n.hits.mu.Unlock()
		}
	}}
	t.Cleanup(func() { server.Close() })
	var silent []string
	for _, ip := range append([]netip.Addr{netip.MustParseAddr(openV4), netip.MustParseAddr(openV6)}, targets()...) {
		err := addAddress(ip)
		if ip.IsLoopback() {
			err = nil // it is there
		}
		var l net.Listener
		if err == nil {
			l, err = net.Listen("tcp", net.JoinHostPort(ip.String(), n.port))
		}
		if err != nil {
			silent = append(silent, fmt.Sprintf("%s (%v)", ip, err))
			continue
		}
		if n.port == "" {
			n.port = strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
		} else if ip != netip.MustParseAddr(openV6) {
			n.targets = append(n.targets, ip)
		}
		go func() { _ = server.Serve(l) }()
	}
	t.Logf("%d addresses listen; no host can have: %s", len(n.targets), strings.Join(silent, ", "))
	return n
}

// TestSSRF asks from a network where every forbidden address answers, in every
// way there is to name one: by the address, by a name, by a name that changes, by
// one among several, by a redirect. No connection arrives, and no packet is sent.
func TestSSRF(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	n := settle(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(w, r, to, http.StatusFound)
		}
	}))
	names := newNameServer(t, n.zone())
	o := HTTPOptions{resolver: names.resolver(), Loopback: []string{"127.0.0.1:1"}}
	n.canBeReached(t)
	n.openIsReached(t, o)
	for i, ip := range targets() {
		at := net.JoinHostPort(ip.String(), n.port)
		for _, url := range []string{
			"http://" + at + "/",
			fmt.Sprintf("http://t%d.example:%s/", i, n.port),
			fmt.Sprintf("http://mixed%d.example:%s/", i, n.port),
			fmt.Sprintf("http://rebind%d.example:%s/?to=http://rebind%d.example:%s/again", i, n.port, i, n.port),
			fmt.Sprintf("http://open.example:%s/?to=http://%s/", n.port, at),
			fmt.Sprintf("http://open.example:%s/?to=http://t%d.example:%s/", n.port, i, n.port),
		} {
			n.isRefused(t, o, ip, url)
		}
	}
}

// zone has names for each target: one that is it, one that is among others, one
// that becomes it when it is asked for again.
func (n *neighbourhood) zone() map[string][][]netip.Addr {
	zone := map[string][][]netip.Addr{"open.example": one(openV4, openV6)}
	for i, ip := range targets() {
		zone[fmt.Sprintf("t%d.example", i)] = one(ip.String())
		zone[fmt.Sprintf("mixed%d.example", i)] = one(ip.String(), openV4, openV6)
		zone[fmt.Sprintf("rebind%d.example", i)] = [][]netip.Addr{list(openV4, openV6), list(ip.String())}
	}
	return zone
}

// canBeReached shows that the listeners and the sniffer work: without the guard
// the targets are reached, all but those that the kernel itself does not connect
// to.
func (n *neighbourhood) canBeReached(t *testing.T) {
	t.Helper()
	reached := 0
	for _, ip := range n.targets {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(ip.String(), n.port), 5*time.Second)
		if err != nil {
			t.Logf("%s cannot be reached by anybody: %v", ip, err)
			continue
		}
		// An answer says that the server has counted the connection.
		fmt.Fprint(conn, "GET / HTTP/1.0\r\n\r\n")
		_, err = conn.Read(make([]byte, 1))
		conn.Close()
		if err != nil {
			t.Fatalf("%s does not answer: %v", ip, err)
		}
		if hits, packets := n.hits.take()[ip], n.sniffer.seen(t)[ip]; hits == 0 || packets == 0 {
			t.Fatalf("%s: %d connections and %d packets were noticed", ip, hits, packets)
		}
		reached++
	}
	if reached < 45 {
		t.Fatalf("only %d of %d addresses were reached", reached, len(n.targets))
	}
	t.Logf("%d forbidden addresses were reached without the guard", reached)
}

// openIsReached shows that http_check asks what it may.
func (n *neighbourhood) openIsReached(t *testing.T, o HTTPOptions) {
	t.Helper()
	for _, host := range []string{openV4, "[" + openV6 + "]", "[::ffff:" + openV4 + "]", "open.example"} {
		result, got, err := check(t, o, "http://"+host+":"+n.port+"/")
		if err != nil || result.Status != "ok" || got.StatusCode != 200 {
			t.Fatalf("%s: %+v, %v", host, result, err)
		}
	}
	if hits := n.hits.take(); len(hits) == 0 {
		t.Fatal("nobody was reached")
	}
	n.sniffer.seen(t)
}

// isRefused asks a URL that leads to a target, and looks whether anything came
// there.
func (n *neighbourhood) isRefused(t *testing.T, o HTTPOptions, ip netip.Addr, url string) {
	t.Helper()
	result, _, err := check(t, o, url)
	if err == nil && !strings.Contains(url, "mixed") { // that one has another address to go to
		t.Errorf("%s: %+v", url, result)
	}
	for at, count := range n.hits.take() {
		if at != netip.MustParseAddr(openV4) && at != netip.MustParseAddr(openV6) {
			t.Errorf("%s: %d connections to %s", url, count, at)
		}
	}
	for at, count := range n.sniffer.seen(t) {
		switch at {
		case netip.MustParseAddr(openV4), netip.MustParseAddr(openV6):
		case netip.MustParseAddr("127.0.0.1"): // the name server's, and no TCP of ours: see hits
			if ip == at && !strings.Contains(url, "example") {
				t.Errorf("%s: %d packets to %s", url, count, at)
			}
		default:
			t.Errorf("%s: %d packets to %s", url, count, at)
		}
	}
}
