// Package matrix is a bridge to a Matrix homeserver, by the client-server API
// (https://spec.matrix.org, v1.11 or later). It knows rooms that are not encrypted:
// in one that is, it says nothing, and hears nothing.
//
// # Conversations
//
// A room of the settings is a group, however many are in it: its name is what the
// settings call it, so that a conversation stays the same when members come and go.
// Another room that we are in is a direct conversation while exactly one other
// person is in it. Its peer is that person, who may have several such rooms; so the
// room's id stands before the thread: "!room:server" or "!room:server/$thread". Any
// other room is a group that no settings name.
//
// # What arrives once
//
// A notice is sent with its key as the transaction id. Homeservers keep those for
// each device, for a while (Synapse: about a day). With a token the device stays the
// same. With a password we log in again at each start, as the same device; but a
// server older than v1.7 keeps transaction ids for each login, and there a notice
// that was being sent when the process was killed can arrive twice.
package matrix

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"mbox/agents/chat"
	"mbox/agents/chat/web"
)

// Kind is Matrix.
var Kind = chat.Kind{
	Name: "matrix", About: "rooms of a Matrix homeserver that are not encrypted",
	Needs:  []string{"server"},
	Takes:  []string{"user", "token", "password", "rooms", "ca", "insecure"},
	Limits: chat.Limits{Text: 16 << 10, Parts: 3, File: maxFile, Every: time.Second},
	Once:   chat.ByKey,
	Open:   open,
}

type channel struct {
	chat.Settings
	server *web.Server
	device string // as which we log in with a password; "" for a new one

	mu     sync.Mutex        // guards what follows
	who    login             // empty until we have logged in
	ids    map[string]string // of the rooms in the settings, as far as they are known
	closed map[string]bool   // rooms that are encrypted: they stay so
	told   map[string]bool   // remarks that were made
}

func open(s chat.Settings) (chat.Channel, error) {
	switch {
	case (s.Token == "") == (s.Password == ""):
		return nil, fmt.Errorf("want one of token and password: %w", chat.ErrSetup)
	case s.Password != "" && s.User == "":
		return nil, fmt.Errorf("user is missing, whose password it is: %w", chat.ErrSetup)
	}
	for _, room := range s.Rooms {
		if !isRoom(room) {
			return nil, fmt.Errorf("rooms: %q: want an id (!abc:server) or an alias (#name:server): %w", room, chat.ErrSetup)
		}
	}
	server, err := web.Connect(s, s.Server)
	if err != nil {
		return nil, err
	}
	if s.Log == nil {
		s.Log = func(string, ...any) {}
	}
	c := newChannel(s, server)
	c.device = "mbox_" + s.Name
	return c, nil
}

func newChannel(s chat.Settings, server *web.Server) *channel {
	return &channel{Settings: s, server: server, ids: map[string]string{}, closed: map[string]bool{}, told: map[string]bool{}}
}

// isRoom tells whether a text may be a room's id or alias. An alias names its server;
// the ids of new rooms do not.
func isRoom(text string) bool {
	alias := strings.HasPrefix(text, "#") && strings.Contains(text, ":")
	return len(text) > 1 && len(text) <= maxID && (alias || text[0] == '!')
}

const maxID = 255 // bytes of any name in Matrix

// Check implements chat.Channel. With a password it logs in as a device of its own,
// and out again: to use ours would log out the bridge that runs.
func (c *channel) Check(ctx context.Context) (said string, err error) {
	var known struct {
		Versions []string `json:"versions"`
	}
	err = c.do(ctx, "", ask{method: http.MethodGet, path: []string{"client", "versions"}}, &known)
	if err != nil {
		return "", fmt.Errorf("%w (server is the address that clients use: see https://SERVER/.well-known/matrix/client)", err)
	}
	if !strings.Contains(strings.Join(known.Versions, " "), "v1.") {
		return "", fmt.Errorf("%s: no homeserver of Matrix v1: %w", c.server.Host(), chat.ErrSetup)
	}
	probe := c
	if c.Password != "" {
		probe = newChannel(c.Settings, c.server)
		defer func() {
			if end := probe.logout(ctx); err == nil {
				err = end
			}
		}()
	}
	who, err := probe.enter(ctx)
	if err != nil {
		return "", err
	}
	for _, room := range c.Rooms {
		if err := probe.checkRoom(ctx, who, room); err != nil {
			return "", fmt.Errorf("%s at %s: %s: %w", who.User, c.server.Host(), room, err)
		}
	}
	said = fmt.Sprintf("%s at %s", who.User, c.server.Host())
	if who.Device == "" {
		said += " (this token has no device: a notice can arrive twice)"
	}
	if len(c.Rooms) > 0 {
		said += ", in " + strings.Join(c.Rooms, ", ")
	}
	return said, nil
}

func (c *channel) checkRoom(ctx context.Context, who login, room string) error {
	id, err := c.resolve(ctx, room)
	if err != nil {
		return err
	}
	in, err := c.joined(ctx)
	if err != nil {
		return err
	}
	if !in[id] {
		return fmt.Errorf("we are not in this room: invite %s", who.User)
	}
	if err = c.open(ctx, id); errors.Is(err, errEncrypted) {
		err = fmt.Errorf("%w: %w", err, chat.ErrSetup)
	}
	return err
}

// remark tells something once.
func (c *channel) remark(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	c.mu.Lock()
	fresh := !c.told[text] && len(c.told) < maxRemarks
	if fresh {
		c.told[text] = true
	}
	c.mu.Unlock()
	if fresh {
		c.Log("%s", text)
	}
}

const maxRemarks = 1000 // invitations come from anybody
