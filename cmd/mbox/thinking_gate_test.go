package main

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"sync/atomic"
	"testing"
)

// gate stands between mbox and a server. It counts, and holds replies up.
type gate struct {
	URL    string
	visits atomic.Int64 // connections
	chats  atomic.Int64 // questions to a model
	target string
	// hold, if not nil, is called before each line of an answer is passed on. chat
	// is the number of the last question on this connection (0: none), sent what has
	// been passed on since, gone is closed when the asker is gone. false breaks the
	// connection.
	hold func(chat int64, sent int, gone <-chan struct{}) bool
}

func newGate(t *testing.T, url string, hold func(chat int64, sent int, gone <-chan struct{}) bool) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	g := &gate{URL: "http://" + l.Addr().String(), target: strings.TrimPrefix(url, "http://"), hold: hold}
	go func() {
		for {
			asker, err := l.Accept()
			if err != nil {
				return
			}
			g.visits.Add(1)
			go g.pass(asker)
		}
	}()
	return g
}

func (g *gate) pass(asker net.Conn) {
	defer asker.Close()
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer server.Close()
	var chat, sent atomic.Int64
	gone := make(chan struct{})
	go func() { // an asker sends a question at once, so that its method stands in front
		defer server.Close()
		defer close(gone)
		buffer := make([]byte, 64<<10)
		for {
			n, err := asker.Read(buffer)
			if bytes.HasPrefix(buffer[:n], []byte("POST /api/chat ")) {
				chat.Store(g.chats.Add(1))
				sent.Store(0)
			}
			if _, failed := server.Write(buffer[:n]); err != nil || failed != nil {
				return
			}
		}
	}()
	answer := bufio.NewReader(server)
	for {
		piece, err := nextLine(answer)
		if len(piece) > 0 && g.hold != nil && !g.hold(chat.Load(), int(sent.Load()), gone) {
			return
		}
		if _, failed := asker.Write(piece); err != nil || failed != nil {
			return
		}
		sent.Add(int64(len(piece)))
	}
}

// nextLine is what has come, up to the end of a line. Pieces of another size would
// keep back in the asker's reader what it has: that reads a chunk of HTTP to its
// end.
func nextLine(r *bufio.Reader) ([]byte, error) {
	if _, err := r.Peek(1); err != nil {
		return nil, err
	}
	piece, _ := r.Peek(r.Buffered())
	if end := bytes.IndexByte(piece, '\n'); end >= 0 {
		piece = piece[:end+1]
	}
	piece = bytes.Clone(piece)
	_, err := r.Discard(len(piece))
	return piece, err
}
