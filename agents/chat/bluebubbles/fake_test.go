package bluebubbles

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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

	"mbox/agents/chat"
	"mbox/agents/chat/chattest"
)

const (
	password = "p+ss w0rd"
	alice    = "+15550001"
	room     = "iMessage;+;chat42"
)

type object = map[string]any

// fake is a BlueBubbles server with the faults that it is known for: it calls a
// webhook once, calls again for what is old after a restart, takes a URL that it
// knows with its old events, and refuses a tempGuid while it sends.
type fake struct {
	*httptest.Server
	t      *testing.T
	client *http.Client

	mu       sync.Mutex
	rows     []object
	hooks    []object
	sending  map[string]bool
	queries  int
	skew     time.Duration // of its clock
	chats    []string
	answer   http.HandlerFunc // of all but the table of webhooks, instead of its own
	sendText http.HandlerFunc // of POST /message/text, instead of its own
	next     int
}

func newFake(t *testing.T) *fake {
	f := &fake{t: t, client: &http.Client{}, sending: map[string]bool{}}
	m := http.NewServeMux()
	m.HandleFunc("GET /api/v1/webhook", f.listHooks)
	m.HandleFunc("POST /api/v1/webhook", f.addHook)
	m.HandleFunc("DELETE /api/v1/webhook/{id}", f.deleteHook)
	m.HandleFunc("POST /api/v1/message/query", f.query)
	m.HandleFunc("POST /api/v1/message/text", f.text)
	m.HandleFunc("GET /api/v1/chat/{guid}", f.chat)
	m.HandleFunc("GET /api/v1/attachment/{guid}/download", f.download)
	m.HandleFunc("GET /api/v1/server/info", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, 200, object{"server_version": "1.9.9", "os_version": "15.1", "detected_imessage": "me@example.org", "private_api": false})
	})
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		answer, skew := f.answer, f.skew
		f.mu.Unlock()
		w.Header().Set("Date", time.Now().Add(skew).UTC().Format(http.TimeFormat))
		switch {
		case r.URL.Query().Get("password") != password:
			reply(w, 401, nil, "You are not authorized to access this resource")
		case answer != nil && !strings.HasPrefix(r.URL.Path, "/api/v1/webhook"):
			answer(w, r)
		default:
			m.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(func() { f.client.CloseIdleConnections(); f.Close() })
	return f
}

func reply(w http.ResponseWriter, status int, data any, fault ...string) {
	out := object{"status": status, "message": "said", "data": data}
	if len(fault) > 0 {
		out["error"] = object{"type": "Error", "message": fault[0]}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out)
}

func (f *fake) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fake) listHooks(w http.ResponseWriter, _ *http.Request) { reply(w, 200, f.table()) }

func (f *fake) table() []object {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.hooks)
}

func (f *fake) addHook(w http.ResponseWriter, r *http.Request) {
	var in object
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.hooks {
		if h["url"] == in["url"] {
			reply(w, 200, h)
			return
		}
	}
	f.next++
	in["id"] = f.next
	f.hooks = append(f.hooks, in)
	reply(w, 200, in)
}

func (f *fake) deleteHook(w http.ResponseWriter, r *http.Request) {
	f.set(func() {
		f.hooks = slices.DeleteFunc(f.hooks, func(h object) bool { return fmt.Sprint(h["id"]) == r.PathValue("id") })
	})
	reply(w, 200, nil)
}

func (f *fake) query(w http.ResponseWriter, r *http.Request) {
	var in struct {
		After         int64
		Sort          string
		ChatGUID      string `json:"chatGuid"`
		Limit, Offset int
		With          []string
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Limit < 1 || in.Limit > 1000 || in.Sort != "ASC" || !slices.Contains(in.With, "chat") {
		reply(w, 400, nil, "bad query")
		return
	}
	f.mu.Lock()
	f.queries++
	var out []object
	for _, row := range f.rows {
		there := in.ChatGUID == "" || row["chats"].([]object)[0]["guid"] == in.ChatGUID
		if there && row["dateCreated"].(int64) >= in.After {
			out = append(out, row)
		}
	}
	f.mu.Unlock()
	slices.SortStableFunc(out, func(a, b object) int { return cmp.Compare(a["dateCreated"].(int64), b["dateCreated"].(int64)) })
	out = out[min(in.Offset, len(out)):]
	reply(w, 200, out[:min(in.Limit, len(out))])
}

func (f *fake) chat(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Contains(f.chats, r.PathValue("guid")) {
		reply(w, 404, nil, "Chat does not exist!")
		return
	}
	reply(w, 200, object{"guid": r.PathValue("guid")})
}

func (f *fake) download(w http.ResponseWriter, r *http.Request) {
	if r.PathValue("guid") != "at_0_A/B" {
		reply(w, 404, nil, "Attachment does not exist!")
		return
	}
	_, _ = w.Write([]byte("a picture"))
}

// text sends: the message is there, and then the server calls, with the tempGuid.
func (f *fake) text(w http.ResponseWriter, r *http.Request) {
	var in struct{ ChatGUID, Message, TempGUID, Method string }
	_ = json.NewDecoder(r.Body).Decode(&in)
	f.mu.Lock()
	special, busy := f.sendText, f.sending[in.TempGUID]
	f.sending[in.TempGUID] = true
	f.mu.Unlock()
	switch {
	case in.TempGUID == "" || in.Method != "apple-script":
		reply(w, 400, nil, "A 'tempGuid' is required when sending via AppleScript")
	case busy:
		reply(w, 400, nil, "Message is already queued to be sent! (Temp GUID: "+in.TempGUID+")")
	case special != nil:
		special(w, r)
	default:
		row := f.add(object{"text": in.Message, "isFromMe": true, "handle": nil, "chats": chats(in.ChatGUID)})
		f.set(func() { delete(f.sending, in.TempGUID) })
		echo := object{"tempGuid": in.TempGUID}
		for k, v := range row {
			echo[k] = v
		}
		f.call("new-message", echo)
		reply(w, 200, echo)
	}
}

func chats(guid string) []object {
	style := 45
	if strings.Contains(guid, ";+;") {
		style = 43
	}
	return []object{{"guid": guid, "style": style}}
}

// add puts a message into the database, of alice and now where it says nothing else.
func (f *fake) add(changes object) object {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next++
	row := object{
		"guid": "G" + strconv.Itoa(f.next), "text": "hello " + strconv.Itoa(f.next), "handle": object{"address": alice},
		"isFromMe": false, "dateCreated": time.Now().Add(f.skew).UnixMilli(), "dateRead": nil, "error": 0, "itemType": 0,
		"subject": nil, "associatedMessageType": "0", "attachments": []object{}, "chats": chats("iMessage;-;" + alice),
	}
	for k, v := range changes {
		row[k] = v
	}
	f.rows = append(f.rows, row)
	return row
}

// call calls the webhooks, once, and whatever they answer.
func (f *fake) call(event string, data object) {
	body, err := json.Marshal(object{"type": event, "data": data})
	if err != nil {
		f.t.Error(err)
	}
	for _, h := range f.table() {
		if !slices.Contains(h["events"].([]any), any(event)) {
			continue
		}
		if answer, err := f.client.Post(h["url"].(string), "application/json", bytes.NewReader(body)); err == nil {
			answer.Body.Close()
		}
	}
}

// say puts a message into the database and calls for it.
func (f *fake) say(changes object) object {
	row := f.add(changes)
	f.call("new-message", row)
	return row
}

func (f *fake) channel(t *testing.T, s chat.Settings) *channel {
	t.Helper()
	s.Name, s.Server = "phone", cmp.Or(s.Server, f.URL)
	s.Password = cmp.Or(s.Password, password)
	if s.Log == nil {
		s.Log = t.Logf
	}
	c, err := open(s)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*channel)
}

func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// receive runs Receive until the first look is done.
func receive(ctx context.Context, t *testing.T, c *channel, kept string, in *chattest.Inbox) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Receive(ctx, kept, in) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Receive ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// called waits until the server has a webhook to call.
func (f *fake) called(ctx context.Context) {
	for len(f.table()) == 0 && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

func mustNotTell(t *testing.T, err error) {
	t.Helper()
	for _, secret := range []string{password, url.QueryEscape(password)} {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the password is in an error: %v", err)
		}
	}
}

func readAll(ctx context.Context, t *testing.T, file chat.File) string {
	t.Helper()
	r, err := file.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
