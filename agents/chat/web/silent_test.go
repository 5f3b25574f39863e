package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/netutil"
)

// Who opens all connections that there are and says nothing, or nothing more, keeps
// nobody out; who waits for an answer keeps his connection.
func TestSilent(t *testing.T) {
	const most = 16
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked, answer := make(chan bool), make(chan bool)
	server := &http.Server{
		ConnState: SilentAmong(most).State,

		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				close(asked)
				<-answer
			}
			_, _ = io.WriteString(w, "here")
		}),
	}
	go func() { _ = server.Serve(netutil.LimitListener(l, most)) }()
	defer server.Close()
	open := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ask := func(c net.Conn, path string) {
		if _, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
	}
	answered := func(c net.Conn) {
		t.Helper()
		if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(r.Body); string(text) != "here" {
			t.Errorf("%q %v", text, err)
		}
	}
	slow := open()
	ask(slow, "/slow")
	<-asked
	for i := range 3 * most {
		if c := open(); i%2 == 0 {
			ask(c, "/")
			answered(c)
		}
	}
	for range 3 {
		c := open()
		ask(c, "/")
		answered(c)
	}
	close(answer)
	answered(slow)
}
