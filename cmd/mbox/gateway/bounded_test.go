package gateway

import (
	"errors"
	"net"
	"testing"
	"time"
)

// A listener lets in as many as it has places for, the next when one has gone, and
// nobody once it is closed.
func TestBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := bound(inner, 2)
	for range 3 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	in := make(chan net.Conn, 3)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				ended <- err
				return
			}
			in <- c
		}
	}()
	first, second := <-in, <-in
	defer second.Close()
	select {
	case <-in:
		t.Error("a third one is in, and there are two places")
	case <-time.After(50 * time.Millisecond):
	}
	first.Close()
	first.Close() // gives no second place
	third := <-in
	defer third.Close()
	l.Close()
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// The door that listens is bounded.
func TestListenIsBounded(t *testing.T) {
	l, _, err := Listen("127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if b, ok := l.(*bounded); !ok || cap(b.places) < 1 || cap(b.places) > mostConnections {
		t.Errorf("%T", l)
	}
}
