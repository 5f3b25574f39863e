package bluebubbles

import (
	"context"
	"crypto/subtle"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

const (
	pageRows = 50
	maxPages = 1000 // of one look
	maxCall  = 1 << 20
	maxChats = 10_000 // that are remembered
)

// calls is what the server's calls come to.
type calls struct {
	look chan struct{} // has an element when there may be something
	read chan string   // guids of messages that were read
}

// Receive implements chat.Channel.
func (c *channel) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	p, err := restore(kept, time.Now())
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancelCause(ctx)
	heard := calls{make(chan struct{}, 1), make(chan string)}
	var serving sync.WaitGroup
	if c.listen != "" {
		door, err := web.Listen(c.Settings, c.listen)
		if err != nil {
			stop(nil)
			return err
		}
		serving.Go(func() { stop(door.Serve(ctx, c.handler(ctx, heard))) })
		if err := c.register(ctx, door.Address()); err != nil {
			c.remark("the server does not call us, and is asked once a minute only: %v", err)
		}
	}
	err = c.follow(ctx, p, kept, heard, in)
	stop(nil)
	serving.Wait()
	return err
}

// follow looks for messages until the context ends.
func (c *channel) follow(ctx context.Context, p *place, kept string, heard calls, in chat.Inbox) error {
	ticks := time.NewTicker(c.every)
	defer ticks.Stop()
	for {
		if err := c.look(ctx, p, &kept, in); err != nil {
			return err
		}
		for waits := true; waits; {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case guid := <-heard.read:
				if err := in.Seen(ctx, guid); err != nil {
					return err
				}
			case <-heard.look:
				waits = false
			case <-ticks.C:
				waits = false
			}
		}
	}
}

// query is what POST /message/query takes. chat.participants is not asked for:
// version 1.9.9 looks for them without end in a group.
type query struct {
	Chat   string   `json:"chatGuid,omitzero"`
	After  int64    `json:"after"`
	Sort   string   `json:"sort"`
	Limit  int      `json:"limit"`
	Offset int      `json:"offset"`
	With   []string `json:"with"`
}

// rows asks for a page of messages, the oldest first. n is how many the server has
// sent, those too that nobody can read.
func (c *channel) rows(ctx context.Context, chatGUID string, after int64, offset int) (page []row, n int, err error) {
	var data []jsontext.Value
	q := query{chatGUID, max(after, 0), "ASC", pageRows, offset, []string{"chat", "attachment"}}
	if err := c.call(ctx, callTime, http.MethodPost, q, &data, "message", "query"); err != nil {
		return nil, 0, err
	}
	for _, text := range data {
		var r row
		if err := json.Unmarshal(text, &r); err != nil {
			c.remark("a message cannot be read: %s", c.clean(err.Error()))
			continue
		}
		page = append(page, r)
	}
	return page, len(data), nil
}

// look takes what there is behind the place, page by page, and keeps it.
func (c *channel) look(ctx context.Context, p *place, kept *string, in chat.Inbox) error {
	after, newest := p.From, int64(0)
	for offset, pages := 0, 0; pages < maxPages; pages++ {
		page, n, err := c.rows(ctx, "", after, offset)
		if err != nil {
			return err
		}
		for _, r := range page {
			if r.Created < after || p.has(r.GUID) {
				continue
			}
			newest = max(newest, r.Created)
			if !r.said() || !c.listens(r) {
				continue
			}
			if err := in.Take(ctx, c.message(r)); err != nil {
				return err
			}
			p.add(r)
		}
		p.pass(newest, time.Now())
		if text := p.String(); text != *kept {
			if err := in.Keep(ctx, text); err != nil {
				return err
			}
			*kept = text
		}
		if offset += n; n < pageRows {
			break
		}
	}
	return nil
}

// listens tells whether a row was said where the bridge listens: by one person, or
// in a group of its rooms. It remembers in which chat a person writes.
func (c *channel) listens(r row) bool {
	room, group := r.group()
	if group {
		return slices.Contains(c.Rooms, room)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.chats) >= maxChats {
		clear(c.chats)
	}
	c.chats[r.Handle.Address] = room
	return true
}

// handler hears the server's calls. Nothing of a call becomes a message.
func (c *channel) handler(ctx context.Context, heard calls) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, ok := strings.CutPrefix(r.URL.Path, c.path())
		if !ok || subtle.ConstantTimeCompare([]byte(secret), []byte(c.secret)) != 1 || r.Method != http.MethodPost {
			http.NotFound(w, r)
			return
		}
		select {
		case heard.look <- struct{}{}:
		default: // it will look anyway
		}
		for _, guid := range wasRead(io.LimitReader(r.Body, maxCall)) {
			select {
			case heard.read <- guid:
			case <-ctx.Done():
			case <-r.Context().Done():
			}
		}
	})
}

// wasRead is the message of ours that a call says was read: at most one.
func wasRead(body io.Reader) []string {
	var call struct {
		Data row `json:"data"`
	}
	err := json.UnmarshalRead(body, &call)
	if d := call.Data; err != nil || !d.FromMe || d.Read <= 0 || d.GUID == "" || len(d.GUID) > maxGUID {
		return nil
	}
	return []string{call.Data.GUID}
}

// path is where the server calls this bridge, without the secret.
func (c *channel) path() string { return "/bluebubbles/" + url.PathEscape(c.Name) + "/" }

// events are what the server is to call for.
var events = []string{"new-message", "updated-message"}

// webhook is a row of the server's table.
type webhook struct {
	ID     int      `json:"id"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
}

// register makes the server call us. It has no way to change a row, and takes a URL
// that it knows without a look at its events: so a row of ours that is not as it
// should be is deleted first, as are those from before another port or password.
func (c *channel) register(ctx context.Context, address string) error {
	var there []webhook
	if err := c.call(ctx, callTime, http.MethodGet, nil, &there, "webhook"); err != nil {
		return err
	}
	ours := webhook{URL: "http://" + address + c.path() + c.secret, Events: events}
	registered := false
	for _, w := range there {
		slices.Sort(w.Events)
		switch {
		case !registered && w.URL == ours.URL && slices.Equal(w.Events, events):
			registered = true
		case c.owns(w.URL, address):
			if err := c.call(ctx, callTime, http.MethodDelete, nil, nil, "webhook", strconv.Itoa(w.ID)); err != nil {
				return err
			}
		}
	}
	if registered {
		return nil
	}
	return c.call(ctx, callTime, http.MethodPost, map[string]any{"url": ours.URL, "events": events}, nil, "webhook")
}

// owns tells whether a registered URL is one of this bridge, on this machine.
func (c *channel) owns(registered, address string) bool {
	u, err := url.Parse(registered)
	if err != nil || !strings.HasPrefix(u.EscapedPath(), c.path()) {
		return false
	}
	own, err := url.Parse("http://" + address)
	return err == nil && u.Hostname() == own.Hostname()
}
