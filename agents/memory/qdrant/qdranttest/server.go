// Package qdranttest is a fake Qdrant server for the tests of a package, made of the
// client's own generated stubs: it keeps in memory what mbox needs of one, and refuses
// what a real one refuses, and what a real one would do slowly.
//
// What is written without wait counts when the next thing is written. A filter wants an
// index of each field that it names, as a server in strict mode does.
//
// Where the variable MBOX_TEST_QDRANT names a real server (host:port of its gRPC), tests
// run on that, with the key of MBOX_TEST_QDRANT_KEY.
package qdranttest

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"

	client "github.com/qdrant/go-client/qdrant"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// The variables that name a real server, or for the processes of a test the fake one.
const (
	Variable    = "MBOX_TEST_QDRANT"
	KeyVariable = "MBOX_TEST_QDRANT_KEY"

	fakeVariable = "MBOX_TEST_QDRANT_FAKE" // that it is a fake, for the processes of a test
	fakeKey      = "open-sesame-17"
)

// Address is where the server of the tests is. The first call starts one, which ends with
// the process, where no other is named.
func Address() (host string, port int, key string) {
	ready.Do(func() {
		if os.Getenv(Variable) == "" {
			s, err := Start(fakeKey, nil)
			if err != nil {
				panic(err)
			}
			running = s
			for name, value := range map[string]string{Variable: s.Address, KeyVariable: fakeKey, fakeVariable: "1"} {
				if err := os.Setenv(name, value); err != nil {
					panic(err)
				}
			}
		}
	})
	host, text, err := net.SplitHostPort(os.Getenv(Variable))
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil {
		panic(fmt.Sprintf("%s: %v", Variable, err))
	}
	return host, port, os.Getenv(KeyVariable)
}

var (
	ready   sync.Once
	running *Server
)

// Fake is the server of Address; nil if that is a real one, or another process's.
func Fake() *Server {
	Address()
	return running
}

// Real tells whether the server of Address is a real one.
func Real() bool {
	Address()
	return os.Getenv(fakeVariable) == ""
}

// Server is a fake one.
type Server struct {
	client.UnimplementedPointsServer
	Address string

	grpc        *grpc.Server
	key         string
	mu          sync.Mutex
	collections map[string]*collection
	late        []func()
	calls       []string
}

// of is its service of collections.
type of struct {
	client.UnimplementedCollectionsServer
	s *Server
}

// Start starts one on loopback that wants a key, if that is not empty, and speaks TLS, if
// there is a certificate.
func Start(key string, certificate *tls.Certificate) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &Server{Address: listener.Addr().String(), key: key, collections: map[string]*collection{}}
	options := []grpc.ServerOption{grpc.UnaryInterceptor(s.admit), grpc.MaxRecvMsgSize(1 << 30)}
	if certificate != nil {
		options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(certificate)))
	}
	s.grpc = grpc.NewServer(options...)
	client.RegisterCollectionsServer(s.grpc, of{s: s})
	client.RegisterPointsServer(s.grpc, s)
	go func() { _ = s.grpc.Serve(listener) }()
	return s, nil
}

// Stop ends it at once.
func (s *Server) Stop() { s.grpc.Stop() }

// admit wants the key, and does one request at a time.
func (s *Server) admit(ctx context.Context, request any, info *grpc.UnaryServerInfo, do grpc.UnaryHandler) (any, error) {
	said, _ := metadata.FromIncomingContext(ctx)
	if keys := said.Get("api-key"); s.key != "" && (len(keys) != 1 || keys[0] != s.key) {
		return nil, status.Error(codes.Unauthenticated, "Must provide an API key or an Authorization bearer token")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, info.FullMethod)
	return do(ctx, request)
}

// Calls tells how many requests there were, and forgets them.
func (s *Server) Calls() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.calls)
	s.calls = nil
	return n
}

// Points tells how many points a collection has; -1 if it is not there.
func (s *Server) Points(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.collections[name]; c != nil {
		return len(c.points)
	}
	return -1
}

// Dump is all that it keeps, as text.
func (s *Server) Dump() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := ""
	for name, c := range s.collections {
		for id, p := range c.points {
			text += fmt.Sprintln(name, id, p.payload, p.vector)
		}
	}
	return text
}

func wrong(format string, a ...any) error {
	return status.Errorf(codes.InvalidArgument, "Wrong input: "+format, a...)
}
