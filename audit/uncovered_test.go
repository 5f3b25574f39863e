package audit

import (
	"context"
	"strings"
	"testing"
)

// What the journal does not cover does not count, whether it continues the chain,
// lacks its newline, or lies behind a hole.
func TestUncoveredLines(t *testing.T) {
	needJournal(t)
	for name, cut := range map[string]func(data []byte, second, third int64) []byte{
		"whole":           func(d []byte, _, _ int64) []byte { return d },
		"without newline": func(d []byte, _, third int64) []byte { return d[:third-1] },
		"behind a hole":   func(d []byte, second, third int64) []byte { clear(d[second : second+100]); return d },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t, nil)
			appendNote(t, l, "coder", "one")
			second := l.End()
			appendNote(t, l, "coder", "two")
			third := l.End()
			appendNote(t, l, "coder", "three")
			journal := readFile(t, JournalPath(l.home))
			clear(journal[2*journalBlock:])
			writeFile(t, JournalPath(l.home), journal)
			writeFile(t, newestPath(t, l), cut(readFile(t, newestPath(t, l)), second.Offset, third.Offset))
			l.boot = "another boot"
			if _, err := l.Replay(context.Background(), true); err != nil {
				t.Fatal(err)
			}
			for line, err := range l.Backward() {
				if err != nil || line.Seq != 1 {
					t.Errorf("after the replay seq %d: %v", line.Seq, err)
				}
			}
			if err := l.Recover(context.Background()); err != nil {
				t.Fatal(err)
			}
			if said := wholeChain(t, l); len(said) != 2 || said[0] != "one" || !strings.Contains(said[1], "set aside") {
				t.Errorf("%q", said)
			}
		})
	}
}
