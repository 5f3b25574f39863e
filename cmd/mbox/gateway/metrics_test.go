package gateway

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"mbox/mailbox"
)

// Prometheus' own linter has nothing against names, units and help, in a place where
// something has happened; and OpenMetrics' form ends as it has to.
func TestMetrics(t *testing.T) {
	p := newPlace(t)
	p.want(200, "r", "GET", "/health", "") // the feed has begun
	for p.fed() < 0 {
		time.Sleep(time.Millisecond)
	}
	p.ended()
	p.sent("o", titled("x", "coder"))
	c := p.claim("coder")
	if err := c.Fail(t.Context(), mailbox.Failure{TaskError: mailbox.TaskError{Code: "no"}, Final: true}); err != nil {
		t.Fatal(err)
	}
	p.sent("o", titled("y", "tester"))
	if err := p.claim("tester").Release(t.Context(), "brain_down", time.Hour); err != nil {
		t.Fatal(err)
	}
	for p.fed() < 9 {
		time.Sleep(time.Millisecond)
	}
	text := p.ask("r", "GET", "/metrics", "").Body.String()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v:\n%s", problems, err, text)
	}
	for _, line := range []string{
		`mbox_tasks{state="pending"} 1`, `mbox_tasks{state="failed"} 1`, `mbox_ledger_lines_total{event="task_created"} 3`,
		`mbox_ledger_seq 9`, `mbox_model_waits_total{fault="brain_down"} 1`, `mbox_ledger_lag_lines 0`, `mbox_task_wait_seconds_count 3`, `mbox_task_work_seconds_bucket{le="+Inf"} 2`, `mbox_lease_losses_total 0`, `mbox_read_only 0`, `mbox_feed_up 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("it does not say %s:\n%s", line, text)
		}
	}
	w := p.ask("r", "GET", "/metrics", "", "Accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.1")
	if open := w.Body.String(); !strings.HasSuffix(open, "\n# EOF\n") || !strings.Contains(open, "# TYPE mbox_ledger_lines counter\n") || !strings.HasPrefix(w.Header().Get("Content-Type"), "application/openmetrics-text") {
		t.Errorf("%v:\n%s", w.Header(), open)
	}
}

// fed is the number of the line up to which the feed has read; less than 0 before it
// has begun.
func (p *place) fed() int64 {
	p.door.mu.Lock()
	f := p.door.now.feed
	p.door.mu.Unlock()
	end, err := f.newest(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	return end
}
