package delegation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"mbox/audit"
	"mbox/mailbox/durable"
)

func TestDelegationEntry(t *testing.T) {
	reason := "deployer may not deploy_compose"
	d := Details{
		RequestID: 1771237800123456, FromAgent: "coordinator", ToAgent: "deployer", Task: "deploy_compose", DelegationDepth: 1,
		Decision: Rejected, Step: StepAction, Reason: &reason, TriedEndpoints: []string{"tasks/pending"}, DurationMS: 3,
		Writer: audit.Writer{UID: 1, PID: 2, Host: "here"}, Root: "task-1", Spent: &Spent{Actions: 1},
	}
	d.PayloadKeys, d.PayloadSummary, d.SensitiveHashes = Redact(jsontext.Value(`{"name":"web","compose":"services: {}"}`), []byte("salt"))
	e := d.Entry("coordinator", "task-2")
	want := `{"decision":"rejected","delegation_depth":1,"duration_ms":3,"from_agent":"coordinator","host":"here",` +
		`"payload_keys":["compose","name"],"payload_summary":{"compose":"<redacted:12>","name":"<string:3>"},"pid":2,` +
		`"reason":"deployer may not deploy_compose","request_id":1771237800123456,"result_summary":"","root":"task-1",` +
		`"sensitive_hashes":{"compose":"` + audit.Hash([]byte("saltpayload\nservices: {}")) + `"},"spent":{"actions":1},"step":"action",` +
		`"task":"deploy_compose","to_agent":"deployer","tried_endpoints":["tasks/pending"],"uid":1}`
	details := e.Details.Clone()
	if err := details.Canonicalize(); err != nil || string(details) != want {
		t.Errorf("details %v\n%s, want\n%s", err, details, want)
	}
	if e.Event != "delegation" || e.Task() != "task-2" || e.Action != "coordinator handed deploy_compose to deployer: rejected at action" {
		t.Errorf("entry %+v", e)
	}
	back, err := Of(&e)
	if err != nil || back.sentence() != e.Action || back.Host != "here" || *back.Spent != *d.Spent {
		t.Errorf("read back: %+v, %v", back, err)
	}
}

// Whatever a model made up, the line fits, and names nobody gave are not in it.
func TestDelegationFits(t *testing.T) {
	l, _ := newLedger(t, nil)
	junk := strings.Repeat("\x1b\u202e🙂\"", 100_000)
	d := Details{
		RequestID: math.MaxInt64, FromAgent: "coder", ToAgent: junk, Task: "sk-ant-0123456789abcdef", DelegationDepth: -1,
		Decision: Failed, Reason: &junk, ResultSummary: "done, token=hunter2hunter2 " + junk, DurationMS: math.MaxInt64,
		TriedEndpoints: slices.Repeat([]string{junk}, 100), Root: junk, Spent: &Spent{Tokens: math.MaxInt64, Seconds: -1},
	}
	d.PayloadKeys, d.PayloadSummary, d.SensitiveHashes = Redact(jsontext.Value(audit.Details(wide(500, 30))), []byte("salt"))
	line, err := l.Append(t.Context(), d.Entry("coder", ""))
	if err != nil {
		t.Fatal(err)
	}
	if len(line.Raw) > audit.MaxLine/2 {
		t.Errorf("the line has %d bytes", len(line.Raw))
	}
	e, err := line.Decode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := Of(&e)
	if err != nil {
		t.Fatal(err)
	}
	if got.ToAgent != "<string:400000>" || got.Task != "<string:23>" || got.Root != "<string:400000>" || got.DelegationDepth != 0 {
		t.Errorf("made-up names: %q %q %q, depth %d", got.ToAgent, got.Task, got.Root, got.DelegationDepth)
	}
	if got.RequestID != 1<<53-1 || got.DurationMS != 1<<53-1 || *got.Spent != (Spent{Tokens: 1<<53 - 1}) {
		t.Errorf("numbers: %+v %+v", got, got.Spent)
	}
	if n := utf8.RuneCountInString(got.ResultSummary); n > maxSummary || !strings.HasPrefix(got.ResultSummary, "done, <redacted:") {
		t.Errorf("a result of %d runes: %.60q", n, got.ResultSummary)
	}
	if n := utf8.RuneCountInString(*got.Reason); n > 500 || len(got.TriedEndpoints) != 8 {
		t.Errorf("a reason of %d runes, %d endpoints", n, len(got.TriedEndpoints))
	}
}

func TestDelegationMustBeDecided(t *testing.T) {
	for _, d := range []Details{{}, {Decision: "accepted"}, {Decision: Rejected, Step: "mood"}} {
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
	if at := time.UnixMilli(first / 1000); at.Before(now.Truncate(time.Millisecond)) || at.Sub(now) > time.Minute || first >= 1<<53 {
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
	seenDigits := map[int64]bool{}
	for pid := range 1000 {
		seenDigits[digits(audit.Writer{PID: 4_000_000 + pid, Host: "here"})] = true
	}
	if len(seenDigits) != 1000 {
		t.Errorf("a thousand neighbours have %d different digits", len(seenDigits))
	}
	if digits(audit.Writer{PID: 1, Host: "one"}) == digits(audit.Writer{PID: 1, Host: "two"}) {
		t.Error("the first processes of two containers have the same digits")
	}
}

func newLedger(t *testing.T, now func() time.Time) (l *audit.Ledger, home string) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "home")
	for _, dir := range []string{"audit/shared", ".mbox/locks"} {
		if err := durable.MkdirAll(filepath.Join(home, dir), durable.None); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range audit.LockNames() {
		if err := durable.Stage(filepath.Join(home, ".mbox/locks", name), nil, durable.None); err != nil {
			t.Fatal(err)
		}
	}
	l, err := audit.Open(home, "00112233445566778899aabbccddeeff", audit.Options{Mode: durable.None, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, home
}

// delegate appends a delegation between other lines.
func delegate(t *testing.T, l *audit.Ledger, n int, decision Decision, task string) {
	t.Helper()
	d := Details{RequestID: int64(n), FromAgent: "coordinator", ToAgent: "coder", Task: "write_file", Decision: decision}
	if _, err := l.Append(t.Context(), d.Entry("coordinator", task)); err != nil {
		t.Fatal(err)
	}
	note := audit.Entry{Agent: "coder", Event: audit.AgentState, Action: `a line that says "event":"delegation" and is none`, Details: audit.Details(audit.ThisWriter())}
	if _, err := l.Append(t.Context(), note); err != nil {
		t.Fatal(err)
	}
}

func TestDelegations(t *testing.T) {
	now := time.Date(2026, 2, 16, 23, 59, 59, 123e6, time.UTC)
	l, _ := newLedger(t, func() time.Time { return now })
	for n := range 6 {
		delegate(t, l, n, []Decision{Delivered, Rejected}[n%2], fmt.Sprint("task-", n/2))
		now = now.Add(time.Second) // over midnight
	}
	for _, w := range []struct {
		q    Query
		want []int64
	}{
		{Query{}, []int64{}},
		{Query{N: 2}, []int64{4, 5}},
		{Query{N: 100}, []int64{0, 1, 2, 3, 4, 5}},
		{Query{N: 2, Head: true}, []int64{0, 1}},
		{Query{N: 100, Head: true}, []int64{0, 1, 2, 3, 4, 5}},
		{Query{N: 2, Decision: Rejected}, []int64{3, 5}},
		{Query{N: 1, Decision: Rejected, Head: true}, []int64{1}},
		{Query{N: 9, Task: "TASK-1"}, []int64{2, 3}},
		{Query{N: 9, Task: "task-1", Decision: Test}, []int64{}},
	} {
		found, err := Find(t.Context(), l, w.q)
		got := []int64{}
		for _, d := range found {
			got = append(got, d.RequestID)
		}
		if err != nil || found == nil || !slices.Equal(got, w.want) {
			t.Errorf("%+v: %v, %v, want %v", w.q, got, err, w.want)
		}
	}
	found, err := Find(t.Context(), l, Query{N: 1, Head: true})
	if err != nil || found[0].Time != 1771286399.123 || found[0].TimeISO != "2026-02-16T23:59:59.123Z" || *found[0].TaskID != "task-0" {
		t.Errorf("%+v, %v", found, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, head := range []bool{false, true} {
		if _, err := Find(stopped, l, Query{N: 1, Head: head}); !errors.Is(err, context.Canceled) {
			t.Errorf("a look that nobody waits for: %v", err)
		}
	}
}

// Details that are no delegation are damage, not a row without names.
func TestDelegationsMalformed(t *testing.T) {
	for _, details := range []string{`{}`, `{"from_agent":"a","to_agent":"b","decision":"maybe"}`, `{"from_agent":"a","to_agent":7,"decision":"test"}`, `{"from_agent":"a","to_agent":"","decision":"test"}`, `{"to_agent":"a","decision":"test"}`} {
		l, _ := newLedger(t, nil)
		e := audit.Entry{Agent: "coder", Event: audit.DelegationEvent, Action: "x", Details: jsontext.Value(details)}
		if _, err := l.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		for _, head := range []bool{false, true} {
			if found, err := Find(t.Context(), l, Query{N: 1, Head: head}); !errors.Is(err, audit.ErrDamaged) {
				t.Errorf("%s: %v, %v", details, found, err)
			}
		}
	}
}

// A line that somebody has spoilt is not missing in silence, however far back.
func TestDelegationsSpoilt(t *testing.T) {
	for seq := 1; seq <= 7; seq++ {
		l, home := newLedger(t, nil)
		for n := range 4 {
			delegate(t, l, n, Delivered, "a")
		}
		files, err := audit.Files(home)
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		path := files[0]
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(string(text), "\n")
		lines[seq-1] = strings.Replace(lines[seq-1], `"pid":`, `"pit":`, 1)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, head := range []bool{false, true} {
			if found, err := Find(t.Context(), l, Query{N: 9, Head: head}); !errors.Is(err, audit.ErrDamaged) {
				t.Errorf("seq %d is spoilt: %d delegations, %v", seq, len(found), err)
			}
		}
		if found, err := Find(t.Context(), l, Query{N: 1}); seq < 7 && (err != nil || found[0].RequestID != 3) {
			t.Errorf("what stands behind seq %d cannot be read: %v, %v", seq, found, err)
		}
	}
}
