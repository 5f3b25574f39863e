package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mbox/audit"
	"mbox/mailbox"
)

// caught makes a reader's call on the mailbox.
func (p *place) caught(query map[string][]string) *call {
	p.Helper()
	s := p.door.borrow()
	p.Cleanup(s.asked.Done)
	return &call{serving: s, door: p.door, ctx: p.Context(), query: query}
}

func (p *place) many(lines int) {
	p.Helper()
	for range lines {
		if _, err := p.box.Submit(p.Context(), &mailbox.Task{Task: mailbox.Request{Title: "x"}}); err != nil {
			p.Fatal(err)
		}
	}
}

// Nobody has more of the ledger read for him at a time than mostLines, whatever he looks
// for; he goes on where that ended.
func TestEntriesInPieces(t *testing.T) {
	p := newPlace(t)
	defer func(n int) { mostLines = n }(mostLines)
	mostLines = 4
	p.many(10)
	for since, want := range map[int]float64{0: 4, 4: 8, 8: 10, 10: 10, 99: 99} {
		got := p.want(200, "r", "GET", fmt.Sprintf("/audit/entries?agent=nobody&since=%d", since), "")
		if got["seq"] != want || len(got["entries"].([]any)) != 0 {
			t.Errorf("since %d: %v, want seq %v", since, got, want)
		}
	}
}

// Where somebody has ended others begin, if the ledger still has that place.
func TestPlaces(t *testing.T) {
	p := newPlace(t)
	p.many(12)
	var all []audit.Line
	for line, err := range p.box.Ledger().Read(audit.Position{}).Lines() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, line)
	}
	c := p.caught(nil)
	behind := func(seq int64) (seqs []int64) {
		t.Helper()
		err := c.linesBehind(seq, func(f frame) bool {
			if len(p.door.finding) != 1 {
				t.Error("it reads out of turn")
			}
			seqs = append(seqs, f.seq)
			return len(seqs) < 2
		})
		if err != nil {
			t.Fatal(err)
		}
		return seqs
	}
	if got := behind(3); !slices.Equal(got, []int64{4, 5}) {
		t.Errorf("behind 3: %v", got)
	}
	if at, err := c.place(6); err != nil || at != all[4].End {
		t.Errorf("%+v, %v; want where the last one ended", at, err)
	}
	moved := all[6].End
	moved.Checksum = all[5].End.Checksum
	c.read.put(moved)
	if got := behind(8); !slices.Equal(got, []int64{9, 10}) {
		t.Errorf("behind 8, with a place that is not there: %v", got)
	}
	if got := behind(4); !slices.Equal(got, []int64{5, 6}) {
		t.Errorf("behind 4: %v", got)
	}
}

// A stream that catches up has the ledger read in turn with others, and sends while it is
// somebody else's: one who takes nothing holds up nobody.
func TestStreamCatchesUpInTurn(t *testing.T) {
	p := newPlace(t)
	defer func(n int) { mostLines = n }(mostLines)
	mostLines = 100

	const lines = kept + 50
	p.many(lines)
	c := p.caught(nil)
	gone, leave := context.WithCancel(t.Context())
	c.ctx = gone
	seen := 0
	c.stream(0, func(data []byte) error {
		if len(p.door.finding) > 0 {
			t.Error("it sends in its turn")
		}
		for frame := range strings.SplitSeq(strings.TrimSuffix(string(data), "\n\n"), "\n\n") {
			if seen++; !strings.HasPrefix(frame, fmt.Sprintf("id: %d\n", seen)) {
				t.Errorf("frame %d is %.20q", seen, frame)
			}
		}
		if seen >= lines {
			leave()
			return errors.New("gone")
		}
		return nil
	})
	if seen != lines {
		t.Errorf("%d of %d lines were sent", seen, lines)
	}
	p.door.finding <- struct{}{}
	defer p.door.finding.leave()
	if err := c.linesBehind(0, func(frame) bool { t.Error("out of turn"); return false }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
