package gateway

import (
	"net/http"
	"sync"
	"time"
)

// How long a write may wait for a client that takes nothing.
const (
	writeTime = 20 * time.Second // after that the client counts as gone
	lastWrite = time.Second      // as much, once the mailbox is to be let go
)

// paced lets go a client that does not take its answer. However large the answer is,
// each piece of it has its own time: what is slow is served, and what stands still is
// not.
type paced struct {
	http.ResponseWriter
	mu      sync.Mutex
	hurried bool // guarded by mu: no write gets more time
}

func (p *paced) Write(data []byte) (int, error) {
	p.mu.Lock()
	if !p.hurried {
		p.until(writeTime)
	}
	p.mu.Unlock()
	return p.ResponseWriter.Write(data)
}

// hurry gives a client little time for all that is left.
func (p *paced) hurry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hurried = true
	p.until(lastWrite)
}

func (p *paced) until(d time.Duration) {
	// A writer that has no deadlines, as in tests, does not wait either.
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(d))
}

// Unwrap is for http.ResponseController.
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }
