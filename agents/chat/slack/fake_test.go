package slack

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"mbox/agents/chat"
)

const (
	botToken = "xoxb-11-22-secret-of-the-bot"
	appToken = "xapp-1-secret-of-the-app"
	ticket   = "secret-of-the-socket"
)

// fake is what is used of Slack: methods that take forms and no JSON, a WebSocket
// whose address is good once, envelopes that come again until they are acknowledged,
// and a history in pages of at most 15. It knows no keys of messages.
type fake struct {
	*httptest.Server
	t *testing.T

	mu      sync.Mutex
	posts   []post
	tickets map[string]bool
	open    []*websocket.Conn
	waiting []string // envelopes that nobody has acknowledged, oldest first
	acked   []string
	changed chan struct{}
	tries   int // of connections
	calls   []string
	wrong   func(method string, w http.ResponseWriter, r *http.Request) bool // answers instead
}

type post struct {
	TS       string          `json:"ts"`
	Thread   string          `json:"thread_ts,omitempty"`
	User     string          `json:"user"`
	Bot      string          `json:"bot_id,omitempty"`
	Text     string          `json:"text"`
	Metadata json.RawMessage `json:"metadata,omitempty"`
	channel  string
	form     map[string][]string
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, tickets: map[string]bool{}, changed: make(chan struct{})}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { f.hangUp(); f.Close() })
	return f
}

func (f *fake) settings() chat.Settings {
	return chat.Settings{Server: f.URL, Token: botToken, Password: appToken, Rooms: []string{"C1"}, Log: f.t.Logf}
}

func (f *fake) channel() *channel { return opened(f.t, f.settings()) }

func opened(t *testing.T, s chat.Settings) *channel {
	t.Helper()
	c, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	own := c.(*channel)
	own.pause, own.beat = time.Millisecond, 50*time.Millisecond
	return own
}

// hangUp ends all connections, and sends again on the next what was not acknowledged.
func (f *fake) hangUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.open {
		conn.CloseNow()
	}
	f.open = nil
}

// sends hands events over, each in an envelope of its own.
func (f *fake) sends(events ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range events {
		id := fmt.Sprintf("env-%d", len(f.waiting)+len(f.acked)+1)
		f.waiting = append(f.waiting, fmt.Sprintf(`{"envelope_id":"%s","type":"events_api","payload":{"type":"event_callback","event_id":"Ev%s","event":%s}}`, id, id, e))
	}
	f.bump()
}

// tells sends a text as it is.
func (f *fake) tells(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, conn := range f.open {
		_ = conn.Write(f.t.Context(), websocket.MessageText, []byte(text))
	}
}

func (f *fake) bump() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// until waits for something to be so.
func (f *fake) until(ctx context.Context, is func() bool) {
	f.t.Helper()
	for {
		f.mu.Lock()
		done, changed := is(), f.changed
		f.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			f.t.Fatal("it does not happen")
		}
	}
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/link" {
		f.socket(w, r)
		return
	}
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	f.mu.Lock()
	f.calls = append(f.calls, method)
	wrong := f.wrong
	f.mu.Unlock()
	if wrong != nil && wrong(method, w, r) {
		return
	}
	token := botToken
	if method == "apps.connections.open" {
		token = appToken
	}
	switch given := r.Header.Get("Authorization"); {
	case strings.Contains(r.Header.Get("Content-Type"), "json"), r.ParseForm() != nil:
		no(w, "invalid_form_data")
	case given != "Bearer "+token && strings.Contains(given, "xoxb-11-22") != strings.HasPrefix(token, "xoxb"):
		no(w, "not_allowed_token_type")
	case given != "Bearer "+token:
		no(w, "invalid_auth")
	default:
		f.answer(w, method, r)
	}
}

func (f *fake) answer(w http.ResponseWriter, method string, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch method {
	case "auth.test":
		yes(w, map[string]any{"user_id": "U0BOT", "bot_id": "B0BOT", "user": "mbox", "team": "Home", "team_id": "T1"})
	case "apps.connections.open":
		f.tries++
		name := fmt.Sprintf("%s-%d", ticket, f.tries)
		f.tickets[name] = true
		yes(w, map[string]any{"url": strings.Replace(f.URL, "http", "ws", 1) + "/link?ticket=" + name})
	case "conversations.info":
		if r.Form.Get("channel") == "C404" {
			no(w, "channel_not_found")
			return
		}
		yes(w, map[string]any{"channel": map[string]any{"is_member": r.Form.Get("channel") == "C1"}})
	case "conversations.open":
		if !strings.HasPrefix(r.Form.Get("users"), "U") {
			no(w, "user_not_found")
			return
		}
		yes(w, map[string]any{"channel": map[string]any{"id": "D" + r.Form.Get("users")}})
	case "chat.postMessage":
		f.post(w, r)
	case "conversations.history", "conversations.replies":
		f.history(w, method == "conversations.replies", r)
	default:
		no(w, "unknown_method")
	}
}

func (f *fake) post(w http.ResponseWriter, r *http.Request) {
	room := r.Form.Get("channel")
	switch {
	case room != "C1" && !strings.HasPrefix(room, "D"):
		no(w, "not_in_channel")
		return
	case strings.TrimSpace(r.Form.Get("text")) == "":
		no(w, "no_text")
		return
	case len(r.Form.Get("text")) > 40_000:
		no(w, "msg_too_long")
		return
	}
	p := post{TS: fmt.Sprintf("17000%05d.000100", len(f.posts)+1), Thread: r.Form.Get("thread_ts"), User: "U0BOT", Bot: "B0BOT", Text: r.Form.Get("text"), channel: room, form: r.Form}
	p.Metadata = json.RawMessage(r.Form.Get("metadata"))
	f.posts = append(f.posts, p)
	yes(w, map[string]any{"channel": room, "ts": p.TS})
}

// history is newest first; a thread oldest first, and its first message on each page.
func (f *fake) history(w http.ResponseWriter, thread bool, r *http.Request) {
	limit, _ := strconv.Atoi(r.Form.Get("limit"))
	at, _ := strconv.Atoi(r.Form.Get("cursor"))
	var all []post
	for _, p := range f.posts {
		inside := p.Thread == ""
		if thread {
			inside = p.Thread == r.Form.Get("ts")
		}
		if p.channel == r.Form.Get("channel") && inside && p.TS >= r.Form.Get("oldest") {
			if r.Form.Get("include_all_metadata") != "true" {
				p.Metadata = nil
			}
			all = append(all, p)
		}
	}
	if !thread {
		slices.Reverse(all)
	}
	page := all[min(at, len(all)):min(at+min(limit, 15), len(all))]
	next := ""
	if at+len(page) < len(all) {
		next = strconv.Itoa(at + len(page))
	}
	yes(w, map[string]any{"messages": page, "has_more": next != "", "response_metadata": map[string]any{"next_cursor": next}})
}

func yes(w http.ResponseWriter, answer map[string]any) {
	answer["ok"] = true
	_ = json.NewEncoder(w).Encode(answer)
}

func no(w http.ResponseWriter, code string) {
	_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": code})
}

func (f *fake) socket(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	good := f.tickets[r.URL.Query().Get("ticket")]
	delete(f.tickets, r.URL.Query().Get("ticket"))
	f.mu.Unlock()
	if !good {
		http.Error(w, "no ticket", http.StatusForbidden)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	f.mu.Lock()
	f.open = append(f.open, conn)
	_ = conn.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, `{"type":"hello","num_connections":%d}`, len(f.open)))
	f.bump()
	f.mu.Unlock()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for {
			_, text, err := conn.Read(r.Context())
			if err != nil {
				return
			}
			f.acknowledged(text)
		}
	}()
	for sent := map[string]bool{}; ; {
		f.mu.Lock()
		waiting, changed := slices.Clone(f.waiting), f.changed
		f.mu.Unlock()
		for _, e := range waiting {
			if !sent[e] {
				sent[e] = true
				_ = conn.Write(r.Context(), websocket.MessageText, []byte(e))
			}
		}
		select {
		case <-changed:
		case <-gone:
			return
		}
	}
}

func (f *fake) acknowledged(text []byte) {
	var ack struct {
		ID string `json:"envelope_id"`
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if json.Unmarshal(text, &ack) != nil || ack.ID == "" {
		f.t.Errorf("it sends %s", text)
	}
	f.waiting = slices.DeleteFunc(f.waiting, func(e string) bool { return strings.Contains(e, `"envelope_id":"`+ack.ID+`"`) })
	f.acked = append(f.acked, ack.ID)
	f.bump()
}

// mute is a WebSocket at whose other end nobody reads.
func (f *fake) mute(w http.ResponseWriter, r *http.Request, until <-chan struct{}) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	<-until
}
