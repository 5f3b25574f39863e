package telegram

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"mbox/agents/chat"
)

const (
	botID = 4711
	token = "4711:AAtest-token_0123456789"
)

// fake is a Bot API as Telegram has it: an update is there until one behind it is
// asked for. It has no more than the real one: no keys, no search.
type fake struct {
	*httptest.Server
	mu      sync.Mutex
	queue   []map[string]any
	changed chan struct{} // closed when the queue grows
	hook    string
	sent    []map[string]any
	offsets []int64
	files   map[string]string
	// wrong answers a method instead of the server, until it returns false.
	wrong func(method string, w http.ResponseWriter, r *http.Request) bool
}

func newFake(t testing.TB) *fake {
	f := &fake{changed: make(chan struct{}), files: map[string]string{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

// open makes a channel that calls the fake.
func (f *fake) open(t testing.TB, rooms ...string) *channel {
	t.Helper()
	c, err := open(chat.Settings{Token: token, Server: f.URL, Rooms: rooms, Log: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	c.(*channel).first = time.Millisecond
	return c.(*channel)
}

// says puts updates into the queue.
func (f *fake) says(updates ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, text := range updates {
		var u map[string]any
		if err := json.Unmarshal([]byte(text), &u); err != nil {
			panic(err)
		}
		f.queue = append(f.queue, u)
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// left are the ids of the updates that nobody has confirmed.
func (f *fake) left() (ids []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, u := range f.queue {
		ids = append(ids, idOf(u))
	}
	return ids
}

func idOf(u map[string]any) int64 { return int64(u["update_id"].(float64)) }

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if path, ok := strings.CutPrefix(r.URL.Path, "/file/bot"+token+"/"); ok {
		io.WriteString(w, f.files[path])
		return
	}
	if r.URL.Path == "/elsewhere" { // what nobody should ask for
		io.WriteString(w, "canary")
		return
	}
	method, ok := strings.CutPrefix(r.URL.Path, "/bot"+token+"/")
	if !ok {
		no(w, 401, "Unauthorized", "")
		return
	}
	f.mu.Lock()
	wrong := f.wrong
	f.mu.Unlock()
	if wrong != nil && wrong(method, w, r) {
		return
	}
	var in map[string]any
	if strings.HasPrefix(r.Header.Get("Content-Type"), "multipart/") {
		in = fields(r)
	} else if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		no(w, 400, "Bad Request: "+err.Error(), "")
		return
	}
	switch method {
	case "getMe":
		yes(w, map[string]any{"id": botID, "is_bot": true, "first_name": "M", "username": "MboxBot"})
	case "getWebhookInfo":
		yes(w, map[string]any{"url": f.hook})
	case "getChat":
		if in["chat_id"].(float64) != -100 {
			no(w, 400, "Bad Request: chat not found", "")
			return
		}
		yes(w, map[string]any{"id": -100})
	case "getFile":
		yes(w, map[string]any{"file_path": in["file_id"]})
	case "getUpdates":
		f.updates(w, r, in)
	case "sendMessage", "sendDocument":
		text, caption := fmt.Sprint(in["text"]), fmt.Sprint(in["caption"])
		switch {
		case method == "sendMessage" && strings.TrimSpace(text) == "":
			no(w, 400, "Bad Request: message text is empty", "")
			return
		case len(utf16.Encode([]rune(text))) > 4096:
			no(w, 400, "Bad Request: message is too long", "")
			return
		case len(utf16.Encode([]rune(caption))) > 1024:
			no(w, 400, "Bad Request: message caption is too long", "")
			return
		}
		f.mu.Lock()
		f.sent = append(f.sent, in)
		id := len(f.sent)
		f.mu.Unlock()
		yes(w, map[string]any{"message_id": id})
	default:
		no(w, 404, "Not Found: method not found", "")
	}
}

func fields(r *http.Request) map[string]any {
	in := map[string]any{}
	reader, err := r.MultipartReader()
	if err != nil {
		panic(err)
	}
	for {
		part, err := reader.NextPart()
		if err != nil {
			return in
		}
		data, _ := io.ReadAll(part)
		in[part.FormName()] = string(data)
		if part.FileName() != "" {
			in["file_name"] = part.FileName()
		}
	}
}

func (f *fake) updates(w http.ResponseWriter, r *http.Request, in map[string]any) {
	offset, limit := int64(in["offset"].(float64)), int(in["limit"].(float64))
	over := time.After(time.Duration(in["timeout"].(float64)) * time.Second)
	for {
		f.mu.Lock()
		f.offsets = append(f.offsets, offset)
		if n := len(f.queue); offset < 0 {
			f.queue = f.queue[max(0, n+int(offset)):]
		} else if n > 0 && offset <= idOf(f.queue[n-1])+10 { // one far ahead is from before the ids began anew
			for len(f.queue) > 0 && idOf(f.queue[0]) < offset {
				f.queue = f.queue[1:]
			}
		}
		out, changed := f.queue[:min(limit, len(f.queue))], f.changed
		f.mu.Unlock()
		if len(out) > 0 {
			yes(w, out)
			return
		}
		select {
		case <-changed:
		case <-over:
			yes(w, []any{})
			return
		case <-r.Context().Done():
			return
		}
	}
}

func yes(w http.ResponseWriter, result any) {
	json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
}

func no(w http.ResponseWriter, code int, text, parameters string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if parameters == "" {
		parameters = "{}"
	}
	fmt.Fprintf(w, `{"ok":false,"error_code":%d,"description":%q,"parameters":%s}`, code, text, parameters)
}

// misbehave sets how the server goes wrong.
func (f *fake) misbehave(how func(method string, w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wrong = how
}

// direct is an update with a message of a person to the bot.
func direct(id int, text string) string {
	return fmt.Sprintf(`{"update_id":%d,"message":{"message_id":%d,"date":1700000000,"text":%q,
		"from":{"id":55,"first_name":"Ann","username":"ann"},"chat":{"id":55,"type":"private"}}}`, id, id*10, text)
}

// grouped is an update with a message in a group, and more fields of it.
func grouped(id int, text, more string) string {
	return fmt.Sprintf(`{"update_id":%d,"message":{"message_id":%d,"date":1700000000,"text":%q,
		"from":{"id":55,"first_name":"Ann","last_name":"B"},"chat":{"id":-100,"type":"supergroup"}%s}}`, id, id*10, text, more)
}
