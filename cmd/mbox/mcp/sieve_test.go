package mcp

import (
	"bufio"
	"strings"
	"testing"
)

// What is no message is answered; all others go through, in their order, a line each, also
// those in an array and the last one without an end of line.
func TestSieve(t *testing.T) {
	const answer = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}` + "\n" // to nothing
	const one, two = `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","method":"x"}`
	var to, out strings.Builder
	in := one + "\r\ngarbage\n\n" + one + one + "\n[" + one + ", 7," + two + "]\n1\n[]\n[1]\n{\n" + answer + two
	if err := pass(bufio.NewReaderSize(strings.NewReader(in), 16), &to, &out); err == nil {
		t.Error("it did not end with its input")
	}
	if want := one + "\n" + one + "\n" + two + "\n" + two + "\n"; to.String() != want {
		t.Errorf("passed %q, want %q", to.String(), want)
	}
	for code, want := range map[string]int{"-32700": 3, "-32600": 4} {
		if n := strings.Count(out.String(), `{"jsonrpc":"2.0","id":null,"error":{"code":`+code+","); n != want {
			t.Errorf("%s: %d answers, want %d: %s", code, n, want, out.String())
		}
	}
}

// A line that is too long is answered and not kept.
func TestReadLine(t *testing.T) {
	in := bufio.NewReaderSize(strings.NewReader(strings.Repeat("x", 100)+"\nnext\n"), 16)
	if line, long, err := readLine(in, 50); !long || len(line) > 50 || err != nil || fault(nil, long) == "" {
		t.Errorf("%d bytes, %v %v", len(line), long, err)
	}
	if line, long, err := readLine(in, 50); long || string(line) != "next" || err != nil {
		t.Errorf("%q, %v %v", line, long, err)
	}
}
