package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"mbox/audit"
	"mbox/mailbox"
)

// tally counts what the ledger has told since the door was opened.
type tally struct {
	lines   map[string]int64 // by event
	refused map[string]int64 // actions, by the check that refused
	waits   map[string]int64 // for a model, by what was the matter
	lost    int64            // leases whose worker was dead or too slow
	begun   map[string]since // tasks that have not ended, by id
	wait    histogram        // from a task's making until it is taken
	work    histogram        // from there until it ends
}

// modelWaits are the reasons for which a thinking agent gives a task back until its model
// can answer (package agents, Fault).
var modelWaits = []string{"brain_busy", "brain_down", "no_model"}

// since is when a task was made, and when it was taken; zero: it was not.
type since struct{ made, taken time.Time }

func newTally() tally {
	return tally{lines: map[string]int64{}, refused: map[string]int64{}, waits: map[string]int64{}, begun: map[string]since{}}
}

// clone is a tally that does not change any more.
func (t *tally) clone() tally {
	out := *t
	out.lines, out.refused, out.waits, out.begun = maps.Clone(t.lines), maps.Clone(t.refused), maps.Clone(t.waits), nil
	return out
}

// bounds are those of the histograms' buckets, in seconds.
var bounds = [...]float64{0.01, 0.1, 1, 10, 60, 300, 1800, 3600, 6 * 3600, 24 * 3600}

type histogram struct {
	buckets [len(bounds) + 1]int64 // the last is for what is longer
	sum     float64
	count   int64
}

func (h *histogram) add(d time.Duration) {
	seconds := max(0, d.Seconds())
	i, _ := slices.BinarySearch(bounds[:], seconds)
	h.buckets[i]++
	h.sum += seconds
	h.count++
}

// add counts a line.
func (t *tally) add(line audit.Line) {
	t.lines[string(line.Event())]++
	if reason := line.Text("reason"); strings.HasPrefix(reason, "worker_lost") || strings.HasPrefix(reason, "lease_expired") {
		t.lost++
	}
	id, at := line.Task(), line.Time()
	task := t.begun[id]
	switch line.Event() {
	case audit.TaskCreated:
		t.begun[id] = since{made: at}
	case audit.TaskPicked:
		if !task.made.IsZero() && task.taken.IsZero() {
			t.wait.add(at.Sub(task.made))
		}
		task.taken = at
		t.begun[id] = task
	case audit.TaskCompleted, audit.TaskFailed, audit.TaskCancelled, audit.TaskRejected:
		if !task.taken.IsZero() {
			t.work.add(at.Sub(task.taken))
		}
		delete(t.begun, id)
	case audit.TaskReleased:
		if _, fault, _ := strings.Cut(line.Text("reason"), ": "); slices.Contains(modelWaits, fault) {
			t.waits[fault]++
		}
	case audit.DelegationEvent:
		if line.Text("decision") == "rejected" {
			t.refused[line.Text("step")]++
		}
	}
}

// openMetrics is the form for which a client has to ask.
const openMetrics = "application/openmetrics-text"

func metricRoutes() []route {
	return []route{{method: "GET", path: "/metrics", about: "figures, for Prometheus", kinds: []string{"text/plain", openMetrics}, do: (*call).metrics}}
}

// metrics answers in OpenMetrics' form, or in Prometheus' own, which has other names
// for counters' families.
func (c *call) metrics() error {
	x, err := c.Box.Index()
	if err != nil {
		return err
	}
	p := page{open: strings.Contains(c.r.Header.Get("Accept"), openMetrics)}
	c.gauges(&p, x)
	t, seq, err := c.told()
	p.gauge("mbox_feed_up", "Whether the door follows the ledger.", one(err == nil))
	p.gauge("mbox_ledger_seq", "Number of the ledger's last line.", float64(seq))
	if end, ok := c.Box.Ledger().Seen(); ok {
		p.gauge("mbox_ledger_lag_lines", "Lines of the ledger that the door has not read yet.", float64(max(0, end.Seq-seq)))
	}
	p.counters("mbox_ledger_lines", "Lines of the ledger since the door was opened.", "event", t.lines)
	p.counters("mbox_actions_refused", "Actions that were refused since the door was opened, by the check that did.", "check", t.refused)
	p.counters("mbox_model_waits", "Claims given back since the door was opened, until the model can answer, by what was the matter.", "fault", t.waits)
	p.counters("mbox_lease_losses", "Claims that were lost since the door was opened: the worker died or was too slow.", "", map[string]int64{"": t.lost})
	p.histogram("mbox_task_wait_seconds", "Time from a task's making until it is taken.", &t.wait)
	p.histogram("mbox_task_work_seconds", "Time from a task's claim until it ends.", &t.work)
	kind := "text/plain; version=0.0.4; charset=utf-8"
	if p.open {
		kind = openMetrics + "; version=1.0.0; charset=utf-8"
		p.WriteString("# EOF\n")
	}
	c.w.Header().Set("Content-Type", kind)
	_, _ = c.w.Write(p.Bytes()) // who has gone away needs no answer
	return nil
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// gauges are what there is now.
func (c *call) gauges(p *page, x *mailbox.Index) {
	tasks := map[string]float64{}
	for state, n := range x.Count {
		tasks[string(state)] = float64(n)
	}
	h := Health{Depths: map[string]int{}, Late: map[string]int{}}
	c.count(&h, x)
	late := map[string]float64{}
	for agent, n := range h.Late {
		late[agent] = float64(n)
	}
	p.family("mbox_tasks", "gauge", "Tasks in each state.")
	p.samples("mbox_tasks", "state", tasks)
	p.gauge("mbox_tasks_blocked", "Pending tasks that wait for others.", float64(h.Blocked))
	p.family("mbox_tasks_late", "gauge", "Pending tasks that nobody took in time, by the agent that they are for.")
	p.samples("mbox_tasks_late", "agent", late)
	p.gauge("mbox_oldest_pending_age_seconds", "How long the oldest pending task has waited; 0 if there is none.", float64(h.Oldest))
	p.gauge("mbox_read_only", "Whether the mailbox is read-only.", one(errors.Is(audit.CheckWritable(c.Box.Home()), audit.ErrReadOnly)))
	p.gauge("mbox_router_up", "Whether mbox up serves the mailbox.", one(c.Box.Routed()))
}

// page is written family by family.
type page struct {
	bytes.Buffer
	open bool // in OpenMetrics' form
}

func (p *page) family(name, kind, help string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

func (p *page) gauge(name, help string, v float64) {
	p.family(name, "gauge", help)
	p.samples(name, "", map[string]float64{"": v})
}

func (p *page) counters(name, help, label string, values map[string]int64) {
	family := name
	if !p.open {
		family += "_total"
	}
	p.family(family, "counter", help)
	floats := map[string]float64{}
	for key, n := range values {
		floats[key] = float64(n)
	}
	p.samples(name+"_total", label, floats)
}

// escaped is what the value of a label may not hold as it is.
var escaped = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// samples writes one line for each value.
func (p *page) samples(name, label string, values map[string]float64) {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		labels := ""
		if label != "" {
			labels = "{" + label + `="` + escaped.Replace(key) + `"}`
		}
		fmt.Fprintf(p, "%s%s %s\n", name, labels, number(values[key]))
	}
}

func (p *page) histogram(name, help string, h *histogram) {
	p.family(name, "histogram", help)
	sum := int64(0)
	for i, n := range h.buckets {
		sum += n
		bound := "+Inf"
		if i < len(bounds) {
			bound = number(bounds[i])
		}
		fmt.Fprintf(p, "%s_bucket{le=%q} %d\n", name, bound, sum)
	}
	fmt.Fprintf(p, "%s_sum %s\n%s_count %d\n", name, number(h.sum), name, h.count)
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// told is what the ledger has told, up to which line, and why it is not followed.
func (f *feed) told() (tally, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tally.clone(), f.end, f.broken
}
