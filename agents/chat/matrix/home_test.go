package matrix

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// home is a homeserver, written from the specification: what it does not say, this
// does not do.
type home struct {
	*httptest.Server
	t       *testing.T
	trouble func(http.ResponseWriter, *http.Request) bool // answers in the server's place

	mu      sync.Mutex
	changed chan struct{} // closed when something happens
	tokens  map[string][2]string
	rooms   map[string]*room
	aliases map[string]string
	txns    map[string]string // device, room and transaction → event
	media   map[string][]byte
	old     bool // it hands over files to anybody, as servers did before 1.11
	now     int  // position of what happened last
	events  int
	logins  int
	syncs   int
	asked   []string // method and path of each request
}

type room struct {
	members   map[string]string // user → join, invite
	since     map[string]int    // user → where they came in
	events    []happened
	receipts  []happened
	encrypted bool
}

type happened struct {
	at    int
	event map[string]any
}

const (
	bot   = "@mbox:home.test"
	alice = "@alice:home.test"
	bob   = "@bob:home.test"
	token = "syt_secret_token"
)

func newHome(t *testing.T) *home {
	h := &home{
		t: t, changed: make(chan struct{}), tokens: map[string][2]string{token: {bot, "DEV"}}, rooms: map[string]*room{},
		aliases: map[string]string{}, txns: map[string]string{}, media: map[string][]byte{},
	}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

// room makes a room with members who are in it already.
func (h *home) room(id string, members ...string) *room {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := &room{members: map[string]string{}, since: map[string]int{}}
	h.rooms[id] = r
	for _, m := range members {
		h.enter(r, m)
	}
	return r
}

// enter needs mu, as all below.
func (h *home) enter(r *room, user string) string {
	r.members[user] = "join"
	id := h.add(r, map[string]any{"type": "m.room.member", "sender": user, "state_key": user, "content": map[string]any{"membership": "join", "displayname": []int{1}}})
	r.since[user] = h.now
	return id
}

func (h *home) add(r *room, event map[string]any) string {
	h.now++
	h.events++
	id := fmt.Sprintf("$e%d", h.events)
	event["event_id"], event["origin_server_ts"] = id, 1_790_000_000_000+h.now
	r.events = append(r.events, happened{h.now, event})
	h.wake()
	return id
}

func (h *home) wake() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// say puts a message into a room.
func (h *home) say(id, sender string, content map[string]any) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.add(h.rooms[id], map[string]any{"type": "m.room.message", "sender": sender, "content": content})
}

func (h *home) text(id, sender, body string) string {
	return h.say(id, sender, map[string]any{"msgtype": "m.text", "body": body})
}

func (h *home) read(id, user, event string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	h.rooms[id].receipts = append(h.rooms[id].receipts, happened{h.now, map[string]any{
		"type": "m.receipt", "content": map[string]any{event: map[string]any{"m.read": map[string]any{user: map[string]any{"ts": 1}}}},
	}})
	h.wake()
}

func (h *home) invite(id, user string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now++
	h.rooms[id].members[user] = "invite"
	h.rooms[id].since[user] = h.now
	h.wake()
}

func (h *home) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.asked = append(h.asked, r.Method+" "+r.URL.Path)
	trouble := h.trouble
	h.mu.Unlock()
	if trouble != nil && trouble(w, r) {
		return
	}
	status, out := h.answer(r)
	if raw, ok := out.([]byte); ok {
		_, _ = w.Write(raw)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

func (h *home) causes(f func(http.ResponseWriter, *http.Request) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = f
}

func bad(status int, code string) (int, any) {
	return status, map[string]any{"errcode": code, "error": "so it is"}
}

type object = map[string]any

func (h *home) answer(r *http.Request) (int, any) {
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/_matrix/")
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i], _ = url.PathUnescape(parts[i])
	}
	if !ok || len(parts) < 2 {
		return bad(404, "M_UNRECOGNIZED")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch strings.Join(parts[:min(3, len(parts))], "/") {
	case "client/versions":
		return 200, object{"versions": []string{"r0.6.1", "v1.11"}}
	case "client/v3/login":
		return h.login(r)
	case "media/v3/download":
		if data, ok := h.media[parts[4]]; ok && h.old && parts[3] == "home.test" && r.Header.Get("Authorization") == "" {
			return 200, data
		}
		return bad(404, "M_NOT_FOUND")
	}
	secret, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	who, known := h.tokens[secret]
	if !known {
		return bad(401, "M_UNKNOWN_TOKEN")
	}
	switch route := r.Method + " " + strings.Join(parts[:3], "/"); route {
	case "GET client/v3/account":
		return 200, object{"user_id": who[0], "device_id": who[1]}
	case "POST client/v3/logout":
		delete(h.tokens, secret)
		return 200, object{}
	case "GET client/v3/joined_rooms":
		in := []string{}
		for id, room := range h.rooms {
			if room.members[who[0]] == "join" {
				in = append(in, id)
			}
		}
		return 200, object{"joined_rooms": in}
	case "GET client/v3/directory":
		if id := h.aliases[parts[4]]; id != "" {
			return 200, object{"room_id": id, "servers": []string{"home.test"}}
		}
		return bad(404, "M_NOT_FOUND")
	case "POST client/v3/join":
		return h.join(who[0], parts[3])
	case "GET client/v3/sync":
		return h.sync(r, who[0])
	case "POST media/v3/upload":
		data, _ := io.ReadAll(r.Body)
		id := fmt.Sprintf("m%d", len(h.media))
		h.media[id] = data
		return 200, object{"content_uri": "mxc://home.test/" + id}
	case "GET client/v1/media":
		if h.old {
			return bad(404, "M_UNRECOGNIZED")
		}
		if data, ok := h.media[parts[5]]; ok && parts[4] == "home.test" {
			return 200, data
		}
		return bad(404, "M_NOT_FOUND")
	case "GET client/v3/rooms", "PUT client/v3/rooms":
		room := h.rooms[parts[3]]
		if room == nil || room.members[who[0]] != "join" {
			return bad(403, "M_FORBIDDEN")
		}
		return h.inRoom(r, room, who, parts)
	default:
		h.t.Errorf("a request that the specification does not have: %s", route)
		return bad(404, "M_UNRECOGNIZED")
	}
}

// login ends the logins that a device had, and keeps the device.
func (h *home) login(r *http.Request) (int, any) {
	var in struct {
		Type       string
		Identifier struct{ Type, User string }
		Password   string
		Device     string `json:"device_id"`
	}
	if json.NewDecoder(r.Body).Decode(&in) != nil || in.Type != "m.login.password" || in.Identifier.Type != "m.id.user" {
		return bad(400, "M_BAD_JSON")
	}
	if in.Identifier.User != bot || in.Password != "pass" {
		return bad(403, "M_FORBIDDEN")
	}
	h.logins++
	if in.Device == "" {
		in.Device = fmt.Sprintf("NEW%d", h.logins)
	}
	for secret, who := range h.tokens {
		if who == [2]string{bot, in.Device} {
			delete(h.tokens, secret)
		}
	}
	secret := fmt.Sprintf("token%d", h.logins)
	h.tokens[secret] = [2]string{bot, in.Device}
	return 200, object{"user_id": bot, "access_token": secret, "device_id": in.Device}
}

func (h *home) join(user, name string) (int, any) {
	id := name
	if known := h.aliases[name]; known != "" {
		id = known
	}
	room := h.rooms[id]
	switch {
	case room == nil:
		return bad(404, "M_NOT_FOUND")
	case room.members[user] == "":
		return bad(403, "M_FORBIDDEN")
	case room.members[user] == "invite":
		h.enter(room, user)
	}
	return 200, object{"room_id": id}
}

func (h *home) inRoom(r *http.Request, room *room, who [2]string, parts []string) (int, any) {
	switch parts[4] {
	case "joined_members":
		in := object{}
		for user, is := range room.members {
			if is == "join" {
				in[user] = object{"display_name": user}
			}
		}
		return 200, object{"joined": in}
	case "state":
		if parts[5] == "m.room.encryption" && room.encrypted {
			return 200, object{"algorithm": "m.megolm.v1.aes-sha2"}
		}
		return bad(404, "M_NOT_FOUND")
	case "messages":
		return h.messages(r.URL.Query(), room)
	case "send":
		key := strings.Join([]string{who[1], parts[3], parts[6]}, " ")
		if h.txns[key] == "" {
			var content object
			data, _ := io.ReadAll(r.Body)
			switch {
			case len(data) > 60<<10:
				return bad(413, "M_TOO_LARGE")
			case json.Unmarshal(data, &content) != nil:
				return bad(400, "M_NOT_JSON")
			}
			h.txns[key] = h.add(room, object{"type": parts[5], "sender": who[0], "content": content})
		}
		return 200, object{"event_id": h.txns[key]}
	}
	return bad(404, "M_UNRECOGNIZED")
}

func position(token string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(token, "s"))
	return n
}

// messages pages backwards; its tokens are those of sync.
func (h *home) messages(q url.Values, room *room) (int, any) {
	from, to := position(q.Get("from")), position(q.Get("to"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	var only struct{ Types []string }
	if q.Get("dir") != "b" || from == 0 || json.Unmarshal([]byte(q.Get("filter")), &only) != nil {
		return bad(400, "M_INVALID_PARAM")
	}
	out, end := []any{}, ""
	for _, e := range slices.Backward(room.events) {
		if e.at > from || e.at <= to || !slices.Contains(only.Types, e.event["type"].(string)) {
			continue
		}
		if len(out) == min(limit, 7) { // a server may send less than was asked for
			end = fmt.Sprintf("s%d", e.at)
			break
		}
		out = append(out, e.event)
	}
	answer := object{"chunk": out, "start": q.Get("from")}
	if end != "" {
		answer["end"] = end
	}
	return 200, answer
}

// sync waits until there is something to tell.
func (h *home) sync(r *http.Request, user string) (int, any) {
	q := r.URL.Query()
	h.syncs++
	ms, _ := strconv.Atoi(q.Get("timeout"))
	timeout := time.After(time.Duration(ms) * time.Millisecond)
	since := q.Get("since")
	var f struct {
		Room struct {
			Timeline struct {
				Types []string
				Limit int
			}
		}
	}
	if err := json.Unmarshal([]byte(q.Get("filter")), &f); err != nil || f.Room.Timeline.Limit == 0 {
		h.t.Errorf("filter: %q: %v", q.Get("filter"), err)
	}
	for {
		join, invite := object{}, object{}
		for id, room := range h.rooms {
			switch room.members[user] {
			case "join":
				if told := room.tell(user, position(since), f.Room.Timeline.Types, f.Room.Timeline.Limit); told != nil {
					join[id] = told
				}
			case "invite":
				if room.since[user] > position(since) {
					invite[id] = object{"invite_state": object{"events": []any{}}}
				}
			}
		}
		answer := object{"next_batch": fmt.Sprintf("s%d", h.now), "rooms": object{"join": join, "invite": invite}}
		if since == "" || len(join)+len(invite) > 0 {
			return 200, answer
		}
		changed := h.changed
		h.mu.Unlock()
		select {
		case <-changed:
			h.mu.Lock()
		case <-timeout:
			h.mu.Lock()
			return 200, answer
		case <-r.Context().Done():
			h.mu.Lock()
			return bad(500, "M_UNKNOWN")
		}
	}
}

// tell tells of a room that the user came into since then what was said before, too.
func (r *room) tell(user string, since int, types []string, limit int) object {
	events, receipts, limited, before := []any{}, []any{}, false, 0
	for _, e := range slices.Backward(r.events) {
		if e.at <= since && r.since[user] <= since || !slices.Contains(types, e.event["type"].(string)) {
			continue
		}
		if len(events) == limit {
			limited, before = true, e.at
			break
		}
		events = append(events, e.event)
	}
	slices.Reverse(events)
	for _, e := range r.receipts {
		if e.at > since {
			receipts = append(receipts, e.event)
		}
	}
	if len(events)+len(receipts) == 0 {
		return nil
	}
	return object{
		"timeline":  object{"events": events, "limited": limited, "prev_batch": fmt.Sprintf("s%d", before)},
		"ephemeral": object{"events": receipts},
	}
}
