package gateway

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"mbox/mailbox"
)

// artifact is the path of an artifact of so many bytes.
func (p *place) artifact(size int) string {
	p.Helper()
	id := p.sent("o", titled("large", "coder"))
	c := p.claim("coder")
	file := p.TempDir() + "/large"
	if err := os.WriteFile(file, make([]byte, size), 0o600); err != nil {
		p.Fatal(err)
	}
	if _, err := c.Keep(p.Context(), file); err != nil {
		p.Fatal(err)
	}
	if err := c.Complete(p.Context(), mailbox.Result{}); err != nil {
		p.Fatal(err)
	}
	return "/tasks/" + string(id) + "/artifacts/large"
}

// A client that asks for something large and takes nothing of it does not hold up
// whoever wants the mailbox closed.
func TestWhoTakesNothingHoldsUpNobody(t *testing.T) {
	p := newPlace(t)
	path := p.artifact(16 << 20)
	server := p.listen()
	conn, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path)
	if _, err := conn.Read(make([]byte, 100)); err != nil { // the answer has begun
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { p.door.Use(nil); close(ended) }()
	select {
	case <-ended:
	case <-time.After(lastWrite + 5*time.Second):
		conn.Close()
		t.Error("the mailbox is still lent to a client that takes nothing")
		<-ended
	}
}

// A request that tidies may wait for a lock that a stopped process holds. The others
// do not stand in line behind it.
func TestTidyingHoldsUpNobody(t *testing.T) {
	p := newPlace(t)
	id := p.sent("o", titled("x", "coder"))
	s := p.door.borrow()
	s.asked.Done()
	s.tidying.Lock()
	defer s.tidying.Unlock()
	answered := make(chan int, 2)
	for _, path := range []string{"/tasks", "/tasks/" + string(id)} {
		go func() { answered <- p.ask("r", "GET", path, "").Code }()
	}
	late := time.After(5 * time.Second)
	for range 2 {
		select {
		case code := <-answered:
			if code != 200 {
				t.Error(code)
			}
		case <-late:
			t.Fatal("it waits for another request")
		}
	}
}

// Who waits for what comes leaves places: those without a token to the others, and all of
// them to who is answered at once.
func TestWaitersLeavePlaces(t *testing.T) {
	p := newPlace(t)
	p.door.staying, p.door.unnamed = make(turns, 2), make(turns, 1)
	id := p.sent("o", titled("x", "coder"))
	gone := make(chan struct{}, 2)
	stay := func(who string, held int) {
		go func() {
			p.ask(who, "GET", "/tasks/"+string(id)+"?wait=5m", "")
			gone <- struct{}{}
		}()
		for len(p.door.staying) < held {
			time.Sleep(time.Millisecond)
		}
	}
	stay("", 1)
	if w := p.ask("", "GET", "/events", ""); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("a second without a token: %d", w.Code)
	}
	stay("r", 2)
	if w := p.ask("o", "GET", "/tasks/"+string(id)+"?wait=1s", ""); w.Code != 503 {
		t.Errorf("a third: %d", w.Code)
	}
	p.want(200, "", "GET", "/tasks/"+string(id), "")
	p.want(200, "o", "POST", "/tasks/"+string(id)+"/cancel", "")
	for range cap(gone) {
		<-gone
	}
	if len(p.door.staying)+len(p.door.unnamed) != 0 {
		t.Error("they are answered, and hold places")
	}
}
