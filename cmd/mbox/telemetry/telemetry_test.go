package telemetry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"mbox/agents/chat"
	"mbox/mailbox"
	"mbox/mailbox/mailboxtest"
	"mbox/mailbox/verify"
)

// collector is a server that takes OTLP as JSON, and nothing that the published
// protobufs do not know.
type collector struct {
	*testing.T
	*httptest.Server
	mu      sync.Mutex
	answers []func(http.ResponseWriter) // to the next requests; then 200
	raw     []string                    // bodies that came in, whatever was answered
	spans   []*tracepb.Span             // of those that were taken
	header  http.Header
	came    chan struct{}
}

func newCollector(t *testing.T) *collector {
	c := &collector{T: t, came: make(chan struct{}, 1000)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.came <- struct{}{} }()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != "POST" || r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/json" {
		c.Errorf("%s %s %s: %v", r.Method, r.URL, r.Header.Get("Content-Type"), err)
	}
	c.raw, c.header = append(c.raw, string(body)), r.Header
	if len(c.answers) > 0 {
		answer := c.answers[0]
		c.answers = c.answers[1:]
		answer(w)
		return
	}
	spans, err := decode(body)
	if err != nil {
		c.Errorf("%v in %s", err, body)
	}
	c.spans = append(c.spans, spans...)
	fmt.Fprint(w, `{"partialSuccess":{}}`)
}

// decode reads a request strictly. In OTLP's JSON identifiers are hex, where protobuf's
// own JSON has base64.
func decode(body []byte) ([]*tracepb.Span, error) {
	var free any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&free); err != nil {
		return nil, err
	}
	if err := unhex(free); err != nil {
		return nil, err
	}
	coded, err := json.Marshal(free)
	if err != nil {
		return nil, err
	}
	var data tracepb.TracesData
	if err := protojson.Unmarshal(coded, &data); err != nil {
		return nil, err
	}
	var spans []*tracepb.Span
	for _, r := range data.ResourceSpans {
		if len(r.Resource.Attributes) == 0 || r.Resource.Attributes[0].Key != "service.name" || r.Resource.Attributes[0].Value.GetStringValue() != "mbox" {
			return nil, fmt.Errorf("of whom is it: %v", r.Resource)
		}
		for _, s := range r.ScopeSpans {
			spans = append(spans, s.Spans...)
		}
	}
	return spans, nil
}

func unhex(v any) error {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			if err := unhex(one); err != nil {
				return err
			}
		}
	case map[string]any:
		for key, one := range v {
			size := map[string]int{"traceId": 16, "spanId": 8, "parentSpanId": 8}[key]
			if size == 0 {
				if err := unhex(one); err != nil {
					return err
				}
				continue
			}
			text, _ := one.(string)
			id, err := hex.DecodeString(text)
			if err != nil || len(id) != size {
				return fmt.Errorf("%s %q: %w", key, text, err)
			}
			v[key] = base64.StdEncoding.EncodeToString(id)
		}
	}
	return nil
}

// told is every span that the server took, in words: its name, whose child it is, what
// it links to, and its attributes.
func (c *collector) told() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := map[string]string{}
	for _, s := range c.spans {
		names[string(s.SpanId)] = s.Name
	}
	for _, s := range c.spans {
		text := s.Name + attributesOf(s)
		if len(s.ParentSpanId) > 0 {
			text += " in " + names[string(s.ParentSpanId)]
		}
		for _, l := range s.Links {
			text += " from " + names[string(l.SpanId)]
		}
		if s.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			text += " failed"
		}
		all = append(all, text)
	}
	return all
}

func attributesOf(s *tracepb.Span) (text string) {
	for _, a := range s.Attributes {
		key := a.Key[strings.LastIndexByte(a.Key, '.')+1:]
		if slices.Contains([]string{"id", "outcome", "type", "state", "by", "model", "input_tokens", "output_tokens", "status"}, key) {
			text += fmt.Sprintf(" %s=%s", key, a.Value.GetStringValue())
			if a.Value.GetStringValue() == "" {
				text += fmt.Sprint(a.Value.GetIntValue())
			}
		}
	}
	return text
}

func (c *collector) ids() (all []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		all = append(all, hex.EncodeToString(s.TraceId)+" "+hex.EncodeToString(s.SpanId))
	}
	return all
}

// office is a mailbox whose tasks are told of.
type office struct {
	*testing.T
	box *mailbox.Box
	to  *collector
	log []string
	mu  sync.Mutex
}

func newOffice(t *testing.T) *office {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "home")
	o := mailbox.Options{
		RetryBase: time.Nanosecond,
		Approval: func(t *mailbox.Task) string {
			if t.Task.Title == "careful" {
				return "it is careful"
			}
			return ""
		},
	}
	t.Cleanup(func() { // when the box is closed
		r, err := verify.Home(context.Background(), dir, verify.Options{Deep: true})
		if err != nil || len(r.Findings) > 0 {
			t.Errorf("verify: %v, %v", r.Findings, err)
		}
	})
	box := mailboxtest.In(t, dir, o)
	f := &office{T: t, box: box, to: newCollector(t)}
	lock, err := chat.Hold(box, file)
	f.must(err)
	f.must(f.exporter("").restore(t.Context())) // from here on
	f.must(lock.Unlock())
	return f
}

func (f *office) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *office) exporter(headers string) *Exporter {
	f.Helper()
	e, err := New(Options{
		Box: f.box, Endpoint: f.to.URL, Settings: chat.Settings{Token: headers}, Version: "1.2", Pause: time.Millisecond,
		Log: func(format string, a ...any) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.log = append(f.log, fmt.Sprintf(format, a...))
		},
	})
	f.must(err)
	return e
}

// export exports until so many requests more were made and the place is behind what
// they were about, and returns what Run does.
func (f *office) export(e *Exporter, requests int) error {
	f.Helper()
	ctx, stop := context.WithCancel(f.Context())
	defer stop()
	before, err := Read(f.box.Home())
	f.must(err)
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	for range requests {
		select {
		case <-f.to.came:
		case err := <-ended:
			return err
		case <-time.After(20 * time.Second):
			f.Fatalf("not told; %q", f.log)
		}
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if p, err := Read(f.box.Home()); err == nil && p.Sent+p.Dropped > before.Sent+before.Dropped || time.Since(begun) > 20*time.Second {
			break
		}
		select {
		case err := <-ended:
			return err
		default:
		}
	}
	stop()
	return <-ended
}

func (f *office) send(title string) mailbox.ID {
	f.Helper()
	id, err := f.box.Submit(f.Context(), &mailbox.Task{ID: mailbox.ID("t-" + title), Source: mailbox.Source{Agent: "human"}, Task: mailbox.Request{Title: title}, Assignment: mailbox.Assignment{TargetAgent: "a"}})
	f.must(err)
	return id
}

func (f *office) claim(agent string) *mailbox.Claim {
	f.Helper()
	c, err := f.box.Claim(f.Context(), mailbox.ClaimRequest{Agent: agent})
	f.must(err)
	f.Cleanup(func() { c.Close() })
	return c
}

func (f *office) done(title string) {
	f.Helper()
	f.send(title)
	f.must(f.claim("a").Complete(f.Context(), mailbox.Result{}))
}

func failure(code string, final bool) mailbox.Failure {
	return mailbox.Failure{TaskError: mailbox.TaskError{Code: code, Message: "SECRET words"}, Final: final}
}

func (f *office) expect(want ...string) {
	f.Helper()
	if told := f.to.told(); !slices.Equal(told, want) {
		f.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}

// A task is a trace: its attempts, the failed one too, are spans in that of the task,
// and what was put back after its end has a span of its own. Nothing that somebody
// wrote is told.
func TestTaskIsATrace(t *testing.T) {
	f := newOffice(t)
	id := f.send("SECRET")
	f.must(f.claim("a").Fail(t.Context(), failure("exit", false)))
	f.must(f.claim("a").Release(t.Context(), "SECRET", 0))
	f.must(f.claim("a").Fail(t.Context(), failure("timeout", true)))
	f.must(f.box.Retry(t.Context(), id, "human", "SECRET"))
	f.must(f.claim("a").Complete(t.Context(), mailbox.Result{Output: []byte(`"SECRET"`)}))
	gone := f.send("gone")
	f.must(f.box.Cancel(t.Context(), gone, "human", "SECRET"))
	f.must(f.export(f.exporter(""), 1))
	f.expect(
		"invoke_agent a id=t-SECRET outcome=task_retried type=exit in task failed",
		"invoke_agent a id=t-SECRET outcome=task_released in task",
		"invoke_agent a id=t-SECRET outcome=task_failed type=timeout in task failed",
		"task id=t-SECRET state=failed type=other type=timeout failed",
		"invoke_agent a id=t-SECRET outcome=task_completed in task",
		"task id=t-SECRET state=completed type=other",
		"task id=t-gone state=cancelled type=other",
	)
	if text := strings.ReplaceAll(strings.Join(f.to.raw, ""), "t-SECRET", ""); strings.Contains(text, "SECRET") {
		t.Error(text)
	}
	ids := f.to.ids()
	if trace, _, _ := strings.Cut(ids[0], " "); !strings.HasPrefix(ids[5], trace) || strings.HasPrefix(ids[6], trace) || ids[3] == ids[5] {
		t.Errorf("%q", ids)
	}
	for _, s := range f.to.spans {
		if s.StartTimeUnixNano == 0 || s.StartTimeUnixNano > s.EndTimeUnixNano || s.EndTimeUnixNano > uint64(time.Now().UnixNano()) {
			t.Errorf("%s from %d to %d", s.Name, s.StartTimeUnixNano, s.EndTimeUnixNano)
		}
	}
	if s := f.to.spans; !bytes.Equal(s[0].ParentSpanId, s[3].SpanId) || !bytes.Equal(s[4].ParentSpanId, s[5].SpanId) {
		t.Error("the attempts are not in the span of their task")
	}
}

// What a model or an action took is a span in that of the attempt; other words in the
// attempt's log are none.
func TestWhatWasDoneInAnAttempt(t *testing.T) {
	f := newOffice(t)
	c := f.begins("one")
	dir := filepath.Join(f.box.AgentDir("a"), "logs")
	f.must(os.MkdirAll(dir, 0o700))
	now := time.Now().UTC()
	line := func(text string) string { return now.Format("2006-01-02T15:04:05.000Z") + " " + text + "\n" }
	f.must(os.WriteFile(filepath.Join(dir, "t-one.1.log"), []byte(
		line(`stderr model {"name":"SECRET","took_ms":1}`)+line(`model {"error":"brain_down","took_ms":20}`)+
			line(`model {"name":"qwen3:4b","provider":"ollama","input":500,"output":30,"took_ms":1500}`)+line(`reply SECRET`)+
			line(`action {"name":"write_file","status":"written","took_ms":3}`)+line(`model {"SECRET":1}`)), 0o600))
	f.must(c.Complete(t.Context(), mailbox.Result{}))
	f.must(f.export(f.exporter(""), 1))
	f.expect(
		"chat id=t-one type=brain_down in invoke_agent a failed",
		"chat qwen3:4b id=t-one model=qwen3:4b input_tokens=500 output_tokens=30 in invoke_agent a",
		"execute_tool write_file id=t-one status=written in invoke_agent a",
		"invoke_agent a id=t-one outcome=task_completed in task",
		"task id=t-one state=completed type=other",
	)
	s := f.to.spans[1]
	if s.Kind != tracepb.Span_SPAN_KIND_CLIENT || s.EndTimeUnixNano-s.StartTimeUnixNano != 1_500_000_000 || strings.Contains(f.to.raw[0], "SECRET") {
		t.Errorf("%v of %s", s, f.to.raw[0])
	}
	names := map[string]string{}
	for _, a := range s.Attributes {
		names[a.Key] = a.Value.GetStringValue()
	}
	if names["gen_ai.operation.name"] != "chat" || names["gen_ai.provider.name"] != "ollama" || names["gen_ai.request.model"] != "qwen3:4b" {
		t.Errorf("%v", names)
	}
	if ids := f.to.ids(); len(slices.Compact(slices.Sorted(slices.Values(ids)))) != 5 {
		t.Errorf("%q", ids)
	}
}

// The trace of a child links to the attempt of its parent that made it; an approval is
// a span.
func TestChildAndApproval(t *testing.T) {
	f := newOffice(t)
	f.send("boss")
	boss := f.claim("a")
	ids, err := boss.Delegate(t.Context(), mailbox.Delegation{Children: []mailbox.Child{{Task: &mailbox.Task{
		Task: mailbox.Request{Title: "careful"}, Assignment: mailbox.Assignment{TargetAgent: "b"}, Mbox: mailbox.Meta{Action: &mailbox.Action{Name: "deploy"}},
	}}}})
	f.must(err)
	_, err = f.box.Approve(t.Context(), ids[0], mailbox.Consent{By: "human", From: "a test", For: time.Hour})
	f.must(err)
	f.must(f.claim("b").Complete(t.Context(), mailbox.Result{}))
	f.must(f.claim("a").Complete(t.Context(), mailbox.Result{}))
	f.must(f.export(f.exporter(""), 1))
	kid := string(ids[0])
	f.expect(
		"invoke_agent a id=t-boss outcome=task_released in task",
		"approval id="+kid+" by=human in task",
		"invoke_agent b id="+kid+" outcome=task_completed in task",
		"task id="+kid+" state=completed type=other from invoke_agent a",
		"invoke_agent a id=t-boss outcome=task_completed in task",
		"task id=t-boss state=completed type=other",
	)
}

// A server that is away or busy loses nothing, and the pause that it asks for is kept;
// what it took is not sent again.
func TestServerIsBackAgain(t *testing.T) {
	f := newOffice(t)
	busy := func(code int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { w.Header().Set("Retry-After", "0"); w.WriteHeader(code) }
	}
	cut := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	f.to.answers = []func(http.ResponseWriter){busy(429), busy(502), cut, busy(503), busy(504)}
	f.done("one")
	f.must(f.export(f.exporter("api-key=a%20b,x=y"), 6))
	want := []string{"invoke_agent a id=t-one outcome=task_completed in task", "task id=t-one state=completed type=other"}
	f.expect(want...)
	for _, body := range f.to.raw[1:] {
		if body != f.to.raw[0] {
			t.Errorf("sent again as\n%s\nfirst\n%s", body, f.to.raw[0])
		}
	}
	if h := f.to.header; h.Get("api-key") != "a b" || h.Get("x") != "y" {
		t.Errorf("%v", h)
	}
	f.done("two")
	f.must(f.export(f.exporter(""), 1))
	f.expect(append(want, "invoke_agent a id=t-two outcome=task_completed in task", "task id=t-two state=completed type=other")...)
	if p, err := Read(f.box.Home()); err != nil || p.Sent != 4 || p.Dropped != 0 || p.Fault != "" || len(p.Open) != 0 {
		t.Errorf("%+v %v", p, err)
	}
}

// What was sent and not kept, because the process died between, is sent again as the
// same spans; an attempt that began before it died has its beginning.
func TestSentAgainIsTheSame(t *testing.T) {
	f := newOffice(t)
	f.done("one")
	c := f.begins("two")
	path := chat.PlaceFile(f.box.Home(), file)
	before, err := os.ReadFile(path)
	f.must(err)
	f.must(f.export(f.exporter(""), 1))
	first := f.to.ids()
	f.must(os.WriteFile(path, before, 0o600))
	f.must(f.export(f.exporter(""), 1))
	if again := f.to.ids()[len(first):]; !slices.Equal(first, again) || f.to.raw[0] != f.to.raw[1] {
		t.Errorf("first %q, then %q", first, again)
	}
	f.must(c.Complete(t.Context(), mailbox.Result{}))
	f.must(f.export(f.exporter(""), 1))
	told := f.to.told()
	if got := told[len(told)-2:]; got[0] != "invoke_agent a id=t-two outcome=task_completed in task" {
		t.Errorf("%q", got)
	}
}

func (f *office) begins(title string) *mailbox.Claim { f.Helper(); f.send(title); return f.claim("a") }

// What the server refuses for good is counted and not sent again.
func TestRefusedIsCounted(t *testing.T) {
	for _, c := range []struct {
		answer  func(http.ResponseWriter)
		dropped int64
	}{
		{func(w http.ResponseWriter) { w.WriteHeader(400) }, 2},
		{func(w http.ResponseWriter) { w.WriteHeader(500) }, 2},
		{func(w http.ResponseWriter) {
			fmt.Fprint(w, `{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}`)
		}, 1},
		{func(w http.ResponseWriter) { fmt.Fprint(w, `{"partialSuccess":{"rejectedSpans":7}}`) }, 2},
		{func(w http.ResponseWriter) { fmt.Fprint(w, `thanks`) }, 0},
	} {
		f := newOffice(t)
		f.to.answers = []func(http.ResponseWriter){c.answer}
		f.done("one")
		f.must(f.export(f.exporter(""), 1))
		p, err := Read(f.box.Home())
		if err != nil || p.Dropped != c.dropped || p.Sent != 2-c.dropped || (p.Fault == "") != (c.dropped == 0) || len(f.to.raw) != 1 {
			t.Errorf("%+v, %v, %d requests", p, err, len(f.to.raw))
		}
	}
}

// A server that wants other settings is not asked again with these, and what there is
// to send is kept. No redirect is followed: the headers are not for others.
func TestWrongSettingsLoseNothing(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("followed: %v", r.Header) }))
	defer elsewhere.Close()
	for _, code := range []int{401, 403, 404, 307} {
		f := newOffice(t)
		f.to.answers = []func(http.ResponseWriter){func(w http.ResponseWriter) { w.Header().Set("Location", elsewhere.URL); w.WriteHeader(code) }}
		f.done("one")
		e := f.exporter("authorization=SECRET")
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		err := e.Run(ctx)
		stop()
		<-f.to.came
		if !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%d: %v", code, err)
		}
		if p, err := Read(f.box.Home()); err != nil || !p.Waiting || p.Fault == "" || p.Since.IsZero() || p.Sent != 0 {
			t.Errorf("%d: %+v %v", code, p, err)
		}
		f.must(f.export(f.exporter(""), 1))
		f.expect("invoke_agent a id=t-one outcome=task_completed in task", "task id=t-one state=completed type=other")
	}
}

func TestHeaders(t *testing.T) {
	for _, text := range []string{"SECRET", "a b=SECRET", "a=%zzSECRET", "a=%0aSECRET", "a=1,,b=SECRET", "=SECRET"} {
		if _, err := headers(text); !errors.Is(err, chat.ErrSetup) || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Only so many tasks are remembered, the last ones.
func TestRemembersAFew(t *testing.T) {
	f := newOffice(t)
	e := f.exporter("")
	f.must(e.restore(t.Context()))
	at := mailbox.Time{Time: time.Now()}
	for i := range maxOpen + 3 {
		at.Time = at.Add(time.Millisecond)
		e.remember(fmt.Sprint("t", i), open{Begun: at, Epoch: 1})
	}
	if _, old := e.place.Open["t2"]; old || len(e.place.Open) != maxOpen || e.place.Dropped != 3 {
		t.Errorf("%d, %d dropped", len(e.place.Open), e.place.Dropped)
	}
	e.kept = e.place
	f.must(e.keep(t.Context()))
	if p, err := Read(f.box.Home()); err != nil || len(p.Open) != maxOpen {
		t.Errorf("%d: %v", len(p.Open), err)
	}
}

func TestReasonsStayAtHome(t *testing.T) {
	for reason, want := range map[string]string{
		"exit": "exit", "exit, attempt 1 of 3": "exit", "worker_lost: the worker died": "worker_lost",
		"bad_value at task.priority": "bad_value", "it does not please me": otherError, "": otherError, "Anna": otherError,
		strings.Repeat("a", 65): otherError,
	} {
		if got := named(reason); got != want {
			t.Errorf("%q: %q, want %q", reason, got, want)
		}
	}
}
