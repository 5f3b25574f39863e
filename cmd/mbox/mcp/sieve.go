package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// sieve is the input of a client without the lines that are no messages, which it answers
// by itself: at the first such line the SDK would end, and what was asked before would get
// no answer. It reads on in a goroutine that ends with the input, or with the first line
// after Close.
type sieve struct {
	*io.PipeReader
	in io.Closer
}

func (s *sieve) Close() error { return errors.Join(s.PipeReader.Close(), s.in.Close()) }

// sift makes the sieve of an input, whose answers go to out.
func sift(in io.ReadCloser, out io.Writer) *sieve {
	messages, to := io.Pipe()
	go func() { to.CloseWithError(pass(bufio.NewReader(in), to, out)) }()
	return &sieve{messages, in}
}

// pass hands the messages on, a line each, until the input ends. Several in an array, as
// older clients send, are taken apart: each is answered by itself, also where the protocol
// knows none any more, which ends the SDK.
func pass(in *bufio.Reader, to, out io.Writer) error {
	for {
		line, long, err := readLine(in, sdk.DefaultMaxLineLength-1)
		for _, one := range apart(line, long) {
			if err := passOne(one, long, to, out); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// apart is what a line holds: one value, or those of an array that has some.
func apart(line []byte, long bool) []json.RawMessage {
	var several []json.RawMessage
	if long || json.Unmarshal(line, &several) != nil || len(several) == 0 {
		return []json.RawMessage{line}
	}
	return several
}

func passOne(one []byte, long bool, to, out io.Writer) (err error) {
	switch answer := fault(one, long); {
	case answer != "":
		_, err = io.WriteString(out, answer)
	case len(one) > 0 && !fromNobody(one):
		_, err = to.Write(append(slices.Clone(one), '\n'))
	}
	return err
}

// readLine is the next line, without what stands around it; of one that is longer than so
// many bytes only that it is.
func readLine(in *bufio.Reader, most int) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > most; !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), long, err
		}
	}
}

// fault is the answer to a line that is no message; "" for one that is, and for an empty
// one. Whose it is nobody knows, so its id is null.
func fault(line []byte, long bool) string {
	code, text := jsonrpc.CodeParseError, "no JSON: a message is one line"
	switch {
	case long:
		text = "the line is too long"
	case len(line) == 0:
		return ""
	case !json.Valid(line):
	case isMessage(line), fromNobody(line):
		return ""
	default:
		code, text = jsonrpc.CodeInvalidRequest, "no message of JSON-RPC 2.0"
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`+"\n", code, text)
}

// fromNobody tells whether JSON is an answer to nothing that was asked. Nobody answers that.
func fromNobody(line []byte) bool {
	var one struct {
		ID, Method, Result, Error json.RawMessage
	}
	return json.Unmarshal(line, &one) == nil && one.Method == nil && (one.ID == nil || string(one.ID) == "null") && (one.Result != nil || one.Error != nil)
}

func isMessage(one []byte) bool {
	_, err := jsonrpc.DecodeMessage(one)
	return err == nil
}

// shared is an output of several writers, each of which writes whole lines.
type shared struct {
	io.WriteCloser
	mu sync.Mutex
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.WriteCloser.Write(p)
}
