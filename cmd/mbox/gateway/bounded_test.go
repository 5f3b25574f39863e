package gateway

import (
	"net"
	"syscall"
	"testing"
	"time"
)

// However many come, a quarter of the descriptors is what the door takes of them.
func TestListenIsBounded(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	low := limit
	low.Cur = 80
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	l, _, err := Listen("127.0.0.1:0", nil)
	if again := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); again != nil || err != nil {
		t.Fatal(again, err)
	}
	defer l.Close()
	in := make(chan net.Conn, 80)
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			in <- c
		}
	}()
	for range 21 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	var accepted []net.Conn
	for range 20 {
		accepted = append(accepted, <-in)
	}
	select {
	case <-in:
		t.Error("one more is in than there are places")
	case <-time.After(50 * time.Millisecond):
	}
	accepted[0].Close()
	accepted = append(accepted, <-in)
	for _, c := range accepted {
		c.Close()
	}
}
