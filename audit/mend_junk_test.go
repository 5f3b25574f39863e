package audit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestMendJunk finds what stands before, behind and at the end of junk that is
// longer than any line, in a bounded amount of memory.
func TestMendJunk(t *testing.T) {
	const size = 24 << 20
	l := newLedger(t, &clock{time.Date(2026, 2, 16, 10, 0, 0, 0, time.UTC)})
	appendNote(t, l, "coder", "one")
	begin := Position{File: "2026-02-16.jsonl"}
	lines := [][]byte{}
	for _, tx := range []string{"tx1", "tx2", "tx3"} {
		e := Entry{TS: "2026-02-16T10:00:00.000Z", Seq: 9, Prev: Genesis("x"), V: Format, Agent: "coder", Event: TaskPicked, Details: Details(map[string]string{"tx": tx})}
		raw, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, raw)
	}
	junk := strings.Repeat("\x00", size)
	// A hole has taken the newline before tx3. tx2 has no newline at the end.
	for _, part := range []string{string(lines[0]), "\n", junk, string(lines[2]), "\n", string(lines[1])} {
		addBytes(t, newestPath(t, l), part)
	}
	info, err := os.Stat(newestPath(t, l))
	if err != nil {
		t.Fatal(err)
	}
	var txs []string
	l.stands = func(found []string) (string, error) { txs = found; return "", nil }
	n := allocated(func() { _, err = l.checkCut(begin, info.Size()) })
	if err != nil || strings.Join(txs, " ") != "tx1 tx3 tx2" || n > size/3 {
		t.Errorf("%v %v, %d bytes", err, txs, n)
	}
	for tx, want := range map[string]bool{"tx1": true, "tx2": true, "tx3": true, "tx4": false} {
		var cut bool
		n := allocated(func() { cut, err = l.Cut(tx) })
		if err != nil || cut != want || n > size/3 {
			t.Errorf("%s: %v, %v; %d bytes", tx, cut, err, n)
		}
	}
}

// TestContains finds a text wherever the reads that bring it part it.
func TestContains(t *testing.T) {
	text := []byte(`"tx":"0123"`)
	places := []int{0, 1, 600 << 10}
	for i := range text {
		places = append(places, 256<<10-i)
	}
	for _, before := range places {
		data := quotesBefore(text, before)
		for name, in := range map[string]io.Reader{
			"at once":       bytes.NewReader(data),
			"in halves":     iotest.HalfReader(bytes.NewReader(data)),
			"with an error": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			if ok, err := contains(in, text); !ok || err != nil {
				t.Errorf("%d bytes before, %s: %v %v", before, name, ok, err)
			}
		}
		if ok, err := contains(bytes.NewReader(data[:before+len(text)-1]), text); ok || err != nil {
			t.Errorf("%d bytes before, cut: %v %v", before, ok, err)
		}
	}
	if _, err := contains(iotest.ErrReader(os.ErrClosed), text); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

func quotesBefore(text []byte, n int) []byte {
	return append(append(bytes.Repeat([]byte{'"'}, n), text...), '\n')
}
