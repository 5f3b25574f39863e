package qdrant

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	client "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"mbox/agents/memory"
	"mbox/schemas"
)

// Options say which server it is, and whose memory.
type Options struct {
	Host       string
	Port       int    // of its gRPC
	TLS        bool   // of version 1.3
	Key        string // a secret; "": the server wants none
	Collection string // "": mbox
	Agent      string
	UUID       string        // of the agent, from its first entry on; "" has one made
	Timeout    time.Duration // for what one call needs of the server; 0: 30 s

	trusted *tls.Config // of tests; nil: as the system does
}

const (
	maxTime    = 30 * time.Second
	maxMessage = 1 << 30 // bytes of an answer
)

// Open prepares the part of an agent. The server is asked when something is wanted of it.
func Open(o Options) (*Store, error) {
	o.Timeout, o.Collection = cmp.Or(o.Timeout, maxTime), cmp.Or(o.Collection, "mbox")
	host := o.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	c, err := client.NewClient(&client.Config{
		Host: host, Port: o.Port, UseTLS: o.TLS, TLSConfig: o.trusted, PoolSize: 1, SkipCompatibilityCheck: true,
		GrpcOptions: []grpc.DialOption{
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
			grpc.WithPerRPCCredentials(key(o.Key)),
		},
	})
	if err != nil {
		return nil, fault(err, "mend the address in [qdrant]")
	}
	return &Store{o: o, c: c, dims: map[int]bool{}}, nil
}

// Close ends the connection.
func (s *Store) Close() error {
	_ = s.c.Close() // what was said is done, whether it hears this or not
	return nil
}

// key goes along with each request. The client's own way would warn of it on standard
// error wherever there is no TLS, also on this machine.
type key string

func (k key) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	if k == "" {
		return nil, nil
	}
	return map[string]string{"api-key": string(k)}, nil
}

func (key) RequireTransportSecurity() bool { return false }

func fault(err error, fix string) error { return &memory.Fault{In: "Qdrant", Err: err, Fix: fix} }

// codeOf is the code of an error that the client has told, and what it says.
func codeOf(err error) (codes.Code, string) {
	var told interface{ GRPCStatus() *status.Status }
	if errors.As(err, &told) {
		return told.GRPCStatus().Code(), told.GRPCStatus().Message()
	}
	return codes.Unknown, ""
}

// missing tells whether an error is that there is no such collection.
func missing(err error) bool {
	code, _ := codeOf(err)
	return code == codes.NotFound
}

// about makes an error of the client one of mbox.
func (s *Store) about(err error) error {
	var known *memory.Fault
	var full *client.QdrantResourceExhaustedError
	if err == nil || errors.As(err, &known) || errors.Is(err, memory.ErrUnknown) || errors.Is(err, memory.ErrModel) {
		return err
	}
	code, text := codeOf(err)
	said := errors.New(schemas.Sentence(s.hidden(text), 300))
	switch {
	case code == codes.DeadlineExceeded, errors.Is(err, context.DeadlineExceeded):
		return fault(fmt.Errorf("the server has not answered within %v", s.o.Timeout), "look whether it runs, and whether host and port in [qdrant] are those of its gRPC (6334)")
	case code == codes.Unavailable:
		return fault(fmt.Errorf("the server cannot be reached: %w", said), "start it, or mend the address in [qdrant]: it is that of its gRPC (6334); what was being written may be there: look, before you do it again")
	case code == codes.Unauthenticated, code == codes.PermissionDenied:
		return fault(errors.New("the server refuses the key"), "mend what key_file or key_env in [qdrant] names: it wants a key that may write")
	case errors.As(err, &full):
		return fault(errors.New("the server takes no more requests now"), fmt.Sprintf("try again in %d s", full.RetryAfterS))
	case code == codes.ResourceExhausted:
		return fault(said, "the server has no room for that: its log tells more")
	case code == codes.NotFound:
		return fault(said, "somebody has deleted the collection while it was used: look, and do it again; of one whose name ends with a number mbox memory embed --again makes the vectors anew")
	}
	return fault(fmt.Errorf("%w (%v)", said, code), "the server's log tells more; mbox needs Qdrant 1.10 or newer")
}

// hidden is a text without the key.
func (s *Store) hidden(text string) string {
	if s.o.Key == "" {
		return text
	}
	return strings.ReplaceAll(text, s.o.Key, "<redacted>")
}
