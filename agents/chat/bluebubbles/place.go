package bluebubbles

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"mbox/agents/chat"
)

const (
	lookBack  = 120 * time.Minute // how much later than its date says a message may come
	firstBack = 30 * time.Minute  // what the first look of all sees
	maxPlace  = 4000              // bytes of a place
)

// A place says how far the server was read: all messages with a date before From
// were, and of those behind it the ones that are listed. It is what the channel
// keeps, as JSON. With many messages in two hours it reaches back less.
type place struct {
	From  int64   `json:"from"`  // ms since 1970
	Taken []taken `json:"taken"` // Invariant: by date; none before From
}

type taken struct {
	GUID string `json:"guid"`
	At   int64  `json:"at"`
}

func restore(kept string, now time.Time) (*place, error) {
	if kept == "" {
		return &place{From: now.Add(-firstBack).UnixMilli()}, nil
	}
	p := &place{}
	if err := json.Unmarshal([]byte(kept), p); err != nil || p.From <= 0 {
		return nil, fmt.Errorf("the place that was kept is none: %w: %w", err, chat.ErrSetup)
	}
	return p, nil
}

func (p *place) has(guid string) bool {
	return slices.ContainsFunc(p.Taken, func(t taken) bool { return t.GUID == guid })
}

func (p *place) add(r row) {
	i, _ := slices.BinarySearchFunc(p.Taken, r.Created+1, func(t taken, at int64) int { return cmp.Compare(t.At, at) })
	p.Taken = slices.Insert(p.Taken, i, taken{r.GUID, r.Created})
}

// pass moves From up behind what was seen. What is dated in the future moves it to
// now at most: what is said meanwhile is not missed.
func (p *place) pass(newest int64, now time.Time) {
	p.From = max(p.From, min(newest, now.UnixMilli())-lookBack.Milliseconds())
	p.forget()
}

func (p *place) forget() {
	p.Taken = slices.DeleteFunc(p.Taken, func(t taken) bool { return t.At < p.From })
}

// String is what is kept. What there is no room for is forgotten, the oldest first.
func (p *place) String() string {
	for {
		text, err := json.Marshal(p)
		if err != nil {
			panic("bluebubbles: a place is no JSON: " + err.Error())
		}
		if len(text) <= maxPlace {
			return string(text)
		}
		oldest := p.Taken[0].At
		if oldest == p.Taken[len(p.Taken)-1].At { // then it comes again: the bridge knows it
			p.Taken = p.Taken[1:]
			continue
		}
		p.From = max(p.From, oldest+1)
		p.forget()
	}
}
