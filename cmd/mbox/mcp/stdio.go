package mcp

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Serve speaks with one client over in and out, a message a line, until in ends or ctx
// does. What was asked before in ended is answered; a wait ends with what there is then.
// A line that is no message is answered with an error, and nothing else comes of it.
// A server serves one client in this way.
func (s *Server) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	stays, leave := context.WithCancel(ctx)
	defer leave()
	s.stays = stays
	lines := &shared{WriteCloser: out}
	err := s.mcp.Run(ctx, &pipe{&sdk.IOTransport{Reader: sift(in, lines), Writer: lines}, leave})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// pipe is a transport whose input may end before what it asked is answered, as that of a
// shell's pipe does. The SDK would cancel what is under way.
type pipe struct {
	sdk.Transport
	leave func() // called when the input has ended
}

func (p *pipe) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := p.Transport.Connect(ctx)
	return &answering{Connection: c, leave: p.leave, idle: make(chan struct{}, 1), closed: make(chan struct{})}, err
}

// lastWords is how long the end of the input waits for answers.
const lastWords = 30 * time.Second

// answering is a connection that ends when all that was read has been answered.
type answering struct {
	sdk.Connection
	leave  func()
	idle   chan struct{} // told of each answer
	closed chan struct{}
	once   sync.Once
	mu     sync.Mutex
	asked  int // requests without an answer; guarded by mu
}

func (a *answering) add(n int) (left int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked += n
	return a.asked
}

func (a *answering) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := a.Connection.Read(ctx)
	if r, ok := m.(*jsonrpc.Request); ok && err == nil && r.IsCall() {
		a.add(1)
	}
	if !errors.Is(err, io.EOF) {
		return m, err
	}
	a.leave()
	over := time.NewTimer(lastWords)
	defer over.Stop()
	for a.add(0) > 0 {
		select {
		case <-a.idle:
		case <-a.closed:
			return m, err
		case <-ctx.Done():
			return m, err
		case <-over.C:
			return m, err
		}
	}
	return m, err
}

func (a *answering) Write(ctx context.Context, m jsonrpc.Message) error {
	err := a.Connection.Write(ctx, m)
	if _, ok := m.(*jsonrpc.Response); ok {
		a.add(-1)
		select {
		case a.idle <- struct{}{}:
		default:
		}
	}
	return err
}

func (a *answering) Close() error {
	a.once.Do(func() { close(a.closed) })
	return a.Connection.Close()
}
