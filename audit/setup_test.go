package audit

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mbox/mailbox/durable"
)

const testMailbox = "00112233445566778899aabbccddeeff"

// clock is a clock that a test sets.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func newLedger(t testing.TB, c *clock) *Ledger {
	t.Helper()
	home := filepath.Join(t.TempDir(), "home")
	makeHome(t, home)
	return openLedger(t, home, c)
}

// makeHome makes what a ledger needs of a home.
func makeHome(t testing.TB, home string) {
	t.Helper()
	must(t, durable.MkdirAll(sharedDir(home), durable.None))
	must(t, durable.MkdirAll(filepath.Dir(ChainPath(home)), durable.None))
	for _, name := range LockNames() {
		must(t, durable.Stage(filepath.Join(filepath.Dir(ChainPath(home)), name), make([]byte, headSize), durable.None))
	}
}

func openLedger(t testing.TB, home string, c *clock) *Ledger {
	t.Helper()
	o := Options{}
	if c != nil {
		o.Now = c.Now
	}
	l, err := Open(home, testMailbox, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func note(agent, text string) Entry {
	return Entry{Agent: agent, Event: AgentState, Action: text, Details: Details(ThisWriter())}
}

func appendNote(t testing.TB, l *Ledger, agent, text string) Line {
	t.Helper()
	line, err := l.Append(context.Background(), note(agent, text))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Copy(context.Background(), time.Second); err != nil {
		t.Fatal(err)
	}
	return line
}

// wholeChain reads the whole ledger and returns the actions of its lines.
func wholeChain(t testing.TB, l *Ledger) []string {
	t.Helper()
	r := l.Read(Position{})
	defer r.Close()
	var said []string
	for {
		line, err := r.Next()
		if errors.Is(err, io.EOF) {
			if r.Broken() != nil {
				t.Errorf("the chain breaks: %v", r.Broken())
			}
			return said
		}
		if err != nil {
			t.Fatal(err)
		}
		e, bad := line.Decode()
		if err := errors.Join(bad, line.Strict()); err != nil {
			t.Fatalf("seq %d: %v", line.Seq, err)
		}
		said = append(said, e.Action)
	}
}

// sameCopies checks that every agent's copy holds its lines, all of them.
func sameCopies(t testing.TB, l *Ledger) {
	t.Helper()
	for folder, n := range prefixCopies(t, l) {
		if n > 0 {
			t.Errorf("the copy of %s lacks %d bytes", folder, n)
		}
	}
}

// prefixCopies checks that every copy holds the first of its agent's lines, and
// tells how many bytes each lacks.
func prefixCopies(t testing.TB, l *Ledger) (behind map[string]int64) {
	t.Helper()
	c, err := l.CheckCopies(t.Context())
	if err == nil {
		_, err = c.run(l.Read(Position{}), math.MaxInt64, math.MaxInt)
	}
	if err != nil {
		t.Fatal(err)
	}
	differ, _, err := c.Finish()
	for _, d := range differ {
		t.Errorf("copy: %+v", *d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c.lacks
}

func newestPath(t testing.TB, l *Ledger) string {
	t.Helper()
	files, err := dayFiles(sharedDir(l.home))
	if err != nil || len(files) == 0 {
		t.Fatalf("day files: %v %v", files, err)
	}
	return filepath.Join(sharedDir(l.home), files[len(files)-1])
}

func addBytes(t testing.TB, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
