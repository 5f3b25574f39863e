package brain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"mbox/agents"
)

const testKey = Key("sk-hunter2-hunter2")

// peer is a stand-in for a server that speaks OpenAI's protocol.
func peer(t *testing.T, chat, models http.HandlerFunc, o Options) *OpenAI {
	t.Helper()
	if models == nil {
		models = status(200, `{"data":[]}`)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", chat)
	mux.HandleFunc("GET /v1/models", models)
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	forget(s.URL)
	o.URL, o.Model = s.URL+"/v1", "m"
	b, err := NewOpenAI(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// events streams data lines.
func events(data ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, d := range data {
			fmt.Fprintf(w, ": keep-alive\n\ndata: %s\n\n", d)
			_ = http.NewResponseController(w).Flush()
		}
	}
}

func delta(text, finish string) string {
	end := "null"
	if finish != "" {
		end = fmt.Sprintf("%q", finish)
	}
	return fmt.Sprintf(`{"model":"m-1","choices":[{"index":0,"delta":{"content":%q},"finish_reason":%s}]}`, text, end)
}

func answers(code int, header, value, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(header, value)
		w.WriteHeader(code)
		io.WriteString(w, text)
	}
}

func TestOpenAIFaults(t *testing.T) {
	for name, c := range map[string]struct {
		chat http.HandlerFunc
		want agents.Fault
		text string
	}{
		"no DONE":          {events(delta(secret, "stop")), agents.ReplyCut, "[DONE]"},
		"no finish_reason": {events(delta(secret, ""), "[DONE]"), agents.ReplyCut, "finish_reason"},
		"nothing":          {events(), agents.ReplyCut, ""},
		"cut off": {func(w http.ResponseWriter, r *http.Request) {
			events(delta(secret, ""))(w, r)
			panic(http.ErrAbortHandler)
		}, agents.ReplyCut, "broke"},
		"cut inside":     {events(delta(secret, "")[:40]), agents.ReplyCut, "inside an event"},
		"wrong type":     {events(`{"choices":"` + secret + `"}`), agents.ReplyCut, "no completion"},
		"error inside":   {events(delta("a", ""), `{"error":{"message":"`+secret+`"}}`), agents.ReplyCut, "its log"},
		"length":         {events(delta(secret, "length"), "[DONE]"), agents.ReplyTooLong, "max_tokens"},
		"filter":         {events(delta(secret, "content_filter"), "[DONE]"), agents.BrainRefused, "filter"},
		"tool":           {events(delta("", "tool_calls"), "[DONE]"), agents.ReplyCut, "tool_calls"},
		"empty":          {events(delta("", "stop"), "[DONE]"), agents.ReplyEmpty, ""},
		"document, cut":  {answers(200, "Content-Type", "application/json", `{"choices":[{"message":{"content":"`+secret), agents.ReplyCut, ""},
		"document, long": {answers(200, "Content-Type", "application/json", `{"choices":[{"message":{"content":"x"},"finish_reason":"length"}]}`), agents.ReplyTooLong, ""},
		"a page":         {answers(200, "Content-Type", "text/html", "<html>"+secret), agents.ReplyCut, ""},
		"key":            {status(401, `{"error":{"message":"Incorrect API key: `+string(testKey)+`"}}`), agents.BrainDown, "key_file"},
		"forbidden":      {status(403, `{"error":{"message":"not with `+string(testKey)+`"}}`), agents.BrainRefused, "not with <redacted>"},
		"bad request":    {status(400, `{"error":{"message":"bad schema\nhere"}}`), agents.BrainRefused, `bad schema\nhere`},
		"no such model":  {status(404, `{"error":{"message":"The model does not exist"}}`), agents.NoModel, "does not exist"},
		"no such path":   {status(404, `404 page not found`), agents.BrainRefused, "/v1"},
		"error is text":  {status(422, `{"error":"no such field"}`), agents.BrainRefused, "no such field"},
		"busy":           {answers(429, "Retry-After", "17", `{"error":{"message":"slow"}}`), agents.BrainBusy, "slow"},
		"busy, a date":   {answers(503, "Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), ""), agents.BrainBusy, "503"},
		"overloaded":     {status(529, ""), agents.BrainBusy, ""},
		"bad gateway":    {status(502, ""), agents.BrainDown, ""},
		"server error":   {status(500, `{"message":"boom"}`), agents.ReplyCut, "boom"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/v1/models", http.StatusTemporaryRedirect)
		}, agents.BrainRefused, "redirect"},
		"a line too long": {events(delta(strings.Repeat("x", maxEvent), "stop"), "[DONE]"), agents.ReplyCut, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := peer(t, c.chat, nil, Options{Key: testKey})
			r, err := b.Think(within(t), question("hi"))
			e := faultOf(t, c.want, r, err)
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q does not say %q", err, c.text)
			}
			if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "\n") {
				t.Errorf("the error repeats what it must not: %q", err)
			}
			gives := e.Fault == agents.BrainBusy || e.Fault == agents.BrainDown || e.Fault == agents.NoModel
			if held := b.Ready(within(t)); gives != (held != nil) || gives && e.Delay <= 0 {
				t.Errorf("Ready then says %v, the error's delay is %v", held, e.Delay)
			}
			switch {
			case name == "busy" && (e.Delay < 17*time.Second || e.Delay > 22*time.Second):
				t.Errorf("delay %v, want 17s", e.Delay)
			case name == "busy, a date" && e.Delay != maxRest:
				t.Errorf("delay %v, want %v", e.Delay, maxRest)
			}
		})
	}
}

func TestOpenAIReply(t *testing.T) {
	var sent []byte
	var header http.Header
	b := peer(t, func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		header = r.Header
		events(delta("Hel", ""), delta("lo", ""), delta("", "stop"), `{"choices":[],"usage":{"total_tokens":12}}`, "[DONE]")(w, r)
	}, nil, Options{Key: testKey})
	sounds := 0
	q := question("hi")
	q.Schema, q.Heard = []byte(`{"type":"object"}`), func() { sounds++ }
	r, err := b.Think(within(t), q)
	if err != nil || r.Text != "Hello" || r.Model != "m-1" || r.Tokens != 12 || r.Took <= 0 || sounds < 5 {
		t.Errorf("%+v %v, heard %d times", r, err, sounds)
	}
	if got := header.Get("Authorization"); got != "Bearer "+string(testKey) {
		t.Errorf("authorization %q", got)
	}
	want := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},"max_tokens":2048,` +
		`"temperature":0,"response_format":{"type":"json_schema","json_schema":{"name":"reply","schema":{"type":"object"}}}}`
	if string(sent) != want {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
}

func TestOpenAIRequest(t *testing.T) {
	b, err := NewOpenAI(Options{URL: "https://api.openai.com/v1", Model: "m", FreeFormat: true, Temperature: -1})
	if err != nil {
		t.Fatal(err)
	}
	q := question("hi")
	q.Schema, q.MaxTokens = []byte(`{}`), 9
	want := `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true},"max_completion_tokens":9}`
	if got, _ := json.Marshal(b.request(q)); string(got) != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// A server that does not stream is as good.
func TestOpenAIDocument(t *testing.T) {
	b := peer(t, answers(200, "Content-Type", "application/json",
		`{"choices":[{"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}],"usage":{"total_tokens":3}}`), nil, Options{})
	if r, err := b.Think(within(t), question("hi")); err != nil || r.Text != "Hello" || r.Model != "m" || r.Tokens != 3 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestOpenAICancelled(t *testing.T) {
	gone := make(chan struct{})
	b := peer(t, func(w http.ResponseWriter, r *http.Request) {
		events(delta("a", ""))(w, r)
		<-r.Context().Done()
		close(gone)
	}, nil, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	q := question("hi")
	q.Heard = cancel
	if r, err := b.Think(ctx, q); !errors.Is(err, context.Canceled) || r != (agents.Reply{}) {
		t.Errorf("%+v %v", r, err)
	}
	<-gone
	if err := b.Ready(within(t)); err != nil {
		t.Errorf("the server is held to be at fault: %v", err)
	}
}

func TestOpenAIReady(t *testing.T) {
	for name, c := range map[string]struct {
		models http.HandlerFunc
		want   agents.Fault
	}{
		"list":       {nil, ""},
		"no list":    {status(404, ""), ""},
		"key":        {status(401, ""), agents.BrainDown},
		"busy":       {status(429, ""), agents.BrainBusy},
		"broken":     {status(500, ""), agents.BrainDown},
		"redirected": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }, agents.BrainRefused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := peer(t, func(http.ResponseWriter, *http.Request) { t.Error("a model was called") }, c.models, Options{})
			for range 2 {
				err := b.Ready(within(t))
				if c.want == "" {
					if err != nil {
						t.Error(err)
					}
					continue
				}
				faultOf(t, c.want, agents.Reply{}, err)
			}
		})
	}
}

func TestOpenAIAddress(t *testing.T) {
	for address, want := range map[string]string{
		"http://127.0.0.1:8080/v1":  "",
		"http://localhost:8080/v1/": "",
		"http://[::1]:8080/v1":      "",
		"https://llm.example/v1":    "",
		"http://llm.example/v1":     "want https",
		"http://10.0.0.7/v1":        "want https",
		"ftp://localhost/v1":        "no URL of http",
		"https://u:p@llm.example":   "without user",
		"":                          "missing",
	} {
		_, _, err := openAIAddress(address)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", address, err, want)
		}
	}
}

// A name of this machine that resolves to another one is not talked to.
func TestDialsLocalOnly(t *testing.T) {
	resp, err := client(true).Get("http://192.0.2.1:9/")
	if err == nil {
		resp.Body.Close()
	}
	if !errors.Is(err, errNotLocal) {
		t.Error(err)
	}
}
