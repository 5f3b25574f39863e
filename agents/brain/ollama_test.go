package brain

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/agents"
)

const secret = "what-the-model-has-said"

// Every way in which a reply is no reply.
func TestOllamaFaults(t *testing.T) {
	for name, c := range map[string]struct {
		chat http.HandlerFunc
		want agents.Fault
		text string // part of the error
	}{
		"no end mark":       {says(piece(secret)), agents.ReplyCut, "end mark"},
		"nothing at all":    {says(), agents.ReplyCut, "end mark"},
		"cut off":           {breaks(piece(secret), piece("b")), agents.ReplyCut, "broke"},
		"cut inside a line": {says(piece("a"), piece(secret)[:60]), agents.ReplyCut, "inside the reply"},
		"broken inside a line": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, piece("a")+"\n"+piece(secret)[:60])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, agents.ReplyCut, "broke"},
		"too long":            {says(piece(secret), done("length")), agents.ReplyTooLong, "2048 tokens"},
		"unloaded":            {says(piece(secret), done("unload")), agents.ReplyCut, "unload"},
		"without a reason":    {says(piece(secret), done("")), agents.ReplyCut, ""},
		"empty":               {says(done("stop")), agents.ReplyEmpty, ""},
		"blank":               {says(piece(" \n"), done("stop")), agents.ReplyEmpty, ""},
		"runner died":         {says(piece(secret), `{"error":"an error was encountered while running the model: unexpected EOF"}`), agents.ReplyCut, "running the model"},
		"error with a reply":  {says(piece("a"), `{"error":"cannot parse raw='`+secret+`'"}`), agents.ReplyCut, "its log"},
		"no JSON":             {says("<html>" + secret), agents.ReplyCut, "inside the reply"},
		"wrong type":          {says(`{"message":"` + secret + `","done":true}`), agents.ReplyCut, ""},
		"queue full":          {status(503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`), agents.BrainBusy, "server busy"},
		"too many":            {status(429, `{"error":"slow down"}`), agents.BrainBusy, "slow down"},
		"no such model":       {status(404, `{"error":"model 'm' not found"}`), agents.NoModel, "ollama pull m"},
		"bad request":         {status(400, `{"error":"invalid options"}`), agents.BrainRefused, "invalid options"},
		"context":             {status(400, `{"error":"the input length exceeds the context length"}`), agents.BrainRefused, "num_ctx"},
		"sign-in":             {status(401, `{"error":"unauthorized"}`), agents.BrainRefused, "sign-in"},
		"bad gateway":         {status(502, `oh`), agents.BrainDown, "oh"},
		"schema":              {status(500, `{"error":"invalid JSON schema in format"}`), agents.BrainRefused, "schema"},
		"memory":              {status(500, `{"error":"model requires more system memory (9 GiB) than is available (1 GiB)"}`), agents.BrainDown, "fallback of its [roles.NAME] in mbox.toml"},
		"loading":             {status(500, `{"error":"timed out waiting for llama runner to start - progress 0.20"}`), agents.BrainBusy, "timed out"},
		"broken model":        {status(500, `{"error":"unable to load model: /x"}`), agents.NoModel, "ollama pull m"},
		"runner does not run": {status(500, `{"error":"llama runner process has terminated: exit status 2"}`), agents.BrainDown, "terminated"},
		"anything else":       {status(500, `{"error":"boom"}`), agents.ReplyCut, "boom"},
		"control characters":  {status(500, `{"error":"bo\u001b[2Jom\nnext"}`), agents.ReplyCut, `bo\x1b[2Jom\nnext`},
		"dies before a word":  {breaks(), agents.BrainDown, "before an answer"},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, agents.BrainRefused, "redirect"},
		"hangs up": {func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := http.NewResponseController(w).Hijack()
			c.Close()
		}, agents.BrainDown, "ended before an answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newFake(t, "m:latest", c.chat).brain(t, Options{})
			r, err := b.Think(within(t), question("hi"))
			e := faultOf(t, c.want, r, err)
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q does not say %q", err, c.text)
			}
			if strings.Contains(err.Error(), secret) || strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("the error repeats what it must not: %q", err)
			}
			held := b.Ready(within(t))
			if gives := e.Fault == agents.BrainBusy || e.Fault == agents.BrainDown; gives != (held != nil) || gives && e.Delay <= 0 {
				t.Errorf("Ready then says %v, the error's delay is %v", held, e.Delay)
			}
		})
	}
}

func TestOllamaReply(t *testing.T) {
	var got map[string]any
	f := newFake(t, "m:latest", func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		says(piece(`{"a":`), piece(`1}`), done("stop"))(w, r)
	})
	b := f.brain(t, Options{NumCtx: 512, NumThread: 3, KeepAlive: new(time.Duration(-1)), Think: "off", Temperature: 0.5})
	sounds := 0
	r, err := b.Think(within(t), agents.Thought{
		Messages: []agents.Message{{Role: "system", Content: "be"}, {Role: "user", Content: "hi"}},
		Schema:   []byte(`{"type":"object"}`), MaxTokens: 99, Heard: func() { sounds++ },
	})
	if err != nil || r.Text != `{"a":1}` || r.Model != "m:latest" || r.Tokens != 12 || r.Took <= 0 {
		t.Errorf("%+v %v", r, err)
	}
	if sounds != 3 {
		t.Errorf("heard %d times, want 3", sounds)
	}
	sent, _ := json.Marshal(got)
	want := `{"format":{"type":"object"},"keep_alive":-1,"messages":[{"content":"be","role":"system"},{"content":"hi","role":"user"}],` +
		`"model":"m:latest","options":{"num_ctx":512,"num_predict":99,"num_thread":3,"temperature":0.5},"shift":false,"think":false,"truncate":false}`
	if string(sent) != want {
		t.Errorf("sent %s\nwant %s", sent, want)
	}
}

func TestOllamaDefaults(t *testing.T) {
	for temperature, want := range map[float64]string{
		0:  `{"num_ctx":8192,"num_predict":2048,"temperature":0}`,
		-1: `{"num_ctx":8192,"num_predict":2048}`,
	} {
		b, err := NewOllama(Options{URL: Default, Model: "m", Temperature: temperature})
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := json.Marshal(b.request("m", question("hi")).Options); string(got) != want {
			t.Errorf("temperature %g: %s, want %s", temperature, got, want)
		}
	}
}

// A reply that never ends is given up, and the server hears of it.
func TestOllamaEndless(t *testing.T) {
	gone := make(chan struct{})
	f := newFake(t, "m", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			says(piece(strings.Repeat("x", 64<<10)))(w, r)
		}
		close(gone)
	})
	r, err := f.brain(t, Options{}).Think(within(t), question("hi"))
	faultOf(t, agents.ReplyTooLong, r, err)
	<-gone
}

// A context that ends is the context's error, whatever came before.
func TestOllamaCancelled(t *testing.T) {
	gone := make(chan struct{})
	f := newFake(t, "m", func(w http.ResponseWriter, r *http.Request) {
		says(piece("a"), piece("b"))(w, r)
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithCancel(t.Context())
	b := f.brain(t, Options{})
	q := question("hi")
	q.Heard = cancel
	if r, err := b.Think(ctx, q); !errors.Is(err, context.Canceled) || r != (agents.Reply{}) {
		t.Errorf("%+v %v", r, err)
	}
	<-gone
	if err := b.Ready(within(t)); err != nil {
		t.Errorf("the server is held to be at fault: %v", err)
	}
	if _, err := b.Think(ctx, q); !errors.Is(err, context.Canceled) {
		t.Errorf("ended before it began: %v", err)
	}
}

func TestOllamaRefused(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	forget("http://" + l.Addr().String())
	b, err := NewOllama(Options{URL: l.Addr().String(), Model: "m"})
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for range 2 {
		r, err := b.Think(within(t), question("hi"))
		if e := faultOf(t, agents.BrainDown, r, err); !strings.Contains(e.Text, "connection refused") || e.Hint == "" {
			t.Error(e)
		}
		if e := faultOf(t, agents.BrainDown, agents.Reply{}, b.Ready(within(t))); e.Delay <= 0 {
			t.Error("Ready names no delay")
		}
	}
}

// Many idle agents ask a server once, and nothing of its models.
func TestReadyIsCheap(t *testing.T) {
	f := newFake(t, "m", func(http.ResponseWriter, *http.Request) { t.Error("a model was called") })
	var all sync.WaitGroup
	for range 50 {
		b := f.brain(t, Options{})
		all.Go(func() {
			if err := b.Ready(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := f.asked.Load(); n != 1 {
		t.Errorf("asked %d times, want once", n)
	}
}

// While it thinks for one, the others of the same server are held back.
func TestReadyWhenFull(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	f := newFake(t, "m", func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		says(piece("a"), done("stop"))(w, r)
	})
	first, second, wide := f.brain(t, Options{}), f.brain(t, Options{}), f.brain(t, Options{Parallel: 2})
	if err := second.Ready(within(t)); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	think := func(b *Ollama) {
		if r, err := b.Think(within(t), question("hi")); err != nil || r.Text != "a" {
			t.Errorf("%+v %v", r, err)
		}
	}
	all.Go(func() { think(first) })
	<-entered
	if e := faultOf(t, agents.BrainBusy, agents.Reply{}, second.Ready(within(t))); e.Delay <= 0 {
		t.Error("no delay")
	}
	if err := wide.Ready(within(t)); err != nil {
		t.Errorf("there is room for two: %v", err)
	}
	all.Go(func() { think(second) }) // waits
	leave <- struct{}{}
	<-entered
	leave <- struct{}{}
	all.Wait()
	if err := second.Ready(within(t)); err != nil {
		t.Error(err)
	}
}

// The wait for a turn ends with the context, and leaves nothing taken.
func TestTurnCancelled(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	f := newFake(t, "m", func(w http.ResponseWriter, r *http.Request) {
		entered <- struct{}{}
		<-leave
		says(piece("a"), done("stop"))(w, r)
	})
	b := f.brain(t, Options{})
	var all sync.WaitGroup
	all.Go(func() { _, _ = b.Think(within(t), question("hi")) })
	<-entered
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.Think(ctx, question("hi")); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	leave <- struct{}{}
	all.Wait()
	if err := b.Ready(within(t)); err != nil {
		t.Error(err)
	}
}

func TestChoice(t *testing.T) {
	for name, c := range map[string]struct {
		models, model, fallback, want string
	}{
		"exact":                   {"a:1 a:2", "a:2", "", "a:2"},
		"latest":                  {"a:1 a:latest", "a", "", "a:latest"},
		"any tag":                 {"b a:1", "a", "", "a:1"},
		"no tag but the given":    {"a:latest", "a:1", "", ""},
		"a name is no beginning":  {"phi4-mini:1", "phi4", "", ""},
		"fallback":                {"b:1 c:1", "a", "x b c", "b:1 c:1"},
		"model first":             {"b:1 a:1", "a", "b", "a:1 b:1"},
		"once":                    {"a:1", "a", "a:1 a", "a:1"},
		"auto":                    {"nomic-embed-text:1 z:1 y:1", "auto", "", "z:1"},
		"auto, fallback is there": {"z:1 b:1", "auto", "b", "b:1"},
		"auto, nothing":           {"", "auto", "", ""},
		"case":                    {"Llama3:8B", "llama3", "", "Llama3:8B"},
		"a path with a port":      {"host:5000/x/a:1", "host:5000/x/a", "", "host:5000/x/a:1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, c.models, nil)
			b := f.brain(t, Options{Model: c.model, Fallback: strings.Fields(c.fallback)})
			list, err := b.models(within(t), 0, nil)
			if got := strings.Join(b.choose(list), " "); err != nil || got != c.want {
				t.Errorf("%q %v, want %q", got, err, c.want)
			}
			if err := b.Ready(within(t)); (err == nil) != (c.want != "") {
				t.Errorf("Ready: %v", err)
			} else if err != nil {
				faultOf(t, agents.NoModel, agents.Reply{}, err)
			}
		})
	}
}

// A model that is gone, or too large for the machine, gives way to the next.
func TestFallbackAnswers(t *testing.T) {
	for name, first := range map[string]http.HandlerFunc{
		"gone":      status(404, `{"error":"model 'big' not found"}`),
		"too large": status(500, `{"error":"model requires more system memory (9 GiB) than is available (1 GiB)"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "big:1 small:1", func(w http.ResponseWriter, r *http.Request) {
				if ask, _ := io.ReadAll(r.Body); strings.Contains(string(ask), "big:1") {
					first(w, r)
					return
				}
				says(piece("a"), done("stop"))(w, r)
			})
			r, err := f.brain(t, Options{Model: "big", Fallback: []string{"small"}}).Think(within(t), question("hi"))
			if err != nil || r.Model != "small:1" {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
}

// A model that is too large holds its own brain back, and no other of the server.
func TestLargeModelRests(t *testing.T) {
	asked := 0
	f := newFake(t, "big:1 small:1", func(w http.ResponseWriter, r *http.Request) {
		asked++
		status(500, `{"error":"model requires more system memory (9 GiB) than is available (1 GiB)"}`)(w, r)
	})
	big, small := f.brain(t, Options{Model: "big"}), f.brain(t, Options{Model: "small"})
	r, err := big.Think(within(t), question("hi"))
	if e := faultOf(t, agents.BrainDown, r, err); e.Delay < time.Minute {
		t.Errorf("it is to be tried again in %v", e.Delay)
	}
	faultOf(t, agents.BrainDown, agents.Reply{}, big.Ready(within(t)))
	if err := small.Ready(within(t)); err != nil || asked != 1 {
		t.Errorf("asked %d times; the other brain is held back: %v", asked, err)
	}
}

func TestMissing(t *testing.T) {
	b := newFake(t, "a:1", nil).brain(t, Options{Model: "a", Fallback: []string{"b", "b", "c:1"}})
	if names, err := b.Missing(within(t)); err != nil || strings.Join(names, " ") != "b c:1" {
		t.Errorf("%q %v", names, err)
	}
}

func TestThoughtRefused(t *testing.T) {
	b := newFake(t, "m", nil).brain(t, Options{})
	for _, q := range []agents.Thought{
		{},
		{Messages: question("hi").Messages, Schema: []byte("{")},
	} {
		r, err := b.Think(within(t), q)
		faultOf(t, agents.BrainRefused, r, err)
	}
}

func TestPull(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"success": {says(`{"status":"pulling manifest"}`, `{"status":"pulling","digest":"a","total":10,"completed":4}`,
			`{"status":"pulling","digest":"b","total":5,"completed":5}`, `{"status":"success"}`), ""},
		"cut":     {says(`{"status":"pulling manifest"}`), "cut off"},
		"broken":  {breaks(`{"status":"pulling manifest"}`), "cut off"},
		"error":   {says(`{"status":"pulling manifest"}`, `{"error":"pull model manifest: no such host"}`), "no such host"},
		"refused": {status(500, `{"error":"disk full"}`), "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, "", nil)
			f.Config.Handler.(*http.ServeMux).HandleFunc("/api/pull", c.answer)
			var sums []int64
			err := f.brain(t, Options{}).Pull(within(t), "m", func(done, total int64, _ string) { sums = append(sums, done, total) })
			if c.want == "" {
				if n := len(sums); err != nil || n != 8 || sums[n-2] != 9 || sums[n-1] != 15 {
					t.Errorf("%v %v", sums, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}
