package gateway

import (
	"context"
	"testing"

	"mbox/audit"
)

// line reads a line of the mailbox's ledger, the last one.
func (p *place) line() audit.Line {
	p.Helper()
	for line, err := range p.box.Ledger().Backward() {
		if err != nil {
			p.Fatal(err)
		}
		return line
	}
	p.Fatal("the ledger is empty")
	return audit.Line{}
}

// A feed that has lost its place and begins again further on keeps nothing of before:
// who is behind reads the ledger, and who waits for a task looks at it.
func TestFeedBeginsAgain(t *testing.T) {
	p := newPlace(t)
	p.sent("o", titled("x", "coder"))
	line := p.line()
	f := newFeed()
	changed, forget := f.watch("some")
	defer forget()
	for seq := int64(1); seq <= 5; seq++ {
		line.Seq = seq
		f.put(line)
	}
	f.begin(8)
	select {
	case <-changed:
	default:
		t.Error("who waits is not told that lines may have been missed")
	}
	line.Seq = 9
	f.put(line)
	for seq := int64(0); seq < 8; seq++ {
		if lines, _, ok := f.since(seq); ok {
			t.Errorf("behind %d it has %d lines, and lacks 6, 7 and 8", seq, len(lines))
		}
	}
	if lines, _, ok := f.since(8); !ok || len(lines) != 1 || lines[0].seq != 9 {
		t.Error(lines, ok)
	}
}

// A stream that begins with what comes now waits for the feed to know what that is: it
// does not take the whole ledger for it.
func TestStreamBeginsNow(t *testing.T) {
	f := newFeed()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if at, err := f.newest(gone); err == nil {
		t.Errorf("a feed that has not begun is at %d", at)
	}
	f.begin(7)
	if at, err := f.newest(t.Context()); err != nil || at != 7 {
		t.Error(at, err)
	}
}
