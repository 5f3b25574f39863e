package telegram

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"mbox/agents/chat"
)

var sample = chat.Notice{Key: "k", To: chat.Conversation{Peer: "-100", Group: true, Thread: "77"}, Reply: "-100:12", Text: "done\n"}

func TestNoticeOut(t *testing.T) {
	f := newFake(t)
	c := f.open(t)
	if id, err := c.Send(t.Context(), sample); id != "-100:1" || err != nil {
		t.Fatal(id, err)
	}
	m := f.sent[0]
	reply := m["reply_parameters"].(map[string]any)
	if m["chat_id"] != -100.0 || m["message_thread_id"] != 77.0 || m["text"] != "done\n" || reply["message_id"] != 12.0 || reply["allow_sending_without_reply"] != true {
		t.Errorf("%v", m)
	}
	if m["parse_mode"] != nil || m["link_preview_options"].(map[string]any)["is_disabled"] != true {
		t.Errorf("markup or links: %v", m)
	}
	other := chat.Notice{To: chat.Conversation{Peer: "55"}, Reply: "-100:12", Text: "x"}
	if _, err := c.Send(t.Context(), other); err != nil || f.sent[1]["reply_parameters"] != nil || f.sent[1]["message_thread_id"] != nil {
		t.Errorf("a reply into another chat: %v %v", f.sent[1], err)
	}
	for _, to := range []chat.Conversation{{Peer: "@channel", Group: true}, {Peer: "55", Group: true}, {Peer: "-100"}, {Peer: "0"}} {
		if _, err := c.Send(t.Context(), chat.Notice{To: to, Text: "x"}); !errors.Is(err, chat.ErrRefused) {
			t.Errorf("%+v: %v", to, err)
		}
	}
}

// No text within the limit of bytes has more UTF-16 code units than the server takes.
func TestTextLimit(t *testing.T) {
	for _, piece := range []string{"a", "ä", "ห", "🚀"} {
		text := strings.Repeat(piece, Kind.Limits.Text/len(piece))
		if n := len(utf16.Encode([]rune(text))); n > 4096 {
			t.Errorf("%s: %d", piece, n)
		}
	}
}

func TestLongResult(t *testing.T) {
	f := newFake(t)
	c := f.open(t)
	n := sample
	n.Text = strings.Repeat("🚀ä", 600) + "\n… all of it is in the file"
	file := func(size int) *chat.File {
		return &chat.File{Name: `a "b".txt`, Open: func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(strings.Repeat("y", size))), nil
		}}
	}
	n.File = file(100_000)
	if id, err := c.Send(t.Context(), n); id != "-100:1" || err != nil {
		t.Fatal(id, err)
	}
	m := f.sent[0]
	said := m["caption"].(string)
	if len(f.sent) != 1 || len(m["document"].(string)) != 100_000 || m["file_name"] != `a "b".txt` || m["message_thread_id"] != "77" ||
		m["reply_parameters"] != `{"message_id":12,"allow_sending_without_reply":true}` {
		t.Errorf("%d, %v", len(f.sent), m)
	}
	if len(utf16.Encode([]rune(said))) > 1024 || !utf8.ValidString(said) || !strings.HasPrefix(said, "🚀ä🚀") || !strings.HasSuffix(said, "…\n… all of it is in the file") {
		t.Errorf("caption %q", said)
	}
	n.File = file(int(Kind.Limits.File) + 1)
	if _, err := c.Send(t.Context(), n); !errors.Is(err, chat.ErrRefused) || len(f.sent) != 1 {
		t.Errorf("a file that is too long: %v", err)
	}
}

func TestSendErrors(t *testing.T) {
	f := newFake(t)
	c := f.open(t)
	says := func(code int, text, parameters string) func(string, http.ResponseWriter, *http.Request) bool {
		return func(_ string, w http.ResponseWriter, _ *http.Request) bool {
			no(w, code, text, parameters)
			return true
		}
	}
	check := func(name string, is error, wait time.Duration) {
		t.Helper()
		_, err := c.Send(t.Context(), sample)
		if err == nil || strings.Contains(err.Error(), "AAtest") {
			t.Errorf("%s: %v", name, err)
		}
		for _, kind := range []error{chat.ErrRefused, chat.ErrSetup} {
			if errors.Is(err, kind) != (kind == is) {
				t.Errorf("%s: %v", name, err)
			}
		}
		var asked *chat.WaitError
		if errors.As(err, &asked) != (wait > 0) || asked != nil && asked.For != wait {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, a := range []struct {
		name       string
		code       int
		parameters string
		is         error
		wait       time.Duration
	}{
		{"chat not found", 400, "", chat.ErrRefused, 0},
		{"bot was blocked by the user", 403, "", chat.ErrRefused, 0},
		{"too large", 413, "", chat.ErrRefused, 0},
		{"Unauthorized " + token, 401, "", chat.ErrSetup, 0},
		{"Not Found", 404, "", chat.ErrSetup, 0},
		{"too many", 429, `{"retry_after":5}`, nil, 5 * time.Second},
		{"too many, for ever", 429, `{"retry_after":9223372036854775807}`, nil, 24 * time.Hour},
		{"too many, of the past", 429, `{"retry_after":-5}`, nil, time.Second},
		{"broken", 500, "", nil, 0},
	} {
		f.misbehave(says(a.code, a.name, a.parameters))
		check(a.name, a.is, a.wait)
	}
	for name, wrong := range garbage {
		f.misbehave(wrong)
		check(name, nil, 0)
	}
	f.misbehave(raw(func(w http.ResponseWriter) { w.Header().Set("Location", "http://127.0.0.1:1/"); w.WriteHeader(307) }))
	check("a redirect", chat.ErrSetup, 0)
}

// A group that becomes a supergroup has a new number, which the server tells.
func TestMigrated(t *testing.T) {
	f := newFake(t)
	var notes []string
	c := f.open(t)
	c.Log = func(format string, _ ...any) { notes = append(notes, format) }
	tries := 0
	f.misbehave(func(method string, w http.ResponseWriter, _ *http.Request) bool {
		if tries++; tries == 1 {
			no(w, 400, "Bad Request: group chat was upgraded to a supergroup chat", `{"migrate_to_chat_id":-100200}`)
		}
		return tries == 1
	})
	if id, err := c.Send(t.Context(), sample); err != nil || id != "-100200:1" || f.sent[0]["chat_id"] != -100200.0 || len(notes) != 1 {
		t.Error(id, err, f.sent, notes)
	}
	f.misbehave(func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		tries++
		no(w, 400, "upgraded", `{"migrate_to_chat_id":-100200}`)
		return true
	})
	tries = 0
	if _, err := c.Send(t.Context(), sample); !errors.Is(err, chat.ErrRefused) || tries != 2 {
		t.Errorf("one that migrates without end: %d tries, %v", tries, err)
	}
	tries = 0
	f.misbehave(func(_ string, w http.ResponseWriter, _ *http.Request) bool {
		tries++
		no(w, 400, "upgraded", `{"migrate_to_chat_id":55}`)
		return true
	})
	if _, err := c.Send(t.Context(), sample); !errors.Is(err, chat.ErrRefused) || tries != 1 {
		t.Errorf("one that becomes a person: %d tries, %v", tries, err)
	}
}

func TestCheck(t *testing.T) {
	f := newFake(t)
	if says, err := f.open(t, "-100").Check(t.Context()); err != nil || !strings.Contains(says, "@MboxBot (4711)") || !strings.Contains(says, "privacy mode") {
		t.Error(says, err)
	}
	if len(f.offsets) > 0 {
		t.Error("it polls, which ends the poll of a bridge that runs")
	}
	if _, err := f.open(t, "-200").Check(t.Context()); !errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "-200") {
		t.Error(err)
	}
	f.hook = "https://example.org"
	if _, err := f.open(t).Check(t.Context()); !errors.Is(err, chat.ErrSetup) || !strings.Contains(err.Error(), "deleteWebhook") {
		t.Error(err)
	}
	other := f.open(t)
	other.Token = "4711:another-token"
	if _, err := other.Check(t.Context()); !errors.Is(err, chat.ErrSetup) {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	for name, s := range map[string]chat.Settings{
		"no token":      {},
		"no number":     {Token: "bot:AAAAAAAAAAAAAA"},
		"a path":        {Token: "4711:AAAAAAAAAA/../x"},
		"a name":        {Token: token, Rooms: []string{"@group"}},
		"a person":      {Token: token, Rooms: []string{"55"}},
		"in the clear":  {Token: token, Server: "http://example.org"},
		"not a server":  {Token: token, Server: "example.org"},
		"user in a URL": {Token: token, Server: "https://u:p@example.org"},
	} {
		if _, err := open(s); !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "AAAA") || strings.Contains(err.Error(), "AAtest") {
			t.Errorf("%s: %v", name, err)
		}
	}
	c, err := open(chat.Settings{Token: token})
	if err != nil || c.(*channel).server.Host() != "api.telegram.org" {
		t.Error(err)
	}
}
