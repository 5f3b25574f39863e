package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	pollTime = 30 * time.Second // the server holds a sync that has nothing to tell
	maxPlace = 4 << 10
)

// batch is what happened since a sync.
type batch struct {
	Next  string `json:"next_batch"`
	Rooms struct {
		Join   map[string]joined         `json:"join"`
		Invite map[string]jsontext.Value `json:"invite"`
	} `json:"rooms"`
}

type joined struct {
	Timeline struct {
		Events  []jsontext.Value `json:"events"`
		Limited bool             `json:"limited"` // there are more before these
		Prev    string           `json:"prev_batch"`
	} `json:"timeline"`
	Ephemeral struct {
		Events []jsontext.Value `json:"events"`
	} `json:"ephemeral"`
}

// wanted are the types of events that tell us something.
var wanted = [...]string{"m.room.message", "m.room.encrypted", "m.room.encryption", "m.room.member"}

// filter is what a sync is to tell: so many of the newest events of each room.
func filter(limit int) string {
	type only struct {
		Types []string `json:"types"`
		Limit int      `json:"limit,omitzero"`
	}
	type rooms struct {
		Timeline  only `json:"timeline"`
		State     only `json:"state"`
		Ephemeral only `json:"ephemeral"`
		Account   only `json:"account_data"`
	}
	none := only{Types: []string{}}
	text, err := json.Marshal(struct {
		Presence only  `json:"presence"`
		Account  only  `json:"account_data"`
		Room     rooms `json:"room"`
	}{none, none, rooms{only{wanted[:], limit}, none, only{Types: []string{"m.receipt"}}, none}})
	if err != nil {
		panic("matrix: the filter is no JSON: " + err.Error())
	}
	return string(text)
}

// sync asks for what happened since a place, and waits for it. Where there is no
// place yet it asks where we are.
func (c *channel) sync(ctx context.Context, since string) (*batch, error) {
	query, limit, poll := url.Values{"set_presence": {"offline"}}, 1, time.Duration(0)
	if since != "" {
		limit, poll = 50, pollTime
		query.Set("since", since)
	}
	query.Set("filter", filter(limit))
	query.Set("timeout", strconv.FormatInt(poll.Milliseconds(), 10))
	a, b := get(query, "sync"), &batch{}
	a.time = callTime + poll
	if err := c.call(ctx, a, b); err != nil {
		return nil, err
	}
	if b.Next == "" || len(b.Next) > maxPlace {
		return nil, fmt.Errorf("%s: a sync without a place that can be kept", c.server.Host())
	}
	return b, nil
}

const (
	pageSize   = 100
	maxMissed  = 32 << 20 // bytes of what was said in a room while nobody listened
	maxNothing = 20       // pages without an event
)

var errLong = errors.New("more was said than can be caught up with; the oldest of it is left out")

// missed are a room's events between the place where the last sync ended and that
// where the newest begin, the oldest first. It goes backwards, and no further than
// to where we came into the room.
func (c *channel) missed(ctx context.Context, room, since, before, me string) (events []event, err error) {
	size, nothing := 0, 0
	for before != "" && before != since {
		var page struct {
			Chunk []jsontext.Value `json:"chunk"`
			End   string           `json:"end"`
		}
		query := url.Values{"dir": {"b"}, "from": {before}, "to": {since}, "limit": {strconv.Itoa(pageSize)}, "filter": {pageFilter()}}
		if err := c.call(ctx, get(query, "rooms", room, "messages"), &page); err != nil {
			return nil, err
		}
		if nothing++; len(page.Chunk) > 0 {
			nothing = 0
		}
		for _, raw := range page.Chunk {
			e, ok := parseEvent(raw)
			if !ok || e.Type == "m.room.member" && !e.entered(me) {
				continue
			}
			events = append(events, e)
			if size += len(raw); e.entered(me) {
				page.End = ""
				break
			}
		}
		switch {
		case size > maxMissed:
			err, page.End = errLong, ""
		case page.End == before || nothing > maxNothing:
			page.End = ""
		}
		before = page.End
	}
	slices.Reverse(events)
	return events, err
}

func pageFilter() string {
	text, err := json.Marshal(map[string][]string{"types": wanted[:]})
	if err != nil {
		panic("matrix: the filter is no JSON: " + err.Error())
	}
	return string(text)
}
