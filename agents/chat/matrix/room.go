package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/agents/chat"
)

var (
	errEncrypted = errors.New("the room is encrypted, and only rooms that are not can be used")
	errMembers   = errors.New("the conversation is with one person, and others are in its room")
)

// resolve finds the id of a room.
func (c *channel) resolve(ctx context.Context, room string) (string, error) {
	if strings.HasPrefix(room, "!") {
		return room, nil
	}
	c.mu.Lock()
	id := c.ids[room]
	c.mu.Unlock()
	if id != "" {
		return id, nil
	}
	var found struct {
		ID string `json:"room_id"`
	}
	if err := c.call(ctx, get(nil, "directory", "room", room), &found); err != nil {
		return "", err
	}
	if !isID(found.ID, '!') {
		return "", fmt.Errorf("%s: an id that is none for a room", c.server.Host())
	}
	c.mu.Lock()
	c.ids[room] = found.ID
	c.mu.Unlock()
	return found.ID, nil
}

// isID tells whether a text may be an id of this kind.
func isID(id string, sigil byte) bool { return len(id) > 1 && len(id) <= maxID && id[0] == sigil }

// joined are the rooms that we are in.
func (c *channel) joined(ctx context.Context) (map[string]bool, error) {
	var in struct {
		Rooms []string `json:"joined_rooms"`
	}
	if err := c.call(ctx, get(nil, "joined_rooms"), &in); err != nil {
		return nil, err
	}
	rooms := map[string]bool{}
	for _, id := range in.Rooms {
		rooms[id] = true
	}
	return rooms, nil
}

// gather enters the rooms of the settings, as far as it may, and returns their names
// by id. Aliases are looked up anew: they may name another room by now.
func (c *channel) gather(ctx context.Context) (map[string]string, error) {
	names := map[string]string{}
	if len(c.Rooms) == 0 {
		return names, nil
	}
	c.mu.Lock()
	clear(c.ids)
	c.mu.Unlock()
	in, err := c.joined(ctx)
	if err != nil {
		return nil, err
	}
	for _, room := range c.Rooms {
		id, err := c.resolve(ctx, room)
		if err == nil {
			names[id] = room
			if !in[id] {
				err = c.join(ctx, room)
			}
		}
		if err == nil {
			err = c.open(ctx, id)
		}
		if err != nil {
			if !settled(err) {
				return nil, err
			}
			c.remark("%s: %v", room, err)
		}
	}
	return names, nil
}

// settled tells whether an error is the server's word about a room, and not a sign
// that it, our login or the way there is ill.
func settled(err error) bool {
	var f *fault
	if errors.Is(err, errEncrypted) || !errors.As(err, &f) {
		return errors.Is(err, errEncrypted)
	}
	return f.Code != "" && f.status/100 == 4 && f.status != http.StatusTooManyRequests && !errors.Is(err, chat.ErrSetup)
}

func (c *channel) join(ctx context.Context, room string) error {
	return c.call(ctx, ask{method: http.MethodPost, path: client("join", room), in: struct{}{}}, nil)
}

// open returns an error where a room is encrypted.
func (c *channel) open(ctx context.Context, id string) error {
	if c.isClosed(id) {
		return errEncrypted
	}
	err := c.call(ctx, get(nil, "rooms", id, "state", "m.room.encryption"), nil)
	switch {
	case err == nil:
		c.close(id)
		return errEncrypted
	case says(err, "M_NOT_FOUND"):
		return nil
	}
	return err
}

// close notes that a room is encrypted.
func (c *channel) close(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed[id] = true
}

func (c *channel) isClosed(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed[id]
}

// pair tells whether exactly we and one other person are in a room.
func (c *channel) pair(ctx context.Context, id, other string) (bool, error) {
	who, err := c.enter(ctx)
	if err != nil {
		return false, err
	}
	a := get(nil, "rooms", id, "joined_members")
	a.most = 1 << 20
	var members struct {
		Joined map[string]jsontext.Value `json:"joined"`
	}
	err = c.call(ctx, a, &members)
	if errors.Is(err, errTooMuch) || settled(err) {
		return false, nil
	}
	_, we := members.Joined[who.User]
	_, they := members.Joined[other]
	return we && they && other != who.User && len(members.Joined) == 2, err
}

// separator stands between a direct conversation's room and its thread.
const separator = "/$"

// direct is a conversation with one person in a room that no settings name.
func direct(peer, room, thread string) chat.Conversation {
	if thread != "" {
		room += "/" + thread
	}
	return chat.Conversation{Peer: peer, Thread: room}
}

// place is the inverse: where the answer goes.
func place(to chat.Conversation) (room, thread string) {
	if to.Group {
		return to.Peer, to.Thread
	}
	room, thread, in := strings.Cut(to.Thread, separator)
	if in {
		thread = "$" + thread
	}
	return room, thread
}
