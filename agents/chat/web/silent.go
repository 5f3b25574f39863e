package web

import (
	"crypto/tls"
	"net"
	"net/http"
	"slices"
	"sync"
)

// Silent closes connections of a server on which nothing is asked, the one that has been
// silent for longest first, while more than most are open. Else who opens many, and says
// nothing, keeps everybody out. An honest client is cut off only where as many come in
// before it has asked. Its State is for [http.Server.ConnState].
type Silent struct {
	most int

	mu     sync.Mutex
	open   map[net.Conn]bool
	silent []net.Conn // the one that has been so for longest first
}

// SilentAmong leaves a listener that lets in so many connections places for who asks.
func SilentAmong(connections int) *Silent {
	return &Silent{most: max(1, connections-connections/8-1), open: map[net.Conn]bool{}}
}

// State takes note of what a connection does now.
func (s *Silent) State(c net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.silent, c); i >= 0 {
		s.silent = slices.Delete(s.silent, i, i+1)
	}
	switch state {
	case http.StateNew:
		s.open[c] = true
		s.silent = append(s.silent, c)
	case http.StateIdle:
		s.silent = append(s.silent, c)
	case http.StateClosed, http.StateHijacked:
		delete(s.open, c)
	}
	for len(s.open) > s.most && len(s.silent) > 1 {
		delete(s.open, s.silent[0])
		hangUp(s.silent[0])
		s.silent = s.silent[1:]
	}
}

// hangUp closes a connection without a word, for which TLS might wait.
func hangUp(c net.Conn) {
	if secure, ok := c.(*tls.Conn); ok {
		c = secure.NetConn()
	}
	c.Close()
}
