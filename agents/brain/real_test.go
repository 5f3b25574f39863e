package brain

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"mbox/agents"
	"mbox/agents/brain/ollamatest"
	"mbox/agents/sandbox"
	"mbox/schemas"
)

// These are tests on a real server: a stand-in that always ends its streams well
// would show none of what can go wrong.

var shared struct {
	once   sync.Once
	server *ollamatest.Server
}

func TestMain(m *testing.M) {
	sandbox.Main()
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
		os.RemoveAll(shared.server.Dir)
	}
	os.Exit(code)
}

// ollama is the server of the tests that do it no harm. Its models:
//
//	random  nonsense, in JSON where a schema is given
//	script  replies by heart; "go on for ever" makes it do that
func ollama(t *testing.T) *ollamatest.Server {
	t.Helper()
	bin := ollamatest.Binary(t)
	shared.once.Do(func() {
		dir, err := os.MkdirTemp("", "ollama-test-")
		if err != nil {
			t.Fatal(err)
		}
		s, err := ollamatest.Run(bin, dir)
		if err != nil {
			t.Fatal(err)
		}
		models(s)
		shared.server = s
	})
	if shared.server == nil {
		t.Fatal("the server did not start: see the first test that failed")
	}
	return shared.server
}

const (
	chorus = "tick and then tock, and so on, "
	plan   = `{"say": "a plan"}`
)

func models(s *ollamatest.Server) {
	s.Create("random", ollamatest.Random(1), "", nil)
	s.Script("script",
		ollamatest.Line{Say: "Hello from a tiny model."},
		ollamatest.Line{When: "make a plan", Say: plan},
		ollamatest.Line{When: "go on for ever", Say: chorus, Loop: true})
}

// started is a server for a test that does it harm.
func started(t *testing.T, env ...string) *ollamatest.Server {
	t.Helper()
	s := ollamatest.Start(t, env...)
	forget(s.URL)
	return s
}

// on makes a brain for the server.
func on(t *testing.T, s *ollamatest.Server, o Options) *Ollama {
	t.Helper()
	o.URL, o.NumThread = s.URL, 1
	if o.NumCtx == 0 {
		o.NumCtx = 2048
	}
	b, err := NewOllama(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// card is what the random model is asked for: every string is bounded.
type card struct {
	Name  string   `json:"name"`
	Kind  string   `json:"kind"`
	Count int      `json:"count"`
	Done  bool     `json:"done"`
	Words []string `json:"words"`
}

const cardSchema = `{"type":"object","additionalProperties":false,"required":["name","kind","count","done","words"],"properties":{` +
	`"name":{"type":"string","minLength":1,"maxLength":8},"kind":{"enum":["note","order","bill"]},` +
	`"count":{"type":"integer","minimum":0,"maximum":99},"done":{"type":"boolean"},` +
	`"words":{"type":"array","minItems":1,"maxItems":2,"items":{"type":"string","maxLength":4}}}}`

// However wild the model is, what comes is what the schema asks for, or a fault.
func TestRealSchema(t *testing.T) {
	b := on(t, ollama(t), Options{Model: "random", Temperature: 1})
	schema, err := schemas.Compile([]byte(cardSchema))
	if err != nil {
		t.Fatal(err)
	}
	n := 60 // the team test does 200 with the schema of actions
	if testing.Short() {
		n = 20
	}
	seen := map[string]bool{}
	for i := range n {
		q := question(fmt.Sprintf("card %d", i))
		q.Schema, q.MaxTokens = []byte(cardSchema), 400
		r, err := b.Think(within(t), q)
		if err != nil {
			t.Fatalf("card %d: %v", i, err)
		}
		var c card
		if err := errors.Join(schemas.Decode([]byte(r.Text), &c), schema.Validate([]byte(r.Text))); err != nil {
			t.Fatalf("card %d: %v in %s", i, err, r.Text)
		}
		seen[r.Text] = true
		if r.Tokens <= 0 || r.Took <= 0 || r.Model != "random:latest" {
			t.Fatalf("%+v", r)
		}
	}
	if len(seen) < n*9/10 {
		t.Errorf("of %d cards %d differ: the test sees little", n, len(seen))
	}
}

func TestRealScript(t *testing.T) {
	b := on(t, ollama(t), Options{Model: "script"})
	sounds := 0
	q := question("Please make a plan.")
	q.Schema, q.Heard = []byte(`{"type":"object","properties":{"say":{"type":"string"}},"required":["say"]}`), func() { sounds++ }
	if r, err := b.Think(within(t), q); err != nil || r.Text != plan || sounds < 2 {
		t.Errorf("%+v %v, heard %d times", r, err, sounds)
	}
	if r, err := b.Think(within(t), question("Hi.")); err != nil || r.Text != "Hello from a tiny model." {
		t.Errorf("%+v %v", r, err)
	}
	if err := b.Ready(within(t)); err != nil {
		t.Error(err)
	}
	if v, err := b.Version(within(t)); err != nil || v == "" {
		t.Errorf("%q %v", v, err)
	}
}

func TestRealTooLong(t *testing.T) {
	b := on(t, ollama(t), Options{Model: "script"})
	q := question("go on for ever")
	q.MaxTokens = 20
	r, err := b.Think(within(t), q)
	faultOf(t, agents.ReplyTooLong, r, err)
}

// The server's habit of cutting a prompt in silence is off.
func TestRealPromptTooLong(t *testing.T) {
	b := on(t, ollama(t), Options{Model: "script", NumCtx: 64})
	r, err := b.Think(within(t), question(strings.Repeat("a very long prompt. ", 20)+"make a plan"))
	if e := faultOf(t, agents.BrainRefused, r, err); e.Hint == "" {
		t.Error(e)
	}
}

func TestRealBadSchema(t *testing.T) {
	b := on(t, ollama(t), Options{Model: "script"})
	q := question("Hi.")
	for _, schema := range []string{`{"type":"nonsense"}`, `"text"`, `[1]`} {
		q.Schema = []byte(schema)
		r, err := b.Think(within(t), q)
		t.Log(faultOf(t, agents.BrainRefused, r, err))
	}
}

func TestRealMissingModel(t *testing.T) {
	s := ollama(t)
	b := on(t, s, Options{Model: "absent"})
	r, err := b.Think(within(t), question("Hi."))
	if e := faultOf(t, agents.NoModel, r, err); !strings.Contains(e.Hint, "ollama pull absent") {
		t.Error(e)
	}
	faultOf(t, agents.NoModel, agents.Reply{}, b.Ready(within(t)))
	if names, err := b.Missing(within(t)); err != nil || len(names) != 1 || names[0] != "absent" {
		t.Errorf("%q %v", names, err)
	}
	for _, o := range []Options{{Model: "absent", Fallback: []string{"absent:1", "script"}}, {Model: "script:latest"}} {
		if r, err := on(t, s, o).Think(within(t), question("Hi.")); err != nil || r.Model != "script:latest" {
			t.Errorf("%+v: %+v %v", o, r, err)
		}
	}
	// What the server itself says about a model that went a moment ago.
	if _, f := b.chat(within(t), "absent", question("Hi.")); f == nil || f.err.Fault != agents.NoModel {
		t.Errorf("%+v", f)
	}
}

// There is no network for the server in this test, as its proxy answers nothing.
func TestRealPullWithoutNetwork(t *testing.T) {
	t.Parallel()
	s := started(t, "HTTPS_PROXY=http://127.0.0.1:9")
	var states []string
	b := on(t, s, Options{Model: "absent"})
	err := b.Pull(within(t), "absent", func(_, _ int64, status string) { states = append(states, status) })
	e := faultOf(t, agents.NoModel, agents.Reply{}, err)
	if !strings.Contains(e.Text, "the model absent cannot be pulled: ") || len(states) == 0 {
		t.Errorf("%v, states %q", e, states)
	}
	s.Stop()
	faultOf(t, agents.BrainDown, agents.Reply{}, b.Pull(within(t), "absent", nil))
}

// A thought that is given up ends the server's work as well: the only place that
// the server has is free for the next.
func TestRealCancelled(t *testing.T) {
	s := ollama(t)
	b := on(t, s, Options{Model: "script"})
	ctx, cancel := context.WithCancel(t.Context())
	q := question("go on for ever")
	q.MaxTokens, q.Heard = 1_000_000, cancel
	if r, err := b.Think(ctx, q); !errors.Is(err, context.Canceled) || r != (agents.Reply{}) {
		t.Errorf("%+v %v", r, err)
	}
	if err := b.Ready(within(t)); err != nil {
		t.Error(err)
	}
	hi, end := context.WithTimeout(t.Context(), 10*time.Second)
	defer end()
	r, err := b.Think(hi, question("Hi."))
	if errors.Is(err, context.DeadlineExceeded) {
		// Now and then the server's runner hangs for good behind a reply that was
		// cancelled, whoever did that: another runner does not.
		t.Logf("Ollama hangs: %d runners are killed", s.KillRunners())
		for range 3 { // one that is being killed may still be asked
			if r, err = b.Think(within(t), question("Hi.")); err == nil {
				break
			}
		}
	}
	if err != nil || r.Text == "" {
		t.Errorf("%+v %v", r, err)
	}
}

// third is a Heard that calls f the third time.
func third(f func()) func() {
	n := 0
	return func() {
		if n++; n == 3 {
			f()
		}
	}
}

// Killed inside a reply: never a part of it, and after a restart all is well.
func TestRealKilled(t *testing.T) {
	t.Parallel()
	s := started(t)
	models(s)
	b := on(t, s, Options{Model: "script", NumCtx: 8192})
	if _, err := b.Think(within(t), question("Hi.")); err != nil {
		t.Fatal(err)
	}
	q := question("go on for ever")
	q.MaxTokens = 8000
	for name, end := range map[string]func(){"kill": s.Kill, "stop": s.Stop} {
		q.Heard = third(end)
		r, err := b.Think(within(t), q)
		faultOf(t, agents.ReplyCut, r, err)
		r, err = b.Think(within(t), question("Hi."))
		faultOf(t, agents.BrainDown, r, err)
		faultOf(t, agents.BrainDown, agents.Reply{}, b.Ready(within(t)))
		s.Restart()
		if err := b.Wait(within(t)); err != nil {
			t.Fatal(err)
		}
		if r, err := b.Think(within(t), question("make a plan")); err != nil || r.Text != plan {
			t.Errorf("%s: %+v %v", name, r, err)
		}
		if err := b.Ready(within(t)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The runner alone is killed: a cut reply, and the next thought loads it again.
func TestRealRunnerKilled(t *testing.T) {
	t.Parallel()
	s := started(t)
	models(s)
	b := on(t, s, Options{Model: "script", NumCtx: 8192})
	q := question("go on for ever")
	q.MaxTokens = 8000
	q.Heard = third(func() {
		if s.KillRunners() == 0 {
			t.Error("no runner found")
		}
	})
	r, err := b.Think(within(t), q)
	faultOf(t, agents.ReplyCut, r, err)
	deadline := within(t)
	for { // it may meet the dead runner once more
		r, err := b.Think(deadline, question("make a plan"))
		if err == nil && r.Text == plan {
			break
		}
		var e *agents.BrainError
		if !errors.As(err, &e) || e.Fault != agents.ReplyCut && e.Fault != agents.BrainDown {
			t.Fatalf("%+v %v", r, err)
		}
	}
}

// More thoughts than the server's queue holds: each is answered or told busy.
func TestRealQueueFull(t *testing.T) {
	t.Parallel()
	s := started(t, "OLLAMA_MAX_QUEUE=1")
	models(s)
	var all sync.WaitGroup
	var mu sync.Mutex
	answered, busy := 0, 0
	for range 12 {
		b := on(t, s, Options{Model: "script", Parallel: 12})
		all.Go(func() {
			r, err := b.Think(within(t), question("make a plan"))
			mu.Lock()
			defer mu.Unlock()
			var e *agents.BrainError
			switch {
			case err == nil && r.Text == plan:
				answered++
			case errors.As(err, &e) && e.Fault == agents.BrainBusy && e.Delay > 0 && r == (agents.Reply{}):
				busy++
			default:
				t.Errorf("%+v %v", r, err)
			}
		})
	}
	all.Wait()
	if answered == 0 || busy == 0 {
		t.Errorf("%d answered, %d busy", answered, busy)
	}
	// The brains' own turns keep one from running into the other.
	for range 6 {
		b := on(t, s, Options{Model: "script"})
		all.Go(func() {
			if r, err := b.Think(within(t), question("make a plan")); err != nil || r.Text != plan {
				t.Errorf("%+v %v", r, err)
			}
		})
	}
	all.Wait()
}

// A server that takes the connection and says nothing is down, after a while.
func TestRealHangs(t *testing.T) {
	t.Parallel()
	s := started(t)
	b := on(t, s, Options{Model: "script"})
	s.Pause()
	defer s.Resume()
	e := faultOf(t, agents.BrainDown, agents.Reply{}, b.Ready(within(t)))
	if !strings.Contains(e.Text, "no answer in time") {
		t.Error(e)
	}
}

// Ollama's other door.
func TestRealOpenAI(t *testing.T) {
	s := ollama(t)
	b, err := NewOpenAI(Options{URL: s.URL + "/v1", Model: "script"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Ready(within(t)); err != nil {
		t.Error(err)
	}
	q := question("make a plan")
	q.Schema = []byte(`{"type":"object","properties":{"say":{"type":"string"}},"required":["say"]}`)
	if r, err := b.Think(within(t), q); err != nil || r.Text != plan || r.Tokens <= 0 {
		t.Errorf("%+v %v", r, err)
	}
	q = question("go on for ever")
	q.MaxTokens = 20
	r, err := b.Think(within(t), q)
	faultOf(t, agents.ReplyTooLong, r, err)

	absent, err := NewOpenAI(Options{URL: s.URL + "/v1", Model: "absent"})
	if err != nil {
		t.Fatal(err)
	}
	r, err = absent.Think(within(t), question("Hi."))
	faultOf(t, agents.NoModel, r, err)
	faultOf(t, agents.NoModel, agents.Reply{}, absent.Ready(within(t)))
	if err := b.Ready(within(t)); err != nil {
		t.Errorf("another brain's model is absent: %v", err)
	}
}

func TestRealOpenAIKilled(t *testing.T) {
	t.Parallel()
	s := started(t)
	models(s)
	b, err := NewOpenAI(Options{URL: s.URL + "/v1", Model: "script"})
	if err != nil {
		t.Fatal(err)
	}
	q := question("go on for ever")
	q.MaxTokens, q.Heard = 8000, third(s.Kill)
	r, err := b.Think(within(t), q)
	faultOf(t, agents.ReplyCut, r, err)
	r, err = b.Think(within(t), question("Hi."))
	faultOf(t, agents.BrainDown, r, err)
}
