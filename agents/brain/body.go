package brain

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"mbox/schemas"
)

type body struct {
	io.ReadCloser
	seen *witness
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.seen.broken = err
	}
	return n, err
}

// line makes a server's words fit for an error: one line, without control
// characters, not long.
func line(text string) string { return schemas.Sentence(text, 200) }

// network says in a word or two why a server could not be talked to. Go's own
// text repeats the whole URL.
func network(err error) string {
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "connection reset"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended before an answer"
	case errors.As(err, &dns):
		return "the host's name cannot be resolved"
	case errors.Is(err, os.ErrDeadlineExceeded), isTimeout(err):
		return "no answer in time"
	case errors.As(err, &op):
		return line(op.Op + ": " + op.Err.Error())
	}
	return "the connection failed"
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}
