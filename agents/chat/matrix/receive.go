package matrix

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"mbox/agents/chat"
)

// Receive implements chat.Channel. The place is the next_batch of a sync.
func (c *channel) Receive(ctx context.Context, kept string, in chat.Inbox) error {
	who, err := c.enter(ctx)
	if err != nil {
		return err
	}
	names, err := c.gather(ctx)
	if err != nil {
		return err
	}
	for {
		begun := time.Now()
		b, err := c.sync(ctx, kept)
		if err != nil {
			return err
		}
		if err := c.invited(ctx, b, names); err != nil {
			return err
		}
		r := &round{channel: c, in: in, me: who.User, since: kept, names: names, pairs: map[[2]string]bool{}}
		if kept != "" {
			err = r.take(ctx, b)
		}
		if err == nil && b.Next != kept {
			err = in.Keep(ctx, b.Next)
		}
		if err != nil {
			return err
		}
		if kept != "" && (r.taken == 0 || b.Next == kept) && !chat.Sleep(ctx, time.Until(begun.Add(leastPoll))) {
			return ctx.Err()
		}
		kept = b.Next
	}
}

// leastPoll is between two syncs of which the first brought nothing, or no new place:
// a server that does not wait is not asked without end.
const leastPoll = 200 * time.Millisecond

// invited goes where the settings want us to be. Who invites does not matter: who is
// heard there is said by others.
func (c *channel) invited(ctx context.Context, b *batch, names map[string]string) error {
	for _, id := range slices.Sorted(maps.Keys(b.Rooms.Invite)) {
		if names[id] == "" {
			c.remark("an invitation to %.*q is ignored: rooms does not name it", maxID, id)
			continue
		}
		err := c.join(ctx, id)
		if err == nil {
			err = c.open(ctx, id)
		}
		if err != nil && !settled(err) {
			return err
		}
		if err != nil {
			c.remark("%s: %v", names[id], err)
		}
	}
	return nil
}

// round hands over what one sync brought.
type round struct {
	*channel
	in    chat.Inbox
	me    string
	since string
	names map[string]string  // of the rooms in the settings, by id
	pairs map[[2]string]bool // rooms and people, as pair has told
	taken int
}

func (r *round) take(ctx context.Context, b *batch) error {
	for _, id := range slices.Sorted(maps.Keys(b.Rooms.Join)) {
		room := b.Rooms.Join[id]
		events, err := r.events(ctx, id, &room)
		if err != nil {
			return err
		}
		for _, e := range events {
			if err := r.event(ctx, id, &e); err != nil {
				return err
			}
		}
		for _, raw := range room.Ephemeral.Events {
			for _, sent := range readers(raw, r.me) {
				if err := r.in.Seen(ctx, sent); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// events are all that happened in a room since the last sync and since we are in it,
// in order.
func (r *round) events(ctx context.Context, id string, room *joined) (events []event, err error) {
	for _, raw := range room.Timeline.Events {
		if e, ok := parseEvent(raw); ok {
			events = append(events, e)
		}
	}
	inside := slices.IndexFunc(events, func(e event) bool { return e.entered(r.me) })
	if room.Timeline.Limited && inside < 0 {
		before, err := r.missed(ctx, id, r.since, room.Timeline.Prev, r.me)
		if err != nil && !settled(err) && !errors.Is(err, errLong) {
			return nil, fmt.Errorf("what was said meanwhile: %w", err)
		}
		if err != nil {
			r.remark("%.*q: what was said meanwhile: %v", maxID, id, err)
		}
		events = append(before, events...)
	}
	for i, e := range slices.Backward(events) {
		if e.entered(r.me) {
			return events[i:], nil
		}
	}
	return events, nil
}

func (r *round) event(ctx context.Context, id string, e *event) error {
	switch {
	case e.Type == "m.room.encryption" && e.StateKey != nil:
		r.close(id)
		fallthrough
	case e.Type == "m.room.encrypted":
		r.remark("%.*q: %v: what is said there is not heard", maxID, id, errEncrypted)
		return nil
	}
	m, ok := r.parseMessage(e, r.me)
	if !ok || r.isClosed(id) {
		return nil
	}
	var err error
	if m.In, err = r.conversation(ctx, id, m.From, m.In.Thread); err != nil {
		return err
	}
	if r.isClosed(id) {
		return nil
	}
	r.taken++
	return r.in.Take(ctx, m)
}

// conversation tells to which one belongs what somebody says in a room.
func (r *round) conversation(ctx context.Context, id, from, thread string) (chat.Conversation, error) {
	if name := r.names[id]; name != "" {
		return chat.Conversation{Peer: name, Group: true, Thread: thread}, nil
	}
	key := [2]string{id, from}
	pair, known := r.pairs[key]
	if !known {
		var err error
		if pair, err = r.pair(ctx, id, from); err != nil {
			return chat.Conversation{}, err
		}
		if pair {
			if err = r.open(ctx, id); err != nil && !settled(err) {
				return chat.Conversation{}, err
			}
		}
		r.pairs[key] = pair
	}
	if pair {
		return direct(from, id, thread), nil
	}
	return chat.Conversation{Peer: id, Group: true, Thread: thread}, nil
}
