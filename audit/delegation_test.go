package audit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDelegationEntry(t *testing.T) {
	reason := "deployer may not deploy_compose"
	d := Delegation{
		RequestID: 1771237800123456, FromAgent: "coordinator", ToAgent: "deployer", Task: "deploy_compose", DelegationDepth: 1,
		Decision: Rejected, Step: StepAction, Reason: &reason, TriedEndpoints: []string{"tasks/pending"}, DurationMS: 3,
		Writer: Writer{UID: 1, PID: 2, Host: "here"}, Root: "task-1", Spent: &Spent{Actions: 1},
	}
	d.PayloadKeys, d.PayloadSummary, d.SensitiveHashes = Redact(jsontext.Value(`{"name":"web","compose":"services: {}"}`), []byte("salt"))
	e := d.Entry("coordinator", "task-2")
	want := `{"decision":"rejected","delegation_depth":1,"duration_ms":3,"from_agent":"coordinator","host":"here",` +
		`"payload_keys":["compose","name"],"payload_summary":{"compose":"<redacted:12>","name":"<string:3>"},"pid":2,` +
		`"reason":"deployer may not deploy_compose","request_id":1771237800123456,"result_summary":"","root":"task-1",` +
		`"sensitive_hashes":{"compose":"` + Hash([]byte("saltpayload\nservices: {}")) + `"},"spent":{"actions":1},"step":"action",` +
		`"task":"deploy_compose","to_agent":"deployer","tried_endpoints":["tasks/pending"],"uid":1}`
	details := e.Details.Clone()
	if err := details.Canonicalize(); err != nil || string(details) != want {
		t.Errorf("details %v\n%s, want\n%s", err, details, want)
	}
	if e.Event != "delegation" || e.Task() != "task-2" || e.Action != "coordinator handed deploy_compose to deployer: rejected at action" {
		t.Errorf("entry %+v", e)
	}
	back, err := e.Delegation()
	if err != nil || back.sentence() != e.Action || back.Host != "here" || *back.Spent != *d.Spent {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

// Whatever a model made up, the line fits, and names nobody gave are not in it.
func TestDelegationFits(t *testing.T) {
	l := newLedger(t, nil)
	junk := strings.Repeat("\x1b\u202e🙂\"", 100_000)
	d := Delegation{
		RequestID: math.MaxInt64, FromAgent: "coder", ToAgent: junk, Task: "sk-ant-0123456789abcdef", DelegationDepth: -1,
		Decision: DeliveryFailed, Reason: &junk, ResultSummary: "done, token=hunter2hunter2 " + junk, DurationMS: math.MaxInt64,
		TriedEndpoints: slices.Repeat([]string{junk}, 100), Root: junk, Spent: &Spent{Tokens: math.MaxInt64, Seconds: -1},
	}
	d.PayloadKeys, d.PayloadSummary, d.SensitiveHashes = Redact(jsontext.Value(Details(wide(500, 30))), []byte("salt"))
	line, err := l.Append(t.Context(), d.Entry("coder", ""))
	if err != nil {
		t.Fatal(err)
	}
	if len(line.Raw) > MaxLine/2 {
		t.Errorf("the line has %d bytes", len(line.Raw))
	}
	e, err := line.Decode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := e.Delegation()
	if err != nil {
		t.Fatal(err)
	}
	if got.ToAgent != "<string:400000>" || got.Task != "<string:23>" || got.Root != "<string:400000>" || got.DelegationDepth != 0 {
		t.Errorf("made-up names: %q %q %q, depth %d", got.ToAgent, got.Task, got.Root, got.DelegationDepth)
	}
	if got.RequestID != 1<<53-1 || got.DurationMS != 1<<53-1 || *got.Spent != (Spent{Tokens: 1<<53 - 1}) {
		t.Errorf("numbers: %+v %+v", got, got.Spent)
	}
	if n := utf8.RuneCountInString(got.ResultSummary); n > MaxResultSummary || !strings.HasPrefix(got.ResultSummary, "done, <redacted:") {
		t.Errorf("a result of %d runes: %.60q", n, got.ResultSummary)
	}
	if n := utf8.RuneCountInString(*got.Reason); n > 500 || len(got.TriedEndpoints) != 8 {
		t.Errorf("a reason of %d runes, %d endpoints", n, len(got.TriedEndpoints))
	}
}

func TestDelegationMustBeDecided(t *testing.T) {
	for _, d := range []Delegation{{}, {Decision: "accepted"}, {Decision: Rejected, Step: "mood"}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q at %q made a line", d.Decision, d.Step)
				}
			}()
			d.Entry("coder", "")
		}()
	}
}

func TestNextRequestID(t *testing.T) {
	now := time.Now()
	first := NextRequestID(now)
	if at := RequestTime(first); at.Before(now.Truncate(time.Millisecond)) || at.Sub(now) > time.Minute || first >= 1<<53 {
		t.Errorf("%d was drawn at %v, not at %v", first, at, now)
	}
	seen, mu, wg := map[int64]bool{first: true}, sync.Mutex{}, sync.WaitGroup{}
	for range 8 {
		wg.Go(func() {
			last := first
			for range 200 {
				id := NextRequestID(now.Add(-time.Hour)) // the clock goes back
				mu.Lock()
				if seen[id] || id <= last {
					t.Errorf("%d again, or behind %d", id, last)
				}
				seen[id], last = true, id
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	digits := map[int64]bool{}
	for pid := range 1000 {
		digits[Writer{PID: 4_000_000 + pid, Host: "here"}.digits()] = true
	}
	if len(digits) != 1000 {
		t.Errorf("a thousand neighbours have %d different digits", len(digits))
	}
	if (Writer{PID: 1, Host: "one"}).digits() == (Writer{PID: 1, Host: "two"}).digits() {
		t.Error("the first processes of two containers have the same digits")
	}
}

// delegate appends a delegation between other lines.
func delegate(t *testing.T, l *Ledger, n int, decision DelegationDecision, task string) {
	t.Helper()
	d := Delegation{RequestID: int64(n), FromAgent: "coordinator", ToAgent: "coder", Task: "write_file", Decision: decision}
	if _, err := l.Append(t.Context(), d.Entry("coordinator", task)); err != nil {
		t.Fatal(err)
	}
	appendNote(t, l, "coder", `a line that says "event":"delegation" and is none`)
}

func TestDelegations(t *testing.T) {
	c := &clock{time.Date(2026, 2, 16, 23, 59, 59, 123e6, time.UTC)}
	l := newLedger(t, c)
	for n := range 6 {
		delegate(t, l, n, []DelegationDecision{Delivered, Rejected}[n%2], fmt.Sprint("task-", n/2))
		c.now = c.now.Add(time.Second) // over midnight
	}
	for _, w := range []struct {
		q    DelegationQuery
		want []int64
	}{
		{DelegationQuery{}, []int64{}},
		{DelegationQuery{N: 2}, []int64{4, 5}},
		{DelegationQuery{N: 100}, []int64{0, 1, 2, 3, 4, 5}},
		{DelegationQuery{N: 2, Head: true}, []int64{0, 1}},
		{DelegationQuery{N: 100, Head: true}, []int64{0, 1, 2, 3, 4, 5}},
		{DelegationQuery{N: 2, Decision: Rejected}, []int64{3, 5}},
		{DelegationQuery{N: 1, Decision: Rejected, Head: true}, []int64{1}},
		{DelegationQuery{N: 9, Task: "TASK-1"}, []int64{2, 3}},
		{DelegationQuery{N: 9, Task: "task-1", Decision: DeliveryTest}, []int64{}},
	} {
		found, err := l.Delegations(t.Context(), w.q)
		got := []int64{}
		for _, d := range found {
			got = append(got, d.RequestID)
		}
		if err != nil || found == nil || !slices.Equal(got, w.want) {
			t.Errorf("%+v: %v, %v, want %v", w.q, got, err, w.want)
		}
	}
	found, err := l.Delegations(t.Context(), DelegationQuery{N: 1, Head: true})
	if err != nil || found[0].Time != 1771286399.123 || found[0].TimeISO != "2026-02-16T23:59:59.123Z" || *found[0].TaskID != "task-0" {
		t.Errorf("%+v, %v", found, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, head := range []bool{false, true} {
		if _, err := l.Delegations(stopped, DelegationQuery{N: 1, Head: head}); !errors.Is(err, context.Canceled) {
			t.Errorf("a look that nobody waits for: %v", err)
		}
	}
}

// Details that are no delegation are damage, not a row without names.
func TestDelegationsMalformed(t *testing.T) {
	for _, details := range []string{`{}`, `{"from_agent":"a","to_agent":"b","decision":"maybe"}`, `{"from_agent":"a","to_agent":7,"decision":"test"}`, `{"from_agent":"a","to_agent":"","decision":"test"}`, `{"to_agent":"a","decision":"test"}`} {
		l := newLedger(t, nil)
		e := Entry{Agent: "coder", Event: DelegationEvent, Action: "x", Details: jsontext.Value(details)}
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		for _, head := range []bool{false, true} {
			if found, err := l.Delegations(t.Context(), DelegationQuery{N: 1, Head: head}); !errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v, %v", details, found, err)
			}
		}
	}
}

// A line that somebody has spoilt is not missing in silence, however far back.
func TestDelegationsSpoilt(t *testing.T) {
	for seq := 1; seq <= 7; seq++ {
		l := newLedger(t, nil)
		for n := range 4 {
			delegate(t, l, n, Delivered, "a")
		}
		path := newestPath(t, l)
		lines := strings.SplitAfter(string(readFile(t, path)), "\n")
		lines[seq-1] = strings.Replace(lines[seq-1], `"pid":`, `"pit":`, 1)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, head := range []bool{false, true} {
			if found, err := l.Delegations(t.Context(), DelegationQuery{N: 9, Head: head}); !errors.Is(err, ErrDamaged) {
				t.Errorf("seq %d is spoilt: %d delegations, %v", seq, len(found), err)
			}
		}
		if found, err := l.Delegations(t.Context(), DelegationQuery{N: 1}); seq < 7 && (err != nil || found[0].RequestID != 3) {
			t.Errorf("what stands behind seq %d cannot be read: %v, %v", seq, found, err)
		}
	}
}
